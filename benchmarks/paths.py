"""Default fits against both ends followed along strengths, and against random starts.

Run with ``python -m benchmarks.run strength_paths``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tests.reference.kinds import KINDS, draw

from parafair import FairCP, datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import Invariant
from parafair.solvers import LBFGS, Fit, Stop, decompose_plain, repair, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.precision import solve_twice
from parafair.solvers.problem import Problem

Row = dict[str, object]

# Strengths that a path passes, and the largest one, where it begins if it comes from the repair.
GRID = tuple(2.0**power for power in range(13))
STOP = Stop()
KIND_SEEDS, KIND_STRENGTHS = (1, 2, 3), (10.0, 300.0)


def strength_paths() -> Iterable[Row]:
    """Objective and residual before noise: the default call, both paths, and a random start.

    A path goes from strength to strength: upwards from the plain decomposition, or downwards from
    its transport repair. A fit continues from the one before, until it converges by itself.
    """
    for name, (tensor, groups, rank, strengths) in _cases().items():
        problem = Problem(
            TensorData.from_array(tensor),
            rank,
            penalty=Invariant(1.0),
            sensitive=SensitiveFeatures.of(groups),
        )
        several = make_starts(problem, "uniform", count=5, seed=0)
        (plain,) = decompose_plain(problem, starts=several, stop=STOP, each=5)
        other = repair(replace(problem, penalty=None), plain.cp.factors)
        up = _path(problem, plain.cp.factors, sorted({*GRID, *strengths}))
        down = _path(problem, other, sorted({*GRID, *strengths}, reverse=True))
        for strength in strengths:
            own = FairCP(rank, strength=strength).fit(tensor, sensitive_features=groups)
            found = {
                "default": own.fit_.before_noise,
                "upwards": up[strength].history[-1],
                "downwards": down[strength].history[-1],
                "random": _random(problem, strength).history[-1],
            }
            lowest = min(found["upwards"].objective, found["downwards"].objective)
            least = min(found["upwards"].residual, found["downwards"].residual)
            yield {
                "data": name,
                "strength": strength,
                **{f"{which}, residual": entry.residual for which, entry in found.items()},
                **{f"{which}, objective": entry.objective for which, entry in found.items()},
                "objective / lower path": found["default"].objective / lowest,
                "residual / lower path": found["default"].residual / least,
                "status": own.fit_.status.name,
            }


def _path(problem: Problem, factors: Sequence[Any], strengths: Sequence[float]) -> dict[float, Fit]:
    """Return the fit at each strength, each from the one before."""
    found: dict[float, Fit] = {}
    for strength in strengths:
        member = replace(problem, penalty=Invariant(strength))
        starts = tuple(factor[None] for factor in factors)
        (found[strength],) = solve_twice(member, LBFGS(), starts=starts, stop=STOP)
        factors = found[strength].cp.factors
    return found


def _random(problem: Problem, strength: float) -> Fit:
    """Return a fit from random factors."""
    member = replace(problem, penalty=Invariant(strength))
    starts = make_starts(problem, "uniform", count=1, seed=0)
    (fit,) = solve_batch(member, LBFGS(), starts=starts, stop=STOP)
    return fit


def _cases() -> dict[str, tuple[Any, Any, int, tuple[float, ...]]]:
    """Return tensors, groups, ranks and strengths: three of the project's table, and others."""
    random = np.random.default_rng(0)
    half, few = np.arange(300) < 150, np.arange(300) < 60
    moments = np.where(
        half[:, None], random.standard_normal((300, 5)), random.choice([-1.0, 1.0], (300, 5))
    )
    shifted = random.standard_normal((300, 5)) + 1.5 * few[:, None] * random.standard_normal(5)
    paper = datasets.synthetic(0)
    found = {
        "equal moments": (_tensor(moments, random), half, 5, (16.0, 24.0, 128.0, 1000.0)),
        "mean shift 60/240": (_tensor(shifted, random), few, 5, (16.0, 64.0, 1000.0)),
        "paper": (paper.tensor, paper.sensitive_features, 8, (96.0, 1000.0)),
    }
    for kind in KINDS:
        for seed in KIND_SEEDS:
            name = f"{kind.__name__}, seed {seed}".replace("_", " ")
            found[name] = (*draw(kind, seed, 150), KIND_STRENGTHS)
    return found


def _tensor(people: np.ndarray, random: np.random.Generator) -> np.ndarray:
    others = [random.standard_normal((size, people.shape[1])) for size in (40, 30)]
    exact = np.einsum("ir,jr,kr->ijk", people, *others)
    error = random.standard_normal(exact.shape)
    return exact + 0.1 * np.linalg.norm(exact) / np.linalg.norm(error) * error
