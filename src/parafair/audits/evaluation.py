"""The quality of predictions of held-out entries, overall and for each group.

Independent of any model: only held-out entries and predictions are needed. The measures for
recommenders are those of Zhu, Hu and Caverlee, "Fairness-Aware Tensor-Based Recommendation", 2018.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from math import isnan, nan
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import mean_absolute_error

from parafair.arguments import instance_of, items, one_of, real_number, to_numpy, whole_number
from parafair.data.arrays import as_tensor, to_tensor
from parafair.data.column import Column
from parafair.data.frames import frame_of
from parafair.data.labels import preview
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.display import Cell, table, view
from parafair.errors import shown
from parafair.records import plain

if TYPE_CHECKING:
    import pandas

ALL_PEOPLE = "all"

# Groups that a numeric feature is binned into.
BINS = 4


@dataclass(frozen=True)
class Score:
    """One number of an evaluation.

    Attributes:
        measure: "rmse", "mae", "precision@k", "recall@k", "MAD", "KS" or "area".
        feature: The sensitive feature; empty for the score of all people.
        group: The group, "all", or for "MAD", "KS" and "area" the two groups that differ most.
        value: The number; NaN if `count` is 0.
        count: Number of entries ("rmse", "mae", "MAD", "KS", "area") or of people.
    """

    measure: str
    feature: str
    group: str
    value: float
    count: int


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A table of scores, one row each."""

    _row: ClassVar[type[Score]] = Score
    scores: tuple[Score, ...]

    def value(self, measure: str, group: str = ALL_PEOPLE, *, feature: str = "") -> float:
        """Return one number; that of `DIFFERENCES` is of the two groups that differ most."""
        return self._find(measure, group, feature).value

    def _find(self, measure: str, group: str, feature: str) -> Score:
        """Return a row."""
        for name, text in (("measure", measure), ("group", group), ("feature", feature)):
            instance_of(name, text, str, "give it as it is in the table")
        for score in self.scores:
            same = score.measure == measure and score.feature == feature
            if same and (score.group == group or measure in DIFFERENCES):
                return score
        raise KeyError(
            f"no measure {measure!r} of group {group!r}, feature {feature!r}; there are "
            f"{sorted({(s.measure, s.feature, s.group) for s in self.scores})}"
        )

    def largest(self, measure: str) -> float:
        """Return the largest number over all features and groups; NaN without groups."""
        self._check(measure)
        found = [s.value for s in self.scores if s.measure == measure and s.feature]
        return max(found, default=nan)

    def gap(self, measure: str) -> float:
        """Return the largest difference between groups of a feature; NaN without groups."""
        self._check(measure)
        found: dict[str, list[float]] = {}
        for score in self.scores:
            if score.measure == measure and score.feature and not isnan(score.value):
                found.setdefault(score.feature, []).append(score.value)
        return max((max(values) - min(values) for values in found.values()), default=nan)

    def _check(self, measure: str) -> None:
        """Raise for a measure that the table cannot have; some need groups."""
        one_of("measure", measure, sorted({s.measure for s in self.scores}.union(DIFFERENCES)))

    def to_list(self) -> list[dict[str, Any]]:
        """Return all scores as plain values that can be written as JSON; NaN is None."""
        return [plain(vars(score)) for score in self.scores]

    @classmethod
    def from_list(cls, records: Sequence[Mapping[str, Any]]) -> Self:
        """Return the evaluation that `to_list` was called on."""
        try:
            rows: list[dict[str, Any]] = [
                {name: nan if value is None else value for name, value in record.items()}
                for record in items("records", records, "scores")
            ]
            return cls(tuple(cls._row(**row) for row in rows))
        except Exception as error:  # records may be anything
            raise ValueError(
                f"records must be what to_list returned, got {shown(records)} "
                f"({type(error).__name__}: {error})"
            ) from error

    def to_frame(self) -> pandas.DataFrame:
        """Return the table as a data frame."""
        return frame_of([vars(score) for score in self.scores], for_what="Evaluation.to_frame")

    def __repr__(self) -> str:
        overall = [f"{s.measure} {s.value:.4g}" for s in self.scores if not s.feature]
        features = dict.fromkeys(s.feature for s in self.scores if s.feature)
        groups = f"; groups of {preview(features)}" if features else ""
        return f"{type(self).__name__}({', '.join(overall)}{groups})"

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = [
            [None if isinstance(cell, float) and isnan(cell) else cell for cell in vars(s).values()]
            for s in self.scores
        ]
        header = [field.name for field in fields(self._row)]
        return view(repr(self), table(rows, header=header))

    def __str__(self) -> str:
        lines = [f"{'measure':<14} {'feature':<14} {'group':<20} {'value':>9} {'count':>9}"]
        lines += [
            f"{s.measure:<14} {s.feature:<14} {s.group:<20} {s.value:>9.4g} {s.count:>9,}"
            for s in self.scores
        ]
        return "\n".join(lines)


