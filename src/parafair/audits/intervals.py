"""Simultaneous intervals of the scores, and the interval of leakage.

All attackers share one bootstrap of people, which gives their joint distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from parafair.audits.answers import Answers

CONFIDENCE = 0.95
BOOTSTRAPS = 1000


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
    answers: Sequence[Answers], draws: NDArray[np.float64], inflation: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return all scores and their simultaneous lower and upper bounds, each of shape (scores,).

    The critical value is the quantile of the largest ``|t|`` over the scores. It grows with
    their number, but little if they agree.

    Args:
        answers: The answers in each cross-validation.
        draws: How often each bootstrap draws each person, shape (draws, n).
        inflation: See `inflate`.
    """
    everybody = np.ones((1, draws.shape[1]))
    values = np.mean([one.scores(everybody)[0] for one in answers], axis=0)
    varied = np.mean([one.scores(draws) for one in answers], axis=0)
    # Of few people, a draw may have one person alone.
    varied = varied[np.isfinite(varied).all(1)]
    errors = varied.std(0)
    largest = (np.abs(varied - varied.mean(0)) / np.where(errors > 0, errors, 1)).max(1)
    sizes = _sizes(answers[0])
    critical = _critical(np.quantile(largest, CONFIDENCE), sizes)
    # One more error in every group, so that a standard error is never zero.
    least = np.linalg.norm(1 / (sizes + 2)) / len(sizes)
    reach = critical * inflation * np.sqrt(errors**2 + least**2)
    low, high = np.maximum(values - reach, answers[0].lowest), np.minimum(values + reach, 1.0)
    return values, low, high


def leakage(
    answers: Sequence[Answers], draws: NDArray[np.float64], inflation: float
) -> tuple[float, float, float]:
    """Return what an attacker gains who chooses model and sign, and the interval.

    The gain is the mean over many attackers, each of whom chooses by a bootstrap of the people:
    one choice alone depends on chance, if several models are about equally strong.

    Args:
        answers: The answers in each cross-validation.
        draws: How often each bootstrap draws each person, shape (draws, n).
        inflation: See `inflate`.
    """
    everybody = np.ones_like(draws)
    value = float(np.mean([one.gain(draws, everybody) for one in answers]))
    varied = np.mean([one.gain(draws, draws) for one in answers], axis=0)
    varied = varied[np.isfinite(varied)]  # all of a small group may be missing in a draw
    error = float(varied.std()) if len(varied) else 1.0
    reach = _critical(norm.isf((1 - CONFIDENCE) / 2), _sizes(answers[0])) * inflation * error
    largest = answers[0].largest_gain
    return value, max(value - reach, -largest), min(value + reach, largest)


def inflate(folds: int | None) -> float:
    """Return the ratio of the standard error to that of independent folds.

    Training sets of different folds overlap, so their errors are correlated. Nadeau and Bengio,
    "Inference for the generalization error", 2003, give ``1/k + 1/(k - 1)`` times the variance of
    one fold for k folds, instead of the ``1/k`` of independent folds.

    Args:
        folds: Number of folds; None if all attackers were trained on the same people.
    """
    return 1.0 if folds is None else float((1 + folds / (folds - 1)) ** 0.5)


def _sizes(answers: Answers) -> NDArray[np.intp]:
    """Return the number of tested people in each group."""
    return np.bincount(answers.groups[np.isin(answers.number, answers.tested)])


def _critical(normal: float, sizes: NDArray[np.intp]) -> float:
    """Return Student's t instead of a normal quantile, for the smallest group."""
    tail = min((1 - CONFIDENCE) / 2, norm.sf(normal))
    return float(t.isf(tail, max(1, sizes.min() - 1)))
