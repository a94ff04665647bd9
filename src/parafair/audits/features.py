"""The features of an audit: which can be attacked, and in which form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parafair.audits.inputs import compress, robust_units, standardize
from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures

# An audit needs this many people: two in each of two groups.
LEAST_PEOPLE = 4

# Groups of the joint feature; the smallest groups beyond this many become one.
MOST_GROUPS = 12

OTHER = "other"


def check_count(people: int, *, name: str = "embedding") -> None:
    """Raise if there are too few people with an embedding and features for an audit."""
    if people < LEAST_PEOPLE:
        raise ValueError(
            f"{name} has {people} rows, but an audit needs at least {LEAST_PEOPLE} people; pass "
            "more people"
        )


def check_groups(sensitive: SensitiveFeatures) -> None:
    """Refuse groups too small to be both in a training set and in a test set."""
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


def in_robust_units(column: Column) -> Column:
    """Return a feature whose numbers have no unit, with those far from the others compressed.

    One person far from all others would decide every R squared.
    """
    if column.kind == "categorical":
        return column
    values = column.values.astype(np.float64)
    return replace(column, values=compress(standardize(values, *robust_units(values))))


def check_new(known: SensitiveFeatures, new: SensitiveFeatures) -> None:
    """Raise unless every group of the known people has members among the new people."""
    for mine, theirs in zip(known.columns, new.columns, strict=True):
        if mine.kind == "numeric":
            continue
        for part, column in (("known", mine), ("new", theirs)):
            sizes = np.bincount(column.values, minlength=len(mine.categories))
            if not sizes.all():
                group = mine.categories[int(sizes.argmin())]
                raise ValueError(
                    f"group {group!r} of sensitive feature {mine.name!r} has no member among the "
                    f"{part} people, so no attacker can be tested on it; leave out its members, "
                    "or merge it with another group"
                )


def most_folds(columns: Sequence[Column], folds: int) -> int:
    """Return the number of folds that these people allow, at most `folds` and at least 2.

    The largest group has a member in every fold. Of a number, a fold has three people, so that
    they can be ranked.
    """
    for column in columns:
        numeric = column.kind == "numeric"
        most = len(column.values) // 3 if numeric else np.bincount(column.values).max()
        folds = min(folds, int(most))
    return max(2, folds)


def join(
    sensitive: SensitiveFeatures, least: int, tested: NDArray[np.intp] | None = None
) -> Column | None:
    """Return several features as one joint feature, or None.

    Its groups are the combinations that occur, with numbers split at their median. Groups of
    fewer than `least` members, and the smallest beyond `MOST_GROUPS`, become one group. If fewer
    than three groups are left, the joint feature adds nothing to the single features.

    Args:
        sensitive: The features.
        least: The smallest number of members of a group.
        tested: The people among whom groups need this many members; None for all people.
    """
    if len(sensitive.columns) == 1:
        return None
    joint = sensitive.joint(2)
    counted = joint.values if tested is None else joint.values[tested]
    sizes = np.bincount(counted, minlength=len(joint.categories))
    order = np.argsort(-sizes, kind="stable").tolist()
    own = [cell for cell in order[:MOST_GROUPS] if sizes[cell] >= least]
    rest = order[len(own) :]
    # The merged group must have at least `least` members too.
    while rest and own and sizes[rest].sum() < least:
        rest.append(own.pop())
    if len(own) + bool(rest) < 3:
        return None
    place = np.full(len(sizes), len(own))
    place[own] = np.arange(len(own))
    categories = [joint.categories[cell] for cell in own] + [OTHER] * bool(rest)
    return Column(joint.name, "categorical", place[joint.values], tuple(categories))