def evaluate_predictions(
    X_test: TensorData,
    predicted: ArrayLike,
    *,
    sensitive_features: Any = None,
    mode: int | str = 0,
    threshold: float | None = None,
    k: int = 10,
) -> Evaluation:
    """Compare predictions with held-out entries, overall and for each group of people.

    Args:
        X_test: Held-out entries.
        predicted: A prediction for each, in the order of ``X_test.cells``, shape (observed,).
        sensitive_features: One row per person, as `SensitiveFeatures.of` takes them. Numeric
            features are binned into four groups; people without features are in no group.
        mode: The mode whose indices are people.
        threshold: Entries of at least this value are relevant; adds precision@k and recall@k.
        k: Length of the list of recommendations.
    """
    instance_of("X_test", X_test, TensorData, "use TensorData.from_array or split_cells")
    whole_number("k", k)
    least = None if threshold is None else real_number("threshold", threshold)
    truth = X_test.entries.cpu().numpy().astype(np.float64)
    guess = _check_predicted(predicted, len(truth))
    number = X_test.find_mode(mode)
    people = X_test.cells[number].cpu().numpy()
    features = None if sensitive_features is None else SensitiveFeatures.of(sensitive_features)
    if features is not None and len(features) != X_test.shape[number]:
        raise ValueError(
            f"sensitive_features has {len(features)} rows but mode {X_test.modes[number]!r} has "
            f"{X_test.shape[number]} labels; pass one row per label, in the same order"
        )
    scores = []
    for feature, group, chosen in group_masks(features, people):
        scores += _errors(feature, group, truth[chosen], guess[chosen])
        if least is not None:
            part = people[chosen], truth[chosen] >= least, guess[chosen]
            scores += _ranking(feature, group, *part, k=k)
    for column in () if features is None else features.columns:
        scores += _differences(_binned(column), people, guess)
    return Evaluation(tuple(scores))


def ranking(
    people: ArrayLike, relevant: ArrayLike, predicted: ArrayLike, *, k: int
) -> tuple[float, float, int]:
    """Return precision and recall of each person's k highest predictions, and how many people.

    Both are averages over the people who have a relevant entry. Precision is the share of the
    list that is relevant; a person with fewer than k entries has a shorter list. Recall is the
    share of the relevant entries that are on the list. Ties are broken at random; the result is
    the expected value.

    Args:
        people: Index of the person of each entry, shape (entries,).
        relevant: Whether the entry is relevant, shape (entries,). At least one must be.
        predicted: The prediction, shape (entries,).
        k: Length of the list.
    """
    k = whole_number("k", k)
    who, wanted, guess = _indices(people), _truths(relevant), _numbers("predicted", predicted)
    if not len(who) == len(wanted) == len(guess):
        raise ValueError(
            "people, relevant and predicted must have equal lengths, got "
            f"{len(who)}, {len(wanted)} and {len(guess)}"
        )
    k = min(k, len(who))
    order = np.lexsort((-guess, who))
    who, wanted, guess = who[order], wanted[order], guess[order]
    starts = np.flatnonzero(np.r_[True, who[1:] != who[:-1]])
    counts = np.diff(np.r_[starts, len(who)])
    # Tied entries of one person share the places that follow `above`.
    ties = np.flatnonzero(np.r_[True, (who[1:] != who[:-1]) | (guess[1:] != guess[:-1])])
    sizes = np.diff(np.r_[ties, len(who)])
    above = np.repeat(ties, sizes) - np.repeat(starts, counts)
    listed = np.clip((k - above) / np.repeat(sizes, sizes), 0, 1)
    hits = np.add.reduceat(listed * wanted, starts)
    total = np.add.reduceat(wanted, starts)
    some = total > 0
    precision = (hits / np.minimum(k, counts))[some].mean()
    return float(precision), float((hits[some] / total[some]).mean()), int(some.sum())


def mean_difference(first: ArrayLike, second: ArrayLike) -> float:
    """Return MAD, the absolute difference between the mean predictions of two groups."""
    return float(abs(_numbers("first", first).mean() - _numbers("second", second).mean()))


def ks_statistic(first: ArrayLike, second: ArrayLike) -> float:
    """Return the largest difference between the distribution functions of two groups."""
    one, two = np.sort(_numbers("first", first)), np.sort(_numbers("second", second))
    places = np.concatenate([one, two])
    shares = [np.searchsorted(part, places, side="right") / len(part) for part in (one, two)]
    return float(np.abs(shares[0] - shares[1]).max())


