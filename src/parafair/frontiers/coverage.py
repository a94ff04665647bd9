"""Coverage: how much of the data is observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from parafair.data.tensor_data import TensorData
from parafair.solvers.problem import Problem


@dataclass(frozen=True)
class Coverage:
    """Counts of observed and missing data.

    Attributes:
        shape: Sizes of the modes.
        modes: Names of the modes.
        mode: The mode of the people.
        observed: Number of fitted entries.
        per_person: Minimum, median and maximum number of entries per person.
        empty: Number of indices without observed entries, for each mode.
        unknown: Number of people without sensitive features.
        held_out: Number of held-out entries.
    """

    shape: tuple[int, ...]
    modes: tuple[str, ...]
    mode: int
    observed: int
    per_person: tuple[int, float, int]
    empty: tuple[int, ...]
    unknown: int
    held_out: int = 0

    @classmethod
    def of(cls, problem: Problem, held_out: TensorData | None = None) -> Coverage:
        """Count the entries of a problem."""
        own = problem.observations.counts(problem.mode)
        counts = (own if problem.share is None else problem.share.whole(own)).cpu().numpy()
        features = problem.sensitive_of_all
        present = None if features is None else features.has_features
        empty = [len(problem.empty[mode]) for mode in range(problem.order)]
        empty[problem.mode] = problem.team.count(empty[problem.mode])
        return cls(
            shape=problem.shape,
            modes=problem.data.modes,
            mode=problem.mode,
            observed=problem.count,
            per_person=(int(counts.min()), float(np.median(counts)), int(counts.max())),
            empty=tuple(empty),
            unknown=0 if present is None else int((~present).sum()),
            held_out=0 if held_out is None else held_out.observed,
        )

    @property
    def share(self) -> float:
        """Share of all entries that were fitted."""
        return self.observed / prod(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Coverage:
        """Return a coverage from the result of `to_dict`."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record.items()
        }
        return cls(**values)
