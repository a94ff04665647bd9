"""Side information: a table of the people that shares their factor with the tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.coupled import Table
from parafair.algebra.observed import observe
from parafair.arguments import instance_of, real_number
from parafair.data.tensor_data import TensorData
from parafair.penalties.base import is_scale_free

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


@dataclass(frozen=True, eq=False)
class Side:
    """A table of people x columns, and how much it counts.

    A problem with it has the term ``weight * ||X||**2 / |X| * ||Y - A D^T||**2 / ||Y||**2``: at
    weight 1, a share of the table's sum of squares counts as much as the same share of the
    tensor's. See `parafair.algebra.coupled`.

    Attributes:
        data: The table, in double precision; rows are the people in their order, and columns have
            the same units.
        weight: The weight; at 0, the table has no effect on the fit.
    """

    data: TensorData
    weight: float = 1.0

    def __post_init__(self) -> None:
        instance_of("data of Side", self.data, TensorData, "use TensorData.from_array")
        real_number("weight", self.weight, least=0)
        if self.data.order != 2:
            raise ValueError(
                f"data of Side must be people x columns, got the shape {self.data.shape}; pass a "
                "matrix"
            )
        object.__setattr__(self, "data", self.data.to(dtype=torch.float64))
        if not self.table.norm_squared:
            raise ValueError(
                "data of Side has no entry other than zero, so there is nothing to fit; leave it "
                "out"
            )

    @cached_property
    def table(self) -> Table:
        """The table as it is."""
        return Table(self.data.observations)

    def multiple(self, norm_squared: float) -> float:
        """Return what a squared error of the table is multiplied with.

        Args:
            norm_squared: ``||X||**2``.
        """
        return self.weight * norm_squared / self.table.norm_squared

    def scaled(self, norm_squared: float) -> Table | None:
        """Return the table in the units of the tensor; None if it has no effect."""
        if not self.weight:
            return None
        root = self.multiple(norm_squared) ** 0.5
        return Table(observe(self.data.values * root, self.data.indices, self.data.shape))

    def residual(self, rows: Tensor) -> float:
        """Return ``||Y - A D^T|| / ||Y||`` for rows (people, rank) and the best ``D``."""
        return float((self.table.value(rows[None]) / self.table.norm_squared).sqrt())

    def take(self, places: NDArray[Any]) -> Side:
        """Return the rows of some people."""
        return replace(self, data=self.data.take(0, places))


def check_side(problem: Problem) -> None:
    """Raise unless side information has a row for each person, and the problem can have it."""
    if problem.side is None:
        return
    instance_of("side", problem.side, Side, "use Side(data, weight)")
    people, rows = problem.shape[problem.mode], problem.side.data.shape[0]
    if rows != people:
        raise ValueError(
            f"side has {rows} rows but mode {problem.mode} of the tensor has {people}; pass one "
            "row per person, in the same order"
        )
    if not problem.is_squared:
        raise ValueError(
            f"side information needs loss='squared', got loss={problem.loss.name!r}; leave one "
            "of them out"
        )
    if problem.penalty is not None and not is_scale_free(problem.penalty):
        raise ValueError(
            "side information needs a scale-free penalty such as method='invariant', got "
            f"{problem.penalty!r}: columns that the tensor hardly uses may be small, and other "
            "penalties do not see small columns; use method='invariant', 'transport' or 'none'"
        )
