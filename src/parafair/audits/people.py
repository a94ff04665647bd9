"""The people of an audit: their rows, their features and their names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.audits.measures import pair
from parafair.data.raw_features import index_of
from parafair.data.sensitive import SensitiveFeatures


@dataclass(frozen=True, eq=False)
class People:
    """People with an embedding and sensitive features.

    Attributes:
        rows: The embedding, shape (n, rank).
        sensitive: The features.
        names: Their labels, or the numbers of their rows; shape (n,).
        precision: Relative rounding error of the rows' own numbers.
    """

    rows: NDArray[np.float64]
    sensitive: SensitiveFeatures
    names: NDArray[Any]
    precision: float

    @classmethod
    def of(cls, embedding: Any, sensitive_features: Any, *, name: str = "embedding") -> People:
        """Check and pair an embedding and features; people without features are left out."""
        features = SensitiveFeatures.of(sensitive_features)
        rows, sensitive = pair(embedding, sensitive_features, name=name)
        names = next(
            (i for i in map(index_of, (embedding, sensitive_features)) if i is not None),
            np.arange(len(features)),
        )
        if features.has_features is not None:
            names = names[features.has_features]
        dtype = str(getattr(embedding, "dtype", ""))
        single = any(kind in dtype for kind in ("float32", "float16"))
        return cls(rows.cpu().numpy(), sensitive, names, 2.0**-23 if single else 2.0**-52)

    def __len__(self) -> int:
        return len(self.rows)

    def places(self, max_people: int, random: np.random.RandomState) -> NDArray[np.intp]:
        """Return the places of at most `max_people` of them, with some of every group."""
        chosen = self.sensitive.sample(max_people, random)
        if len(chosen) > max_people:
            raise ValueError(
                f"max_people must be at least {len(chosen)} to include some of every group, "
                f"got {max_people}"
            )
        return chosen

    def take(self, places: NDArray[np.intp]) -> People:
        """Return the people in these places."""
        return replace(
            self,
            rows=self.rows[places],
            sensitive=self.sensitive.take(places),
            names=self.names[places],
        )

    def followed_by(self, others: People) -> People:
        """Return these people and then the others, whose features have the same categories."""
        columns = tuple(
            replace(mine, values=np.concatenate([mine.values, theirs.values]))
            for mine, theirs in zip(self.sensitive.columns, others.sensitive.columns, strict=True)
        )
        return People(
            np.concatenate([self.rows, others.rows]),
            SensitiveFeatures(columns),
            np.concatenate([self.names.astype(object), others.names.astype(object)]),
            max(self.precision, others.precision),
        )
