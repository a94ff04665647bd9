"""Lists of entries whose absent cells are zeros: time, memory, and what a fair fit hides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from benchmarks.alone import alone
from parafair import FairCP, TensorData, audit, datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties import Invariant
from parafair.solvers import LBFGS, BlockDescent
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem

Row = dict[str, object]
SHAPE, COUNT, RANK, ITERATIONS = (100_000, 10_000, 1_000), 1_000_000, 8, 3
LOSSES = ("squared", "poisson-identity", "bernoulli-poisson")
SMALL = (100, 12, 10)
# Seeds on which nothing was tuned.
SEEDS = (11, 12, 13)


def zeros_time() -> Iterable[Row]:
    """A million entries in 100,000 x 10,000 x 1,000, all others zeros that count, rank 8.

    Seconds of an iteration (the median of three) after the start, and the most memory beyond that
    before the problem was made, as a multiple of the list: three indices and a value per entry.
    """
    for loss in LOSSES:
        for method in ("none", "invariant"):
            found = alone("zeros.iterations", loss, method)
            yield {"loss": loss, "method": method, **found}


def iterations(loss: str, method: str) -> Row:
    """Time some iterations of the solver that a model has by default."""
    random = np.random.default_rng(0)
    indices = np.unique(np.stack([random.integers(0, n, COUNT) for n in SHAPE]), axis=1)
    values = np.ones(indices.shape[1]) + random.poisson(1.0, indices.shape[1])
    values = np.ones_like(values) if loss.startswith("bernoulli") else values
    data = TensorData(torch.from_numpy(values), torch.from_numpy(indices), SHAPE, absent="zero")
    groups = SensitiveFeatures.of(np.resize(["a", "b"], SHAPE[0]))
    before, size = _memory("VmRSS"), data.values.numel() * (data.order + 1) * 8 / 1e6
    problem = Problem(
        data,
        RANK,
        penalty=None if method == "none" else Invariant(1.0),
        sensitive=None if method == "none" else groups,
        loss=loss,  # type: ignore[arg-type]
        non_negative=() if loss == "squared" else (0, 1, 2),
    )
    solver = BlockDescent() if method == "none" else LBFGS()
    state = solver.init(problem, make_starts(problem, "uniform", count=1, seed=0))  # type: ignore[attr-defined]
    seconds = []
    for _ in range(ITERATIONS):
        begin = perf_counter()
        state = solver.step(problem, state)  # type: ignore[arg-type]
        seconds.append(perf_counter() - begin)
    more = max(0.0, _memory("VmHWM") - before)
    return {"seconds": float(np.median(seconds)), "MB": more, "times the list": more / size}


def _memory(name: str) -> float:
    """Return memory of this process in MB, as the kernel counts it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) / 1000


def zeros_fairness() -> Iterable[Row]:
    """Generated counts and events, 100 x 12 x 10, most of them zeros: leakage, plain and fair.

    The audit has the attackers linear and svm.
    """
    for loss in ("poisson-identity", "bernoulli-poisson"):
        for seed in SEEDS:
            events = loss.startswith("bernoulli")
            found = (
                datasets.events(seed, shape=SMALL)
                if events
                else datasets.counts(seed, shape=SMALL, inflation=0.6)
            )
            tensor = torch.from_numpy(np.asarray(found.tensor))
            places = tensor.nonzero().T
            data = TensorData(tensor[tuple(places)], places, tuple(tensor.shape), absent="zero")
            for method in ("none", "invariant"):
                features = found.sensitive_features
                model = FairCP(3, method=method, loss=loss, n_init=2, random_state=seed)
                model.fit(data, sensitive_features=features)
                result = audit(
                    model.embedding_, sensitive_features=features, attackers=["linear", "svm"]
                )
                yield {
                    "seed": seed,
                    "loss": loss,
                    "method": method,
                    "deviance ratio": model.fit_.residual,
                    "leakage": result.leakage,
                    "passes 0.05": bool(result.leakage <= 0.05),
                }
