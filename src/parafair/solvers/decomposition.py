"""A decomposition as postprocessing changes it, and a repaired one as a start of other fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.least_squares import Block
from parafair.algebra.quadratic import QuadraticForm
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties import Transport
from parafair.solvers.block import carry_scale
from parafair.solvers.problem import Problem
from parafair.solvers.sweep import Sweep

# Passes over the other factors when they are refitted.
PASSES = 5


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The factors of a problem, as `parafair.penalties.Decomposed` describes them.

    The penalty of the problem is ignored.

    Attributes:
        problem: The problem; it has sensitive features.
        factors: One factor (1, size, rank) per mode.
    """

    problem: Problem
    factors: tuple[Tensor, ...]

    @property
    def rows(self) -> Tensor:
        """The embedding of the people with sensitive features, shape (people, rank)."""
        return self.problem.penalized_rows(self.factors[self.problem.mode])[0]

    @property
    def sensitive(self) -> SensitiveFeatures:
        """Their sensitive features."""
        return self.problem.penalized_features

    @cached_property
    def _block(self) -> Block:
        return Sweep(self.problem, self.factors).block(self.problem.mode)

    @property
    def block(self) -> Block:
        """The loss and the ridge as a function of `rows`, a batch of one."""
        people = self.problem.penalized
        if people is None:
            return self._block
        return self._block.pool(people[:, None], self._block.target.new_ones(1))

    @property
    def loss(self) -> float:
        """The loss and the ridge of everybody."""
        return float(self._block.value(self.factors[self.problem.mode]))

    def with_rows(self, rows: Tensor) -> Decomposition:
        """Return the decomposition with other rows."""
        people, factors = self.problem.penalized, list(self.factors)
        everybody = factors[self.problem.mode]
        factors[self.problem.mode] = (
            rows[None] if people is None else everybody.index_copy(1, people, rows[None])
        )
        return replace(self, factors=tuple(factors))

    def refit(self) -> Decomposition:
        """Return the decomposition with the other factors refitted to the rows, then the rows.

        It is this one if that does not lower a loss that is no squared error.
        """
        sweep, mode = Sweep(self.problem, self.factors), self.problem.mode
        sweep.refit_others(PASSES)
        refitted = Decomposition(self.problem, carry_scale(tuple(sweep.factors), mode))
        factors = list(refitted.factors)
        factors[mode] = refitted._block.minimizer(QuadraticForm.zero(factors[mode]))
        found = Decomposition(self.problem, tuple(factors))
        # Squares that do not bound the loss may lead to a larger one, or to no finite factors.
        losses = [self.problem.loss_of(each.factors) for each in (found, self)]
        return found if not self.problem.cautious or bool(losses[0] <= losses[1]) else self


def repair(
    problem: Problem, factors: Factors, *, transport: Transport | None = None
) -> tuple[Tensor, ...]:
    """Return factors with exact parity between the groups, near the least loss at which it exists.

    This is a start for fits with a strong penalty. The penalty of the problem is not used.

    Args:
        problem: A problem with categorical sensitive features; those of other modes are ignored.
        factors: A converged plain decomposition: one factor (size, rank) or (1, size, rank) per
            mode.
        transport: The settings; ``Transport()`` if None.

    Returns:
        The repaired factors, in the shape of the given ones.
    """
    if problem.sensitive is None:
        raise ValueError("a repair needs sensitive features, but the problem has none; pass them")
    transport = transport or Transport()
    transport.check(problem.penalized_features)
    one = factors[0].ndim == 2
    plain = Decomposition(problem, tuple(f[None] if one else f for f in factors))
    repaired = transport.apply(plain).factors
    return tuple(factor[0] for factor in repaired) if one else repaired
