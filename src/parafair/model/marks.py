"""Marks by which a saved model recognizes the people of its training, one by one.

Each person's entries are hashed to one of 16 bits per person, and that bit is set. So a training
person is always recognized, and one in 16 others is too, by coincidence: whoever has the bits and
guesses the entries of somebody rules out 15 of 16 wrong guesses, and learns no more. A whole hash
of a person's entries would confirm a guess with certainty, and entries with few possible values
could be found by trying all. The bits are in no order of people, and know no groups. A model in
memory, and one that is saved with its exact rows, has the whole hashes as well.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.model.draws import Words, hash_people_rounded

# Bits per person: so many others have none of the bits that are set, but one.
BITS = 16


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks of the training people.

    Attributes:
        salt: The key of the hashes; other training data has another.
        people: Number of people with entries.
        repeated: The share of them whose entries another one has too.
        bits: The bits, eight in each byte, shape (2 people,).
        words: The whole hashes, in order of size; None if only the bits were kept.
    """

    salt: str = field(repr=False)
    people: int
    repeated: float
    bits: NDArray[np.uint8] = field(repr=False)
    words: Words | None = field(default=None, repr=False)

    @classmethod
    def of(cls, data: TensorData, mode: int, secret: str) -> Marks:
        """Return the marks of all people with entries.

        Args:
            data: Their entries, as they were given.
            mode: The mode of the people.
            secret: A hash of all entries, from which the salt follows.
        """
        salt = hashlib.sha256(f"marks {secret}".encode()).hexdigest()
        words = _words(data, mode, salt, zeros=data.absent == "zero")
        _, places, counts = np.unique(words, return_inverse=True, return_counts=True)
        bits = np.zeros(BITS * len(words), np.bool_)
        bits[words % np.uint64(len(bits))] = True
        repeated = float((counts[places] > 1).mean())
        return cls(salt, len(words), repeated, np.packbits(bits), np.sort(words))

    @property
    def by_chance(self) -> float:
        """The share of other people who have a mark too."""
        return float(np.unpackbits(self.bits).mean())

    def words_of(self, data: TensorData, mode: int, *, zeros: bool) -> Words:
        """Return a hash of the entries of each of some people with entries.

        Args:
            data: Their entries, as the model sees them.
            mode: The mode of the people.
            zeros: Whether entries that a list does not have are zeros for the model.
        """
        return _words(data, mode, self.salt, zeros=zeros)

    def count(self, words: Words) -> int:
        """Return how many of some people have a mark."""
        return int(np.unpackbits(self.bits)[words % np.uint64(BITS * self.people)].sum())

    def to_record(self, *, whole: bool = False) -> dict[str, Any]:
        """Return values for JSON.

        Args:
            whole: Whether to add the whole hashes, if there are any.
        """
        record = {
            "salt": self.salt,
            "people": self.people,
            "repeated": self.repeated,
            "bits": b64encode(self.bits.tobytes()).decode(),
        }
        if whole and self.words is not None:
            record["words"] = b64encode(self.words.astype("<u8").tobytes()).decode()
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Marks:
        """Return marks from the result of `to_record`."""
        bits = np.frombuffer(b64decode(record["bits"], validate=True), np.uint8)
        people, repeated = int(record["people"]), float(record["repeated"])
        if people < 1 or 8 * len(bits) != BITS * people or not 0 <= repeated <= 1:
            raise ValueError(
                f"it has {8 * len(bits)} bits for {people} people, not {BITS} for each"
            )
        words = None
        if "words" in record:
            stored = np.frombuffer(b64decode(record["words"], validate=True), "<u8")
            words = stored.astype(np.uint64)
            if len(words) != people:
                raise ValueError(
                    f"it has {len(words)} hashes for {people} people, not one for each"
                )
        return cls(str(record["salt"]), people, repeated, bits, words)


def _words(data: TensorData, mode: int, key: str, *, zeros: bool) -> Words:
    """Return a hash of the entries of each person with entries."""
    parts = data.parts() if isinstance(data, StreamedData) else (data,)
    found = [hash_people_rounded(part, mode, key=key, zeros=zeros) for part in parts]
    words: Words = np.concatenate(found)[data.observed_per(mode) > 0]
    return words
