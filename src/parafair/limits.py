"""What parity must cost: a lower bound on the residual of every model, whoever fits it.

Where two groups share a value of the embedding a model gives them the same row, at best the
weighted mean of theirs. So the least cost of parity is an optimal transport between the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, isnan, prod, sqrt
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array
from sklearn.utils import check_random_state
from torch import Tensor

from parafair.problem import as_tensor, check_mode, check_tensor
from parafair.sensitive import Column, SensitiveFeatures

# Each row is a lower bound of a cost, `row[0] + row[1] * mass`; costs are convex in the mass.
Lines: TypeAlias = NDArray[np.float64]

TAUS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)

# More than max_people are seen through this many samples of half of max_people: the average of
# their potentials is nearer to optimal, and found sooner, than that of one large sample.
SAMPLES = 8
LEAST_MEMBERS = 10  # of every group in a sample, if there are as many

LARGEST_COUPLING = 20_000  # combinations of people of all groups in one linear program
LONGEST_ROW = 512  # numbers per person, above max_people
BLOCK = 2**20  # distances held at once
MOST_NAMES = 4  # groups named in the notes
MOST_GROUPS = 100  # the time grows with the number of pairs
MOST_PIVOTS = 10**8  # of the network simplex
CLOSED = 1e-6  # relative gap between bounds that are called equal
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class ParityLimit:
    """The least residual ``||X - model|| / ||X||`` that a level of parity allows.

    It holds for every model whose rows along the sensitive mode are a function of an embedding,
    of any rank and form. It is about these people: "exact parity" means that the embeddings of
    the groups have the same distribution among them. Attackers tested on people they have not
    seen may miss a difference, so a model they pass can lie below the limit.

    Attributes:
        residual: Exact parity costs at least this much.
        upper: Exact parity can be had for this much, if embeddings may be random; an average
            over samples, too high on average, if there are more than `max_people`.
        chance: `residual` for groups of the same sizes drawn at random from these people. If it
            is not much smaller, the limit says more about the number of people than the groups.
        taus: Total variation distances between the embeddings of two groups, the largest of all
            pairs.
        residuals: Parity up to each of `taus` costs at least this much; with two groups and
            `exact`, no more is needed.
        groups: Name and size of every group.
        exact: Whether `residual` is the cost of exact parity and not only a lower bound.
        notes: How it was computed, as sentences.
        lines: Height at 0 and slope of lines below the squared limit as a function of tau.
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
        """The attacker's advantage that belongs to each of `taus`, as in `at`."""
        return tuple(tau / len(self.groups) for tau in self.taus)

    def at(self, leakage: float) -> float:
        """Return the limit if no attacker's advantage can exceed `leakage`.

        With G groups, the best attacker's advantage ``L`` in balanced accuracy obeys
        ``tau / G <= L <= (G - 1) / G * tau``, so tau is at most ``G * L``; for two groups they
        are equal. Between `taus` the limit is the highest of their tangents, which is not above
        the exact curve, as that is convex.

        Args:
            leakage: Balanced accuracy, over all groups, of the best possible attacker minus
                ``1 / G``; below 0 counts as 0. Attackers of one column among several have
                another: pass that column alone to `parity_limit`.
        """
        if isnan(leakage):
            raise ValueError("leakage must be a number, got nan; pass an attacker's advantage")
        return _residual(self.lines, min(1.0, max(0.0, leakage) * len(self.groups)))

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

    def __str__(self) -> str:
        sign = "" if self.exact else "at least "
        lines = [
            f"exact parity costs a residual of {sign}{self.residual:.3f}",
            "attacker's advantage at most  residual at least",
        ]
        for leakage, residual in zip(self.leakages, self.residuals, strict=True):
            lines.append(f"{leakage:28.3f}  {residual:17.3f}")
        return "\n".join([*lines, *self.notes])


