"""How much predicted scores differ between groups: distances and mutual information.

These are measures of the scores alone, as Kamishima et al. use them ("Recommendation independence",
2018). A score that does not depend on the group may come from an embedding that reveals it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from parafair.arguments import to_numpy, whole_number
from parafair.audits.evaluation import area_between, ks_statistic, mean_difference
from parafair.audits.measures import LARGEST
from parafair.audits.predictions import BINS
from parafair.data.arrays import check_finite, to_tensor
from parafair.data.column import Column
from parafair.data.raw_features import check_index
from parafair.data.sensitive import SensitiveFeatures
from parafair.display import Cell, Html, table, view
from parafair.errors import shown

Floats = NDArray[np.float64]

# More bins than this are a mistake.
MOST_BINS = 10_000

# What the attributes of differences are called in a table.
MEASURES = {
    "ks": "KS",
    "mean_difference": "difference of means",
    "area": "area between CDFs",
    "bhattacharyya": "Bhattacharyya",
    "normal_information": "mutual information (normal)",
    "histogram_information": "mutual information (histogram)",
}

# As in the original: the logarithm of a variance stays finite.
SMALL = 1e-8


@dataclass(frozen=True)
class ScoreDifferences:
    """How much predicted scores differ between the groups of one sensitive feature.

    The first four are of the two groups that differ most, each for itself. All are zero for scores
    that do not depend on the group, up to chance.

    Attributes:
        feature: The name of the sensitive feature.
        scores: The number of scores.
        mean_difference: The difference of the mean scores.
        ks: The largest difference of the distribution functions (Kolmogorov and Smirnov), from 0
            to 1.
        area: The area between the distribution functions, in the units of the scores.
        bhattacharyya: The Bhattacharyya distance between normal distributions with the groups'
            means and variances.
        normal_information: The mutual information of group and score in nats, if the scores of
            every group, and those of all, were normal.
        histogram_information: The same from a histogram of the scores. By chance alone it is about
            (groups - 1) (bins - 1) / (2 scores).
    """

    feature: str
    scores: int
    mean_difference: float
    ks: float
    area: float
    bhattacharyya: float
    normal_information: float
    histogram_information: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.feature}: KS {self.ks:.3f}, difference of means {self.mean_difference:.4g}, "
            f"area between CDFs {self.area:.4g}, Bhattacharyya {self.bhattacharyya:.4f}, mutual "
            f"information {self.normal_information:.4f} (normal), "
            f"{self.histogram_information:.4f} (histogram)"
        )


class ScoreComparison(tuple[ScoreDifferences, ...]):
    """How much predicted scores differ between groups, one item for each sensitive feature."""

    __slots__ = ()

    def __repr__(self) -> str:
        found = ", ".join(f"{one.feature}: KS {one.ks:.3f}" for one in self)
        return f"ScoreComparison({found})"

    def _repr_html_(self) -> str:
        return view("Differences of scores between groups", self.table())

    def table(self) -> Html:
        """Return one row for each measure and one column for each feature, for a notebook."""
        rows: list[list[Cell]] = [
            [name, *(getattr(one, attribute) for one in self)]
            for attribute, name in MEASURES.items()
        ]
        return table(rows, header=["", *(one.feature for one in self)])


def compare_scores(
    scores: Any, *, sensitive_features: Any, bins: int | Sequence[float] = 10
) -> ScoreComparison:
    """Measure how much predicted scores differ between groups, for every sensitive feature.

    >>> import numpy as np
    >>> scores = np.array([[1.0, 2.0], [3.0, 4.0], [2.0, np.nan]])
    >>> (found,) = compare_scores(scores, sensitive_features=["a", "b", "a"])
    >>> found.ks, round(found.mean_difference, 3)
    (1.0, 1.833)

    Args:
        scores: Predicted scores with people along the first axis, shape (n,), (n, items) or more.
            NaN is left out: for the scores at the observed entries of X, use
            ``numpy.where(numpy.isnan(X), numpy.nan, scores)``.
        sensitive_features: One row per person. Numbers are cut into four groups at their quartiles.
        bins: Bins of the histogram: their number, with equally many scores in each, or the edges
            between them, such as the middles between possible ratings.
    """
    check_index(sensitive_features, scores)
    table = to_tensor(scores, "scores").to(torch.float64)
    if not table.numel() or not table.ndim:
        raise ValueError(
            "scores must have people along the first axis and at least one score, got "
            f"{shown(scores)}"
        )
    check_finite(table, "scores", missing=True)
    rows = table.reshape(len(table), -1).cpu().numpy()
    edges = check_bins(bins)
    features = SensitiveFeatures.of(sensitive_features)
    if len(features) != len(rows):
        raise ValueError(
            f"sensitive_features has {len(features)} rows but scores has {len(rows)}; pass one row "
            "per person, in the same order"
        )
    if features.has_features is not None:
        rows, features = rows[features.has_features], features.with_features()
    largest = np.nanmax(np.abs(rows), initial=0.0)
    if largest > LARGEST:
        raise ValueError(
            f"scores has entries whose squares overflow, up to {largest:.2g}; rescale them"
        )
    return ScoreComparison(
        _of_feature(rows, column.bin(BINS), edges) for column in features.columns
    )


def check_bins(bins: object) -> int | Floats:
    """Return the number of bins, or their sorted edges."""
    if isinstance(bins, (int, float, np.number, str)) or bins is None:
        return whole_number("bins", bins, least=2, most=MOST_BINS)
    edges = to_numpy(bins, "bins")
    if edges.ndim != 1 or not len(edges) or edges.dtype.kind not in "iuf":
        raise ValueError(
            f"bins must be a number of bins or a list of edges between them, got {shown(bins)}"
        )
    if not np.isfinite(edges).all():
        raise ValueError(f"bins must be finite edges, got {shown(bins)}; the outer bins are open")
    return np.unique(edges.astype(np.float64))


def _of_feature(rows: Floats, column: Column, bins: int | Floats) -> ScoreDifferences:
    present = [rows[column.values == code] for code in range(len(column.categories))]
    parts = [part[~np.isnan(part)] for part in present]
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        raise ValueError(
            f"scores must be of at least two groups of {column.name!r}, got those of {len(parts)}; "
            "pass scores of more people"
        )
    pairs = list(combinations(parts, 2))
    return ScoreDifferences(
        feature=column.name,
        scores=sum(map(len, parts)),
        mean_difference=max(mean_difference(*pair) for pair in pairs),
        ks=max(ks_statistic(*pair) for pair in pairs),
        area=max(area_between(*pair) for pair in pairs),
        bhattacharyya=max(bhattacharyya_distance(*pair) for pair in pairs),
        normal_information=normal_information(parts),
        histogram_information=histogram_information(parts, bins),
    )


def bhattacharyya_distance(first: ArrayLike, second: ArrayLike) -> float:
    """Return the distance between normal distributions with the moments of two groups.

    Only equal moments have distance zero; the groups may still have other shapes.
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    spreads = np.array([_variance(one), _variance(two)])
    apart = (one.mean() - two.mean()) ** 2 / (4 * spreads.sum())
    return float(np.log(spreads.mean()) / 2 - np.log(spreads).sum() / 4 + apart)


