"""Selection of the ridge: the smallest error on held-out entries, on a path from strong to weak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, inf, log10, prod, sqrt
from typing import Any, Literal

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.sparse import values_at
from parafair.algebra.tucker_tensor import Multilinear
from parafair.arguments import real_number
from parafair.data.centering import Offsets
from parafair.data.splits import split_cells
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.losses import (
    Loss,
    deviances,
    has_link,
    is_squared,
    resolve_loss,
)
from parafair.solvers import LBFGS, BlockDescent, Solver, Stop, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.side import Side

Ridge = float | Literal["auto"]

# Share of the observed entries to hold out: up to LARGEST_SHARE where SHARE is less than ENOUGH.
SHARE, LARGEST_SHARE, ENOUGH = 0.1, 0.2, 500
# The strongest and the weakest ridge, relative to the mean number of entries of a person. The
# strongest leaves little more than the offsets.
STRONGEST, WEAKEST = 100.0, 1e-3
# The path ends where the error exceeds the smallest one by the factor WORSE. A model that exceeds
# the error of offsets alone by the factor LOSES is useless.
WORSE, LOSES = 1.05, 1.02
# Each fit starts from the one before, so a few iterations are enough.
STOP = Stop(max_iter=20, tol=1e-3, window=5)
# Side information holds the rows where a strong ridge has left them; blocks end in swamps there,
# and other steps take longer to leave.
COUPLED = Stop(max_iter=60, tol=1e-3, window=10)
# The ridge if there are too few entries to hold any out.
FALLBACK = 3.0

# The ridge of complete data with a link.
LINK_RIDGE = 0.1


@dataclass(frozen=True)
class RidgeSelection:
    """The selected ridge, and the errors on held-out entries that selected it.

    Attributes:
        ridge: The selected ridge.
        rmse: Its root mean squared error on the held-out entries; with another loss, the root of
            their mean deviance.
        offsets_rmse: The error of the mean and the offsets of all modes but that of the people.
        tried: Every ridge tried, in order, and its error.
    """

    ridge: float
    rmse: float
    offsets_rmse: float
    tried: tuple[tuple[float, float], ...]

    @property
    def loses(self) -> bool:
        """Whether offsets alone are clearly better at every ridge."""
        return self.rmse > LOSES * self.offsets_rmse

    def __str__(self) -> str:
        return (
            f"ridge {self.ridge:g} of {len(self.tried)} tried: RMSE {self.rmse:.4g} of held-out "
            f"entries, {self.offsets_rmse:.4g} from offsets alone"
        )


def check_ridge(ridge: object) -> None:
    """Raise unless the ridge is a number or "auto"."""
    if not isinstance(ridge, str) or ridge != "auto":
        real_number("ridge, if it is not 'auto',", ridge, least=0)


def is_complete(data: TensorData) -> bool:
    """Whether no entry is missing, or absent ones are zeros; no ridge is selected for such data."""
    return data.zeros_count or data.observed == prod(data.shape)


def usual_ridge(loss: Loss) -> float:
    """Return the ridge of complete data, whose zeros may be listed or not, if none is given.

    With a link, no finite row fits a person best who has zeros alone, or events alone in the cells
    of a component: the row would grow until the fit ends, and with it the spread of all rows, of
    which everybody's noise is a share.
    """
    return LINK_RIDGE if has_link(loss) else 0.0


def select_ridge(
    data: TensorData,
    rank: int,
    mode: int,
    *,
    center: bool,
    loss: str | Loss,
    seed: int,
    non_negative: tuple[int, ...] = (),
    structure: Multilinear | None = None,
    side: Side | None = None,
) -> RidgeSelection | None:
    """Select a ridge for incomplete data by its error on held-out entries.

    Plain decompositions of the other entries follow a path from a strong ridge, which leaves little
    more than the offsets, to none, each from the one before. The path ends when the error grows.
    The penalty plays no part: a ridge is against overfitting, and a plain fit overfits most.

    Args:
        data: The data, with its offsets.
        rank: Number of components.
        mode: The mode of the people.
        center: Whether the model subtracts offsets.
        loss: The loss of the model.
        seed: Seed of the held-out entries and of the initial factors.
        non_negative: The modes with non-negative factors.
        structure: The set of the second factor; None for any.
        side: The side information; None without any.

    Returns:
        The selection; None if there are too few entries to hold any out.
    """
    loss = resolve_loss(loss)
    share = max(SHARE, min(LARGEST_SHARE, ENOUGH / data.observed))
    try:
        split = split_cells(data, test_size=share, random_state=seed)
        offsets = Offsets.fit(split.train, mode, loss)
        squared = is_squared(loss)
        train = offsets.subtract(split.train) if center and squared else split.train
        plain = Problem(
            train,
            rank,
            mode,
            loss=loss,
            offsets=offsets if center else None,
            non_negative=non_negative,
            structure=structure,
            side=side,
        )
    except ValueError:  # too few entries, or all of the others are equal
        return None
    cells, truth = split.test.cells, split.test.entries.double()
    at = offsets.at(cells)
    alone = deviances(loss, truth, at)
    added = at if center else torch.zeros_like(at)
    errors: dict[float, Tensor] = {}
    try:
        for ridge, factors in _path(plain, data.observed / data.shape[mode], seed):
            model = added + values_at(cells, factors)
            errors[ridge] = deviances(loss, truth, model).nan_to_num(inf)
            if _root(errors[ridge]) > WORSE * min(map(_root, errors.values())):
                break
    except Interrupted as interruption:
        # Its fit is a step on the way to a ridge, not a result.
        raise KeyboardInterrupt("while the ridge was selected") from interruption
    chosen = _strongest(errors)
    tried = tuple((ridge, _root(error)) for ridge, error in errors.items())
    return RidgeSelection(chosen, dict(tried)[chosen], _root(alone), tried)


def _path(plain: Problem, entries: float, seed: int) -> Iterator[tuple[float, Factors]]:
    """Yield ridges from strong to weak, and plain factors."""
    starts = make_starts(plain, "uniform", count=1, seed=seed)
    solver: Solver[Any] = BlockDescent() if plain.table is None else LBFGS()
    stop = STOP if plain.table is None else COUPLED
    # With side information, a fit without ridge overfits only after the few iterations here.
    grid = [ridge for ridge in grid_for(entries) if ridge or plain.table is None]
    for ridge in grid:
        (fit,) = solve_batch(replace(plain, ridge=ridge), solver, starts=starts, stop=stop)
        yield ridge, fit.cp.factors
        starts = tuple(factor.unsqueeze(0) for factor in fit.cp.factors)


def grid_for(entries: float, *, strongest: float = STRONGEST) -> list[float]:
    """Return the ridges to try, a geometric sequence, strongest first: 30, 10, 3, 1, ..., 0.

    Args:
        entries: Mean number of entries of a person.
        strongest: The strongest ridge, relative to this number.
    """
    top, bottom = ceil(2 * log10(strongest * entries)), floor(2 * log10(WEAKEST * entries))
    return [10.0 ** (k // 2) * (3 if k % 2 else 1) for k in range(top, bottom, -1)] + [0.0]


def _root(errors: Tensor) -> float:
    return sqrt(float(errors.mean()))


def _strongest(errors: Mapping[float, Tensor]) -> float:
    """Return the strongest ridge within one standard error of the smallest error.

    Few entries are held out, and a weak ridge may predict them well by luck.
    """
    least = errors[min(errors, key=lambda ridge: _root(errors[ridge]))]
    for ridge, error in sorted(errors.items(), reverse=True):
        excess = (error - least).nan_to_num(0.0)  # infinite errors of fits that diverged
        spread = float(excess.std()) if len(excess) > 1 else 0.0
        if float(excess.mean()) <= spread / sqrt(len(excess)):
            return ridge
    raise AssertionError("the smallest error does not exceed itself")
