"""The groups that statements are about: categories, numbers cut into parts, and combinations."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures

PARTS = 4  # groups made of a number
MOST_GROUPS = 100
FEWEST = 2  # members of a group


def check_features(features: SensitiveFeatures) -> None:
    """Raise unless every group of every column has enough members."""
    for column in features.columns:
        if column.kind == "categorical":
            _check_column(column)


def _check_column(column: Column) -> None:
    sizes = np.bincount(column.values, minlength=len(column.categories))
    if len(sizes) > MOST_GROUPS or (sizes == 1).all():
        raise ValueError(
            f"sensitive feature {column.name!r} has {len(sizes)} groups for {len(column.values)} "
            f"people, at most {MOST_GROUPS} of at least {FEWEST} people each can be certified; it "
            "may label the people: leave it out, merge groups, or state it numeric"
        )
    if len(sizes) < 2:
        raise ValueError(
            f"sensitive feature {column.name!r} has one group, {FEWEST} or more are needed; drop "
            "the column"
        )
    if sizes.min() < FEWEST:
        name, size = column.categories[sizes.argmin()], sizes.min()
        count = "nobody" if size == 0 else "one person"
        raise ValueError(
            f"sensitive feature {column.name!r} has {count} in the group {name!r}, at least "
            f"{FEWEST} people are needed in each; merge it with another group, or leave it out"
        )


def without_empty(features: SensitiveFeatures) -> SensitiveFeatures:
    """Return features without groups that nobody is in: all their members may be left out."""
    return SensitiveFeatures(tuple(map(_without_empty, features.columns)))


def _without_empty(column: Column) -> Column:
    if column.kind == "numeric":
        return column
    found, codes = np.unique(column.values, return_inverse=True)
    return replace(column, values=codes, categories=tuple(column.categories[c] for c in found))


def as_groups(column: Column, training: SensitiveFeatures | None = None) -> Column:
    """Return a column of categories; numbers are cut at quantiles.

    Args:
        column: The column.
        training: Features of the training people, whose quantiles are used; None for the column's
            own. A number of held-out people must be cut where it was decided before.
    """
    if column.kind == "categorical":
        return column
    name = f"{column.name} in {PARTS} parts"
    if training is None:
        return replace(column.bin(PARTS), name=name)
    (known,) = (other for other in training.columns if other.name == column.name)
    edges = np.unique(np.quantile(known.values, np.arange(1, PARTS) / PARTS))
    codes = np.searchsorted(edges, column.values, side="right")
    bounds = [f"{edge:.4g}" for edge in edges]
    labels = [f"below {bounds[0]}"]
    labels += [f"{low} to {high}" for low, high in pairwise(bounds)]
    return Column(name, "categorical", codes, (*labels, f"from {bounds[-1]}"))


def joint_groups(
    features: SensitiveFeatures, training: SensitiveFeatures | None = None
) -> tuple[Column | None, str]:
    """Return all columns as one, or None and the reason.

    Args:
        features: The columns.
        training: As in `as_groups`.
    """
    if len(features.columns) < 2:
        return None, ""
    columns = tuple(as_groups(column, training) for column in features.columns)
    joint = SensitiveFeatures(columns).joint(PARTS)
    joint = replace(joint, name=" and ".join(column.name for column in columns))
    sizes = np.bincount(joint.values)
    if len(sizes) > MOST_GROUPS or sizes.min() < FEWEST:
        return None, (
            f"no joint statement about {joint.name}: of {len(sizes)} combinations, "
            f"{int((sizes < FEWEST).sum())} have one person; merge groups to get it"
        )
    return joint, ""


def codes_of(column: Column, like: Tensor) -> Tensor:
    """Return the group of each person as a whole number, on the device of a tensor."""
    return torch.from_numpy(np.asarray(column.values, dtype=np.int64)).to(like.device)
