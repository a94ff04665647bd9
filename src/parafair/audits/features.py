"""The people and the features of an audit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures

# Groups of the joint feature; the smallest groups beyond this many become one.
MOST_GROUPS = 12

OTHER = "other"


def sample(
    sensitive: SensitiveFeatures, max_people: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """Sample at most `max_people`, with some of every group."""
    people = sensitive.sample(max_people, random)
    if len(people) > max_people:
        raise ValueError(
            f"max_people must be at least {len(people)} to include some of every group, "
            f"got {max_people}"
        )
    return people


def check_groups(sensitive: SensitiveFeatures, folds: int) -> None:
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
        if sizes.max() < folds:
            raise ValueError(
                f"folds must be at most {sizes.max()}, the size of the largest group of sensitive "
                f"feature {column.name!r}, got {folds}; pass fewer folds or more people"
            )


def join(sensitive: SensitiveFeatures, least: int) -> Column | None:
    """Return several features as one joint feature, or None.

    Its groups are the combinations that occur, with numbers split at their median. Groups of
    fewer than `least` members, and the smallest beyond `MOST_GROUPS`, become one group. If fewer
    than three groups are left, the joint feature adds nothing to the single features.
    """
    if len(sensitive.columns) == 1:
        return None
    joint = sensitive.joint(2)
    sizes = np.bincount(joint.values)
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
