"""How sure an audit is: simultaneous intervals, and leakage corrected for picking the best.

Every score is ``1 - mean over groups of (sum of losses / sum of scales)``, the sums running
over the people of a group, so that people can be weighted. For a category a loss is the share
of wrong guesses about a person and every scale is 1: balanced accuracy. For a number all
people are one group, a loss is a squared error and a scale the squared distance from the mean:
R squared. A bootstrap of people, the same for all attackers, then tells how they vary together.
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
    """What every attacker got wrong about every person.

    Attributes:
        losses: Shape (n, attackers).
        scales: What a loss is relative to, shape (n,).
        groups: The group of each person as a code, shape (n,).
        chance: The score of an attacker that knows nothing.
        folds: RawTensor of the cross-validation that the losses are from.
    """

    losses: NDArray[np.float64]
    scales: NDArray[np.float64]
    groups: NDArray[np.intp]
    chance: float
    folds: int

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores with weighted people, shape (draws, attackers).

        A draw without any member of some group gives NaN.
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
        """How much larger an error is than people drawn independently would make it.

        Training sets of different folds overlap, and the same people serve as training and as
        test, so mistakes come together. Nadeau and Bengio, "Inference for the generalization
        error", 2003, give the variance ``1/k + 1/(k - 1)`` of a fold's for k folds, which is
        this many times the ``1/k`` of independent folds.
        """
        return float((1 + self.folds / (self.folds - 1)) ** 0.5)


def draw_people(groups: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """Return how often each bootstrap draws each person, groups apart: (draws, n)."""
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
    """Return lower and upper bounds that hold for all attackers at once, each (attackers,).

    The critical value is the quantile of the largest ``|t|`` over the attackers, so it grows
    with their number but little with attackers that agree.

    Args:
        table: The losses.
        draws: How often each bootstrap draws each person, shape (draws, n).
    """
    values, varied = table.values, table.scores(draws)
    errors = varied.std(0)
    largest = (np.abs(varied - varied.mean(0)) / np.where(errors > 0, errors, 1)).max(1)
    # Normal quantiles become Student's with the freedom of the smallest group.
    sizes = np.bincount(table.groups)
    tail = min((1 - CONFIDENCE) / 2, norm.sf(np.quantile(largest, CONFIDENCE)))
    critical = t.isf(tail, max(1, sizes.min() - 1))
    # One more mistake in every group: errors are never zero, however uniform the guesses.
    least = np.linalg.norm(1 / (sizes + 2)) / len(sizes)
    reach = critical * table.inflation * np.sqrt(errors**2 + least**2)
    lowest = 0.0 if table.chance else -np.inf
    return np.maximum(values - reach, lowest), np.minimum(values + reach, 1.0)


def strongest(table: Losses, draws: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the advantage over chance of the best attacker, and its interval.

    The best of many looks better than it is. So each bootstrap picks the best attacker on the
    people it drew and scores it on the others: the bias corrected cross-validation of
    Tsamardinos, Greasidou and Borboudakis, "Bootstrapping the out-of-sample predictions for
    efficient and accurate cross-validation", 2018. An attacker that ignores the embedding
    takes part, so nothing worse than chance is ever picked for long.

    Args:
        table: The losses.
        draws: How often each bootstrap draws each person, shape (draws, n).
    """
    ignorant = (1 - table.chance) * table.scales[:, None]
    everybody = Losses(
        np.hstack([ignorant, table.losses]), table.scales, table.groups, table.chance, table.folds
    )
    inside, outside = everybody.scores(draws), everybody.scores((draws == 0).astype(float))
    picked = inside.argmax(1)
    gains = outside[np.arange(len(picked)), picked] - table.chance
    gains = gains[np.isfinite(gains)]  # a small group may have nobody outside
    if not len(gains):
        gains = np.array([max(0.0, float(table.values.max()) - table.chance)])
    tails = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(gains, tails)
    return float(gains.mean()), float(low), float(high)
