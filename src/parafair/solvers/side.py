"""Side information: a table of the people that shares their factor with the tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.coupled import SquaredTable, Table
from parafair.algebra.observed import observe
from parafair.arguments import instance_of, real_number
from parafair.data.checks import check_values
from parafair.data.tensor_data import TensorData
from parafair.losses import Loss, is_squared, needs_non_negative, resolve_loss
from parafair.penalties.base import is_scale_free
from parafair.solvers.deviance import Deviance
from parafair.solvers.linked_table import FixedTable, LinkedTable

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


@dataclass(frozen=True, eq=False)
class Side:
    """A table of people x columns, its loss, and how much it counts.

    A problem with it has the term ``weight * ||X||**2 / |X| * ||Y - A D^T||**2 / ||Y||**2``: at
    weight 1, a share of the table's sum of squares counts as much as the same share of the
    tensor's. See `parafair.algebra.coupled`. With other losses, of the tensor or of the table,
    deviances take the place of the sums of squares: that of a model over that of the best constant,
    for the table that of its intercepts.

    Attributes:
        data: The table, in double precision; rows are the people in their order, and columns have
            the same units.
        weight: The weight; at 0, the table has no effect on the fit.
        loss: The loss of the table by name, or its object, which it becomes. All but the squared
            error have an intercept for each column.
    """

    data: TensorData
    weight: float = 1.0
    loss: Loss = "squared"  # type: ignore[assignment]

    def __post_init__(self) -> None:
        instance_of("data of Side", self.data, TensorData, "use TensorData.from_array")
        real_number("weight", self.weight, least=0)
        if self.data.order != 2:
            raise ValueError(
                f"data of Side must be people x columns, got the shape {self.data.shape}; pass a "
                "matrix"
            )
        object.__setattr__(self, "data", self.data.to(dtype=torch.float64))
        object.__setattr__(self, "loss", check_side_loss(self.loss))
        check_values(self.data, self.loss, name="side", argument="side_loss")

    @property
    def is_squared(self) -> bool:
        """Whether the loss is the squared error."""
        return is_squared(self.loss)

    @cached_property
    def deviance(self) -> Deviance:
        """The deviance of models of the table."""
        return Deviance(self.loss, self.data, None)

    @property
    def share(self) -> float:
        """The share ``s`` of `parafair.algebra.coupled`."""
        return self.table.share

    @cached_property
    def table(self) -> Table:
        """The table as it is."""
        if self.is_squared:
            return SquaredTable(self.data.observations)
        return LinkedTable(self.deviance)

    def multiple(self, total: float) -> float:
        """Return what an error of the table is multiplied with.

        Args:
            total: ``||X||**2``, or the deviance of the best constant.
        """
        return self.weight * total / self.table.total

    def scaled(self, total: float) -> Table | None:
        """Return the table in the units of the tensor; None if it has no effect."""
        if not self.weight:
            return None
        multiple = self.multiple(total)
        if not self.is_squared:
            return LinkedTable(self.deviance, multiple)
        scaled = self.data.values * multiple**0.5
        return SquaredTable(observe(scaled, self.data.indices, self.data.shape))

    def at(self, rows: Tensor, multiple: float = 1.0) -> FixedTable:
        """Return the table with the factor that is best for rows (batch, people, rank), fixed.

        Args:
            rows: The rows.
            multiple: What its error is multiplied with.
        """
        if isinstance(self.table, LinkedTable):
            return replace(self.table.at(rows), multiple=multiple)
        return FixedTable(self.deviance, self.table.factor(rows), self.share, multiple)

    def residual(self, rows: Tensor) -> float:
        """Return ``||Y - A D^T|| / ||Y||`` for rows (people, rank) and the best ``D``.

        With a loss that is no squared error, it is the deviance over that of the intercepts.
        """
        ratio = float(self.table.value(rows[None])) / self.table.total
        return float(ratio**0.5) if self.is_squared else ratio

    def take(self, places: NDArray[Any]) -> Side:
        """Return the rows of some people."""
        return replace(self, data=self.data.take(0, places))


def check_side_loss(loss: Any) -> Loss:
    """Return the loss of side information; raise if a table cannot have it."""
    found = resolve_loss(loss, name="side_loss")
    if needs_non_negative(found):
        raise ValueError(
            f"side_loss={found.name!r} has non-negative factors, but that of side information has "
            "both signs; use 'poisson' for counts and 'bernoulli' for 0 and 1"
        )
    return found


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
    if not problem.side.table.total:
        raise ValueError(
            "side has no entry other than zero, or than its intercepts, so there is nothing to "
            "fit; leave it out"
        )
    if problem.penalty is not None and not is_scale_free(problem.penalty):
        raise ValueError(
            "side information needs a scale-free penalty such as method='invariant', got "
            f"{problem.penalty!r}: columns that the tensor hardly uses may be small, and other "
            "penalties do not see small columns; use method='invariant', 'transport' or 'none'"
        )
