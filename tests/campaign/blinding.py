"""Embeddings that determine a sensitive feature, distorted so that an audit might not see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from parafair import SensitiveFeatures, audit
from parafair.audits import Audit, Verdict
from parafair.audits.dependence import dependence_rows
from parafair.audits.trials import Plan
from tests.campaign.outcomes import Kind, Outcome

Rows = NDArray[np.float64]
Change = Callable[[Rows, np.random.Generator], Rows]

# An embedding is audited in stages, cheap ones first; the last is the default audit. Every stage is
# the public `audit`, whose result decides. The first two have fewer attackers and folds: these
# attackers are among those of the default audit, which trains them on more people, so what they
# read beyond doubt it reads too. They can only say that an embedding leaks. That one passes, the
# default audit says alone.
FIRST = {"attackers": ["svm"], "folds": 2, "permutations": 1}
QUICK = {"attackers": ["linear", "svm", "kernel-vote"], "folds": 3, "permutations": 1}

# One attacker alone has narrower simultaneous intervals than many, so at the first stage it is not
# enough that it is significant: the whole interval of leakage, which does not widen with the number
# of attackers, is above twice the leakage that passes.
CERTAIN = 0.1

# A verdict follows from leakage and attackers alone. The permutation test and the paper's measures
# take most of the time of a small audit, so the first two stages are without them.
ATTACKERS_ALONE = patch.multiple(
    "parafair.audits.run", dependence_rows=lambda *_, **__: [], paper_rows=lambda *_, **__: []
)

# One in so many attempts is judged by the default audit alone, which checks the stages as well.
DEFAULT_EVERY = 100

# One in so many attempts is also about the criterion, after one distortion.
CRITERION_EVERY = 10

# Share of people whose rows may be anything.
MOST_ARBITRARY = 0.05

# The least share of the criterion, above its level under independence, that a distortion leaves.
# docs/measures.md states them.
LEAST = {
    "shift": 1 - 1e-4,
    "scale": 1 - 1e-9,
    "duplicate": 0.5,
    "mix": 0.3,
    "bend": 0.15,
    "replace_rows": 0.1,
    "add_noise": 0.08,
}


@dataclass(frozen=True)
class Attempt:
    """One distorted embedding, and how it was made."""

    kind: str
    rows: Rows
    features: NDArray[np.generic]
    steps: list[str] = field(default_factory=list)


def shifted(n: int, rank: int, random: np.random.Generator) -> tuple[Rows, NDArray[np.generic]]:
    """One column separates two groups."""
    groups = random.permutation((np.arange(n) < random.uniform(0.2, 0.8) * n).astype(int))
    rows = random.normal(size=(n, rank))
    rows[:, random.integers(rank)] = 4 * groups + 0.5 * random.normal(size=n)
    return rows, np.array(["a", "b"])[groups]


def apart(n: int, rank: int, random: np.random.Generator) -> tuple[Rows, NDArray[np.generic]]:
    """Three groups far apart in all columns."""
    groups = random.permutation(np.arange(n) % 3)
    centers = 4 * np.arange(3)[:, None] * random.choice([-1, 1], size=(1, rank))
    return centers[groups] + random.normal(size=(n, rank)), np.array(["a", "b", "c"])[groups]


def numbers(n: int, rank: int, random: np.random.Generator) -> tuple[Rows, NDArray[np.generic]]:
    """One column is a number, up to noise."""
    truth = random.normal(size=n)
    rows = random.normal(size=(n, rank))
    rows[:, random.integers(rank)] = truth + 0.1 * random.normal(size=n)
    return rows, truth


def nested(n: int, rank: int, random: np.random.Generator) -> tuple[Rows, NDArray[np.generic]]:
    """One group is inside the other: the groups differ in spread alone."""
    groups = random.permutation(np.arange(n) % 2)
    rows = random.normal(size=(n, rank))
    size = np.where(groups, random.uniform(4, 6, size=n), random.uniform(0, 1, size=n))
    rows[:, random.integers(rank)] = size * random.choice([-1, 1], size=n)
    return rows, groups.astype(str)


KINDS = {"shifted": shifted, "apart": apart, "numbers": numbers, "nested": nested}


def bend(rows: Rows, random: np.random.Generator) -> Rows:
    """Apply a strictly increasing function to each column."""
    functions: list[Callable[[Rows], Rows]] = [
        lambda x: np.exp(random.uniform(0.1, 10) * x),
        lambda x: -np.exp(-random.uniform(0.1, 10) * x),
        lambda x: np.sign(x) * np.abs(x) ** random.uniform(0.2, 9),
        lambda x: np.sinh(random.uniform(0.1, 10) * x),
        lambda x: np.arctan(x),
        lambda x: x,
    ]
    columns = [functions[random.integers(len(functions))](column) for column in rows.T]
    return np.column_stack(columns)


def shift(rows: Rows, random: np.random.Generator) -> Rows:
    """Add a constant, as large as the numbers can bear."""
    spread = np.quantile(np.abs(rows - np.median(rows, 0)), 0.9, axis=0)
    return rows + random.choice([-1, 1]) * 10 ** random.uniform(-3, 11) * spread


def scale(rows: Rows, random: np.random.Generator) -> Rows:
    """Change the units of the columns."""
    return rows * 10.0 ** random.uniform(-100, 100, size=rows.shape[1])


def mix(rows: Rows, random: np.random.Generator) -> Rows:
    """Mix the columns by a matrix that can be inverted."""
    rank = rows.shape[1]
    left, right = (np.linalg.qr(random.normal(size=(rank, rank)))[0] for _ in range(2))
    spread = np.quantile(np.abs(rows - np.median(rows, 0)), 0.9, axis=0)
    return rows / np.where(spread > 0, spread, 1) @ (left * np.geomspace(1, 1e-3, rank)) @ right


def duplicate(rows: Rows, random: np.random.Generator) -> Rows:
    """Repeat columns, in other units."""
    copies = rows[:, random.integers(rows.shape[1], size=random.integers(1, 4))]
    return np.hstack([rows, copies * 10.0 ** random.uniform(-3, 3, size=copies.shape[1])])


def add_noise(rows: Rows, random: np.random.Generator) -> Rows:
    """Append columns that say nothing."""
    count = random.integers(1, 5 * rows.shape[1] + 1)
    noise = random.standard_t(random.choice([1.5, 3, 30]), size=(len(rows), count))
    return np.hstack([rows, noise * 10.0 ** random.uniform(-3, 3, size=count)])


def replace_rows(rows: Rows, random: np.random.Generator) -> Rows:
    """Replace the rows of a few people by anything."""
    rows = rows.copy()
    count = random.integers(1, int(MOST_ARBITRARY * len(rows)) + 1)
    people = random.choice(len(rows), count, replace=False)
    size = 10.0 ** random.uniform(-3, random.choice([3, 20, 300]))
    rows[people] = size * random.choice([-1, 0, 1, 0.5], size=(count, rows.shape[1]))
    return rows


# In this order, so that each leaves what the one before it did readable in double precision.
CHANGES: dict[str, Change] = {
    "bend": bend,
    "mix": mix,
    "duplicate": duplicate,
    "add_noise": add_noise,
    "shift": shift,
    "scale": scale,
    "replace_rows": replace_rows,
}

# Distortions that hide a kind from everybody: other columns hide a spread.
HIDING = {"nested": {"add_noise", "mix"}}


def attempt(random: np.random.Generator) -> Attempt:
    """Draw an embedding and up to three distortions."""
    kind = str(random.choice(list(KINDS)))
    n, rank = int(random.integers(60, 161)), int(random.integers(1, 7))
    rows, features = KINDS[kind](n, rank, random)
    chosen = set(random.choice(list(CHANGES), size=random.integers(1, 4), replace=False))
    if {"mix", "bend"} <= chosen:  # what is mixed with a huge column is lost to rounding
        chosen.discard("mix")
    chosen -= HIDING.get(kind, set())
    steps = [name for name in CHANGES if name in chosen]
    for name in steps:
        rows = CHANGES[name](rows, random)
    return Attempt(kind, rows, features, steps)


def attack(found: Attempt, settings: dict[str, Any]) -> Audit:
    """Return what decides the verdict of the public audit, at the settings of a stage."""
    with ATTACKERS_ALONE:
        return audit(found.rows, sensitive_features=found.features, **settings)


def passes(found: Attempt) -> bool:
    """Whether all attackers are blinded; a stage runs only if those before it do not decide."""
    if attack(found, FIRST).leakage_interval[0] > CERTAIN:
        return False
    return attack(found, QUICK).verdict() is not Verdict.LEAKS and passes_by_default(found)


def passes_by_default(found: Attempt) -> bool:
    """Whether the default audit does not say that the embedding leaks."""
    return audit(found.rows, sensitive_features=found.features).verdict() is not Verdict.LEAKS


def excess(rows: Rows, features: NDArray[np.generic]) -> float:
    """Return the criterion of the audit above its level under independence."""
    column = SensitiveFeatures.of(features).columns[0]
    plan = Plan(folds=2, repeats=1, n_jobs=None, precision=2.0**-52, seed=0)
    criterion, _ = dependence_rows(rows, column, permutations=40, plan=plan)
    return criterion.value - criterion.chance


@lru_cache(maxsize=8)
def undistorted(kind: str, seed: int) -> tuple[Rows, NDArray[np.generic], float]:
    """Return a random embedding of 120 people, their features and the excess of its criterion."""
    random = np.random.default_rng([seed, 2])
    rows, features = KINDS[kind](120, int(random.integers(1, 7)), random)
    return rows, features, excess(rows, features)


def share_left(kind: str, change: str, seed: int) -> float:
    """Return the share of the criterion that a distortion leaves of a random embedding."""
    rows, features, before = undistorted(kind, seed)
    return excess(CHANGES[change](rows, np.random.default_rng([seed, 3])), features) / before


def lowering(seed: int) -> Outcome:
    """Distort an embedding in one way, and compare the criterion with the share that is stated."""
    random = np.random.default_rng([seed, 1])
    kind = str(random.choice(list(KINDS)))
    change = str(random.choice([name for name in CHANGES if name not in HIDING.get(kind, ())]))
    left = share_left(kind, change, seed)
    target = f"criterion of {kind}"
    if left >= LEAST[change]:
        return Outcome(target, Kind.FINE)
    show = (
        f"from tests.campaign.blinding import share_left\nshare_left({kind!r}, {change!r}, {seed})"
    )
    detail = f"{change} leaves less than the share {LEAST[change]}"
    return Outcome(target, Kind.BLINDED, detail, reproduction=show)


def blinding(seed: int, folder: Path) -> Iterator[Outcome]:
    """Distort embeddings and audit them, and look at the criterion of some."""
    number = 0
    while True:
        if number % CRITERION_EVERY == CRITERION_EVERY - 1:
            yield lowering(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
        found = attempt(np.random.default_rng([seed, number]))
        blinded = passes if (number + 1) % DEFAULT_EVERY else passes_by_default
        target = f"audit of {found.kind}"
        if blinded(found):
            yield Outcome(
                target,
                Kind.BLINDED,
                " + ".join(found.steps),
                reproduction=f"from tests.campaign.blinding import attempt, {blinded.__name__}\n"
                f"{blinded.__name__}(attempt(np.random.default_rng([{seed}, {number}])))",
            )
        else:
            yield Outcome(target, Kind.FINE)
        number += 1
