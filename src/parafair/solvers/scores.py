"""Penalties on predicted scores, bound to the data of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.group_scores import GroupScores
from parafair.algebra.shares import SharedObservations
from parafair.arguments import instance_of
from parafair.data.centering import Offsets
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties.base import ScorePenalty
from parafair.penalties.bound_scores import BoundScores

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem

# Sums over the entries are made for one group after the other.
MOST_GROUPS = 100


def check_scores(problem: Problem) -> None:
    """Raise if a problem has no offsets that can be used, or no groups whose scores compare."""
    if problem.offsets is not None:
        instance_of("offsets", problem.offsets, Offsets, "use Offsets.of, or None")
    if isinstance(problem.penalty, ScorePenalty) and problem.sensitive_of_all is not None:
        _check_groups(problem.penalty, problem.sensitive_of_all)


def _check_groups(penalty: ScorePenalty, sensitive: SensitiveFeatures) -> None:
    """Raise unless the features are groups, and not too many of them."""
    name = type(penalty).__name__
    for column in sensitive.columns:
        if column.kind == "numeric":
            raise ValueError(
                f"the penalty {name} compares groups, but sensitive feature {column.name!r} is "
                "numeric; make it categorical, or use method='invariant'"
            )
    groups = sensitive.with_features().joint(1)
    if len(groups.categories) > MOST_GROUPS:
        raise ValueError(
            f"the penalty {name} takes at most {MOST_GROUPS} groups, but {groups.name!r} has "
            f"{len(groups.categories)}; merge small groups, or pass fewer columns"
        )


def bind_scores(problem: Problem, penalty: ScorePenalty) -> BoundScores:
    """Return a penalty on the scores of the penalized people of a problem."""
    codes, device = problem.penalized_features.joint(1).values, problem.prototype.device
    rows, share = problem.penalized, problem.share
    here = codes if share is None else codes[share.among.numpy()]
    people = []
    for group in np.unique(codes):
        own = torch.from_numpy(np.flatnonzero(here == group)).to(device)
        people.append(own if rows is None else rows[own])
    entries = problem.observations
    if isinstance(entries, SharedObservations):
        entries = entries.own
    columns = offset_columns(problem)
    scores = GroupScores.of(entries, problem.mode, people, columns, problem.team)
    return penalty.bind_scores(scores)


def offset_columns(problem: Problem) -> list[Tensor]:
    """Return the offsets of a problem as components, one (size, k) matrix for each mode.

    The offset of an entry is a sum over the modes. Each term is a component whose columns are one
    in all other modes.
    """
    offsets = problem.offsets
    terms = [] if offsets is None else list(offsets.by_mode.items())
    columns = [problem.prototype.new_ones(size, len(terms)) for size in problem.data.shape]
    for place, (mode, vector) in enumerate(terms):
        assert offsets is not None
        columns[mode][:, place] = vector.to(columns[mode])
        if not place:
            columns[mode][:, place] += offsets.mean
    return columns
