"""The people whose rows a penalty is about."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from parafair.arguments import instance_of
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties import Penalty, ScorePenalty
from parafair.penalties.base import is_scale_free

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


class PenalizedPeople:
    """The part of a problem that says whose rows its penalties are about.

    Attributes:
        mode: The mode of the people.
        sensitive: Their sensitive features.
        other_sensitive: Those of other modes.
    """

    mode: int
    sensitive: SensitiveFeatures | None
    other_sensitive: Mapping[int, SensitiveFeatures]

    @cached_property
    def empty(self) -> dict[int, Tensor]:
        """For each mode, the positions without anything observed."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        raise NotImplementedError

    @property
    def sensitive_modes(self) -> tuple[int, ...]:
        """The modes with sensitive features."""
        return tuple(self.sensitive_by_mode)

    @property
    def sensitive_by_mode(self) -> dict[int, SensitiveFeatures]:
        """The sensitive features of each mode with any."""
        own = {} if self.sensitive is None else {self.mode: self.sensitive}
        return {**own, **self.other_sensitive}

    @property
    def penalized(self) -> Tensor | None:
        """Positions of the penalized people; None for everybody.

        People without sensitive features or without observed entries are not penalized.
        """
        return self._penalized[0]

    @property
    def penalized_features(self) -> SensitiveFeatures:
        """The sensitive features of the penalized people."""
        assert self._penalized[1] is not None
        return self._penalized[1]

    @cached_property
    def _penalized(self) -> tuple[Tensor | None, SensitiveFeatures | None]:
        if self.sensitive is None:
            empty = len(self.empty[self.mode]) > 0
            return (self._present(self.mode).nonzero().flatten() if empty else None), None
        return self._select_penalized(self.mode, self.sensitive)

    def _present(self, mode: int) -> Tensor:
        present = torch.ones(self.shape[mode], dtype=torch.bool, device=self.empty[mode].device)
        present[self.empty[mode]] = False
        return present

    def _select_penalized(
        self, mode: int, sensitive: SensitiveFeatures
    ) -> tuple[Tensor | None, SensitiveFeatures]:
        """Return the penalized positions of a mode, None for all, and their features."""
        return select_penalized(self._present(mode), sensitive)

    def penalized_rows(self, factor: Tensor, mode: int | None = None) -> Tensor:
        """Return the penalized rows of a sensitive mode's factor, shape (..., people, rank).

        Args:
            factor: The factor, shape (..., n, rank).
            mode: Its mode; None for the mode of the people.
        """
        rows = self.penalized
        if mode is not None and mode != self.mode:
            rows = self._select_penalized(mode, self.other_sensitive[mode])[0]
        return factor if rows is None else factor[..., rows, :]


def check_sensitive(problem: Problem) -> None:
    """Raise unless the penalty of a problem is one, and has the sensitive features it needs."""
    remedy = "use one of parafair.penalties, or None"
    if problem.penalty is not None and not isinstance(problem.penalty, ScorePenalty):
        instance_of("penalty", problem.penalty, Penalty, remedy)  # type: ignore[type-abstract]
    instance_of("other_sensitive", problem.other_sensitive, Mapping, "pass {mode: features}")  # type: ignore[type-abstract]
    if problem.penalty is not None and problem.sensitive is None:
        raise ValueError(
            f"the penalty {problem.penalty!r} needs sensitive features, but none were given; pass "
            "one row per person, or use method='none' for a plain decomposition"
        )
    if problem.other_sensitive and not is_scale_free(problem.penalty):
        raise ValueError(
            "sensitive features of several modes need a scale-free penalty such as "
            f"method='invariant', got {problem.penalty!r}: other penalties depend on the scale, "
            "which only one mode can carry"
        )
    for mode, features in problem.sensitive_by_mode.items():
        instance_of("sensitive", features, SensitiveFeatures, "use SensitiveFeatures.of")
        if len(features) != problem.shape[problem.data.find_mode(mode)]:
            raise ValueError(
                f"sensitive_features has {len(features)} rows but mode {mode} of the tensor "
                f"has {problem.shape[mode]}; pass one row per index, in the same order"
            )


def select_penalized(
    counted: Tensor, sensitive: SensitiveFeatures
) -> tuple[Tensor | None, SensitiveFeatures]:
    """Return the positions of the penalized people, None for everybody, and their features.

    Args:
        counted: Who has observed entries, shape (n,).
        sensitive: The features of everybody.
    """
    if sensitive.has_features is not None:
        counted = counted & torch.from_numpy(sensitive.has_features).to(counted.device)
    if counted.all():
        return None, sensitive
    rows = counted.nonzero().flatten()
    features = sensitive.take(rows.cpu().numpy())
    for column in features.columns:
        if len(np.unique(column.values)) < 2:
            raise ValueError(
                f"sensitive feature {column.name!r} must differ between people with "
                "observed entries, but is constant; drop the column, or add people"
            )
    return rows, features
