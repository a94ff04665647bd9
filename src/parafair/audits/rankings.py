"""The quality of lists of recommendations, overall and for each group of people, with intervals.

Independent of any model: only scores and held-out entries are needed. Every measure is the mean of
one number per person, except coverage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import nan, prod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.arguments import instance_of, real_number, whole_number
from parafair.audits.evaluation import Evaluation, Score, group_masks
from parafair.audits.intervals import CONFIDENCE
from parafair.data.arrays import as_tensor
from parafair.data.randomness import RandomState, as_random
from parafair.data.raw_features import check_index
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData

# Scores that are sorted at a time, and the largest number of bootstrap samples.
MOST_SCORES = 2**22
MOST_BOOTSTRAPS = 10**6


@dataclass(frozen=True)
class RankingScore(Score):
    """One number of an evaluation of lists.

    Attributes:
        low: Lower end of the 95 % interval, by a bootstrap of the people; NaN without one.
        high: Upper end of the interval.
    """

    low: float = nan
    high: float = nan


@dataclass(frozen=True, repr=False)
class Rankings(Evaluation):
    """A table of measures of lists, one row each.

    The measures are "ndcg@k", "recall@k", "MAP" and "coverage@k". "ndcg@k gap" and the like are the
    differences between the two groups of a feature that differ most, the first minus the second.
    """

    _row: ClassVar[type[Score]] = RankingScore
    scores: tuple[RankingScore, ...]

    def interval(self, measure: str, group: str = "all", *, feature: str = "") -> tuple[float, ...]:
        """Return the 95 % interval of one number; see `value`."""
        found = self._find(measure, group, feature)
        assert isinstance(found, RankingScore)
        return found.low, found.high

    def __str__(self) -> str:
        lines = [
            f"{'measure':<16} {'feature':<12} {'group':<16} {'value':>7} {'95 % interval':>17} "
            f"{'count':>7}"
        ]
        for s in self.scores:
            interval = "" if np.isnan(s.low) else f"{s.low:.4f} to {s.high:.4f}"
            lines.append(
                f"{s.measure:<16} {s.feature:<12} {s.group:<16} {s.value:>7.4f} {interval:>17} "
                f"{s.count:>7,}"
            )
        return "\n".join(lines)


def evaluate_rankings(
    scores: Any,
    X_test: TensorData,
    *,
    rated: TensorData | None = None,
    sensitive_features: Any = None,
    mode: int | str = 0,
    k: int = 10,
    threshold: float | None = None,
    negatives: int | None = None,
    bootstraps: int = 1000,
    random_state: RandomState = 0,
) -> Rankings:
    """Compare each person's list of the highest scores with held-out entries, for each group too.

    With the relevant held-out entries of a person, n of them, at places p of the list, which begin
    with 1: recall@k is the share with p at most k. NDCG@k is the sum of 1 / log2(p + 1) over those
    with p at most k, divided by its largest possible value. MAP is the mean of the average
    precision, which is the mean over all n of the number of relevant entries up to p, divided by p.
    Coverage@k is the share of all items that are in somebody's first k; it grows with the number of
    people, so compare groups of equal size only, and it has no interval. People without relevant
    held-out entries do not count. Ties are broken at random.

    >>> import numpy as np
    >>> held_out = TensorData.from_array([[np.nan, 5.0, np.nan], [4.0, np.nan, np.nan]])
    >>> found = evaluate_rankings([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], held_out, k=1)
    >>> found.value("recall@1"), found.value("MAP")
    (0.5, 0.75)

    Args:
        scores: A score of every item for every person, people along the first axis: shape
            (n, items) or more axes, whose cells are then ranked.
        X_test: Held-out entries, with the shape of the scores, except that people are along `mode`.
        rated: Entries that are not recommended, such as the training data. X_test is recommended.
        sensitive_features: One row per person, as `SensitiveFeatures.of` takes them. Numeric
            features are binned into four groups; people without features are in no group.
        mode: The mode of X_test whose indices are people.
        k: Length of the lists.
        threshold: Held-out entries of at least this value are relevant; None for all of them.
        negatives: Rank a person's relevant entries among this many other items, drawn at random
            from those that are neither rated nor held out, instead of all. Such measures are common
            in publications, but they overestimate a recommender and may reverse comparisons
            (Krichene and Rendle 2020). There is no coverage then.
        bootstraps: Number of bootstraps of the people for the intervals.
        random_state: Seed of ties, drawn items and bootstraps.
    """
    instance_of("X_test", X_test, TensorData, "use TensorData.from_array or split_by_time")
    whole_number("bootstraps", bootstraps, least=1, most=MOST_BOOTSTRAPS)
    least = -np.inf if threshold is None else real_number("threshold", threshold)
    number = X_test.find_mode(mode)
    check_index(sensitive_features, scores)
    table = _table(scores, X_test, number)
    if whole_number("k", k) > table.shape[1]:
        raise ValueError(f"k must be at most {table.shape[1]}, the number of items, got {k}")
    if negatives is not None:
        whole_number("negatives", negatives)
    features = None if sensitive_features is None else SensitiveFeatures.of(sensitive_features)
    if features is not None and len(features) != len(table):
        raise ValueError(
            f"sensitive_features has {len(features)} rows but scores has {len(table)} people; pass "
            "one row per person"
        )
    wanted = _marked(X_test.keep(_relevant(X_test, least)), number)
    left_out = np.zeros(table.shape, bool)
    if rated is not None:
        left_out = _marked(_same_shape(rated, X_test), number)
    random = as_random(random_state)
    if negatives is not None:
        tested = _marked(X_test, number)
        left_out |= _not_drawn(random, left_out, tested, negatives) & ~wanted
    values, covered = _measure(table, wanted, left_out & ~wanted, k, random)
    rows: list[RankingScore] = []
    for feature, groups in _features(features, len(table)):
        draws = {}
        for group, members in groups.items():
            some = values[members & ~np.isnan(values[:, 0])]
            draws[group] = _bootstrap(some, bootstraps, random)
            rows += _means(_names(k), feature, group, some, draws[group])
            if negatives is None:
                rows.append(_coverage(k, feature, group, covered[members]))
        if feature:
            rows += _gaps(_names(k), feature, values, groups, draws)
    return Rankings(tuple(rows))


def _names(k: int) -> tuple[str, ...]:
    """Return the measures that are means over people."""
    return f"ndcg@{k}", f"recall@{k}", "MAP"


def _table(scores: Any, data: TensorData, number: int) -> NDArray[np.float64]:
    """Return the scores, people by items."""
    found = as_tensor(scores, name="scores", dtype=torch.float64).cpu().numpy()
    shape = (data.shape[number], *data.shape[:number], *data.shape[number + 1 :])
    if found.shape != shape:
        raise ValueError(
            f"scores must have shape {shape}, people first and then the other modes of X_test, got "
            f"{found.shape}"
        )
    return found.reshape(len(found), prod(shape[1:]))


def _relevant(data: TensorData, least: float) -> NDArray[np.bool_]:
    """Return which held-out entries are relevant, at least one."""
    relevant = data.entries.cpu().numpy() >= least
    if not relevant.any():
        raise ValueError(
            f"X_test has no entry of at least threshold={least:g} among {data.observed}, so nobody "
            "can be evaluated; choose a smaller threshold"
        )
    return np.asarray(relevant)


def _same_shape(rated: Any, data: TensorData) -> TensorData:
    instance_of("rated", rated, TensorData, "use TensorData.from_array, or the training data")
    if rated.shape != data.shape:
        raise ValueError(f"rated must have the shape {data.shape} of X_test, got {rated.shape}")
    found: TensorData = rated
    return found


def _marked(data: TensorData, number: int) -> NDArray[np.bool_]:
    """Return where data is observed, people by items."""
    marked = np.zeros(data.shape, bool)
    marked[tuple(data.cells.cpu().numpy())] = True
    return np.moveaxis(marked, number, 0).reshape(data.shape[number], -1)


def _not_drawn(
    random: np.random.RandomState,
    rated: NDArray[np.bool_],
    tested: NDArray[np.bool_],
    negatives: int,
) -> NDArray[np.bool_]:
    """Return all items but the negatives that are drawn for each person."""
    open_items = ~rated & ~tested
    fewest = int(open_items[tested.any(1)].sum(1).min())
    if negatives > fewest:
        raise ValueError(
            f"negatives must be at most {fewest}, the number of items that one of the people has "
            f"neither rated nor held out, got {negatives}"
        )
    keys = np.where(open_items, random.random_sample(rated.shape), 2.0)
    drawn = np.argpartition(keys, negatives - 1, axis=1)[:, :negatives]
    left = np.ones(rated.shape, bool)
    np.put_along_axis(left, drawn, False, axis=1)
    return left


def _measure(
    table: NDArray[np.float64],
    wanted: NDArray[np.bool_],
    left_out: NDArray[np.bool_],
    k: int,
    random: np.random.RandomState,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return everybody's measures, NaN without relevant entries, and what is on their lists."""
    n, items = table.shape
    covered = np.zeros((n, items), bool)
    found = np.empty((n, 3))
    discounts = 1 / np.log2(np.arange(items) + 2)
    ideal = np.cumsum(discounts[:k])
    step = max(1, MOST_SCORES // items)
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        scores = np.where(left_out[part], -np.inf, table[part])
        ties = random.random_sample(scores.shape)
        order = np.lexsort((ties, -scores), axis=1)
        hits = np.take_along_axis(wanted[part], order, 1)
        total = hits.sum(1)
        safe = np.maximum(total, 1)  # people without any do not count
        found[part, 0] = (hits[:, :k] * discounts[:k]).sum(1) / ideal[np.minimum(safe, k) - 1]
        found[part, 1] = hits[:, :k].sum(1) / safe
        precision = np.cumsum(hits, 1) / np.arange(1, items + 1)
        found[part, 2] = (precision * hits).sum(1) / safe
        lists = np.zeros(scores.shape, bool)
        np.put_along_axis(lists, order[:, :k], True, axis=1)
        covered[part] = lists & ~left_out[part]
    found[~wanted.any(1)] = np.nan
    return found, covered


def _coverage(k: int, feature: str, group: str, covered: NDArray[np.bool_]) -> RankingScore:
    share = float(covered.any(0).mean()) if len(covered) else nan
    return RankingScore(f"coverage@{k}", feature, group, share, len(covered))


def _features(
    features: SensitiveFeatures | None, people: int
) -> Iterator[tuple[str, dict[str, NDArray[np.bool_]]]]:
    """Yield all people, then the groups of every feature, as masks of people."""
    found: dict[str, dict[str, NDArray[np.bool_]]] = {}
    for feature, group, members in group_masks(features, np.arange(people)):
        found.setdefault(feature, {})[group] = members
    yield from found.items()


def _bootstrap(
    values: NDArray[np.float64], count: int, random: np.random.RandomState
) -> NDArray[np.float64]:
    """Return means over people who are drawn again and again, shape (count, measures)."""
    if len(values) < 2:  # one person tells nothing about the spread
        return np.full((count, values.shape[1]), np.nan)
    n = len(values)
    even, step = np.full(n, 1 / n), max(1, MOST_SCORES // n)
    sizes = [min(step, count - begin) for begin in range(0, count, step)]
    return np.concatenate([random.multinomial(n, even, size=size) @ values / n for size in sizes])


def _means(
    names: tuple[str, ...],
    feature: str,
    group: str,
    values: NDArray[np.float64],
    draws: NDArray[np.float64],
) -> list[RankingScore]:
    low, high = _interval(draws)
    return [
        RankingScore(name, feature, group, float(values[:, m].mean()) if len(values) else nan,
                     len(values), float(low[m]), float(high[m]))
        for m, name in enumerate(names)
    ]  # fmt: skip


def _interval(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    tail = (1 - CONFIDENCE) / 2
    return np.asarray(np.quantile(draws, [tail, 1 - tail], axis=0))


def _gaps(
    names: tuple[str, ...],
    feature: str,
    values: NDArray[np.float64],
    groups: dict[str, NDArray[np.bool_]],
    draws: dict[str, NDArray[np.float64]],
) -> list[RankingScore]:
    """Return the differences between the two groups that differ most."""
    counted = ~np.isnan(values[:, 0])
    parts = {name: values[members & counted] for name, members in groups.items()}
    parts = {name: part for name, part in parts.items() if len(part)}
    rows = []
    for m, name in enumerate(names):
        means = {group: float(part[:, m].mean()) for group, part in parts.items()}
        pairs = [sorted(pair, key=means.__getitem__)[::-1] for pair in combinations(means, 2)]
        if pairs:
            one, two = max(pairs, key=lambda pair: means[pair[0]] - means[pair[1]])
            low, high = _interval(draws[one][:, m] - draws[two][:, m])
            rows.append(
                RankingScore(f"{name} gap", feature, f"{one} - {two}", means[one] - means[two],
                             len(parts[one]) + len(parts[two]), float(low), float(high))
            )  # fmt: skip
    return rows
