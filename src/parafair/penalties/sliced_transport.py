"""Transport that new people follow: groups moved to one distribution by a map that is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from parafair.arguments import whole_number
from parafair.data.column import Column
from parafair.data.randomness import SEEDS
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.quantile_map import KNOTS, QuantileMap
from parafair.penalties.postprocessing import D, find_groups
from parafair.penalties.transport import best_rows, check_number, loss_root

MOST_ROTATIONS, MOST_KNOTS = 10_000, 10_000
# Losses of directions below this share of the largest count as that much.
LEAST_LOSS_SHARE = 1e-9


@dataclass(frozen=True)
class SlicedTransport:
    """Move the people of every group to one distribution, and new people by the same map.

    Along many random directions, one after the other, everybody moves from a quantile of the own
    group to the mean quantile of all groups (`parafair.dependence.quantile_map`). The quantile
    functions are part of the model: `transform` with sensitive features moves new people as the
    training people were moved, so attackers who know one learn little about the other. "transport"
    moves people less, because it matches them optimally, but knows no map for new people.

    The map needs some thousand people: with fewer, quantiles are accidents of the training people,
    and groups become more alike than chance makes them, so attackers are wrong too often and know
    the group by turning their answers around.
    Groups are the observed combinations of categories; new people with another combination move
    like the group that has most categories in common with them. What is finer than the noise stays
    in the rows if the model has no noise: the default is 0.2 of the spread.

    Attributes:
        rotations: Number of rotations. Each moves people along as many directions as there are
            components. None is one for each 40 people, and 300 at most: more of them hide more of
            many people, and move few people further by accidents.
        knots: Quantiles of each group along a direction, at most.
        seed: Seed of the rotations. None is the ``random_state`` of the model, and 0 without a
            model.
    """

    rotations: int | None = None
    knots: int = KNOTS
    seed: int | None = None

    default_noise: ClassVar[float] = 0.2

    def __post_init__(self) -> None:
        if self.rotations is not None:
            whole_number("rotations", self.rotations, most=MOST_ROTATIONS)
        whole_number("knots", self.knots, least=2, most=MOST_KNOTS)
        if self.seed is not None:
            whole_number("seed", self.seed, least=0, most=SEEDS - 1)

    def with_seed(self, seed: int) -> SlicedTransport:
        """Return it with the seed of a fit, unless it has a seed of its own."""
        return replace(self, seed=seed) if self.seed is None else self

    def check(self, sensitive: SensitiveFeatures) -> None:
        """Raise if there are too many groups, or if a feature is numeric."""
        self._find_groups(sensitive)

    def apply(self, plain: D) -> D:
        """Return the decomposition with moved rows."""
        return self.learn(plain)[0]

    def learn(self, plain: D) -> tuple[D, QuantileMap]:
        """Return the decomposition with moved rows, and the map.

        The map is about the least-squares rows, which new people have before they move.
        """
        rows = best_rows(plain.block)
        groups = torch.from_numpy(self._find_groups(plain.sensitive).values).to(rows.device)
        found = QuantileMap.of(
            rows,
            groups,
            loss_root(plain.block, least=LEAST_LOSS_SHARE),
            rotations=self.rotations,
            knots=self.knots,
            seed=self.seed or 0,
        )
        return plain.with_rows(found.move(rows, groups)), found

    def _find_groups(self, sensitive: SensitiveFeatures) -> Column:
        groups = find_groups(sensitive, "sliced-transport", instead="invariant")
        check_number(groups, "sliced-transport")
        return groups
