"""Whom an audit looks at, and which features: a sample, and features taken together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.sensitive import Column, SensitiveFeatures

# Members of every group in a sample of a large population, if there are as many.
LEAST_MEMBERS = 10

# Cells of features taken together; the smallest beyond this many become one.
MOST_CELLS = 12

OTHER = "other"


def sample(sensitive: SensitiveFeatures, size: int, random: np.random.RandomState) -> NDArray[Any]:
    """Choose people at random, but some of every group, so that each can be attacked."""
    order = random.permutation(len(sensitive))
    if len(order) <= size:
        return np.arange(len(order))
    first = [
        order[column.values[order] == code][:LEAST_MEMBERS]
        for column in sensitive.columns
        for code in range(len(column.categories))
    ]
    needed = len(np.unique(np.concatenate(first))) if first else 2
    if size < needed:
        raise ValueError(
            f"max_people must be at least {needed} to hold some of every group, got {size}"
        )
    # Unique in the order of first appearance: the chosen of each group, then the others.
    everybody = np.concatenate([*first, order])
    places = np.sort(np.unique(everybody, return_index=True)[1])
    return np.sort(everybody[places[:size]])


def take(column: Column, people: NDArray[Any]) -> Column:
    """Return one feature of some people; every group must have members among them."""
    return Column(column.name, column.kind, column.values[people], column.categories)


def check_groups(sensitive: SensitiveFeatures) -> None:
    """Refuse groups of one: whoever is tested on it cannot have been trained on it."""
    for column in sensitive.columns:
        if column.kind == "numeric":
            continue
        sizes = np.bincount(column.values, minlength=len(column.categories))
        if sizes.min() < 2:
            group = column.categories[int(sizes.argmin())]
            raise ValueError(
                f"group {group!r} of sensitive feature {column.name!r} has only one member, so no "
                "attacker can be tested on it; merge it with another group"
            )


def cut(column: Column, parts: int) -> Column:
    """Return a categorical feature: itself, or a number cut into parts of equal size."""
    if column.kind == "categorical":
        return column
    values = np.unique(column.values)
    quantiles = np.arange(1, parts) / parts
    edges = np.quantile(column.values, quantiles, method="inverted_cdf")
    # A part is (edge, next edge]. Edges that occur, but are not the largest, leave none empty.
    edges = np.unique(np.minimum(edges, values[-2]))
    bounds = ["", *(f"{edge:.3g}" for edge in edges), ""]
    names = [
        f"> {low}" if not high else f"<= {high}" if not low else f"{low} to {high}"
        for low, high in pairwise(bounds)
    ]
    codes = np.searchsorted(edges, column.values, side="left")
    return Column(column.name, "categorical", codes, tuple(names))


def join(columns: tuple[Column, ...], least: int) -> Column | None:
    """Return all features as one whose groups are the cells of their product.

    Numbers are cut at their median. Cells of fewer than `least` members, and the smallest
    beyond a dozen, become one group; None if fewer than three groups are left, which say no
    more than the features themselves.

    Args:
        columns: At least two features.
        least: Members a cell needs to be a group of its own.
    """
    parts = [cut(column, 2) for column in columns]
    labels = [np.array(part.categories)[part.values] for part in parts]
    cells = np.array([", ".join(cell) for cell in zip(*labels, strict=True)])
    names, codes, sizes = np.unique(cells, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    own = [cell for cell in order[:MOST_CELLS] if sizes[cell] >= least]
    rest = [cell for cell in order if cell not in own]
    # The group of the rest must be large enough too.
    while rest and own and sum(sizes[cell] for cell in rest) < least:
        rest.append(own.pop())
    if len(own) + bool(rest) < 3:
        return None
    place = np.full(len(names), len(own))
    place[own] = np.arange(len(own))
    categories = [str(names[cell]) for cell in own] + [OTHER] * bool(rest)
    name = " x ".join(column.name for column in columns)
    return Column(name, "categorical", place[codes], tuple(categories))
