"""Batches of people while an encoder is learned, and whom the penalty compares in each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.chunks import FEWEST_OF_A_GROUP, chunk_count, stratify
from parafair.penalties import BoundPenalty, Penalty
from parafair.penalties.bound import is_in_chunks, restrict_rows
from parafair.solvers.binding import reference_of
from parafair.solvers.problem import Problem

# Levels of the number of entries, at most; all have about as many people.
LEVELS = 4


@dataclass(frozen=True, eq=False)
class Batch:
    """Some of the people.

    Rows of people with few entries differ less than those of others, and their groups differ in
    other ways. A penalty that compares everybody hardly sees that, but whoever knows how many
    entries a person has does. So people with about as many entries are compared on their own too.

    Attributes:
        problem: Their part of the problem.
        inputs: Their inputs, shape (people, width).
        bounds: The penalty of everybody, then that of each level of the number of entries, each
            with its share.
    """

    problem: Problem
    inputs: Tensor
    bounds: tuple[tuple[float, BoundPenalty], ...]

    @classmethod
    def of(cls, problem: Problem, inputs: Tensor, levels: int) -> Batch:
        """Return a batch.

        Args:
            problem: The problem of its people.
            inputs: Their inputs.
            levels: Levels of the number of entries, at most.
        """
        penalty, everybody = problem.penalty, problem.bound
        assert isinstance(penalty, Penalty)
        assert everybody is not None
        features, people = problem.penalized_features, len(inputs)
        counts = problem.observations.counts(problem.mode)
        seen = torch.arange(people, device="cpu")
        if problem.penalized is not None:
            counts, seen = counts[problem.penalized], problem.penalized.cpu()
        bounds = [(1.0, everybody)]
        for places in _levels(counts.cpu(), features, levels):
            bound = penalty.bind(features.take(places.numpy()), reference_of(problem))
            rows = seen[places].to(inputs.device)
            bounds.append((len(places) / len(seen), restrict_rows(bound, rows, people)))
        return cls(problem, inputs, tuple(bounds))

    def penalty_and_slope(self, rows: Tensor, deal: int) -> tuple[Tensor, Tensor]:
        """Return the penalty of rows and its gradient, shape (1,) and (people, rank).

        Args:
            rows: Shape (people, rank).
            deal: Which of the people are compared, if there are many.
        """
        value, slope = rows.new_zeros(1), torch.zeros_like(rows)
        for share, bound in self.bounds:
            own = bound.with_deal(deal) if is_in_chunks(bound) else bound
            more, steeper = own.value_and_gradient(rows[None])
            value, slope = value + share * more, slope + share * steeper[0]
        return value, slope


def make_batches(problem: Problem, inputs: Tensor, size: int) -> list[Batch]:
    """Return batches of people, each with its share of every group.

    Args:
        problem: The problem of everybody.
        inputs: Their inputs, shape (people, width).
        size: About how many people are in a batch.
    """
    everybody, features = problem.sensitive, problem.penalized_features
    assert everybody is not None
    count = chunk_count(features, size)
    people = torch.arange(len(inputs), device="cpu")
    seen = people if problem.penalized is None else problem.penalized.cpu()
    # People without features or entries are dealt out too.
    left = people[~torch.isin(people, seen)]
    found = []
    for number, chunk in enumerate(stratify(features, count)):
        places = torch.cat([seen[chunk], left[number::count]]).sort().values
        part = problem
        if count > 1:
            part = replace(
                problem,
                data=problem.data.take(problem.mode, places.numpy()),
                sensitive=everybody.take(places.numpy()),
            )
        found.append(Batch.of(part, inputs[places.to(inputs.device)], LEVELS))
    return found


def _levels(counts: Tensor, features: SensitiveFeatures, most: int) -> list[Tensor]:
    """Return the positions of the people of each level of a count, at most `most`.

    People with equal counts are in one level. There are fewer levels if groups are small, and none
    if everybody has the same count.
    """
    rarest = min(
        (
            int(np.unique(column.values, return_counts=True)[1].min())
            for column in features.columns
            if column.kind == "categorical"
        ),
        default=len(counts),
    )
    number = min(most, rarest // FEWEST_OF_A_GROUP)
    _, place, sizes = torch.unique(counts, return_inverse=True, return_counts=True)
    middle = (sizes.cumsum(0) - sizes / 2) / len(counts)
    level = (middle * number).floor()[place]
    found = [(level == own).nonzero().flatten() for own in level.unique()]
    return found if len(found) > 1 else []
