"""What a penalty is: settings that become a function of one factor once people are known.

A `Penalty` holds settings and no data. `Problem` binds it to sensitive features, which gives a
`BoundPenalty`: the function a solver minimizes. A solver treats a `BoundQuadratic` exactly and any
other one by its value and gradient.

Some features need more than that. A penalty gets each of them by offering what it needs:

* `ScaleFreePenalty`: sensitive features of several modes, and refinement of new people.
* `PathPenalty`: a warm path through weaker strengths.
* `CalibratedPenalty`: ``strength="auto"``.
"""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import ClassVar, Literal, Protocol, runtime_checkable

from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties.bound import BoundPenalty


@runtime_checkable
class Penalty(Protocol):
    """Settings of a penalty; usually a frozen dataclass."""

    @property
    def strength(self) -> float:
        """The multiplier of the penalty."""

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundPenalty:
        """Return the penalty as a function of the factor of these people.

        Args:
            sensitive: One row per index of the sensitive mode; `SensitiveFeatures.encode` gives
                them as numbers.
            tensor: The observed entries: where they are, their precision and their units.
        """


@runtime_checkable
class ScaleFreePenalty(Penalty, Protocol):
    """A penalty that does not depend on the scale of the factor; it binds to a `BoundInvariant`.

    Any number of modes can have such a penalty, because none of them must carry the scale.
    """

    scale_free: ClassVar[Literal[True]]


@runtime_checkable
class PathPenalty(Penalty, Protocol):
    """A penalty that is minimized at weaker strengths first, each from the solution before.

    Attributes:
        path: These strengths as shares of the penalty's own, in order.
    """

    path: ClassVar[tuple[float, ...]]


class Dependence(Protocol):
    """A measure of dependence with a known level under independence."""

    def value_and_gradient(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the dependence of each member of a batch, shape (...), and its gradient."""

    def null(self, rows: Tensor) -> Tensor:
        """Return its mean over all permutations of the people, shape (...)."""


@runtime_checkable
class CalibratedPenalty(Penalty, Protocol):
    """A penalty whose strength has the same meaning on any data, so that it can be searched."""

    def criterion(self, sensitive: SensitiveFeatures, prototype: Tensor) -> Dependence:
        """Return what the penalty measures, without its strength.

        Args:
            sensitive: The features of the people.
            prototype: A tensor whose device and precision to use.
        """


def check_multiplier(name: str, value: float) -> None:
    """Raise unless a multiplier of a penalty is a finite number of at least 0."""
    if not (isinstance(value, Real) and isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
