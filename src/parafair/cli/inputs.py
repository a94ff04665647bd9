"""The record of where the data of a run or a frontier came from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from parafair.cli.options import words
from parafair.cli.people import MISSING, FeatureOptions, PeopleOptions
from parafair.cli.side import SideOptions
from parafair.cli.tensors import TensorOptions
from parafair.stored import is_stored, read_record, reading, write_record
from parafair.temporaries import digest_of

INPUTS_FILE = "inputs.json"
# What may change while the data stays the same.
PLACES = (
    "tensor",
    "checksum",
    "sensitive",
    "side",
    "frontier",
    "max_leakage",
    "guarantee",
    "max_certified",
)

P = TypeVar("P", bound=PeopleOptions)


@dataclass(frozen=True)
class Inputs:
    """Where the data came from; later commands read it in the same way.

    Attributes:
        tensor: The file of the tensor.
        modes: Names of its modes, if they were given.
        value: The column with the numbers.
        duplicates: What was done with several rows for one entry; None is the default.
        sensitive: The file of the people.
        columns: The sensitive columns; None is all but the key.
        kinds: Stated kinds of columns, each as "column=kind".
        key: The column with the labels of the people.
        missing: What was done with people without features.
        side: The file of the side information.
        side_columns: Its columns; None is all but the key.
        side_key: Its column with the labels of the people, if it was given.
        test_size: Share of the entries that was held out.
        test: The file of entries that were predicted.
        frontier: The folder of the frontier it was picked from.
        max_leakage: The leakage it was picked at.
        guarantee: The kind of certified leakage that was also asked for.
        max_certified: The certified leakage it was picked at; None for that of max_leakage.
        absent: What entries without a row are; None is the default.
        checksum: SHA-256 of the file of the tensor; None for a folder, which has its own.
    """

    tensor: str | None = None
    modes: tuple[str, ...] | None = None
    value: str | None = None
    duplicates: str | None = None
    sensitive: str | None = None
    columns: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = ()
    key: str | None = None
    missing: str | None = None
    side: str | None = None
    side_columns: tuple[str, ...] | None = None
    side_key: str | None = None
    test_size: float | None = None
    test: str | None = None
    frontier: str | None = None
    max_leakage: float | None = None
    guarantee: str | None = None
    max_certified: float | None = None
    absent: str | None = None
    checksum: str | None = None

    @classmethod
    def of(
        cls,
        tensor: TensorOptions,
        people: FeatureOptions,
        side: SideOptions,
        *,
        test_size: float | None = None,
        test: str | None = None,
    ) -> Inputs:
        """Record the options of a command; call it when the file of the tensor was read."""
        file = tensor.tensor
        found = cls(
            tensor=str(file),
            checksum=digest_of(file) if file.is_file() else None,
            modes=words(tensor.modes),
            value=tensor.value,
            duplicates=tensor.duplicates,
            absent=tensor.absent,
            test_size=test_size,
            test=test,
            **side.record(),
        )
        if people.sensitive is None:
            return found
        return replace(
            found,
            sensitive=str(people.sensitive),
            columns=words(people.columns),
            kinds=tuple(people.kind or ()),
            key=people.key,
            missing=people.missing or MISSING,
        )

    @property
    def reading(self) -> dict[str, Any]:
        """How the files are read, wherever they are."""
        return {name: value for name, value in asdict(self).items() if name not in PLACES}

    @property
    def side_options(self) -> SideOptions:
        """How the side information was read."""
        columns = None if self.side_columns is None else ",".join(self.side_columns)
        return SideOptions(None, columns, self.side_key)

    def write(self, folder: Path) -> None:
        """Write the record into an existing folder."""
        write_record(folder / INPUTS_FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Inputs:
        """Read what `write` wrote; a folder that was written from Python has no record."""
        file = folder / INPUTS_FILE
        if not is_stored(file):
            return cls()
        record = read_record(file)
        with reading(file):
            lists = {name: tuple(v) for name, v in record.items() if isinstance(v, list)}
            return cls(**{**record, **lists})

    def complete(self, people: P) -> P:
        """Return options of people, with the recorded policy and columns where none are given."""
        people = replace(people, missing=people.missing or self.missing)
        if isinstance(people, FeatureOptions):
            columns = None if self.columns is None else ",".join(self.columns)
            people = replace(
                people,
                columns=people.columns or columns,
                kind=people.kind or (list(self.kinds) if people.columns is None else None),
            )
        return people
