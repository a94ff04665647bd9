"""Residual and leakage of fair fits: the measurements behind the library's claims.

Run with ``python -m benchmarks.run fair_synthetic fair_kinds baselines fair_time``. Every row is
one fit, audited by all attackers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from itertools import starmap
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed

from benchmarks.alone import alone
from parafair import ConvergenceWarning, FairCP, audit, datasets, parity_limit
from parafair.algebra.least_squares import shared
from parafair.audits import Audit
from parafair.data.arrays import as_tensor
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence.criterion import Criterion, PermutationTest
from parafair.penalties import HSIC, KHSIC, Invariant, Orthogonality
from parafair.solvers import BlockDescent, GradientBCD, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop

Row = dict[str, object]


def row_of(name: str, model: FairCP, result: Audit, **more: object) -> Row:
    """Return one row: residual, attackers and time."""
    off = [r.model + " " + r.input for r in result.attackers if r.above_chance or r.below_chance]
    return {
        "data": name,
        "residual": model.fit_.residual,
        "largest advantage": result.strongest.advantage,
        "smallest": min(row.advantage for row in result.attackers),
        "significantly off chance": ", ".join(off) or "none",
        "leakage": result.leakage,
        "seconds": model.fit_.seconds,
        **more,
    }


def fair_synthetic() -> Iterable[Row]:
    """The paper's synthetic data, rank 8: strength="auto" and a very large strength."""
    for seed in range(5):
        data = datasets.synthetic(seed)
        limit = parity_limit(data.tensor, sensitive_features=data.sensitive_features).residual
        model = FairCP(8, strength="auto", random_state=seed)
        model.fit(data.tensor, sensitive_features=data.sensitive_features)
        result = audit(model.embedding_, sensitive_features=data.sensitive_features)
        chosen = model.selection_.strength
        yield row_of(f"seed {seed}, auto", model, result, strength=chosen, limit=limit)
        model = FairCP(8, strength=1000.0, random_state=seed, tol=1e-6, max_iter=2000)
        model.fit(data.tensor, sensitive_features=data.sensitive_features)
        result = audit(model.embedding_, sensitive_features=data.sensitive_features)
        yield row_of(f"seed {seed}, 1000", model, result, strength=1000.0, limit=limit)


def kinds() -> dict[str, tuple[np.ndarray, Any, int]]:
    """Return tensors that depend on sensitive features of several kinds, with their ranks."""
    random = np.random.default_rng(0)

    def tensor(people: np.ndarray, rank: int, sizes: tuple[int, int] = (60, 50)) -> np.ndarray:
        others = [random.uniform(size=(size, rank)) for size in sizes]
        return np.einsum("ir,jr,kr->ijk", people, *others)

    n, rank = 300, 5
    half = np.arange(n) < n // 2
    signs = random.choice([-1.0, 1.0], (n, rank))
    shape = np.where(half[:, None], random.standard_normal((n, rank)), signs)
    for part in (half, ~half):  # the same means and covariances, exactly
        deviation = shape[part] - shape[part].mean(0)
        root = np.linalg.cholesky(np.linalg.inv(np.cov(deviation.T, bias=True)))
        shape[part] = deviation @ root
    three = random.integers(0, 3, n)
    angle = random.uniform(-np.pi, np.pi, n)
    circle = random.standard_normal((n, rank)) * 0.3
    circle[:, :2] += np.column_stack([np.cos(angle), np.sin(angle)])
    two = pd.DataFrame({"one": random.integers(0, 2, n), "two": random.integers(0, 2, n)})
    both = random.standard_normal((n, rank))
    both[:, 0] += 2 * two["one"]
    both[:, 1] += 2 * (two["one"] ^ two["two"])
    centers = 2 * random.standard_normal((3, rank))
    return {
        "equal moments, other shape": (tensor(shape, rank), half, rank),
        "three groups": (
            tensor(random.standard_normal((n, rank)) + centers[three], rank),
            three,
            5,
        ),
        "a number on a circle": (tensor(circle, rank), angle, rank),
        "two columns": (tensor(both, rank), two, rank),
    }


def fair_kinds() -> Iterable[Row]:
    """Other kinds of dependence: shape alone, three groups, a number, two columns at once.

    A plain fit, a fixed strength and "auto".
    """
    jobs = [(name, strength) for name in kinds() for strength in (0.0, 12.0, "auto")]
    yield from Parallel(n_jobs=-1, return_as="generator")(starmap(delayed(fair_kind), jobs))


