"""What a penalty is: settings that become a function of one factor once people are known.

A `Penalty` holds settings and no data. `Problem` binds it to sensitive features, which gives
a `BoundPenalty`: the function a solver minimizes. A solver treats a `BoundQuadratic` exactly and
any other one by its value and gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Real
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from parafair.algebra.quadratic import QuadraticForm
from parafair.data.sensitive import SensitiveFeatures


@runtime_checkable
class BoundPenalty(Protocol):
    """A penalty bound to data: a function of one factor."""

    def value(self, factor: Tensor) -> Tensor:
        """Return the penalty of each member of a batch, shape (...)."""

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value, shape (...), and its gradient, shape (..., n, rank)."""


@runtime_checkable
class Penalty(Protocol):
    """Settings of a penalty; usually a frozen dataclass."""

    @property
    def strength(self) -> float:
        """The multiplier of the penalty."""

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundPenalty:
        """Return the term for these people.

        Args:
            sensitive: One row per index of the sensitive mode; `SensitiveFeatures.encode` gives
                them as numbers.
            tensor: The observed entries: where they are, their precision and their units.
        """


@runtime_checkable
class BoundInvariant(BoundPenalty, Protocol):
    """A term that stays the same when columns of the factor are rescaled or shifted.

    Scale may then move freely between the factors, and a solver measures steps in the term's
    own coordinates, in which no direction is stiffer than another.
    """

    def basis(self, factor: Tensor) -> Tensor:
        """Return an invertible ``B``, shape (..., rank, rank), with standardized ``A B^-1``."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """A term times a number for each member of a batch.

    Attributes:
        term: The term.
        weights: Shape (batch,).
    """

    term: BoundPenalty
    weights: Tensor

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (batch,)."""
        return self._times(self.term.value(factor))

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient."""
        value, gradient = self.term.value_and_gradient(factor)
        weights = self.weights.to(gradient).reshape(value.shape)
        return self._times(value), weights[..., None, None] * gradient

    def _times(self, value: Tensor) -> Tensor:
        # A batch of one may come without its dimension.
        return self.weights.to(value).reshape(value.shape) * value


@dataclass(frozen=True, eq=False)
class ScaledInvariant(Scaled):
    """The same for an invariant term, whose coordinates do not depend on the weights."""

    term: BoundInvariant

    def basis(self, factor: Tensor) -> Tensor:
        """Return the basis of the term."""
        return self.term.basis(factor)


@dataclass(frozen=True, eq=False)
class BoundQuadratic:
    """A term equal to ``trace(A.T @ L @ A)``; its block is solved exactly."""

    form: QuadraticForm

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        return self.form.value(factor)

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and ``2 L A``."""
        return self.form.value(factor), 2 * self.form.apply(factor)


@dataclass(frozen=True, eq=False)
class BoundAutograd:
    """A term given by a differentiable torch function: the short way to a penalty of one's own.

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
            # Members do not depend on each other, so the sum's gradient holds all of theirs.
            (gradient,) = torch.autograd.grad(value.sum(), (factor,))
        return value.detach(), gradient


@dataclass(frozen=True, eq=False)
class Restricted:
    """A term that looks at some rows of a factor only.

    Attributes:
        term: The function of these rows.
        rows: Their positions.
    """

    term: BoundPenalty
    rows: Tensor

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        return self.term.value(factor[..., self.rows, :])

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient, zero in all other rows."""
        value, gradient = self.term.value_and_gradient(factor[..., self.rows, :])
        return value, torch.zeros_like(factor).index_copy_(-2, self.rows, gradient)


@dataclass(frozen=True, eq=False)
class RestrictedInvariant(Restricted):
    """The same for an invariant term."""

    term: BoundInvariant

    def basis(self, factor: Tensor) -> Tensor:
        """Return the basis for the rows it looks at."""
        return self.term.basis(factor[..., self.rows, :])


def restrict_rows(term: BoundPenalty, rows: Tensor, size: int) -> BoundPenalty:
    """Return a term as a function of a factor with `size` rows, of which it sees some.

    A ridge of a quadratic term goes for all of them.
    """
    if isinstance(term, BoundQuadratic):
        form = term.form
        directions = form.directions.new_zeros(size, form.directions.shape[1])
        directions[rows] = form.directions
        return BoundQuadratic(replace(form, directions=directions))
    if isinstance(term, BoundInvariant):
        return RestrictedInvariant(term, rows)
    return Restricted(term, rows)


def scale_strength(term: BoundPenalty, weights: Tensor) -> BoundPenalty:
    """Return a term of strength 1 with a strength for each member of a batch, shape (batch,).

    A ridge of a quadratic term is not part of its strength.
    """
    if isinstance(term, BoundQuadratic):
        values = weights.to(term.form.values).unsqueeze(-1) * term.form.values
        return BoundQuadratic(replace(term.form, values=values))
    if isinstance(term, BoundInvariant):
        return ScaledInvariant(term, weights)
    return Scaled(term, weights)


def check_multiplier(name: str, value: float) -> None:
    """Raise unless a multiplier of a penalty is a finite number of at least 0."""
    if not (isinstance(value, Real) and isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