def area_between(first: ArrayLike, second: ArrayLike) -> float:
    """Return the area between the distribution functions of two groups.

    This is the Wasserstein-1 distance: how far scores must move, on average, to become those of the
    other group.
    """
    one, two = np.sort(_numbers("first", first)), np.sort(_numbers("second", second))
    places = np.sort(np.concatenate([one, two]))
    shares = [np.searchsorted(part, places[:-1], side="right") / len(part) for part in (one, two)]
    return float((np.abs(shares[0] - shares[1]) * np.diff(places)).sum())


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return finite numbers, shape (n,), at least one."""
    found = as_tensor(values, name=name, dtype=torch.float64).cpu().numpy()
    if found.ndim != 1 or not len(found):
        raise ValueError(
            f"{name} must be a list of at least one number, shape (n,), got shape {found.shape}"
        )
    return found


def _truths(relevant: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for relevant entries and 0 for others."""
    found = _numbers("relevant", relevant)
    if not np.isin(found, (0, 1)).all():
        raise ValueError(
            f"relevant must hold True or False, or 1 or 0, got numbers from {found.min():g} to "
            f"{found.max():g}; compare them with a threshold"
        )
    if not found.any():
        raise ValueError(
            f"relevant has no True among {len(found)} entries, so precision and recall are "
            "undefined; pass people with relevant entries"
        )
    return found


def _indices(people: ArrayLike) -> NDArray[Any]:
    """Return the whole numbers that people are known by, shape (n,)."""
    found = to_numpy(people, "people")
    if found.dtype.kind not in "iu" or found.ndim != 1 or np.ma.is_masked(people):
        raise ValueError(
            f"people must be a list of whole numbers, shape (n,), got {shown(people)}; for other "
            "labels, use numpy.unique(people, return_inverse=True)[1]"
        )
    return found


def _check_predicted(predicted: ArrayLike, count: int) -> NDArray[np.float64]:
    guess = to_tensor(predicted, "predicted").double().cpu().numpy()
    if guess.shape != (count,):
        raise ValueError(
            f"predicted must have shape ({count},), one number per held-out entry in the order of "
            f"X_test.cells, got {guess.shape}"
        )
    if not np.isfinite(guess).all():
        raise ValueError(
            f"predicted has {(~np.isfinite(guess)).sum()} NaN or infinite values; pass a finite "
            "number for every held-out entry"
        )
    return guess


def _binned(column: Column) -> Column:
    """Return a categorical feature; people without it keep the code -1."""
    if column.kind == "categorical":
        return column
    known = ~np.isnan(column.values.astype(np.float64))
    return column.take(np.flatnonzero(known)).bin(BINS).scatter(known)


def group_masks(
    features: SensitiveFeatures | None, people: NDArray[np.int64]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield all people, then every group of every feature: the names and a mask of the entries.

    Args:
        features: The features; None for all people alone.
        people: The person of each entry.
    """
    yield "", ALL_PEOPLE, np.ones(len(people), bool)
    for column in () if features is None else map(_binned, features.columns):
        for code, name in enumerate(column.categories):
            yield column.name, name, column.values[people] == code


def _errors(
    feature: str, group: str, truth: NDArray[np.float64], guess: NDArray[np.float64]
) -> list[Score]:
    count = len(truth)
    found = [("rmse", _root_mean_square), ("mae", mean_absolute_error)]
    return [
        Score(name, feature, group, float(error(truth, guess)) if count else float("nan"), count)
        for name, error in found
    ]


def _root_mean_square(truth: NDArray[np.float64], guess: NDArray[np.float64]) -> float:
    return root_mean_square(truth - guess)


def root_mean_square(errors: NDArray[np.float64]) -> float:
    """Return the root of the mean squared error; squares of large errors do not overflow."""
    errors = np.abs(errors)
    largest = errors.max() or 1.0
    return float(largest * np.sqrt(np.mean((errors / largest) ** 2)))


def _ranking(
    feature: str,
    group: str,
    people: NDArray[np.int64],
    relevant: NDArray[np.bool_],
    guess: NDArray[np.float64],
    *,
    k: int,
) -> list[Score]:
    precision, recall, count = nan, nan, 0
    if relevant.any():
        precision, recall, count = ranking(people, relevant, guess, k=k)
    return [
        Score(f"precision@{k}", feature, group, precision, count),
        Score(f"recall@{k}", feature, group, recall, count),
    ]


# Measures of how much the predictions of two groups differ.
DIFFERENCES = {"MAD": mean_difference, "KS": ks_statistic, "area": area_between}


def _differences(
    column: Column, people: NDArray[np.int64], guess: NDArray[np.float64]
) -> list[Score]:
    """Compare the predictions of the two groups that differ most."""
    codes = column.values[people]
    parts = {name: guess[codes == code] for code, name in enumerate(column.categories)}
    pairs = list(combinations([name for name, part in parts.items() if len(part)], 2))
    scores = []
    for measure, compare in DIFFERENCES.items():
        if pairs:
            values = [compare(parts[one], parts[two]) for one, two in pairs]
            one, two = pairs[int(np.argmax(values))]
            count = len(parts[one]) + len(parts[two])
            scores.append(Score(measure, column.name, f"{one} - {two}", max(values), count))
    return scores
