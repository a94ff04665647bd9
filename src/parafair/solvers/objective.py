"""The value of an objective, by its parts."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Objective:
    """The objective of each member of a batch; float64, shape (batch,).

    Attributes:
        loss: ``||X - model||**2 / |X|`` over the observed entries, or their mean deviance.
        penalty: The penalty, its strength included, and the ridge.
        residual: ``||X - model|| / ||X||`` over the observed entries, or the deviance over that of
            the best constant.
        side: The error of the table of side information, times its weight; zero without one.
    """

    loss: Tensor
    penalty: Tensor
    residual: Tensor
    side: Tensor

    @property
    def value(self) -> Tensor:
        """Loss plus penalty, and the error of the side information."""
        return self.loss + self.penalty + self.side

    def take(self, members: Tensor) -> Objective:
        """Return the objective of some members."""
        return Objective(
            self.loss[members], self.penalty[members], self.residual[members], self.side[members]
        )

    def put(self, members: Tensor, other: Objective) -> Objective:
        """Return this objective with some members replaced by those of another."""
        return Objective(
            self.loss.index_copy(0, members, other.loss),
            self.penalty.index_copy(0, members, other.penalty),
            self.residual.index_copy(0, members, other.residual),
            self.side.index_copy(0, members, other.side),
        )
