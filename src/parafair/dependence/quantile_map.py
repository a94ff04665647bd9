"""Maps that move the people of every group to one distribution, for people not seen before too.

Along one direction, the Wasserstein-2 barycenter of the groups is the weighted mean of their
quantile functions: a person moves from a quantile of the own group to the same quantile of the
mean. Many random rotations, one after the other, bring the groups together in all directions, as in
`parafair.dependence.sliced`. There every person moves by its rank; here the quantile functions are
kept, so that anybody whose group is known moves the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from parafair.algebra.devices import identity
from parafair.dependence.sliced import rotation

# Quantiles are computed from at most so many people of a group.
MOST_PEOPLE = 50_000
# By default: rotations at most, people for each of them, and quantiles of a group at most.
USUAL_ROTATIONS, PEOPLE_PER_ROTATION, KNOTS = 300, 40, 200
# In front of the names of its arrays in a file.
PREFIX = "moves_"
# Rotations and shares of a file are exact up to this.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class QuantileMap:
    """One quantile function for each rotation, group and direction.

    Attributes:
        mean: Shape (rank,); ``(rows - mean) @ basis`` are the points that move.
        basis: Shape (rank, rank), invertible; people move least in its metric.
        turns: Rotations of the points, shape (rotations, rank, rank).
        quantiles: Shape (rotations, groups, rank, knots), at evenly spaced levels.
        shares: Shares of the groups among the people, shape (groups,).
    """

    mean: Tensor
    basis: Tensor
    turns: Tensor
    quantiles: Tensor
    shares: Tensor

    @classmethod
    def of(
        cls,
        rows: Tensor,
        groups: Tensor,
        basis: Tensor,
        *,
        rotations: int | None = None,
        knots: int = KNOTS,
        seed: int = 0,
    ) -> QuantileMap:
        """Learn the map from people.

        Args:
            rows: Their rows, shape (people, rank).
            groups: The group of each person, 0, 1, ...; shape (people,).
            basis: See above.
            rotations: Number of rotations. None is one for each 40 people, and 300 at most: with
                few people, each moves everybody further by accidents of these people.
            knots: Number of quantiles; less if every group has fewer people.
            seed: Seed of the rotations, and of the choice of people if there are many.
        """
        if rotations is None:
            rotations = min(USUAL_ROTATIONS, max(1, len(rows) // PEOPLE_PER_ROTATION))
        generator = torch.Generator("cpu").manual_seed(seed)
        counts = torch.bincount(groups)
        knots = max(2, min(knots, int(counts.max())))
        mean, basis = rows.double().mean(0), basis.double().contiguous()
        parts = []
        for group in range(len(counts)):
            people = (groups == group).nonzero().flatten()
            if len(people) > MOST_PEOPLE:
                drawn = torch.randperm(len(people), generator=generator, device="cpu")
                people = people[drawn[:MOST_PEOPLE].to(people.device)]
            parts.append((rows[people].double() - mean) @ basis)
        shares = counts.double() / len(groups)
        turns, quantiles = [], []
        for _ in range(rotations):
            turn = rotation(len(mean), generator).to(mean.device)
            parts = [part @ turn for part in parts]
            found = torch.stack([_quantiles(part, knots) for part in parts])
            parts = [part @ turn.mT for part in _moved(parts, found, shares)]
            turns.append(turn)
            quantiles.append(found)
        return cls(mean, basis, torch.stack(turns), torch.stack(quantiles), shares)

    def move(self, rows: Tensor, groups: Tensor) -> Tensor:
        """Return moved rows, in the precision of the given ones.

        Args:
            rows: Shape (people, rank).
            groups: The group of each person, shape (people,).
        """
        own = [each.to(rows.device) for each in (self.mean, self.basis, self.turns, self.quantiles)]
        mean, basis, turns, quantiles = own
        shares = self.shares.to(rows.device)
        people = [(groups == group).nonzero().flatten() for group in range(len(shares))]
        parts = [(rows[each].double() - mean) @ basis for each in people]
        for turn, found in zip(turns, quantiles, strict=True):
            parts = [part @ turn.mT for part in _moved([p @ turn for p in parts], found, shares)]
        moved = rows.clone()
        inverse = torch.linalg.inv(basis)
        for each, part in zip(people, parts, strict=True):
            moved[each] = (part @ inverse + mean).to(rows)
        return moved

    @property
    def arrays(self) -> dict[str, Tensor]:
        """Everything it consists of, under the names of a file."""
        return {PREFIX + name: array for name, array in vars(self).items()}

    @classmethod
    def pop(cls, arrays: dict[str, Tensor], *, rank: int) -> QuantileMap | None:
        """Remove its arrays from those of a file; return the map, or None if there is none.

        Args:
            arrays: The arrays of the file.
            rank: The rank of the model; an error if the arrays do not belong to it.
        """
        names = [name for name in arrays if name.startswith(PREFIX)]
        if not names:
            return None
        given = {name.removeprefix(PREFIX): arrays.pop(name) for name in names}
        if set(given) != {field.name for field in fields(cls)}:
            raise ValueError(f"its map has the arrays {', '.join(sorted(names))}")
        found = cls(**given)
        found._check(rank)
        return found

    def _check(self, rank: int) -> None:
        """Raise unless its arrays belong together and to a model of this rank."""
        if not rank:
            raise ValueError("its factors have no components")
        found = {name: tuple(array.shape) for name, array in vars(self).items()}
        rotations, groups = (max(1, *found[name][:1], 1) for name in ("turns", "shares"))
        expected = {
            "mean": (rank,),
            "basis": (rank, rank),
            "turns": (rotations, rank, rank),
            "quantiles": (rotations, groups, rank, max(2, *found["quantiles"][-1:], 2)),
            "shares": (groups,),
        }
        for name, shape in expected.items():
            if found[name] != shape:
                raise ValueError(f"its {PREFIX}{name} has the shape {found[name]}, not {shape}")
            if getattr(self, name).dtype != torch.float64:
                raise ValueError(f"its {PREFIX}{name} is not in double precision")
        if int(torch.linalg.matrix_rank(self.basis)) < rank:
            raise ValueError(f"its {PREFIX}basis has no inverse")
        if not (self.shares > 0).all() or abs(float(self.shares.sum()) - 1) > ROUNDING:
            raise ValueError(f"its {PREFIX}shares are not those of groups")
        unit = identity(rank, self.turns)
        if float((self.turns.mT @ self.turns - unit).abs().max()) > ROUNDING:
            raise ValueError(f"its {PREFIX}turns are no rotations")
        if float(self.quantiles.diff().min()) < -ROUNDING * float(self.quantiles.abs().max()):
            raise ValueError(f"its {PREFIX}quantiles decrease")


def _quantiles(turned: Tensor, knots: int) -> Tensor:
    """Return quantiles of each column at evenly spaced levels, shape (columns, knots)."""
    ordered = turned.mT.contiguous().sort(1).values
    levels = torch.arange(knots, dtype=torch.float64, device=turned.device) + 0.5
    places = (levels / knots * len(turned) - 0.5).clamp(0, len(turned) - 1)
    below = places.floor().long()
    above = (below + 1).clamp(max=len(turned) - 1)
    found: Tensor = torch.lerp(ordered[:, below], ordered[:, above], places - below)
    return found


def _moved(turned: Sequence[Tensor], quantiles: Tensor, shares: Tensor) -> list[Tensor]:
    """Return the people of every group at the mean quantile of their level.

    Between two knots people move in proportion, and beyond the last one like the last one.
    """
    target = (shares[:, None, None] * quantiles).sum(0)
    found = []
    for part, own in zip(turned, quantiles, strict=True):
        columns, own = part.mT.contiguous(), own.contiguous()
        found.append((columns + _shifts(columns, own, _of_runs(own, target - own))).mT)
    return found


def _of_runs(own: Tensor, by: Tensor) -> Tensor:
    """Return the moves of knots, with one move for knots that are equal: to the middle level.

    A group with fewer people than knots has such knots, as have people with equal rows. Rounding
    decides on which side of them a person is, so all sides must move alike.

    Args:
        own: Quantiles of a group, shape (columns, knots).
        by: How far they move, of the same shape.
    """
    near = ROUNDING * own.abs().amax(1, keepdim=True)
    first = torch.searchsorted(own, own - near)
    last = torch.searchsorted(own, own + near, right=True) - 1
    return (by.gather(1, first) + by.gather(1, last)) / 2


def _shifts(columns: Tensor, own: Tensor, by: Tensor) -> Tensor:
    """Return how far people move: between knots in proportion, beyond the last one like this one.

    But outwards nobody moves further than the last knot does: the knots of a rare group end far
    inside, and over many rotations people beyond them would move away without limit.

    Args:
        columns: People, shape (columns, people).
        own: Quantiles of their group, shape (columns, knots).
        by: How far these move, shape (columns, knots).
    """
    above = torch.searchsorted(own, columns).clamp(1, own.shape[-1] - 1)
    low, high = own.gather(1, above - 1), own.gather(1, above)
    tiny = torch.finfo(columns.dtype).tiny
    share = ((columns - low) / (high - low).clamp_min(tiny)).clamp(0, 1)
    found = torch.lerp(by.gather(1, above - 1), by.gather(1, above), share)
    beyond = columns - columns.clamp(own[:, :1], own[:, -1:])
    outwards = found.sign() * (found.abs() - beyond.abs()).clamp_min(0)
    return torch.where(found * beyond > 0, outwards, found)
