"""Simultaneous intervals, and leakage corrected for the selection of the strongest attacker.

Every score is ``1 - mean over groups of (sum of losses / sum of scales)``. The sums are over the
people of a group, so people can be weighted. For a category, a loss is the share of wrong
predictions about a person and every scale is 1: balanced accuracy. For a number, all people are
one group, a loss is a squared error and a scale is the squared distance from the mean: R squared.
All attackers share one bootstrap of people, which gives their joint distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

CONFIDENCE = 0.95
BOOTSTRAPS = 1000


@dataclass(frozen=True, eq=False)
class Losses:
    """The loss of every attacker for every person.

    Attributes:
        losses: Shape (n, attackers).
        scales: The denominators of the losses, shape (n,).
        groups: The group of each person as a code, shape (n,).
        chance: The score of an attacker without information.
        folds: Number of folds of the cross-validation.
    """

    losses: NDArray[np.float64]
    scales: NDArray[np.float64]
    groups: NDArray[np.intp]
    chance: float
    folds: int

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores with weighted people, shape (draws, attackers).

        A draw without any member of a group gives NaN.
        """
        ratios = []
        for group in range(self.groups.max() + 1):
            members = self.groups == group
            total = weights[:, members] @ self.scales[members]
            ratio = weights[:, members] @ self.losses[members]
            ratios.append(ratio / np.where(total > 0, total, np.nan)[:, None])
        return np.asarray(1 - np.mean(ratios, axis=0))

    @property
    def values(self) -> NDArray[np.float64]:
        """The scores of all attackers, shape (attackers,)."""
        scores: NDArray[np.float64] = self.scores(np.ones((1, len(self.groups))))[0]
        return scores

    @property
    def inflation(self) -> float:
        """Ratio of the standard error to that of independent folds.

        Training sets of different folds overlap, so their errors are correlated. Nadeau and
        Bengio, "Inference for the generalization error", 2003, give ``1/k + 1/(k - 1)`` times the
        variance of one fold for k folds, instead of the ``1/k`` of independent folds.
        """
        return float((1 + self.folds / (self.folds - 1)) ** 0.5)


def draw_people(groups: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """Return how often each bootstrap draws each person, within groups: shape (draws, n)."""
    random = np.random.RandomState(seed)
    counts = np.zeros((BOOTSTRAPS, len(groups)))
    for group in range(groups.max() + 1):
        members = np.flatnonzero(groups == group)
        even = np.full(len(members), 1 / len(members))
        counts[:, members] = random.multinomial(len(members), even, size=BOOTSTRAPS)
    return counts


def simultaneous(
    table: Losses, draws: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return simultaneous lower and upper bounds of all scores, each of shape (attackers,).

    The critical value is the quantile of the largest ``|t|`` over the attackers. It grows with
    their number, but little if they agree.

    Args:
        table: The losses.
        draws: How often each bootstrap draws each person, shape (draws, n).
    """
    values, varied = table.values, table.scores(draws)
    errors = varied.std(0)
    largest = (np.abs(varied - varied.mean(0)) / np.where(errors > 0, errors, 1)).max(1)
    # Student's t instead of the normal, with the degrees of freedom of the smallest group.
    sizes = np.bincount(table.groups)
    tail = min((1 - CONFIDENCE) / 2, norm.sf(np.quantile(largest, CONFIDENCE)))
    critical = t.isf(tail, max(1, sizes.min() - 1))
    # One more error in every group, so that a standard error is never zero.
    least = np.linalg.norm(1 / (sizes + 2)) / len(sizes)
    reach = critical * table.inflation * np.sqrt(errors**2 + least**2)
    lowest = 0.0 if table.chance else -np.inf
    return np.maximum(values - reach, lowest), np.minimum(values + reach, 1.0)


def strongest(table: Losses, draws: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the advantage over chance of the strongest attacker, and its interval.

    The score of the best of many is biased upwards. So each bootstrap selects the best attacker on
    the people drawn and scores it on the others: the bias-corrected cross-validation of
    Tsamardinos, Greasidou and Borboudakis, "Bootstrapping the out-of-sample predictions for
    efficient and accurate cross-validation", 2018. A dummy attacker that ignores the embedding
    takes part; it bounds the maximum from below.

    Args:
        table: The losses.
        draws: How often each bootstrap draws each person, shape (draws, n).
    """
    dummy = (1 - table.chance) * table.scales[:, None]
    extended = Losses(
        np.hstack([dummy, table.losses]), table.scales, table.groups, table.chance, table.folds
    )
    inside, outside = extended.scores(draws), extended.scores((draws == 0).astype(float))
    selected = inside.argmax(1)
    gains = outside[np.arange(len(selected)), selected] - table.chance
    gains = gains[np.isfinite(gains)]  # all members of a small group may have been drawn
    if not len(gains):
        gains = np.array([max(0.0, float(table.values.max()) - table.chance)])
    tails = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(gains, tails)
    return float(gains.mean()), float(low), float(high)