def normal_information(parts: Sequence[Floats]) -> float:
    """Return the mutual information of group and normal score in nats.

    Args:
        parts: The scores of each group.
    """
    whole = np.concatenate(parts)
    within = sum(len(part) / len(whole) * np.log(_variance(part)) for part in parts)
    return float(np.log(_variance(whole)) - within) / 2


def histogram_information(parts: Sequence[Floats], bins: int | Floats) -> float:
    """Return the mutual information of group and bin in nats.

    Args:
        parts: The scores of each group.
        bins: The number of bins with equally many scores, or the edges between bins.
    """
    whole = np.concatenate(parts)
    edges = bins
    if isinstance(edges, int):
        edges = np.unique(np.quantile(whole, np.arange(1, edges) / edges))
    table = np.array(
        [np.bincount(np.searchsorted(edges, p), minlength=len(edges) + 1) for p in parts]
    )
    joint = table / table.sum()
    independent = joint.sum(1, keepdims=True) * joint.sum(0)
    filled = joint > 0
    return float((joint[filled] * np.log(joint[filled] / independent[filled])).sum())


def _variance(scores: Floats) -> float:
    """Return the variance, with the constants of the original."""
    return float((np.square(scores - scores.mean()).sum() + SMALL) / (len(scores) + SMALL))
