"""Fair fits against common alternatives, and their time.

Run with ``python -m benchmarks.run baselines drift fair_time``. What fits reveal is measured by
`benchmarks.chance`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any

from benchmarks.alone import alone
from parafair import FairCP, audit, datasets
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
    """Fits with method="invariant" until they converge, each in its own process.

    PARAFAIR_BEFORE may name the ``src`` folder of an earlier version, which is measured in turn.
    """
    small, large = (200, 100, 8), (20_000, 20, 16)
    before = os.environ.get("PARAFAIR_BEFORE")
    for sizes, strength in ((small, 20), (small, 300), (small, "auto"), (large, 20)):
        n, other, rank = sizes
        found = alone("fairness.one_fit", n, other, rank, strength)
        if before is not None:
            earlier = alone("fairness.one_fit", n, other, rank, strength, source=before)
            found |= {f"{name} before": earlier[name] for name in ("seconds", "residual")}
        shape = f"{n} x {other} x {other}"
        yield {"shape": shape, "rank": rank, "strength": strength, **found}


def one_fit(n: int, other: int, rank: int, strength: float | str) -> Row:
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
