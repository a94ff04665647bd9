"""Bound penalties: functions of one factor, for a whole batch of fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from parafair.algebra.quadratic import QuadraticForm
from parafair.team import Team


@runtime_checkable
class BoundPenalty(Protocol):
    """A penalty bound to data: a function of one factor."""

    def value(self, factor: Tensor) -> Tensor:
        """Return the penalty of each member of a batch, shape (...)."""

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value, shape (...), and its gradient, shape (..., n, rank)."""


@runtime_checkable
class BoundInvariant(BoundPenalty, Protocol):
    """A bound penalty that does not change when columns of the factor are rescaled or shifted.

    Scale can then move freely between the factors. Solvers take steps in the coordinates of
    `basis`, in which the penalty has the same curvature in all directions.
    """

    def basis(self, factor: Tensor) -> Tensor:
        """Return an invertible ``B``, shape (..., rank, rank); ``A B^-1`` is standardized."""


@runtime_checkable
class BoundChunks(BoundPenalty, Protocol):
    """A bound penalty that compares people in chunks; see `parafair.solvers.dealing`."""

    @property
    def in_chunks(self) -> bool:
        """Whether there are several chunks."""

    def with_deal(self, deal: int) -> Self:
        """Return the penalty with chunks of other people; each number is another choice."""


@runtime_checkable
class BoundShared(BoundPenalty, Protocol):
    """A bound penalty that several processes compute together, each with some of the people."""

    @property
    def parts(self) -> Tensor | None:
        """The part of each person, (n,): a process has whole parts; None if any people will do."""

    def of_people(self, own: Tensor, team: Team) -> BoundPenalty:
        """Return the penalty as a function of the rows of some people, in this process.

        Args:
            own: Their positions, in ascending order.
            team: All processes.
        """


@dataclass(frozen=True, eq=False)
class BoundQuadratic:
    """A penalty equal to ``trace(A.T @ L @ A)``; its block is solved exactly."""

    form: QuadraticForm

    @property
    def parts(self) -> None:
        """None: its statistics are sums over people."""
        return

    def of_people(self, own: Tensor, team: Team) -> BoundQuadratic:
        """Return the penalty of a process that has the rows of some people."""
        directions = self.form.directions[own.to(self.form.directions.device)]
        return BoundQuadratic(replace(self.form, directions=directions, team=team))

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        return self.form.value(factor)

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and ``2 L A``."""
        return self.form.value(factor), 2 * self.form.apply(factor)


@dataclass(frozen=True, eq=False)
class BoundAutograd:
    """A penalty given by a differentiable torch function; the shortest way to add one.

    Attributes:
        function: Maps factors (..., n, rank) to values (...).
    """

    function: Callable[[Tensor], Tensor]

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        return self.function(factor)

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its automatic derivative."""
        with torch.enable_grad():
            factor = factor.detach().requires_grad_()
            value = self.function(factor)
            # Members are independent, so the gradient of the sum contains the gradient of each.
            (gradient,) = torch.autograd.grad(value.sum(), (factor,))
        return value.detach(), gradient


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A bound penalty on some rows of a factor, with a multiplier for each member of a batch.

    Attributes:
        bound: The penalty on these rows, at strength 1 if there are multipliers.
        rows: Their positions; None for all rows.
        multipliers: Shape (batch,); None for 1.
    """

    bound: BoundPenalty
    rows: Tensor | None = None
    multipliers: Tensor | None = None

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        value = self.bound.value(self._seen(factor))
        return value * self._multiplier(value)

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient, which is zero in all other rows."""
        value, gradient = self.bound.value_and_gradient(self._seen(factor))
        multiplier = self._multiplier(value)
        if self.multipliers is not None:
            gradient = multiplier[..., None, None].to(gradient) * gradient
        if self.rows is not None:
            gradient = torch.zeros_like(factor).index_copy_(-2, self.rows, gradient)
        return value * multiplier, gradient

    @property
    def in_chunks(self) -> bool:
        """Whether the penalty compares people in several chunks."""
        return is_in_chunks(self.bound)

    def with_deal(self, deal: int) -> Self:
        """Return the penalty with chunks of other people."""
        assert isinstance(self.bound, BoundChunks)
        return replace(self, bound=self.bound.with_deal(deal))

    def _seen(self, factor: Tensor) -> Tensor:
        return factor if self.rows is None else factor[..., self.rows, :]

    def _multiplier(self, value: Tensor) -> Tensor:
        if self.multipliers is None:
            return value.new_ones(())
        # A batch of one may lack the batch dimension.
        return self.multipliers.to(value).reshape(value.shape)


@dataclass(frozen=True, eq=False)
class WrappedInvariant(Wrapped):
    """The same for an invariant penalty; its basis does not depend on the multiplier."""

    bound: BoundInvariant

    def basis(self, factor: Tensor) -> Tensor:
        """Return the basis for the penalized rows."""
        return self.bound.basis(self._seen(factor))


def is_in_chunks(bound: BoundPenalty) -> TypeGuard[BoundChunks]:
    """Tell whether a bound penalty compares people in several chunks."""
    return isinstance(bound, BoundChunks) and bound.in_chunks


def deal_chunks(bounds: Mapping[int, BoundPenalty], deal: int) -> dict[int, BoundPenalty]:
    """Return bound penalties by mode, those in chunks with chunks of other people."""
    return {m: b.with_deal(deal) if is_in_chunks(b) else b for m, b in bounds.items()}


def restrict_rows(bound: BoundPenalty, rows: Tensor, size: int) -> BoundPenalty:
    """Return a penalty on some rows as a function of a factor with `size` rows.

    The ridge of a quadratic penalty applies to all rows.
    """
    if isinstance(bound, BoundQuadratic):
        form = bound.form
        directions = form.directions.new_zeros(size, form.directions.shape[1])
        directions[rows] = form.directions
        return BoundQuadratic(replace(form, directions=directions))
    return _wrap(bound, rows=rows)


def scale_strength(bound: BoundPenalty, strengths: Tensor) -> BoundPenalty:
    """Return a bound penalty of strength 1, scaled for each member of a batch, shape (batch,).

    The ridge of a quadratic penalty is not scaled.
    """
    if isinstance(bound, BoundQuadratic):
        values = strengths.to(bound.form.values).unsqueeze(-1) * bound.form.values
        return BoundQuadratic(replace(bound.form, values=values))
    return _wrap(bound, multipliers=strengths)


def _wrap(
    bound: BoundPenalty, *, rows: Tensor | None = None, multipliers: Tensor | None = None
) -> BoundPenalty:
    if isinstance(bound, Wrapped):  # restricted before it is scaled
        return replace(bound, multipliers=multipliers)
    kind = WrappedInvariant if isinstance(bound, BoundInvariant) else Wrapped
    return kind(bound, rows, multipliers)  # type: ignore[arg-type]
