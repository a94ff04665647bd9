"""Solvers on the same problems from the same start: where they end, and what it takes.

Run with ``python -m benchmarks.run all_at_once``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from torch import Tensor

from parafair import datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import Invariant
from parafair.solvers import LBFGS, BlockDescent, Solver, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Stop, best

Row = dict[str, object]

SOLVERS: dict[str, Solver] = {"block": BlockDescent(), "lbfgs": LBFGS()}
STOP = Stop(max_iter=1000, tol=1e-5)


def all_at_once(
    seeds: Sequence[int] = (0, 1, 2), strengths: Sequence[float] = (1.0, 16.0, 64.0, 100.0)
) -> Iterable[Row]:
    """Block descent against all factors at once, from the same converged plain fit.

    The constants of the preconditioner were chosen on seed 0; the other seeds were not used.
    """
    for seed in seeds:
        for name, (tensor, groups, rank) in problems(seed).items():
            data, sensitive = TensorData.from_array(tensor), SensitiveFeatures.of(groups)
            starts = plain_factors(Problem(data, rank, sensitive=sensitive))
            for strength in strengths:
                problem = Problem(data, rank, 0, Invariant(strength), sensitive)
                for label, solver in SOLVERS.items():
                    (fit,) = solve_batch(problem, solver, starts=starts, stop=STOP)
                    yield row_of(f"{name}, seed {seed}", strength, label, problem, fit)


def row_of(data: str, strength: float, solver: str, problem: Problem, fit: Fit) -> Row:
    """Return one row; the objective is that of `Problem.evaluate`."""
    judged = problem.evaluate([factor[None] for factor in fit.cp.factors])
    return {
        "data": data,
        "strength": strength,
        "solver": solver,
        "objective": float(judged.value),
        "residual": float(judged.residual),
        "iterations": fit.n_iter,
        "evaluations": fit.counts.get("evaluations"),
        "seconds": fit.seconds,
        "status": fit.status.name,
    }


def problems(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Return tensors, groups and ranks."""
    synthetic = datasets.synthetic(seed)
    return {
        "paper": (synthetic.tensor, np.asarray(synthetic.sensitive_features), 8),
        "equal moments": equal_moments(seed),
    }


def equal_moments(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return groups with the same mean and covariance: normal, or -1 and 1; noise of 10 %."""
    random, people, rank = np.random.default_rng(seed), 300, 5
    half = np.arange(people) < people // 2
    signs = random.choice([-1.0, 1.0], (people, rank))
    rows = np.where(half[:, None], random.standard_normal((people, rank)), signs)
    others = [random.uniform(size=(size, rank)) for size in (40, 30)]
    tensor = np.einsum("ir,jr,kr->ijk", rows, *others)
    noise = random.standard_normal(tensor.shape)
    tensor += 0.1 * np.linalg.norm(tensor) / np.linalg.norm(noise) * noise
    return tensor, np.where(half, "normal", "signs"), rank


def plain_factors(problem: Problem) -> tuple[Tensor, ...]:
    """Return the factors of a converged plain fit, with a batch dimension."""
    starts = make_starts(problem, "uniform", count=2, seed=0)
    fit = best(solve_batch(problem, BlockDescent(), starts=starts, stop=Stop(2000, 1e-8)))
    return tuple(factor[None] for factor in fit.cp.factors)