def parity_limit(
    tensor: Any,
    sensitive_features: Any,
    *,
    mode: int = 0,
    taus: Sequence[float] = TAUS,
    bins: int = 4,
    max_people: int = 2000,
    random_state: int | np.random.RandomState | None = 0,
) -> ParityLimit:
    """Return the least residual of any model, for exact parity and for some leakage.

    With rows ``x`` of the data along `mode` and groups of shares ``p_g``, exact parity costs

        min over couplings of all groups of  E sum_{g<h} p_g p_h |x_g - x_h|**2    per person,

    the Wasserstein-2 barycenter. For two groups this is ``p_0 p_1 W2**2``. For more it is a
    linear program, solved if it is small; otherwise every pair is coupled on its own, which is
    a lower bound, as a coupling of all groups couples each pair.

    Total variation ``tau`` between the embeddings of two groups leaves mass ``1 - tau`` in
    common, so only that much must be transported. With G groups, tau is the largest of all
    pairs: any two groups have ``1 - tau`` in common, and all together at least
    ``1 - (G - 1) tau``. Each gives a bound on the loss of these groups, and a linear program
    finds how to divide the loss of every group among them for the largest sum.

    Above `max_people`, potentials of samples are averaged and made feasible for everybody, so
    the result is still a lower bound; time grows with the square of the number of people,
    memory does not.

    Args:
        tensor: The data, of order 2 or more.
        sensitive_features: One row per index of `mode`. Groups are the combinations of values
            that occur; a numeric column is cut at its quantiles.
        mode: The sensitive mode.
        taus: Total variation distances between 0 and 1.
        bins: Groups made of a numeric column.
        max_people: At most this many people are transported exactly.
        random_state: Seed of the samples and of the random groups.

    For rows (0, 1) of one woman and (3, 1) of one man, parity gives both (1.5, 1), and
    ``parity_limit([[0, 1], [3, 1]], ["f", "m"]).residual`` is ``sqrt(4.5 / 11)``.
    """
    levels = _check_settings(taus, bins, max_people)
    data, sensitive = _check_data(tensor, sensitive_features, mode)
    random = check_random_state(random_state)
    names, codes = _cells(sensitive, bins)
    # In these units, the loss per person is the squared relative residual.
    rows = data.movedim(mode, 0).flatten(1) * sqrt(len(codes) / float(data.square().sum()))
    rows -= rows.mean(0)
    people, length = rows.shape
    lost = 0.0
    if people > max_people and length > LONGEST_ROW:
        rows, lost = _shorten(rows, codes, random)
    costs = _Costs.solve(rows, codes, (0.0, *levels), max_people, random)
    by_chance = _Costs.solve(rows, random.permutation(codes), (0.0,), max_people, random)
    lines = [costs.line(tau) for tau in (0.0, *levels)]
    residual, upper = _residual(lines, 0.0), sqrt(costs.upper + lost)
    closed = upper**2 - residual**2 <= CLOSED * upper**2 + 1e-12
    limit = ParityLimit(
        residual=residual,
        upper=max(residual, upper),
        chance=_residual([by_chance.line(0.0)], 0.0),
        taus=levels,
        residuals=tuple(_residual(lines, tau) for tau in levels),
        groups=tuple(zip(names, np.bincount(codes).tolist(), strict=True)),
        exact=bool(closed and people <= max_people),
        notes=(),
        lines=tuple((float(height), float(slope)) for height, slope in lines),
    )
    notes = _notes(limit, sensitive, sampled=people > max_people)
    if rows.shape[1] < length:
        notes.append(f"rows of {length} numbers were projected to {rows.shape[1]}: a lower bound")
    return replace(limit, notes=tuple(notes))


