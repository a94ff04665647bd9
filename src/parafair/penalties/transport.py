"""Transport repair: exact parity at the least loss of fit, by optimal transport."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.least_squares import Block
from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import real_number, whole_number
from parafair.data.column import Column
from parafair.data.randomness import SEEDS
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.barycenter import Floats, Positions, couple
from parafair.dependence.shared_places import share_places
from parafair.penalties.postprocessing import D, Decomposed, find_groups

MOST_GROUPS = 100  # the time grows with their number
# Groups that a number is cut into, at quantiles, if people share places.
PARTS = 4

# The other factors are refitted at most this many times, while the loss falls by this share.
MOST_REFITS, GAIN = 4, 1e-3


@dataclass(frozen=True)
class Transport:
    """Move people to places that all groups have in common, such that the fit loses least.

    With the other factors fixed, a row ``a`` of a person with the least-squares row ``b`` adds
    ``(a - b) G (a - b).T`` to the squared error. With ``G = L L.T`` this is the squared distance
    between ``a L`` and ``b L``. So the best rows with the same distribution in all groups are the
    Wasserstein-2 barycenter of the groups (`parafair.dependence.barycenter`): people of all groups
    are matched, and a match gets the least-squares row of its people together. Then the other
    factors are refitted to these rows and people are matched again, while that helps.

    Groups are the observed combinations of categories. With two groups of equal size, they consist
    of the same rows. If people have several matches, as with groups of other sizes, one is drawn;
    then the groups have the same distribution before the draw, and the rows are a sample of it.

    The matches are optimal for two groups, and for few people in more groups; see
    `parafair.dependence.barycenter`. More than 2000 people are matched in chunks, each for itself.
    With missing entries every person has another ``G``. People are then matched by the mean of all
    ``G``: parity is exact, but other matches may cost less.

    One row alone says nothing about its person's group. But people of other groups are in the same
    place: whoever knows the groups of all others can tell from the neighbors.

    Attributes:
        seed: Seed of the draw, and of the chunks. None is the ``random_state`` of the model, and 0
            without a model.
        leakage: A bound on what an attacker learns who holds all rows and sees one of them, as an
            advantage over chance. Nothing is drawn then: people of all groups share places
            (`parafair.dependence.shared_places`), and those who would move furthest keep their own.
            With noise, `certify` certifies it. Numbers are cut into four parts at their quantiles;
            the bound is about the parts, and places may reveal several times as much of the number
            itself. With several columns it is about their combinations, and one column may be
            revealed more. `certify` says how much, and ``guarantee="release"`` bounds each. None
            does not bound it: if groups differ in size, the holder of all rows recognizes many
            people.
    """

    seed: int | None = None
    leakage: float | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            whole_number("seed", self.seed, least=0, most=SEEDS - 1)
        if self.leakage is not None:
            real_number("leakage", self.leakage, least=0, most=1)

    def with_seed(self, seed: int) -> Transport:
        """Return it with the seed of a fit, unless it has a seed of its own."""
        return replace(self, seed=seed) if self.seed is None else self

    def check(self, sensitive: SensitiveFeatures) -> None:
        """Raise if there are too many groups, or if a feature is numeric without `leakage`."""
        self._find_groups(sensitive)

    def apply(self, plain: D) -> D:
        """Repair the rows, and refit the other factors while the loss falls."""
        groups = self._find_groups(plain.sensitive).values
        best = self._repair(plain, groups)
        for _ in range(MOST_REFITS):
            repaired = self._repair(best.refit(), groups)
            gained = best.loss - repaired.loss
            if gained > 0:
                best = repaired
            if not gained > GAIN * best.loss:
                break
        return best

    def _find_groups(self, sensitive: SensitiveFeatures) -> Column:
        if self.leakage is None:
            groups = find_groups(sensitive, "transport", instead="invariant")
        else:
            groups = sensitive.joint(PARTS)
        check_number(groups, "transport")
        return groups

    def _repair(self, plain: D, groups: Positions) -> D:
        """Return the decomposition with the best rows for its other factors."""
        block, seed, points = plain.block, self.seed or 0, _points(plain)
        if self.leakage is not None:
            shared = share_places(points, groups, leakage=self.leakage, seed=seed)
            return plain.with_rows(_at_places(block, torch.from_numpy(shared)))
        coupling = couple(points, groups, seed=seed)
        people = torch.from_numpy(coupling.people).to(block.target.device)
        pooled = block.pool(people, torch.from_numpy(coupling.shares).to(block.target))
        places = pooled.minimizer(QuadraticForm.zero(pooled.target))[0]
        drawn = torch.from_numpy(coupling.draw(seed)).to(places.device)
        return plain.with_rows(places[drawn])


def check_number(groups: Column, method: str) -> None:
    """Raise if there are too many groups.

    Args:
        groups: All features as one.
        method: The name of the method, for the message.
    """
    if len(groups.categories) > MOST_GROUPS:
        sizes = np.bincount(groups.values)
        raise ValueError(
            f"method={method!r} takes at most {MOST_GROUPS} groups, but {groups.name!r} has "
            f"{len(sizes)}, such as {groups.categories[sizes.argmin()]!r} with {sizes.min()} "
            f"of {sizes.sum()} people; merge small groups, or pass fewer columns"
        )


def _at_places(block: Block, places: Tensor) -> Tensor:
    """Return the best row of each place, for each of its people, shape (people, rank)."""
    places = places.to(block.target.device)
    sizes = torch.bincount(places)
    order = torch.argsort(places, stable=True)
    found = torch.empty_like(block.target[0])
    # Places with equally many people are one batch.
    for size in torch.unique(sizes).tolist():
        people = order[sizes[places[order]] == size].reshape(-1, size)
        pooled = block.pool(people, block.target.new_full((size,), 1 / size))
        rows = pooled.minimizer(QuadraticForm.zero(pooled.target))[0]
        found[people.flatten()] = rows.repeat_interleave(size, 0)
    return found


def _points(plain: Decomposed) -> Floats:
    """Return least-squares rows in coordinates in which distances are losses."""
    points = best_rows(plain.block).double() @ loss_root(plain.block)
    return np.asarray(points.cpu())


def best_rows(block: Block) -> Tensor:
    """Return least-squares rows, shape (people, rank)."""
    found: Tensor = block.minimizer(QuadraticForm.zero(block.target))[0]
    return found


def loss_root(block: Block, *, least: float = 0.0) -> Tensor:
    """Return a matrix with which rows are multiplied so that distances are losses.

    Args:
        block: The loss.
        least: Losses of directions below this share of the largest count as that much.
    """
    values, vectors = torch.linalg.eigh(block.mean_gram[0].double())
    found: Tensor = vectors * values.clamp_min(least * float(values.max())).sqrt()
    return found
