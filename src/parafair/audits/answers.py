"""The answers of all attackers about all people, and the scores that follow from them.

Scores are functions of weighted people, so that a bootstrap can draw the people again. A gain is
what an attacker learns who chooses the model and may turn its answers around; it is the unit of
leakage. The choice is made by an inner cross-validation: for each fold, by answers about the people
of the other folds, from models that have not seen the fold either. If the same models made the
choice, a chance association in the sample would confirm itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


@dataclass(frozen=True, eq=False)
class Answers(ABC):
    """The answers of all attackers about one feature, in one cross-validation.

    Attributes:
        number: The fold of each person, shape (n,).
        tested: The folds whose people are tested.
        outer: What is kept about each tested person, by models trained without the person's fold;
            shape (n, attackers, kept).
        inner: The same by models trained without a tested fold and the person's own; shape
            (tested folds, n, attackers, kept).
    """

    number: NDArray[np.intp]
    tested: tuple[int, ...]
    outer: NDArray[np.float64]
    inner: NDArray[np.float64]

    @property
    @abstractmethod
    def groups(self) -> NDArray[np.intp]:
        """The group that each person is drawn from, as a code, shape (n,)."""

    @property
    @abstractmethod
    def lowest(self) -> NDArray[np.float64]:
        """The smallest possible value of each score, shape (scores,)."""

    @property
    @abstractmethod
    def largest_gain(self) -> float:
        """The gain of an attacker who is always right."""

    @abstractmethod
    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of the tested people, shape (draws, scores).

        Args:
            weights: Weights of the people, shape (draws, n). A draw without any tested member of
                a group gives NaN.
        """

    @abstractmethod
    def gain(self, seen: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what an attacker gains who chooses model and sign, shape (draws,).

        Args:
            seen: Weights of the people by whom the choice is made, shape (draws, n); for each
                fold, those of other folds.
            weights: Weights of the people in the gain, shape (draws, n).
        """

    def _masked(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights, zero for people who are not tested."""
        return np.asarray(weights * np.isin(self.number, self.tested))


@dataclass(frozen=True, eq=False)
class GroupAnswers(Answers):
    """Answers about a category: 1 if wrong, 0 if right. The scores are balanced accuracies.

    Attributes:
        codes: The group of each person, shape (n,).
    """

    codes: NDArray[np.intp]

    @property
    def groups(self) -> NDArray[np.intp]:
        """The group of each person."""
        return self.codes

    @property
    def chance(self) -> float:
        """The balanced accuracy of an attacker without information."""
        return float(1 / (self.codes.max() + 1))

    @property
    def lowest(self) -> NDArray[np.float64]:
        """Zero: all answers are wrong."""
        return np.zeros(self.outer.shape[1])

    @property
    def largest_gain(self) -> float:
        """The distance of certainty from chance."""
        return 1 - self.chance

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return balanced accuracies, shape (draws, attackers)."""
        weights = self._masked(weights)
        return np.asarray(1 - np.mean(self._shares(weights, self.outer, weights), axis=0))

    def gain(self, seen: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the balanced accuracy above chance, shape (draws,).

        An attacker who turns its answers around picks one of the other groups at random.
        """
        everybody = self._masked(weights)
        wrong = np.zeros((self.codes.max() + 1, len(weights)))
        for place, fold in enumerate(self.tested):
            others = seen * (self.number != fold)
            shares = self._shares(others, self.inner[place], others)
            above = 1 - self.chance - np.mean(shares, axis=0)
            turned = self.chance / (1 - self.chance)
            inside = np.nan_to_num(np.hstack([above, -turned * above]), nan=-np.inf)
            chosen = inside.argmax(1)[:, None]
            guess = np.take_along_axis(inside, chosen, 1) <= 0
            for group, share in enumerate(
                self._shares(weights * (self.number == fold), self.outer, everybody)
            ):
                own = weights[:, (self.number == fold) & (self.codes == group)].sum(1)
                total = everybody[:, self.codes == group].sum(1)
                part = (own / np.where(total > 0, total, np.nan))[:, None]
                both = np.hstack([share, part - turned * share])
                taken = np.take_along_axis(both, chosen, 1)
                wrong[group] += np.where(guess, (1 - self.chance) * part, taken)[:, 0]
        return np.asarray(1 - wrong.mean(0) - self.chance)

    def _shares(
        self,
        weights: NDArray[np.float64],
        kept: NDArray[np.float64],
        everybody: NDArray[np.float64],
    ) -> list[NDArray[np.float64]]:
        """Return the weighted wrong answers about each group over the weight of its members."""
        found = []
        for group in range(self.codes.max() + 1):
            members = self.codes == group
            total = everybody[:, members].sum(1)
            wrong = weights[:, members] @ kept[members, :, 0]
            found.append(wrong / np.where(total > 0, total, np.nan)[:, None])
        return found


@dataclass(frozen=True, eq=False)
class NumberAnswers(Answers):
    """Answers about a number. The scores are R squared, then rank correlations.

    Kept are the squared error, the prediction, and the rank of the prediction. The last two are
    relative to the mean of the fold: the means of folds are related to the truth, because without
    the people of a fold the mean is on the other side.

    Attributes:
        truth: The numbers, shape (n,).
    """

    truth: NDArray[np.float64]

    @property
    def groups(self) -> NDArray[np.intp]:
        """All people are one group."""
        return np.zeros(len(self.truth), dtype=np.intp)

    @property
    def lowest(self) -> NDArray[np.float64]:
        """R squared has no smallest value; a correlation has -1."""
        return np.repeat([-np.inf, -1.0], self.outer.shape[1])

    @property
    def largest_gain(self) -> float:
        """All of the variance is explained."""
        return 1.0

    @property
    def _targets(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The numbers and their ranks, both with mean 0."""
        ranks = rankdata(self.truth)
        return self.truth - self.truth.mean(), (ranks - ranks.mean()) / len(ranks)

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return R squared, then rank correlations, shape (draws, 2 attackers)."""
        weights = self._masked(weights)
        share = weights / _positive(weights.sum(1, keepdims=True))
        values, ranks = self._targets
        total = _positive(share @ values**2 - (share @ values) ** 2)
        explained = 1 - (share @ self.outer[..., 0]) / total[:, None]
        return np.hstack([explained, _Sums.of(share, self.outer[..., 2], ranks).correlations])

    def gain(self, seen: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of the variance explained, of the values or of the ranks.

        It is negative if the predictions, turned around or not, correlate negatively with the
        truth. Shape (draws,).
        """
        found = [
            self._pooled(seen, weights, k, t) for k, t in zip((1, 2), self._targets, strict=True)
        ]
        inside, outside = (np.stack(part) for part in zip(*found, strict=True))
        return np.asarray(np.take_along_axis(outside, inside.argmax(0)[None], 0)[0])

    def _pooled(
        self,
        seen: NDArray[np.float64],
        weights: NDArray[np.float64],
        kept: int,
        truth: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the squared correlation of the chosen answers, inside and outside, per draw."""
        everybody = self._masked(weights)
        size = _positive(everybody.sum(1, keepdims=True))
        inside, sums = np.zeros(len(weights)), []
        for place, fold in enumerate(self.tested):
            others = seen * (self.number != fold)
            share = others / _positive(others.sum(1, keepdims=True))
            known = _Sums.of(share, self.inner[place, ..., kept], truth)
            correlations = known.correlations
            chosen = np.abs(correlations).argmax(1)[:, None]
            own = weights * (self.number == fold) / size
            # In units of the predictions' spread, so that attackers of different folds compare.
            unit = np.take_along_axis(np.sqrt(known.spread), chosen, 1)
            scale = np.take_along_axis(np.sign(correlations), chosen, 1) / _positive(unit)
            tested = _Sums.of(own, self.outer[..., kept], truth).take(chosen, np.nan_to_num(scale))
            sums.append(tested)
            inside += np.take_along_axis(correlations, chosen, 1)[:, 0] ** 2
        found = _Sums.total(sums).correlations[:, 0]
        return inside / len(self.tested), found * np.abs(found)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Weighted sums of predictions and truth, shape (draws, attackers), or (draws, 1) of truth."""

    guess: NDArray[np.float64]
    squares: NDArray[np.float64]
    products: NDArray[np.float64]
    truth: NDArray[np.float64]
    true_squares: NDArray[np.float64]

    @classmethod
    def of(
        cls, share: NDArray[np.float64], guess: NDArray[np.float64], truth: NDArray[np.float64]
    ) -> _Sums:
        column = truth[:, None]
        return cls(
            share @ guess,
            share @ guess**2,
            share @ (guess * column),
            share @ column,
            share @ column**2,
        )

    def take(self, chosen: NDArray[np.intp], scale: NDArray[np.float64]) -> _Sums:
        """Return the sums of one attacker per draw, whose predictions are scaled."""
        guess, squares, products = (
            np.take_along_axis(part, chosen, 1)
            for part in (self.guess, self.squares, self.products)
        )
        return _Sums(
            scale * guess, scale**2 * squares, scale * products, self.truth, self.true_squares
        )

    @classmethod
    def total(cls, parts: list[_Sums]) -> _Sums:
        return cls(
            *(np.sum([vars(part)[name] for part in parts], axis=0) for name in vars(parts[0]))
        )

    @property
    def spread(self) -> NDArray[np.float64]:
        """Variances of the predictions."""
        spread = self.squares - self.guess**2
        # What is left of a constant is rounding error.
        return np.where(spread > 1e-12 * self.squares, spread, 0.0)

    @property
    def correlations(self) -> NDArray[np.float64]:
        """Correlations of predictions and truth; 0 if the predictions are constant."""
        size = self.spread * np.maximum(self.true_squares - self.truth**2, 0)
        shared = self.products - self.guess * self.truth
        found = np.divide(shared, np.sqrt(size), out=np.zeros_like(shared), where=size > 0)
        return np.asarray(np.clip(np.where(np.isnan(shared), np.nan, found), -1, 1))


def _positive(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return NaN for zeros, so that nothing is divided by them."""
    return np.where(numbers > 0, numbers, np.nan)