def _check_settings(taus: Any, bins: int, max_people: int) -> tuple[float, ...]:
    """Return the levels of parity; raise unless the settings make sense."""
    levels = tuple(float(tau) for tau in np.ravel(taus))
    for tau in levels:
        if not 0 <= tau <= 1:
            raise ValueError(
                f"taus must be between 0 and 1, got {tau!r}; 0 is exact parity, 1 is none"
            )
    for name, value in (("bins", bins), ("max_people", max_people)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 2:
            raise ValueError(f"{name} must be a whole number of at least 2, got {value!r}")
    return levels


def _check_data(tensor: Any, features: Any, mode: int) -> tuple[Tensor, SensitiveFeatures]:
    """Return the data in double precision and the features that belong to it."""
    data = as_tensor(tensor, dtype=torch.float64, device="cpu")
    check_tensor(data)
    check_mode(mode, data.ndim)
    sensitive = SensitiveFeatures.of(features)
    if len(sensitive) != data.shape[mode]:
        raise ValueError(
            f"sensitive_features has {len(sensitive)} rows but mode {mode} of the tensor has "
            f"{data.shape[mode]}; pass one row per index, in the same order"
        )
    return data, sensitive


def _notes(limit: ParityLimit, sensitive: SensitiveFeatures, *, sampled: bool) -> list[str]:
    """Say what a reader must know besides the numbers."""
    sizes = [size for _, size in limit.groups]
    shown = ", ".join(f"{name} ({size})" for name, size in limit.groups[:MOST_NAMES])
    more = ", ..." if len(sizes) > MOST_NAMES else ""
    notes = [f"for these {sum(sizes)} people in {len(sizes)} groups: {shown}{more}"]
    if sampled:
        notes.append(
            f"true for all of them, but not the highest bound: found from {SAMPLES} samples, "
            f"whose own limit is {limit.upper:.3f}, too high on average"
        )
    elif not limit.exact:
        notes.append(
            "each pair of groups was coupled on its own, which gives a lower bound; exact parity "
            f"is possible at {limit.upper:.3f}"
        )
    numeric = [repr(column.name) for column in sensitive.columns if column.kind == "numeric"]
    if numeric:
        notes.append(
            f"{' and '.join(numeric)} cut into groups at quantiles: what is independent of the "
            "numbers is independent of the groups, so the limit holds for both"
        )
    few = "; that is most of the limit, so there are few people for so much detail"
    part = few if limit.chance > limit.residual / 2 else ""
    notes.append(f"groups drawn at random would give {limit.chance:.3f}{part}")
    return notes


def _residual(lines: Sequence[Any], tau: float) -> float:
    """Return the residual whose square is at least as high as every line."""
    return sqrt(max(0.0, *(float(height - slope * tau) for height, slope in lines)))


def _cells(sensitive: SensitiveFeatures, bins: int) -> tuple[list[str], NDArray[np.intp]]:
    """Return the combinations of values that occur, and which one each person has."""
    labels, codes = zip(*(_cut(column, bins) for column in sensitive.columns), strict=True)
    cells, cell = np.unique(np.stack(codes, 1), axis=0, return_inverse=True)
    if len(cells) > MOST_GROUPS:
        raise ValueError(
            f"sensitive_features make {len(cells)} groups, the limit needs at most {MOST_GROUPS}; "
            "merge small groups, lower bins or pass fewer columns"
        )
    names = []
    for values in cells.tolist():
        parts = [names_of[value] for names_of, value in zip(labels, values, strict=True)]
        if len(parts) > 1:
            parts = [f"{c.name}={part}" for c, part in zip(sensitive.columns, parts, strict=True)]
        names.append(", ".join(parts))
    return names, cell.reshape(-1)


def _cut(column: Column, bins: int) -> tuple[Sequence[str], NDArray[np.intp]]:
    """Return the labels of a column and the code of each person; numbers are cut at quantiles."""
    if column.kind == "categorical":
        return column.categories, column.values.astype(np.intp)
    # The middle rank of equal values: any two distinct values can end up in different groups.
    ordered = np.sort(column.values)
    ranks = sum(np.searchsorted(ordered, column.values, side=side) for side in ("left", "right"))
    found, codes = np.unique(ranks * bins // (2 * len(ordered)), return_inverse=True)
    parts = [column.values[codes == code] for code in range(len(found))]
    return [f"{part.min():.4g} to {part.max():.4g}" for part in parts], codes


def _shorten(
    rows: Tensor, codes: NDArray[np.intp], random: np.random.RandomState
) -> tuple[Tensor, float]:
    """Return long rows in an orthonormal basis, and the square per person that is outside it.

    Projections shorten distances, so a lower bound stays one. The basis holds the means of the
    groups and, nearly, the leading directions.
    """
    basis = torch.from_numpy(random.standard_normal((rows.shape[1], LONGEST_ROW)))
    for _ in range(2):
        basis = torch.linalg.qr(rows.mT @ (rows @ basis)).Q
    means = [rows[torch.from_numpy(codes == code)].mean(0) for code in np.unique(codes)]
    basis = torch.linalg.qr(torch.cat([torch.stack(means, 1), basis], 1)).Q
    shortened = rows @ basis
    return shortened, max(0.0, float(rows.square().sum() - shortened.square().sum()) / len(rows))


@dataclass(frozen=True, eq=False)
class _Costs:
    """Bounds of the loss per person.

    Attributes:
        shares: Shares ``p_g`` of the groups.
        pairs: For each pair of groups, lines below the cost of partial transport.
        coupled: Lines below the cost of coupling all groups, where that was solved.
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
        codes: NDArray[np.intp],
        taus: Sequence[float],
        max_people: int,
        random: np.random.RandomState,
    ) -> _Costs:
        """Bound the cost of parity up to each of `taus`, of which the least must be 0."""
        sizes = np.bincount(codes)
        groups = [rows[torch.from_numpy(codes == code)] for code in range(len(sizes))]
        shares = sizes / sizes.sum()
        common = {mass for tau in taus for mass in (1 - tau, 1 - (len(sizes) - 1) * tau)}
        masses = sorted(mass for mass in common if mass > 0)
        samples = list(_samples(sizes, max_people, random))
        pairs: dict[tuple[int, int], Lines] = {}
        plans: list[dict[tuple[int, int], Tensor]] = [{} for _ in samples]
        for g, h in combinations(range(len(sizes)), 2):
            drawn = [(sample[g], sample[h]) for sample in samples]
            pairs[g, h], found = _transport(groups[g], groups[h], masses, drawn)
            for known, plan in zip(plans, found, strict=True):
                known[g, h] = plan
        uppers = [
            _glue([x[i] for x, i in zip(groups, sample, strict=True)], shares, known)
            for sample, known in zip(samples, plans, strict=True)
        ]
        coupled, upper = np.zeros((1, 2)), float(np.mean(uppers))
        if len(sizes) > 2 and prod(sizes.tolist()) <= LARGEST_COUPLING:
            coupled, upper = _couple(groups, shares, masses)
        return cls(shares, pairs, coupled, upper)

    def line(self, tau: float) -> NDArray[np.float64]:
        """Return height at 0 and slope of a line below the loss that is highest at `tau`."""
        # Mass 1 - times * tau is in common, so a + b * mass = (a + b) - times * b * tau.
        times = len(self.shares) - 1
        together = [_highest(self.coupled, 1 - times * tau), np.zeros(2)]
        parts: list[tuple[float, float]] = []
        members: list[Sequence[int]] = []
        for (g, h), lines in self.pairs.items():
            p, q = self.shares[[g, h]]
            together[1] += p * q * _highest(lines, 1 - times * tau)
            a, b = p * q / (p + q) * _highest(lines, 1 - tau)
            parts.append((a + b, b))
            members.append((g, h))
        a, b = max(together, key=lambda line: line[0] + line[1] * (1 - times * tau))
        parts.append((a + b, times * b))
        members.append(range(len(self.shares)))
        # Which part t of the loss of its groups goes to each bound: no group gives more than 1.
        spent = np.zeros((len(self.shares), len(parts)))
        for part, of in enumerate(members):
            spent[list(of), part] = 1
        table = np.array(parts)
        values = table @ (1, -tau)
        found = linprog(-values / max(values.max(), TINY), A_ub=spent, b_ub=np.ones(len(spent)))
        t = np.maximum(found.x, 0)
        return np.asarray(t @ table / max(1.0, (spent @ t).max()))


def _highest(lines: Lines, mass: float) -> NDArray[np.float64]:
    """Return the line that is highest at this mass, or 0 if that is higher."""
    values = lines @ (1, mass)
    return lines[values.argmax()] if values.max() > 0 else np.zeros(2)


def _samples(
    sizes: NDArray[np.intp], max_people: int, random: np.random.RandomState
) -> Iterator[list[Tensor]]:
    """Draw some of every group several times; everybody once if there are few."""
    if sizes.sum() <= max_people:
        yield [torch.arange(size) for size in sizes.tolist()]
        return
    shares = np.maximum(LEAST_MEMBERS, sizes * max_people // (2 * sizes.sum()))
    for _ in range(SAMPLES):
        yield [
            torch.from_numpy(random.permutation(size)[:share])
            for size, share in zip(sizes, shares, strict=True)
        ]


def _transport(
    x: Tensor, y: Tensor, masses: Sequence[float], samples: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Lines, list[Tensor]]:
    """Return lines below the cost of moving part of one group to another, and sampled plans.

    The cost ``V(m) = min <P, c>`` over plans of mass m with row sums at most 1/n and column
    sums at most 1/k has the dual

        max  slope * m + mean(f) + mean(g - slope)   with  f_i + g_j <= c_ij, f <= 0, g <= slope,

    so any feasible ``f``, ``g`` and ``slope`` give a line below V at *every* mass. With
    ``f`` given, the largest feasible ``g_j`` is ``min(slope, min_i c_ij - f_i)``, and so for f.

    Args:
        x: Rows of the first group.
        y: Rows of the second group.
        masses: Where to place a line, above 0; the last is 1, that of the plans.
        samples: People of both groups that the potentials are found from.
    """
    guesses, slopes, plans = [], [], []
    everything = torch.tensor(masses, dtype=x.dtype) == 1
    # All mass must move: nothing bounds the potentials, and a constant can go from f to g.
    ceiling = torch.where(everything, inf, 0.0).double()
    for i, j in samples:
        g, slope, plan = _potentials(_distances(x[i], y[j]), masses)
        f = _transform(y[j], x, g, ceiling)
        guesses.append(f - torch.where(everything, f.mean(1), 0.0)[:, None])
        slopes.append(slope)
        plans.append(plan)
    slope = torch.stack(slopes).mean(0)
    g = _transform(x, y, torch.stack(guesses).mean(0), slope)
    f = _transform(y, x, g, ceiling)
    top = torch.where(everything, f.amax(1), 0.0)[:, None]
    slope = torch.where(everything, (g + top).amax(1).clamp_min(0), slope)
    height = f.mean(1) + g.mean(1) - slope - _rounding([x, y])
    return torch.stack([height, slope], 1).numpy(), plans


def _potentials(cost: Tensor, masses: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
    """Solve partial transport between a few people for every mass.

    A dummy person in each group takes what is not moved, for free (Chapel, Alaya and Gasso,
    "Partial optimal transport with applications on positive-unlabeled learning", 2020).

    Returns:
        The potentials of the second group, one row per mass; the slopes; the last plan.
    """
    emd = _load_emd()
    n, k = cost.shape
    extended = np.zeros((n + 1, k + 1))
    extended[:n, :k] = cost
    extended[n, k] = extended.max()
    potentials, slopes, plan = [], [], np.empty(0)
    for mass in masses:
        if mass == 1:
            extended = extended[:n, :k].copy()
        first, second = (
            np.concatenate([np.full(size, 1 / size), [1 - mass] * (mass < 1)]) for size in (n, k)
        )
        plan, log = emd(first, second, extended, numItermax=MOST_PIVOTS, log=True)
        u, v = log["u"], log["v"]
        if mass == 1:
            potentials.append(v)
            slopes.append(inf)
        else:
            potentials.append(v[:k] - v[k])
            slopes.append(max(0.0, -u[n] - v[k]))
    return (
        torch.from_numpy(np.stack(potentials)),
        torch.tensor(slopes).double(),
        torch.from_numpy(plan),
    )


def _load_emd() -> Any:
    """Return POT's network simplex."""
    try:
        from ot import emd
    except ImportError:
        raise ImportError(
            "parity_limit needs POT (Python Optimal Transport), which is not installed; run "
            "pip install 'parafair[limits]'"
        ) from None
    return emd


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """Return squared distances between all rows, shape (len(x), len(y))."""
    squares = x.square().sum(1)[:, None] + y.square().sum(1)
    return squares.addmm_(x, y.mT, alpha=-2).clamp_min_(0)


def _rounding(groups: Sequence[Tensor]) -> float:
    """Return what rounding may add to a squared distance."""
    return 8 * groups[0].shape[1] * EPS * max(float(x.square().sum(1).max()) for x in groups)


def _transform(x: Tensor, y: Tensor, potentials: Tensor, ceiling: Tensor) -> Tensor:
    """Return ``min(ceiling_k, min_i |x_i - y_j|**2 - potentials_ki)``, shape (k, len(y))."""
    found = torch.empty(len(potentials), len(y), dtype=y.dtype)
    rows = max(1, BLOCK // len(x))
    for block, part in zip(y.split(rows), found.split(rows, 1), strict=True):
        cost = _distances(block, x)
        for k, row in enumerate(potentials):
            part[k] = (cost - row).amin(1)
    return found.minimum(ceiling[:, None])


def _glue(
    groups: Sequence[Tensor],
    shares: NDArray[np.float64],
    plans: dict[tuple[int, int], Tensor],
) -> float:
    """Return the cost of one coupling of all groups: to the largest, and independent given it."""
    root = int(shares.argmax())
    mean, spread, total = shares[root] * groups[root], 0.0, 0.0
    for g, x in enumerate(groups):
        squares = x.square().sum(1)
        total += shares[g] * squares.mean()
        if g != root:
            plan = plans[root, g] if root < g else plans[g, root].mT
            plan = plan / plan.sum(1, keepdim=True)
            mapped = plan @ x
            mean = mean + shares[g] * mapped
            spread = spread + shares[g] ** 2 * (plan @ squares - mapped.square().sum(1))
    return max(0.0, float(total - (mean.square().sum(1) + spread).mean()))


def _couple(
    groups: Sequence[Tensor], shares: NDArray[np.float64], masses: Sequence[float]
) -> tuple[Lines, float]:
    """Return lines below the cost of coupling part of all groups, and the cost of the whole."""
    sizes = [len(x) for x in groups]
    cost = np.zeros(sizes)
    for g, h in combinations(range(len(sizes)), 2):
        between = shares[g] * shares[h] * _distances(groups[g], groups[h]).numpy()
        cost += between.reshape([size if d in (g, h) else 1 for d, size in enumerate(sizes)])
    cost = cost.ravel()
    unit = max(cost.max(), TINY)
    # One row per person: the combinations it is part of.
    place = np.indices(sizes).reshape(len(sizes), -1) + np.cumsum([0, *sizes[:-1]])[:, None]
    column = np.broadcast_to(np.arange(cost.size), place.shape)
    part_of = csr_array((np.ones(place.size), (place.ravel(), column.ravel())))
    weights = np.concatenate([np.full(size, 1 / size) for size in sizes])
    lines, whole = [], 0.0
    for mass in masses:
        found = linprog(cost / unit, part_of, weights, np.ones((1, cost.size)), mass)
        people, slope = -found.ineqlin.marginals, found.eqlin.marginals[0]
        # The solver may break constraints of the dual by a little; a lower slope keeps them.
        slope -= max(0.0, (slope - part_of.T @ people - cost / unit).max())
        lines.append((-unit * (weights @ people) - _rounding(groups), unit * slope))
        whole = unit * found.fun
    return np.array(lines), whole
