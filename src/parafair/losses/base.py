"""The protocol of a loss: functions of an entry ``x`` and the model's value ``m`` at it.

The model is on the scale of a link: the expected entry is ``mean(m)``. What a fit minimizes is the
deviance, ``2 (f(x, m) - saturated(x))`` summed over the entries, which is zero if the model fits
them as well as any can. For the squared error it is ``(x - m)**2``.

A block of a fit replaces the deviance by weighted least squares at the current model ``m0``,

    constant + weight * (m - m0)**2 + 2 slope * (m - m0),

which touches it at ``m0`` and, if the loss is `monotone`, lies nowhere below it.

A loss for data whose absent entries are zeros also has the attribute `at_zero`: ``(a, b)`` if the
loss of a zero is ``a m + b m**2`` with the weight ``2 b``, whose sum over all cells follows from
the factors; None if its sum is computed cell by cell. Its `constant` is that of the mean entry.
A loss with an attribute `non_negative`, which is true, is one of non-negative factors.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

# Means of losses with a limited range are kept this far away from its ends.
INSIDE = 1e-9

# The smallest mean of losses that have its logarithm.
LEAST_MEAN = 1e-16


@runtime_checkable
class Loss(Protocol):
    """Settings of a loss; must be a frozen dataclass. All methods work entry by entry.

    Attributes:
        name: The public name.
        measure: What the loss of a model over that of the best constant is called.
        remedy: What to do with others.
        monotone: Whether the weighted squares lie nowhere below the deviance, so that no step needs
            a check.
    """

    name: ClassVar[str]
    measure: ClassVar[str]
    remedy: ClassVar[str]
    monotone: ClassVar[bool]

    @property
    def allowed(self) -> str:
        """The values that an entry may have, in words."""

    @property
    def bound(self) -> float | None:
        """A weight that holds for every entry and model, or None if there is none.

        With it, the rows of a factor share one Gram matrix if no entry is missing.
        """

    def accepts(self, values: Tensor) -> Tensor:
        """Return where an entry may have this value."""

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``f`` and its derivative in the model."""

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the weight of the squares that touch the loss at the model."""

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the second derivative of ``f`` in the model, or its expectation; never negative.

        It may be smaller than `weight`: steps of Newton are longer, and need a check.
        """

    def saturated(self, values: Tensor) -> Tensor:
        """Return the smallest ``f`` that any model has at these entries."""

    def mean(self, model: Tensor) -> Tensor:
        """Return the expected entries, in the units of the data."""

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return entries on the scale of the model, finite: where a fit may begin.

        Args:
            values: Some of the observed entries; NaN where one is missing.
            mean: The mean of all of them.
        """

    def constant(self, values: Tensor) -> float:
        """Return the constant model that fits these entries best."""
