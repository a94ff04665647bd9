"""Kamishima's independence terms: predicted scores that do not depend on the group.

Kamishima et al., "Recommendation independence", 2018, and "Efficiency improvement of neutrality-
enhanced recommendation", 2013. The terms compare the moments of the scores that the model predicts
at the observed entries, group by group. They make scores comparable. They do not hide the group in
the embedding: a direction that no prediction uses may reveal it.

The original minimizes ``sum of squares / 2 + eta * term``. Divided by half the number ``N`` of
entries this is the mean squared error plus ``strength * term``, with ``strength = 2 * eta / N``.
The original has one model for each group; here all people share the other factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.algebra.group_scores import GroupScores, Moments
from parafair.arguments import real_number
from parafair.penalties.bound_scores import BoundMeans, BoundScores

# Added to the sum of squared deviations and to the number of entries of a group, as in the
# original: the logarithm of a variance stays finite.
SMALL = 1e-8


@dataclass(frozen=True)
class MeanMatching:
    """``strength * (M_0 - M_1)**2 / 2`` for the mean predicted scores of two groups.

    For more groups it is the mean over all pairs. It is quadratic in each factor, so block updates
    are exact. Other differences between the distributions of the scores remain.

    Attributes:
        strength: Multiplier, relative to the mean squared error; both have the units of the squared
            data. This is ``2 * eta / N`` for the original's eta.
    """

    strength: float = 100.0

    def __post_init__(self) -> None:
        real_number("strength", self.strength, least=0)

    def bind_scores(self, scores: GroupScores) -> BoundMeans:
        """Return the bound penalty."""
        return BoundMeans(scores, self.strength)


@dataclass(frozen=True)
class Bhattacharyya:
    """``strength`` times the Bhattacharyya distance between normal scores of two groups.

    With means ``M`` and variances ``V`` of the predicted scores it is ``log((V_0 + V_1) / (2
    sqrt(V_0 V_1))) / 2 + (M_0 - M_1)**2 / (4 (V_0 + V_1))``; for more groups the mean over all
    pairs. It compares variances too.

    Attributes:
        strength: Multiplier, in the units of the squared data, because the distance has none. This
            is ``2 * eta / N`` for the original's eta.
    """

    strength: float = 100.0

    def __post_init__(self) -> None:
        real_number("strength", self.strength, least=0)

    def bind_scores(self, scores: GroupScores) -> BoundScores:
        """Return the bound penalty."""
        return BoundScores(scores, self.strength, bhattacharyya)


@dataclass(frozen=True)
class MutualInformation:
    """``strength`` times the mutual information of the group and normal predicted scores.

    With the variance ``V`` of all scores and ``V_g`` of those of a group with the share ``p_g`` of
    the entries it is ``log(V) / 2 - sum_g p_g log(V_g) / 2``. Several groups need no pairs.

    Attributes:
        strength: Multiplier, in the units of the squared data, because the information has none.
            This is ``2 * eta / N`` for the original's eta.
    """

    strength: float = 100.0

    def __post_init__(self) -> None:
        real_number("strength", self.strength, least=0)

    def bind_scores(self, scores: GroupScores) -> BoundScores:
        """Return the bound penalty."""
        return BoundScores(scores, self.strength, mutual_information)


def variances(moments: Moments) -> Tensor:
    """Return the variance of the scores of each group, shape (batch, groups)."""
    deviations = moments.squares - moments.sums * moments.means
    # Rounding can make equal scores deviate by less than nothing.
    return (deviations.clamp_min(0) + SMALL) / (moments.counts + SMALL)


def bhattacharyya(moments: Moments) -> Tensor:
    """Return the mean Bhattacharyya distance between pairs of groups, shape (batch,)."""
    groups = len(moments.counts)
    one, two = torch.triu_indices(groups, groups, 1, device=moments.sums.device)
    spread, means = variances(moments), moments.means
    both = spread[:, one] + spread[:, two]
    shape = (both / 2).log() - (spread[:, one].log() + spread[:, two].log()) / 2
    apart = (means[:, one] - means[:, two]).square() / both
    return (shape / 2 + apart / 4).mean(-1)


def mutual_information(moments: Moments) -> Tensor:
    """Return the mutual information of group and normal scores in nats, shape (batch,)."""
    shares = moments.counts / moments.counts.sum()
    whole = variances(moments.pooled)[:, 0]
    return (whole.log() - (shares * variances(moments).log()).sum(-1)) / 2
