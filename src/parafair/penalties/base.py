"""Protocols of penalties: settings that become a function of one factor when bound to data.

A `Penalty` holds settings and no data. `Problem` binds it to sensitive features, which gives a
`BoundPenalty`: the function that a solver minimizes. A solver minimizes a `BoundQuadratic` exactly,
and any other bound penalty by its value and gradient.

Some features need more. A penalty supports them by implementing these protocols:

* `ScaleFreePenalty`: sensitive features of several modes, refinement of new people, and fits that
  begin at plain decompositions.
* `CalibratedPenalty`: ``strength="auto"``.
* `NoisyPenalty`: noise by default.
* `BoundChunks`, for the bound penalty: chunks of people that change during a fit.

A `ScorePenalty` is about predicted scores. It is a function of all factors.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, TypeGuard, runtime_checkable

from torch import Tensor

from parafair.algebra.group_scores import GroupScores
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties.bound import BoundPenalty
from parafair.penalties.bound_scores import BoundScores


@runtime_checkable
class Penalty(Protocol):
    """Settings of a penalty; must be a dataclass, usually a frozen one."""

    @property
    def strength(self) -> float:
        """The multiplier of the penalty."""

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundPenalty:
        """Return the penalty as a function of the factor.

        Args:
            sensitive: One row per index of the sensitive mode; `SensitiveFeatures.encode` gives
                them as numbers.
            tensor: The observed entries; their device, dtype and scale may be used.
        """


@runtime_checkable
class ScaleFreePenalty(Penalty, Protocol):
    """A penalty that does not depend on the factor's scale; `bind` returns a `BoundInvariant`.

    Several modes can have such a penalty, because none of them must carry the scale.
    """

    scale_free: ClassVar[Literal[True]]


def is_scale_free(penalty: object) -> TypeGuard[ScaleFreePenalty]:
    """Tell whether a penalty is a `ScaleFreePenalty`, and says so."""
    return isinstance(penalty, ScaleFreePenalty) and bool(penalty.scale_free)


@runtime_checkable
class ScorePenalty(Protocol):
    """Settings of a penalty on predicted scores; must be a dataclass, usually a frozen one.

    Scores depend on all factors, and not on which of them carries the scale.
    """

    @property
    def strength(self) -> float:
        """The multiplier of the penalty."""

    def bind_scores(self, scores: GroupScores) -> BoundScores:
        """Return the penalty as a function of all factors.

        Args:
            scores: The scores that a model predicts at the observed entries, by group.
        """


def moves_scale(penalty: object) -> bool:
    """Tell whether scale may move between the factors without a change to the penalty."""
    return is_scale_free(penalty) or isinstance(penalty, ScorePenalty)


@runtime_checkable
class NoisyPenalty(Penalty, Protocol):
    """A penalty with a resolution: it does not see smaller differences, so noise must hide them.

    Attributes:
        default_noise: The resolution, as a share of the standard deviation of the rows in every
            whitened direction.
    """

    default_noise: ClassVar[float]


class Dependence(Protocol):
    """A measure of dependence whose minimum is at chance."""

    def value_and_gradient(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the dependence of each member of a batch, shape (...), and its gradient."""

    def deviations(self, rows: Tensor) -> Tensor:
        """Return the statistics of one embedding in standard deviations of independent rows.

        The shape is (count,). Without dependence, each is about standard normal.
        """


@runtime_checkable
class CalibratedPenalty(Penalty, Protocol):
    """A penalty whose strength means the same on any data, so that it can be searched."""

    def criterion(self, sensitive: SensitiveFeatures, prototype: Tensor) -> Dependence:
        """Return the measure of dependence, without the strength.

        Args:
            sensitive: The sensitive features.
            prototype: A tensor with the device and dtype to use.
        """
