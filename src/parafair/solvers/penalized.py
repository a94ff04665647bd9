"""The people whose rows a penalty is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.coupled import Table
from parafair.algebra.observed import Observations
from parafair.algebra.tucker_tensor import Multilinear
from parafair.arguments import instance_of
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import Penalty, ScorePenalty
from parafair.penalties.base import is_scale_free
from parafair.team import Share

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


@dataclass(frozen=True, eq=False)
class SharedPeople(Share):
    """The people of one process, and which of them are penalized.

    Attributes:
        sensitive: The features of the people of all processes; None without any.
        features: Those of the penalized people of all processes.
        penalized: Rows of the penalized people of this process; None for all of them.
        among: Their positions among the penalized people of all processes, in ascending order.
        everybody: Positions of the penalized people among all; None if everybody is.
        labels: Labels of the people of all processes.
    """

    sensitive: SensitiveFeatures | None
    features: SensitiveFeatures | None
    penalized: Tensor | None
    among: Tensor
    everybody: NDArray[np.intp] | None
    labels: NDArray[Any]

    def position_of_penalized(self, people: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return positions among all people from those among the penalized ones."""
        return people if self.everybody is None else self.everybody[people]

    @property
    def own_features(self) -> SensitiveFeatures:
        """The features of the penalized people of this process."""
        assert self.features is not None
        return self.features.take(self.among.numpy())


class PenalizedPeople:
    """The part of a problem that says whose rows its penalties are about.

    Attributes:
        data: The data of the people of this process.
        mode: The mode of the people.
        sensitive: Their sensitive features.
        other_sensitive: Those of other modes.
        share: The people of this process; None for everybody.
        structure: The set of the second factor; None for any.
    """

    data: TensorData
    mode: int
    sensitive: SensitiveFeatures | None
    other_sensitive: Mapping[int, SensitiveFeatures]
    share: SharedPeople | None
    structure: Multilinear | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes, the people of all processes included."""
        raise NotImplementedError

    @cached_property
    def observations(self) -> Observations:
        """The observed entries of the people of this process."""
        raise NotImplementedError

    @cached_property
    def table(self) -> Table | None:
        """The side information; None if it has no effect."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the modes, those that the cells of a structure are made of included."""
        return self.shape if self.structure is None else (*self.shape, *self.structure.sizes)

    @cached_property
    def present(self) -> dict[int, Tensor]:
        """For each mode, who has observed entries or side information, shape (n,)."""
        counts = [self.observations.counts(mode) for mode in range(len(self.shape))]
        if self.table is not None:
            counts[self.mode] = counts[self.mode] + self.table.counts
        if self.structure is not None:
            cells = counts[1].reshape(self.structure.sizes)
            sizes = enumerate(cells.shape)
            counts += [cells.movedim(mode, 0).reshape(size, -1).sum(1) for mode, size in sizes]
        return {mode: count > 0 for mode, count in enumerate(counts)}

    @cached_property
    def empty(self) -> dict[int, Tensor]:
        """For each mode, the positions without observed entries, and without side information."""
        return {mode: (~own).nonzero().flatten() for mode, own in self.present.items()}

    @property
    def labels(self) -> tuple[NDArray[Any], ...]:
        """Labels of each mode, those of the people of all processes."""
        own = self.data.labels
        if self.share is None:
            return own
        return (*own[: self.mode], self.share.labels, *own[self.mode + 1 :])

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
    def sensitive_of_all(self) -> SensitiveFeatures | None:
        """The sensitive features of the people of all processes."""
        return self.sensitive if self.share is None else self.share.sensitive

    @property
    def penalized(self) -> Tensor | None:
        """Positions of the penalized people; None for everybody.

        People without sensitive features or without observed entries are not penalized.
        """
        return self._penalized[0]

    @property
    def penalized_of_all(self) -> NDArray[np.intp] | None:
        """Positions of the penalized people of all processes among all; None for everybody."""
        if self.share is not None:
            return self.share.everybody
        return None if self.penalized is None else self.penalized.cpu().numpy()

    @property
    def penalized_features(self) -> SensitiveFeatures:
        """The sensitive features of the penalized people of all processes."""
        assert self._penalized[1] is not None
        return self._penalized[1]

    @cached_property
    def _penalized(self) -> tuple[Tensor | None, SensitiveFeatures | None]:
        if self.sensitive is None:
            counted = self.present[self.mode]
            return (None if counted.all() else counted.nonzero().flatten()), None
        return penalized_of(self, self.mode, self.sensitive)

    def penalized_rows(self, factor: Tensor, mode: int | None = None) -> Tensor:
        """Return the penalized rows of a sensitive mode's factor, shape (..., people, rank).

        Args:
            factor: The factor, shape (..., n, rank).
            mode: Its mode; None for the mode of the people.
        """
        rows = self.penalized
        if mode is not None and mode != self.mode:
            rows = penalized_of(self, mode, self.other_sensitive[mode])[0]
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
    mixed = problem.structure is not None and not getattr(problem.penalty, "rotation_free", False)
    if problem.other_sensitive and mixed:
        raise ValueError(
            "sensitive features of the modes of a structure need a penalty that does not depend on "
            "rotations, because their bases are determined up to a matrix; got "
            f"{problem.penalty!r}: use Invariant(rotation_free=True)"
        )
    for mode, features in problem.sensitive_by_mode.items():
        instance_of("sensitive", features, SensitiveFeatures, "use SensitiveFeatures.of")
        # Of the people, those of this process.
        sizes = (*problem.data.shape, *problem.sizes[problem.order :])
        check_length(features, mode, sizes[_check_mode(problem, mode)])


def check_length(features: SensitiveFeatures, mode: int, size: int) -> None:
    """Raise unless features have one row for each index of a mode."""
    if len(features) != size:
        raise ValueError(
            f"sensitive_features has {len(features)} rows but mode {mode} of the tensor "
            f"has {size}; pass one row per index, in the same order"
        )


def _check_mode(problem: Problem, mode: int) -> int:
    """Return the number of a mode with sensitive features; raise if there is none."""
    if problem.structure is None or mode == problem.mode:
        return problem.data.find_mode(mode)
    if isinstance(mode, int) and problem.order <= mode < len(problem.sizes):
        return mode
    raise ValueError(
        f"mode {mode!r} of a structure has no rows that a penalty is about; give sensitive "
        f"features of mode {problem.mode}, or of {problem.order} to {len(problem.sizes) - 1} for "
        "its bases"
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


def penalized_of(
    problem: PenalizedPeople, mode: int, sensitive: SensitiveFeatures
) -> tuple[Tensor | None, SensitiveFeatures]:
    """Return the penalized rows of a mode in this process, None for all, and their features.

    The features are those of all processes.
    """
    if problem.share is not None and mode == problem.mode:
        assert problem.share.features is not None
        return problem.share.penalized, problem.share.features
    return select_penalized(problem.present[mode], sensitive)
