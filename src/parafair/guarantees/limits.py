"""The cost of parity: a lower bound on the residual of every model.

If people of two groups have the same embedding, a model predicts the same row for both; the best
is the weighted mean of their rows. So the least cost of parity is an optimal transport between the
groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod, sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor

from parafair.arguments import real_number, to_numpy, whole_number
from parafair.data.checks import as_data, check_scale
from parafair.data.column import Column
from parafair.data.randomness import RandomState, as_random
from parafair.data.raw_features import check_index
from parafair.data.sensitive import MOST_PARTS, SensitiveFeatures
from parafair.dependence import transport
from parafair.dependence.transport import TINY, Lines, highest
from parafair.display import view
from parafair.guarantees.view import limit_parts

TAUS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)

MOST_NAMES = 4  # groups named in the notes
MOST_GROUPS = 100  # the time grows with the number of pairs
EXACT_GAP = 1e-6  # bounds with a smaller relative gap are equal


@dataclass(frozen=True)
class ParityLimit:
    """The least residual ``||X - model|| / ||X||`` at a given level of parity.

    It holds for every model whose rows along the sensitive mode are a function of an embedding,
    for any rank and form. It is a statement about these people: "exact parity" means that all
    groups have the same distribution of embeddings in this sample. Attackers are tested on
    held-out people and may miss a difference, so a model that passes an audit can be below the
    limit.

    Attributes:
        residual: Lower bound on the residual at exact parity.
        upper: A residual at which exact parity is possible, if embeddings may be random; with more
            than `max_people`, an average over samples, which is too high on average.
        chance: `residual` for groups of the same sizes drawn at random from these people. If it
            is not much smaller, the limit reflects the number of people more than the groups.
        taus: Total variation distances between the embeddings of two groups, the largest over
            all pairs.
        residuals: Lower bounds on the residual at parity up to each of `taus`; attained with two
            groups if `exact`.
        groups: Name and size of every group.
        exact: Whether `residual` is attained at exact parity, not only a lower bound.
        notes: Sentences on how it was computed.
        lines: Intercept and slope of lines below the squared limit as a function of tau.
    """

    residual: float
    upper: float
    chance: float
    taus: tuple[float, ...]
    residuals: tuple[float, ...]
    groups: tuple[tuple[str, int], ...]
    exact: bool
    notes: tuple[str, ...]
    lines: tuple[tuple[float, float], ...]

    @property
    def leakages(self) -> tuple[float, ...]:
        """The attacker's advantage that corresponds to each of `taus`, as in `at`."""
        return tuple(tau / len(self.groups) for tau in self.taus)

    def at(self, leakage: float) -> float:
        """Return the limit if no attacker's advantage can exceed `leakage`.

        With G groups, the best attacker's advantage ``L`` in balanced accuracy obeys
        ``tau / G <= L <= (G - 1) / G * tau``, so tau is at most ``G * L``, with equality for two
        groups. Between `taus` the limit is the highest of their tangents. The exact curve is
        convex, so the tangents are below it.

        Args:
            leakage: Balanced accuracy over all groups of the best possible attacker, minus
                ``1 / G``; negative values count as 0. If there are several columns, the leakage
                of one column is another quantity: pass that column alone to `parity_limit`.
        """
        advantage = real_number("leakage", leakage)
        return _residual(self.lines, min(1.0, max(0.0, advantage) * len(self.groups)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON."""
        return {
            "residual": self.residual,
            "upper": self.upper,
            "chance": self.chance,
            "exact": self.exact,
            "taus": list(self.taus),
            "leakages": list(self.leakages),
            "residuals": list(self.residuals),
            "groups": [{"name": name, "size": size} for name, size in self.groups],
            "notes": list(self.notes),
            "lines": [list(line) for line in self.lines],
        }

    def __repr__(self) -> str:
        sign = "" if self.exact else "at least "
        text = f"ParityLimit(residual {sign}{self.residual:.3f} at exact parity, "
        return text + f"{len(self.groups)} groups)"

    def _repr_html_(self) -> str:
        return view("ParityLimit", *limit_parts(self))

    def __str__(self) -> str:
        sign = "" if self.exact else "at least "
        lines = [
            f"exact parity needs a residual of {sign}{self.residual:.3f}",
            "attacker's advantage at most  residual at least",
        ]
        for leakage, residual in zip(self.leakages, self.residuals, strict=True):
            lines.append(f"{leakage:28.3f}  {residual:17.3f}")
        return "\n".join([*lines, *self.notes])


def parity_limit(
    X: Any,
    *,
    sensitive_features: Any,
    mode: int | str = 0,
    taus: Sequence[float] = TAUS,
    bins: int = 4,
    max_people: int = 2000,
    random_state: RandomState = 0,
) -> ParityLimit:
    """Return the least residual of any model, at exact parity and at given levels of leakage.

    With rows ``x`` of the data along `mode` and groups of shares ``p_g``, exact parity costs

        min over couplings of all groups of  E sum_{g<h} p_g p_h |x_g - x_h|**2    per person,

    the Wasserstein-2 barycenter. For two groups this is ``p_0 p_1 W2**2``. For more groups it is
    a linear program, which is solved if it is small. Otherwise every pair is coupled separately,
    which gives a lower bound, because a coupling of all groups couples each pair.

    If the total variation between the embeddings of two groups is ``tau``, they have mass
    ``1 - tau`` in common, so only this mass is transported. With G groups, tau is the largest over
    all pairs: any two groups have ``1 - tau`` in common, and all groups at least
    ``1 - (G - 1) tau``. Each of these gives a bound on the loss of its groups. A linear program
    divides the loss of every group among the bounds such that their sum is largest.

    Above `max_people`, potentials of samples are averaged and made feasible for all people, so
    the result is still a lower bound. Time grows with the square of the number of people, memory
    does not.

    Args:
        X: The data, of order 2 or more.
        sensitive_features: One row per index of `mode`. Groups are the combinations of values
            that occur; a numeric column is binned at its quantiles. People without features may
            have any embedding.
        mode: The sensitive mode, by number, or by name for a `TensorData`.
        taus: Total variation distances from 0 to 1.
        bins: Number of groups made from a numeric column.
        max_people: With more people, the transport is computed from samples.
        random_state: Seed of the samples and of the random groups.

    For rows (0, 1) of one woman and (3, 1) of one man, parity gives both (1.5, 1), and
    ``parity_limit([[0, 1], [3, 1]], sensitive_features=["f", "m"]).residual`` is
    ``sqrt(4.5 / 11)``.
    """
    levels = _check_settings(taus, bins, max_people)
    rows, sensitive, norm_squared = _check_data(X, sensitive_features, mode)
    random = as_random(random_state)
    groups = _groups(sensitive, bins)
    # In these units, the loss per person is the squared relative residual.
    rows = rows * sqrt(len(sensitive) / norm_squared)
    rows -= rows.mean(0)
    people, length = rows.shape
    rows, lost = transport.project(rows, groups, random) if people > max_people else (rows, 0.0)
    costs = _Costs.solve(rows, groups, (0.0, *levels), max_people, random)
    shuffled = groups.take(random.permutation(people))
    by_chance = _Costs.solve(rows, shuffled, (0.0,), max_people, random)
    lines = [costs.line(tau) for tau in (0.0, *levels)]
    residual, upper = _residual(lines, 0.0), sqrt(costs.upper + lost)
    attained = upper**2 - residual**2 <= EXACT_GAP * upper**2 + 1e-12
    limit = ParityLimit(
        residual=residual,
        upper=max(residual, upper),
        chance=_residual([by_chance.line(0.0)], 0.0),
        taus=levels,
        residuals=tuple(_residual(lines, tau) for tau in levels),
        groups=tuple(zip(groups.categories, np.bincount(groups.values).tolist(), strict=True)),
        exact=bool(attained and people <= max_people),
        notes=(),
        lines=tuple((float(height), float(slope)) for height, slope in lines),
    )
    notes = _notes(limit, sensitive, sampled=people > max_people)
    if rows.shape[1] < length:
        notes.append(
            f"rows of {length} numbers were projected to {rows.shape[1]}, which gives a lower bound"
        )
    return replace(limit, notes=tuple(notes))


def _check_settings(taus: Any, bins: int, max_people: int) -> tuple[float, ...]:
    """Return the levels of parity; raise if a setting is invalid."""
    whole_number("bins", bins, least=2, most=MOST_PARTS)
    whole_number("max_people", max_people, least=2)
    given = np.ravel(to_numpy(taus, "taus")).tolist()
    return tuple(real_number("each of taus", tau, least=0, most=1) for tau in given)


def _check_data(X: Any, features: Any, mode: int | str) -> tuple[Tensor, SensitiveFeatures, float]:
    """Return the rows and features of people with features, and ``||X||**2`` of all people."""
    check_index(features, X)
    found = as_data(X, dtype=torch.float64, device="cpu")
    number, there = found.find_mode(mode), found.observed
    if there < prod(found.shape):
        raise ValueError(
            f"X has {prod(found.shape) - there} missing entries of {prod(found.shape)}, but "
            "the limit compares whole rows; complete it first, for example with FairCP.predict"
        )
    check_scale(found)
    data = found.to_dense().values
    sensitive = SensitiveFeatures.of(features)
    if len(sensitive) != data.shape[number]:
        raise ValueError(
            f"sensitive_features has {len(sensitive)} rows but mode {mode} of X has "
            f"{data.shape[number]}; pass one row per index, in the same order"
        )
    norm_squared, rows = float(data.square().sum()), data.movedim(number, 0).flatten(1)
    if sensitive.has_features is not None:  # the other people can be fitted exactly
        rows = rows[torch.from_numpy(sensitive.has_features)]
    return rows, sensitive.with_features(), norm_squared


def _groups(sensitive: SensitiveFeatures, bins: int) -> Column:
    """Return the combinations of values that occur; raise if there are too many."""
    groups = sensitive.joint(bins)
    if len(groups.categories) > MOST_GROUPS:
        raise ValueError(
            f"sensitive_features make {len(groups.categories)} groups, the limit needs at most "
            f"{MOST_GROUPS}; merge small groups, lower bins or pass fewer columns"
        )
    return groups


def _notes(limit: ParityLimit, sensitive: SensitiveFeatures, *, sampled: bool) -> list[str]:
    """Return sentences on the groups and on how the limit was computed."""
    name, sizes = sensitive.joint_name, [size for _, size in limit.groups]
    shown = ", ".join(f"{group} ({size})" for group, size in limit.groups[:MOST_NAMES])
    more = ", ..." if len(sizes) > MOST_NAMES else ""
    notes = [f"for these {sum(sizes)} people in {len(sizes)} groups of {name}: {shown}{more}"]
    if sampled:
        notes.append(
            f"a lower bound from {transport.SAMPLES} samples, valid for all of these people; the "
            f"limit of the samples themselves is {limit.upper:.3f}, too high on average"
        )
    elif not limit.exact:
        notes.append(
            "each pair of groups was coupled separately, which gives a lower bound; exact parity "
            f"is possible at {limit.upper:.3f}"
        )
    numeric = [repr(column.name) for column in sensitive.columns if column.kind == "numeric"]
    if numeric:
        notes.append(
            f"{' and '.join(numeric)} binned at quantiles: an embedding independent of the numbers "
            "is independent of the bins, so the limit holds for both"
        )
    few = "; this is most of the limit: too few people for this dimension"
    part = few if limit.chance > limit.residual / 2 else ""
    notes.append(f"random groups of the same sizes have the limit {limit.chance:.3f}{part}")
    return notes


def _residual(lines: Sequence[Any], tau: float) -> float:
    """Return the residual whose square is at least as high as every line."""
    return sqrt(max(0.0, *(float(height - slope * tau) for height, slope in lines)))


@dataclass(frozen=True, eq=False)
class _Costs:
    """Bounds on the loss per person.

    Attributes:
        shares: Shares ``p_g`` of the groups.
        pairs: For each pair of groups, lines below the cost of partial transport.
        coupled: Lines below the cost of coupling all groups, if that was solved.
        upper: A loss at which exact parity is possible.
    """

    shares: NDArray[np.float64]
    pairs: dict[tuple[int, int], Lines]
    coupled: Lines
    upper: float

    @classmethod
    def solve(
        cls,
        rows: Tensor,
        groups: Column,
        taus: Sequence[float],
        max_people: int,
        random: np.random.RandomState,
    ) -> _Costs:
        """Bound the cost of parity up to each of `taus`; the smallest must be 0."""
        parts = transport.split(rows, groups)
        sizes = [len(part) for part in parts]
        shares = np.array(sizes) / len(rows)
        common = {mass for tau in taus for mass in (1 - tau, 1 - (len(sizes) - 1) * tau)}
        masses = sorted(mass for mass in common if mass > 0)
        samples = transport.draw_samples(rows, groups, max_people, random)
        pairs: dict[tuple[int, int], Lines] = {}
        plans: list[dict[tuple[int, int], Tensor]] = [{} for _ in samples]
        for g, h in combinations(range(len(sizes)), 2):
            drawn = [(sample[g], sample[h]) for sample in samples]
            pairs[g, h], found = transport.between(parts[g], parts[h], masses, drawn)
            for known, plan in zip(plans, found, strict=True):
                known[g, h] = plan
        uppers = [
            transport.join_plans(sample, shares, known)
            for sample, known in zip(samples, plans, strict=True)
        ]
        coupled, upper = np.zeros((1, 2)), float(np.mean(uppers))
        if len(sizes) > 2 and prod(sizes) <= transport.LARGEST_COUPLING:
            coupled, upper = transport.couple(parts, shares, masses)
        return cls(shares, pairs, coupled, upper)

    def line(self, tau: float) -> NDArray[np.float64]:
        """Return intercept and slope of the line below the loss that is highest at `tau`."""
        # Mass 1 - times * tau is in common, so a + b * mass = (a + b) - times * b * tau.
        times = len(self.shares) - 1
        together = [highest(self.coupled, 1 - times * tau), np.zeros(2)]
        parts: list[tuple[float, float]] = []
        members: list[Sequence[int]] = []
        for (g, h), lines in self.pairs.items():
            p, q = self.shares[[g, h]]
            together[1] += p * q * highest(lines, 1 - times * tau)
            a, b = p * q / (p + q) * highest(lines, 1 - tau)
            parts.append((a + b, b))
            members.append((g, h))
        a, b = max(together, key=lambda line: line[0] + line[1] * (1 - times * tau))
        parts.append((a + b, times * b))
        members.append(range(len(self.shares)))
        # Share t of the loss of its groups that each bound uses; at most 1 in total per group.
        spent = np.zeros((len(self.shares), len(parts)))
        for part, in_part in enumerate(members):
            spent[list(in_part), part] = 1
        table = np.array(parts)
        values = table @ (1, -tau)
        found = linprog(-values / max(values.max(), TINY), A_ub=spent, b_ub=np.ones(len(spent)))
        t = np.maximum(found.x, 0)
        return np.asarray(t @ table / max(1.0, (spent @ t).max()))
