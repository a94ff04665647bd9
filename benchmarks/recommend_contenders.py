"""Contenders of the recommender benchmark: fair decompositions, and changes to a plain one.

Those that change a plain decomposition after its training keep its item factors. Every contender
has a grid of settings, at most three, of the one number that trades leakage for utility.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from parafair import FairCP, TensorData, certify
from parafair.encoders.leace import erasing_matrix

BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = 300
LEAKAGE = 0.05


@dataclass(frozen=True, eq=False)
class Task:
    """What every contender gets.

    Attributes:
        train: The training entries, users by items.
        groups: The group of each user, 0 or 1.
        plain: The plain decomposition, with the rank and the ridge of all others.
    """

    train: TensorData
    groups: np.ndarray
    plain: FairCP

    @property
    def rows(self) -> Tensor:
        """The users' rows of the plain decomposition."""
        return torch.from_numpy(self.plain.embedding_).double()

    def fit(self, **settings: object) -> Result:
        """Fit a decomposition of the library with the rank and ridge of the plain one."""
        model = FairCP(self.plain.rank, ridge=self.plain.ridge_, center=True, **settings)
        model.fit(self.train, sensitive_features=self.groups.astype(str))
        rows = model.embedding_
        return Result(rows, model.inverse_transform(rows), model)

    def changed(self, rows: Tensor) -> Result:
        """Return the plain decomposition with other rows of users."""
        found = rows.detach().numpy()
        return Result(found, self.plain.inverse_transform(found))


@dataclass(frozen=True, eq=False)
class Result:
    """The rows of users, the scores of all items, and the fitted model if there is one."""

    rows: np.ndarray
    scores: np.ndarray
    model: FairCP | None = None

    @property
    def certified(self) -> float | None:
        """The largest leakage of a released row, whatever the attacker; None without noise."""
        if self.model is None or not self.model.fit_.noise:
            return None
        return float(certify(self.model, random_state=1).leakage("release"))


def d2d(task: Task, keep: float) -> Result:
    """Li et al. 2023: MMD of five Gaussian kernels between the groups, after training.

    Args:
        task: The task.
        keep: What a change of the rows costs, relative to their spread, against the MMD.
    """
    plain = task.rows
    spread = (plain - plain.mean(0)).square().sum(1).mean()
    one, two = (torch.from_numpy(np.flatnonzero(task.groups == g)) for g in (0, 1))
    rows = plain.clone().requires_grad_()
    solver = torch.optim.LBFGS([rows], max_iter=200, line_search_fn="strong_wolfe")
    scale = torch.cdist(plain, plain).square().median()

    def kernel(first: Tensor, second: Tensor) -> Tensor:
        distances = torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
        squares = distances.square() / scale
        return torch.stack([torch.exp(-squares / width) for width in BANDWIDTHS]).mean()

    def objective() -> Tensor:
        solver.zero_grad()
        a, b = rows[one], rows[two]
        discrepancy = kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)
        moved = (rows - plain).square().sum(1).mean() / spread
        value = discrepancy + keep * moved
        value.backward()
        return value

    solver.step(objective)
    return task.changed(rows)


def adversarial_filter(task: Task, weight: float) -> Result:
    """A network that filters the rows against a discriminator, as in PFRec and its predecessors.

    Args:
        task: The task.
        weight: The weight of the discriminator against the squared error.
    """
    torch.manual_seed(0)
    plain, rank = task.rows, task.plain.rank
    filtering = nn.Sequential(nn.Linear(rank, 32), nn.LeakyReLU(), nn.Linear(32, rank)).double()
    judge = nn.Sequential(
        nn.Linear(rank, 32), nn.LeakyReLU(), nn.Linear(32, 32), nn.LeakyReLU(), nn.Linear(32, 2)
    ).double()
    labels = torch.from_numpy(task.groups)
    guessing = nn.CrossEntropyLoss(1 / torch.bincount(labels).double())
    user, item = task.train.cells
    items = task.plain.cp_.factors[1].double()
    target = task.plain.training_.offsets.subtract(task.train).entries
    steps = [torch.optim.Adam(each.parameters(), lr=5e-3) for each in (filtering, judge)]
    spread = plain.std(0)
    for _ in range(ROUNDS):
        for _ in range(3):
            steps[1].zero_grad()
            guessing(judge(filtering(plain / spread).detach()), labels).backward()
            steps[1].step()
        steps[0].zero_grad()
        rows = filtering(plain / spread)
        error = ((rows * spread)[user] * items[item]).sum(1) - target
        (error.square().mean() - weight * guessing(judge(rows), labels)).backward()
        steps[0].step()
    return task.changed(filtering(plain / spread) * spread)


def leace(task: Task) -> Result:
    """Belrose et al. 2023: the least change of the rows that stops linear attackers."""
    rows = task.rows
    centered = rows - rows.mean(0)
    group = torch.from_numpy(task.groups).double()[:, None]
    matrix = erasing_matrix(centered, group - group.mean(), least=1e-12)
    return task.changed(rows.mean(0) + centered @ matrix)


# The settings that are tried for a contender, by name; an empty name if it has nothing to set.
Grid = dict[str, Callable[[Task], Result]]


def _strengths(method: str, strengths: tuple[float, ...]) -> Grid:
    return {
        f"strength {strength:g}": partial(Task.fit, method=method, strength=strength)
        for strength in strengths
    }


def _promised(leakage: float, *guarantee: str) -> Callable[[Task], Result]:
    return partial(Task.fit, strength="auto", max_leakage=leakage, guarantee=guarantee)


KAMISHIMA = (10.0, 100.0, 1000.0)
CONTENDERS: dict[str, Grid] = {
    "plain": {"": lambda task: task.changed(task.rows)},
    "D2D": {f"keep {keep:g}": partial(d2d, keep=keep) for keep in (0.001, 0.01, 0.1)},
    "adversarial filter": {
        f"weight {weight:g}": partial(adversarial_filter, weight=weight) for weight in (0.3, 1, 3)
    },
    "LEACE": {"": leace},
    "correlation removal": {"": partial(Task.fit, method="correlation-removal")},
    "mean matching": _strengths("mean-matching", KAMISHIMA),
    "Bhattacharyya": _strengths("bhattacharyya", KAMISHIMA),
    "mutual information": _strengths("mutual-information", KAMISHIMA),
    "ours, measured": _strengths("invariant", (1.0, 10.0, 100.0)),
    "ours, certified": {
        "release 0.05": _promised(LEAKAGE, "release"),
        "audit and release 0.05": _promised(LEAKAGE, "audit", "release"),
        "audit and release 0.1": _promised(2 * LEAKAGE, "audit", "release"),
    },
}
