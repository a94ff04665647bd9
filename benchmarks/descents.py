"""Whether a descent on rows as a last polish lowers the residual at the same guarantee.

Run with ``python -m benchmarks.run release_descent criterion_descent place_restarts``. All other
factors stay as they are. Rows are in coordinates in which squared distances are squared errors.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from torch import Tensor

from benchmarks.chance import MAX_LEAKAGE, OUTSIDE, data_of
from parafair import FairCP, ParafairWarning, SensitiveFeatures, audit, certify_rows
from parafair.algebra.cp_tensor import khatri_rao
from parafair.dependence.place_search import improve_places
from parafair.dependence.shared_places import share_places
from parafair.penalties import Invariant, Transport

Row = dict[str, object]

DATA = (
    ("paper", 0),
    ("equal moments, other shape", 0),
    ("three groups", 0),
    ("mean shift 60/240", 0),
    ("mean shift 60/240", 7),
)
STEPS = 250
DRAWS = 2000  # of the attacker's posterior, in each step
CERTIFIED = 50_000  # draws of the certificate afterwards
# What places may leak before the descent, less than the limit, and noise, as a share of the spread.
START, NOISES = 0.03, (0.1, 0.4)
# The descent aims at less than the limit, because a certificate has an error of its own.
AIM = 0.047
CRITERION_STEPS = 100  # each takes longer
QUICK = ("linear", "svm", "kernel-vote", "neighbors")
RATE = 0.05  # the first step of Adam, in units of the noise
# Shares of the descent that are gone, until the certificate is within the limit.
SHARES = (1.0, 0.9, 0.8, 0.6, 0.4, 0.2)


@dataclass(frozen=True)
class Case:
    """A model with rows of people, in coordinates in which squared distances are squared errors.

    Attributes:
        rows: Exact rows, shape (n, rank).
        noise: The matrix of their noise, shape (rank, rank).
        best: Least-squares rows for the same other factors.
        rest: The squared error of the least-squares rows.
        total: The sum of squares of the data.
        features: The people's sensitive features.
        turn: The matrix with which rows of the model were multiplied.
    """

    rows: Tensor
    noise: Tensor
    best: Tensor
    rest: float
    total: float
    features: SensitiveFeatures
    turn: Tensor

    @classmethod
    def of(cls, model: FairCP, tensor: Any) -> Case:
        """Return the case of a fitted model of complete data."""
        release, data = model.exact_release(), torch.from_numpy(np.asarray(tensor))
        wide = khatri_rao(model.cp_.factors[1:])
        turn = torch.linalg.cholesky(wide.mT @ wide)
        best = torch.linalg.solve_triangular(
            turn.mT, data.flatten(1) @ wide, upper=True, left=False
        )
        total = float(data.square().sum())
        rest = total - float(best.square().sum())
        rows, noise = release.rows @ turn, release.noise @ turn
        return cls(rows, noise, best, rest, total, release.features, turn)

    def squared(self, rows: Tensor, noise: Tensor) -> Tensor:
        """Return the expected squared error of released rows, relative to the data."""
        added = len(rows) * noise.square().sum()
        return ((rows - self.best).square().sum() + self.rest + added) / self.total

    def leakage(self, rows: Tensor, noise: Tensor) -> float:
        """Return the certified leakage of rows."""
        settings = {"noise": noise, "draws": CERTIFIED, "random_state": OUTSIDE}
        return certify_rows(rows, self.features, **settings).leakage("release")


def release_descent() -> Iterable[Row]:
    """Descent on squared error plus a price times (F), from places that leak less than is allowed.

    "before" and "after" are expected squared errors with noise, relative to those of the fit of
    guarantee="release". The noise is a share of the spread in every direction, or as much in total
    but equal in all directions. "after" is as far on the way of the descent as the certificate
    allows.
    """
    yield from _continued(
        "release_descent", _release_row, product(DATA, NOISES, ("spread", "equal"))
    )


def _release_row(data: tuple[str, int], level: float, directions: str) -> Row:
    tensor, sensitive, rank = data_of(*data)
    settings = {"strength": "auto", "guarantee": "release", "max_leakage": MAX_LEAKAGE}
    fitted = _case(tensor, sensitive, rank, settings)
    least = float(fitted.squared(fitted.rows, fitted.noise))
    method = {"method": Transport(leakage=START), "noise": level}
    case, begin = _case(tensor, sensitive, rank, method), process_time()
    noise = level * torch.linalg.cholesky(torch.cov(case.rows.mT)).mT
    if directions == "equal":
        noise = (noise.square().sum() / rank).sqrt() * torch.eye(rank, dtype=noise.dtype)
    rows, share, certified = _allowed(case, _descend(case, noise), noise)
    return {
        "data": f"{data[0]}, seed {data[1]}",
        "noise": level,
        "directions": directions,
        "residual of the search": least**0.5,
        "before": float(case.squared(case.rows, noise)) / least,
        "after": float(case.squared(rows, noise)) / least,
        "certified": certified,
        "share of the descent": share,
        "CPU s": process_time() - begin,
    }


def _continued(name: str, function: Callable[..., Row], jobs: Iterable[Any]) -> Iterable[Row]:
    """Yield a row per job; if it is interrupted, the same command continues it."""
    path = Path(__file__).parent / "results" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    for job in list(jobs)[len(found) :]:
        found.append(function(*job))
        print(found[-1], flush=True)
        with path.open("a") as file:
            file.write(json.dumps(found[-1]) + "\n")
    yield from found
    path.unlink()


def _case(tensor: Any, sensitive: Any, rank: int, settings: dict[str, Any]) -> Case:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)
        model = FairCP(rank, random_state=0, **settings).fit(tensor, sensitive_features=sensitive)
    return Case.of(model, tensor)


def _allowed(case: Case, end: Tensor, noise: Tensor) -> tuple[Tensor, float, float]:
    """Return rows on the way of a descent, the share of it, and their certified leakage."""
    for share in SHARES:
        rows = case.rows + share * (end - case.rows)
        certified = case.leakage(rows, noise)
        if certified <= MAX_LEAKAGE + 1e-9:
            return rows, share, certified
    return case.rows, 0.0, case.leakage(case.rows, noise)


def _descend(case: Case, noise: Tensor) -> Tensor:
    """Return rows after a descent on squared error plus a price times (F) above the aim."""
    (column,) = case.features.columns
    codes = torch.from_numpy(column.values).long()
    sizes = torch.bincount(codes)
    generator = torch.Generator().manual_seed(0)
    people = torch.cat(  # every group equally often, and everybody of a group about equally often
        [
            (codes == group).nonzero()[:, 0][torch.arange(DRAWS // len(sizes)) % size]
            for group, size in enumerate(sizes.tolist())
        ]
    )
    weights = torch.nn.functional.one_hot(codes).to(noise.dtype) / sizes
    inverse = torch.linalg.inv(noise)

    def gain(rows: Tensor) -> Tensor:
        z = rows @ inverse
        drawn = z[people] + torch.randn(
            people.shape + z.shape[1:], dtype=z.dtype, generator=generator
        )
        near = torch.softmax(-0.5 * torch.cdist(drawn, z).square(), 1) @ weights
        return (near.amax(1) / near.sum(1)).mean() - 1 / len(sizes)

    begin = float(case.squared(case.rows, noise))
    price = [1.0]

    def objective(rows: Tensor) -> Tensor:
        above = gain(rows) - AIM
        # The price of the leakage rises while there is too much of it.
        price[0] *= 1.05 if above > 0 else 0.95
        return case.squared(rows, noise) / begin + price[0] * above.clamp_min(0)

    return _adam(case.rows, noise, objective)


def _adam(
    start: Tensor, noise: Tensor, objective: Callable[[Tensor], Tensor], steps: int = STEPS
) -> Tensor:
    """Return rows after steps of Adam on moves in units of the noise."""
    moves = torch.zeros_like(start, requires_grad=True)
    adam = torch.optim.Adam([moves], lr=RATE)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        adam.zero_grad()
        objective(start + moves @ noise).backward()
        adam.step()
        slower.step()
    return start + moves.detach() @ noise


def criterion_descent() -> Iterable[Row]:
    """Descent on squared error plus the criterion of released rows, from a fit of strength="auto".

    The noise is that of the fit, drawn afresh in every step. Deviations, in standard deviations,
    are means over twenty draws; leakage is that of an audit of one by the quick attackers.
    """
    yield from _continued("criterion_descent", _criterion_row, DATA[:2])


def _criterion_row(name: str, seed: int) -> Row:
    tensor, sensitive, rank = data_of(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)
        model = FairCP(rank, random_state=0, strength="auto", max_leakage=MAX_LEAKAGE)
        model.fit(tensor, sensitive_features=sensitive)
    case, begin = Case.of(model, tensor), process_time()
    criterion = Invariant().criterion(case.features, case.rows)
    strength, back = model.record_.strength, torch.linalg.inv(case.turn)
    generator = torch.Generator().manual_seed(0)

    def released(rows: Tensor) -> Tensor:
        drawn = torch.randn(rows.shape, dtype=rows.dtype, generator=generator)
        return (rows + drawn @ case.noise) @ back

    def objective(rows: Tensor) -> Tensor:
        drawn = released(rows)
        _, gradient = criterion.value_and_gradient(drawn.detach())
        return case.squared(rows, case.noise) + strength * (drawn * gradient).sum()

    found = {"before": case.rows, "after": _adam(case.rows, case.noise, objective, CRITERION_STEPS)}
    row: Row = {"data": f"{name}, seed {seed}", "strength": strength}
    for when, rows in found.items():
        row[f"residual {when}"] = float(case.squared(rows, case.noise)) ** 0.5
        draws = [released(rows) for _ in range(20)]
        deviations = [criterion.deviations(d).square().mean().sqrt() for d in draws]
        row[f"deviation {when}"] = float(torch.stack(deviations).mean())
        result = audit(draws[0].numpy(), sensitive_features=sensitive, attackers=QUICK, folds=10)
        row[f"leakage {when}"] = result.leakage
    row["CPU s"] = process_time() - begin
    return row


RESTARTS = 100


def place_restarts() -> Iterable[Row]:
    """The search for shared places, continued from random changes of the best places so far.

    The residual is that of the rows at these places, without noise and with all other factors as
    they are in the plain fit. "people split" is the least one with these factors if everybody may
    draw one of several places, and (F) is about the law of the draw.
    """
    for name, seed in (("mean shift 60/240", 0), ("mean shift 60/240", 7)):
        tensor, sensitive, rank = data_of(name, seed)
        case = _case(tensor, sensitive, rank, {"method": "none", "noise": 0.1})
        points = np.asarray(case.best - case.best.mean(0))
        size = float(np.abs(points).max())
        points, codes = points / size, case.features.columns[0].values
        counts = np.bincount(codes)
        begin = process_time()
        best = share_places(points, codes, leakage=MAX_LEAKAGE, seed=seed)
        once = process_time() - begin
        costs = [_cost(points, best)]
        random = np.random.default_rng(0)
        for _ in range(RESTARTS):
            changed = best.copy()
            chosen = random.choice(len(points), random.integers(5, 60), replace=False)
            if random.random() < 0.5:  # people who are near each other
                apart = np.square(points - points[chosen[0]]).sum(1)
                chosen = np.argsort(apart)[: len(chosen)]
            for group in range(len(counts)):
                own = chosen[codes[chosen] == group]
                changed[own] = changed[random.permutation(own)]
            found = improve_places(
                points,
                codes,
                np.unique(changed, return_inverse=True)[1].astype(np.intp),
                weights=1 / (len(counts) * counts),
                accuracy=1 / len(counts) + MAX_LEAKAGE,
                rounds=4,
            )
            cost = _cost(points, found)
            costs.append(min(cost, costs[-1]))
            best = found if cost < costs[-2] else best
        residuals = [((c * size**2 + case.rest) / case.total) ** 0.5 for c in costs]
        row: Row = {
            "data": f"{name}, seed {seed}",
            "residual of the search": residuals[0],
            **{f"after {k} changes": residuals[k] for k in (10, 30, RESTARTS)},
            "people split": ((_split(points, codes) * size**2 + case.rest) / case.total) ** 0.5,
            "CPU s of the search": once,
            "CPU s": process_time() - begin,
        }
        print(row, flush=True)
        yield row


def _cost(points: Any, places: Any) -> float:
    sums = np.zeros_like(points)
    np.add.at(sums, places, points)
    means = sums / np.maximum(np.bincount(places, minlength=len(points)), 1)[:, None]
    return float(np.square(points - means[places]).sum())


def _split(points: Any, codes: Any) -> float:
    """Return the least squared error of two groups if people are split among places."""
    parts = [points[codes == group] for group in (0, 1)]
    costs = cdist(*parts, "sqeuclidean")
    n, m = costs.shape
    of_people = sparse.vstack(
        [sparse.kron(sparse.eye(n), np.ones((1, m))), sparse.kron(np.ones((1, n)), sparse.eye(m))]
    )
    found = linprog(
        costs.ravel(),
        A_ub=of_people.tocsr(),
        b_ub=np.repeat([1 / n, 1 / m], [n, m]),
        A_eq=np.ones((1, n * m)),
        b_eq=[1 - 2 * MAX_LEAKAGE],
        method="highs",
    )
    # Two people with shares p and q at their mean cost p q / (p + q) of the squared distance.
    return float(found.fun) * n * m / (n + m)
