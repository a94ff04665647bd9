"""Inputs of an encoder that knows the group of the people it maps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import CompleteEncoder, Encoder
from parafair.encoders.inputs import PEOPLE_PER_COMPONENT


@dataclass(frozen=True, eq=False)
class GroupInputs:
    """Inputs ``[z, c, z_1 c, ..., z_k c]``: of the entries ``z``, of the features ``c``, and both.

    So every group has a constant and a slope of its own for each of the first ``k`` inputs. The
    codes ``c`` are indicators of groups and numbers, minus their means; they are 0 for training
    people without features.

    Attributes:
        entries: The encoder that gives the inputs of the entries.
        mean: Means of the codes over the training people, shape (codes,).
        deviation: Standard deviations of numbers, and 1 for indicators, shape (codes,).
        products: ``k``.
        codes: The codes of the people to encode, shape (people, codes); None if not known yet.
    """

    entries: Encoder
    mean: Tensor
    deviation: Tensor
    products: int
    codes: Tensor | None = None

    @classmethod
    def of(cls, entries: Encoder, width: int, sensitive: SensitiveFeatures) -> GroupInputs:
        """Return the inputs for the features of training people.

        Args:
            entries: The encoder that gives the inputs of the entries.
            width: The number of these inputs.
            sensitive: The features of the training people.
        """
        known = sensitive.with_features()
        codes = _numbers(known)
        numeric = ~((codes == 0) | (codes == 1)).all(0)
        one = torch.ones_like(codes[0])
        deviation = codes.std(0, correction=0).where(numeric, one)
        sizes = [len(known)]
        for column in known.columns:
            if column.kind == "categorical":
                sizes += np.unique(column.values, return_counts=True)[1].tolist()
        # With fewer people, an encoder could learn the rows of a small group by heart.
        most = min(sizes) // PEOPLE_PER_COMPONENT
        return cls(entries, codes.mean(0), deviation, min(width, most))

    @property
    def mode(self) -> int:
        """The mode of the people."""
        return self.entries.mode

    @property
    def needs_all_entries(self) -> bool:
        """Whether it raises if an entry is missing."""
        return isinstance(self.entries, CompleteEncoder) and self.entries.needs_all_entries

    @property
    def knows_group(self) -> bool:
        """True: it needs the features of the people."""
        return True

    def with_features(self, sensitive: SensitiveFeatures) -> GroupInputs:
        """Return the inputs of people with these features, in their order."""
        codes = torch.zeros(len(sensitive), len(self.mean), dtype=torch.float64, device="cpu")
        known = torch.from_numpy(
            np.arange(len(sensitive))
            if sensitive.has_features is None
            else np.flatnonzero(sensitive.has_features)
        )
        numbers = _numbers(sensitive.with_features())
        codes[known] = (numbers - self.mean.to(numbers)) / self.deviation.to(numbers)
        return replace(self, codes=codes)

    def encode(self, data: TensorData) -> Tensor:
        """Return the inputs, shape (people, width)."""
        if self.codes is None:
            raise ValueError(
                "this encoder knows the group, so it needs the sensitive features of the people; "
                "use encoder.with_features(sensitive).encode(data)"
            )
        seen = self.entries.encode(data)
        codes = self.codes.to(seen)
        both = seen[:, : self.products, None] * codes[:, None, :]
        return torch.hstack([seen, codes, both.flatten(1)])

    def check(self, shape: tuple[int, ...], rank: int) -> None:
        """Raise unless it belongs to a model of this shape and has so many inputs."""
        codes = len(self.mean)
        width = rank - codes * (1 + self.products)
        if self.mean.shape != self.deviation.shape or not 0 <= self.products <= width:
            raise ValueError(f"its codes and products are not those of {rank} inputs")
        self.entries.check(shape, width)


def _numbers(sensitive: SensitiveFeatures) -> Tensor:
    """Return features as numbers, shape (people, codes): indicators, and numbers as they are."""
    found = [
        column.values.astype(np.float64)[:, None] if column.kind == "numeric" else column.encode()
        for column in sensitive.columns
    ]
    return torch.from_numpy(np.hstack(found))
