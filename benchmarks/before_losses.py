"""The squared loss before and after other losses existed: same numbers, same time.

PARAFAIR_BEFORE names the ``src`` folder of the earlier version, such as that of a worktree of
``183da93^``. Starts, sampling and stopping have changed since for other reasons, so whole fits of
the two versions are not the same. What is compared is what the losses touch: evaluations of loss
and gradients, and sweeps of blocks, on the same data, from the same factors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from time import process_time

import numpy as np
import torch

from benchmarks.alone import alone
from parafair import datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import Invariant
from parafair.solvers import BlockDescent
from parafair.solvers.problem import Problem

Row = dict[str, object]
SHAPE, RANK = (200, 100, 100), 8
PENALTIES = {"none": None, "invariant": Invariant(20.0)}
CASES = (("none", 0.0), ("invariant", 0.0), ("none", 0.3))
RUNS, REPEATS, ROUNDS, SWEEPS = 5, 20, 2, 10


def squared_before() -> Iterable[Row]:
    """200 x 100 x 100, rank 8, squared loss: this version against that before other losses.

    CPU time of one thread: the best of five processes of each version in turn, and of repeats in
    each. An evaluation is that of objective and gradients; ten sweeps of blocks begin at the same
    factors. The difference is that of the values, relative.
    """
    before = os.environ.get("PARAFAIR_BEFORE")
    if before is None:
        raise ValueError("PARAFAIR_BEFORE must name the src folder of an earlier version")
    for method, missing in CASES:
        found: dict[str, list[dict[str, object]]] = {"now": [], "before": []}
        for _ in range(RUNS):
            for version, source in (("now", None), ("before", before)):
                row = alone("before_losses.one_run", method, missing, source=source)
                found[version].append(row)
        for what in ("evaluation", "sweeps"):
            yield _row(method, missing, what, found)


def _row(method: str, missing: float, what: str, found: dict[str, list[dict[str, object]]]) -> Row:
    times = {version: min(_number(row, what) for row in rows) for version, rows in found.items()}
    now, before = (_number(found[version][0], f"value of {what}") for version in found)
    return {"method": method, "missing": missing, "what": what,
            "CPU ms before": 1e3 * times["before"], "CPU ms now": 1e3 * times["now"],
            "now / before": times["now"] / times["before"],
            "value now": now, "difference": abs(now - before) / abs(before)}  # fmt: skip


def _number(row: dict[str, object], name: str) -> float:
    return float(row[name])  # type: ignore[arg-type]


def one_run(method: str, missing: float) -> Row:
    """Time evaluations and sweeps in this process; with either version."""
    torch.set_num_threads(1)
    data = datasets.synthetic(0, shape=SHAPE)
    random = np.random.default_rng(1)
    entries = data.tensor + 0.1 * data.tensor.std() * random.standard_normal(SHAPE)
    entries[random.uniform(size=SHAPE) < missing] = np.nan
    sensitive = SensitiveFeatures.of(data.sensitive_features)
    stored, penalty = TensorData.from_array(entries), PENALTIES[method]
    problem = Problem(stored, RANK, penalty=penalty, sensitive=sensitive, ridge=1.0)
    factors = tuple(torch.from_numpy(random.uniform(size=(1, n, RANK))) for n in SHAPE)
    times, value = [], 0.0
    for _ in range(REPEATS):
        begin = process_time()
        # Later versions return more than the objective and the gradients.
        value = float(problem.value_and_gradients(factors)[0].value)
        times.append(process_time() - begin)
    solver, rounds = BlockDescent(), []
    for _ in range(ROUNDS):
        begin = process_time()
        state = solver.init(problem, factors)
        for _ in range(SWEEPS):
            state = solver.step(problem, state)
        rounds.append(process_time() - begin)
    return {"evaluation": min(times), "value of evaluation": value,
            "sweeps": min(rounds), "value of sweeps": float(state.objective.value)}  # fmt: skip