def fair_kind(name: str, strength: float | str) -> Row:
    """Fit one kind with a fixed strength, or with "auto"."""
    torch.set_num_threads(1)
    tensor, sensitive, rank = kinds()[name]
    level = 0.02 if name == "a number on a circle" else 0.05
    model = FairCP(rank, strength=strength, max_leakage=level, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the row shows it
        model.fit(tensor, sensitive_features=sensitive)
    chosen = model.record_.strength
    passed = model.selection_.passed if strength == "auto" else None
    result = audit(model.embedding_, sensitive_features=sensitive)
    return row_of(f"{name}, {strength}", model, result, strength=chosen, passed=passed)


def baselines() -> Iterable[Row]:
    """Common baselines and the paper's methods on its synthetic data, seed 0, rank 8."""
    data = datasets.synthetic(0)
    n_squared = data.tensor.shape[0] ** 2
    sensitive = SensitiveFeatures.of(data.sensitive_features)
    criterion = Criterion(sensitive, as_tensor(data.tensor).flatten()[:0])
    paper = {"max_iter": 100, "tol": 0}
    methods: dict[str, dict[str, Any]] = {
        "plain CP": {"method": "none"},
        "plain CP + correlation removal": {"method": "correlation-removal"},
        "plain CP + moment matching": {"method": "moment-matching"},
        "FATR (paper)": {
            "method": Orthogonality(0.1, ridge=1.0), "solver": GradientBCD((3.0, 1.0)), **paper,
        },
        "HSIC-BCD (paper)": {
            "method": HSIC(0.01 * n_squared), "solver": GradientBCD((0.5, 1.0)), **paper,
        },
        "KHSIC-BCD (paper)": {
            "method": KHSIC(0.04 * n_squared), "solver": GradientBCD((0.5, 1.0)), **paper,
        },
        "invariant, auto": {"strength": "auto"},
    }  # fmt: skip
    for name, settings in methods.items():
        model = FairCP(8, random_state=0, **settings)
        model.fit(data.tensor, sensitive_features=data.sensitive_features)
        rows = as_tensor(model.embedding_)
        test = PermutationTest.of(criterion.permuted(rows, permutations=200, random_state=0))
        result = audit(model.embedding_, sensitive_features=data.sensitive_features)
        ratio = test.statistic / test.null_mean
        yield row_of(name, model, result, **{"criterion / null": ratio})


def drift() -> Iterable[Row]:
    """Drift of components with less damping of ill-determined updates (`shared.PULL`)."""
    data = datasets.synthetic(1)
    tensor = TensorData.from_array(data.tensor)
    size = float(tensor.values.square().mean())
    problem = Problem(tensor, 8, 0, Invariant(), SensitiveFeatures.of(data.sensitive_features))
    kept = shared.PULL
    try:
        for pull in (1e-10, 1e-6, kept):
            shared.PULL = pull
            starts = make_starts(problem, "uniform", count=1, seed=1)
            for strength in (4.0, 10.0, 20.0, 40.0):
                member = replace(problem, penalty=Invariant(strength))
                stop = Stop(max_iter=100, tol=0)
                (fit,) = solve_batch(member, BlockDescent(), starts=starts, stop=stop)
                starts = tuple(factor.unsqueeze(0) for factor in fit.cp.factors)
                yield {
                    "pull": pull,
                    "strength": strength,
                    "objective / mean(X**2)": fit.objective / size,
                    "largest mean / rms of X": float(fit.cp.factors[0].mean(0).abs().max())
                    / size**0.5,
                    "restarts": fit.counts["restarts"],
                }
    finally:
        shared.PULL = kept


def fair_time() -> Iterable[Row]:
    """One fit with method="invariant" until it converges, in its own process."""
    for n, other, rank, strength in ((200, 100, 8, 1), (200, 100, 8, 20), (20_000, 20, 16, 20)):
        yield {
            "shape": f"{n} x {other} x {other}",
            "rank": rank,
            "strength": strength,
            **alone("fairness.one_fit", n, other, rank, strength),
        }


def one_fit(n: int, other: int, rank: int, strength: float) -> Row:
    """Fit once."""
    data = datasets.synthetic(0, shape=(n, other, other))
    begin = perf_counter()
    model = FairCP(rank, strength=strength, random_state=0)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    return {
        "seconds": perf_counter() - begin,
        "iterations": model.fit_.n_iter + model.fit_.counts["rough iterations"],
        "residual": model.fit_.residual,
    }
