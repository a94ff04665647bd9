"""Counts with GenTen, each fit in its own process: it may crash, or not end.

Run by ``python -m benchmarks.run losses``.
"""

from __future__ import annotations

import gc
import os
from subprocess import CalledProcessError, TimeoutExpired
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.alone import alone
from benchmarks.contenders import quiet

Row = dict[str, object]

# What pygenten 0.1.5 cannot do.
NO_LINK = "GenTen's models of events and counts are odds and rates, not their logarithms"
NO_HOLES = "pygenten has no mask for missing entries"

# Epochs of stochastic gradients, tried one after the other until one is enough. Its defaults, 1000
# steps of a third of all entries, take minutes for one epoch.
EPOCHS = (10, 20, 40, 80, 160)
SGD = {"epoch_iters": 100, "rate": 5e-3}
SAMPLES = 3000


def genten(loss: str, missing: float, residual: float, seconds: float) -> list[Row]:
    """Return a row for each method and start of GenTen, or one with the reason for none.

    Args:
        loss: The loss.
        missing: Share of missing entries.
        residual: The deviance ratio that is enough.
        seconds: When a method is stopped.
    """
    if missing or loss != "poisson-identity":
        return [{"method": "pygenten", **skipped(NO_HOLES if missing else NO_LINK)}]
    return [
        {"method": f"pygenten {method}{name}", **_until(method, loss, start, residual, seconds)}
        for start, name in (("random", ""), ("ours", ", our start"))
        for method in ("gcp_opt", "gcp_sgd")
    ]


def _until(method: str, loss: str, start: str, residual: float, seconds: float) -> Row:
    """Return the first run that is good enough, or the last one within the time."""
    row, begin = skipped("no run ended"), perf_counter()
    for epochs in EPOCHS if method == "gcp_sgd" else (500,):
        left = seconds - (perf_counter() - begin)
        try:
            found = alone("genten.one_fit", method, loss, start, epochs, left, seconds=2 * left)
        except TimeoutExpired:
            break
        except CalledProcessError as error:
            return skipped(f"GenTen failed with the exit status {error.returncode}")
        if "skipped" in found:
            return skipped(str(found["skipped"]))
        row = {name: found[name] for name in ("iterations", "seconds", "deviance ratio")}
        row["reached"] = "yes" if float(str(row["deviance ratio"])) <= residual else "no"
        if row["reached"] == "yes" or perf_counter() - begin > seconds:
            break
    return row


def skipped(why: str) -> Row:
    """Return the row of a contender that was not run."""
    return {"iterations": 0, "seconds": float("nan"), "deviance ratio": float("nan"),
            "reached": f"skipped: {why}"}  # fmt: skip


def one_fit(method: str, loss: str, start: str, most: int, seconds: float) -> Row:
    """Fit complete counts once, and judge the factors by our problem, off the clock."""
    os.environ.setdefault("OMP_PROC_BIND", "false")
    try:
        import pygenten as gt
    except ImportError:
        return {"skipped": "pygenten is not installed"}
    from benchmarks.losses import begins_of, case_of

    torch.set_num_threads(1)
    problem, entries, _ = case_of(loss, 0.0)
    found, steps, taken = _run(gt, method, entries, begins_of(problem)[start], most, seconds)
    gc.collect()  # what lives until the end of the process makes GenTen abort it
    judged = problem.evaluate([torch.from_numpy(np.ascontiguousarray(f))[None] for f in found])
    return {"iterations": steps, "seconds": taken, "deviance ratio": float(judged.residual)}


def _run(
    gt: Any,
    method: str,
    entries: np.ndarray,
    factors: list[np.ndarray],
    most: int,
    seconds: float,
) -> tuple[list[np.ndarray], int, float]:
    """Return the factors, the number of entries of the history, and the time."""
    rank, data = factors[0].shape[1], gt.Tensor(np.asfortranarray(entries))
    init = gt.Ktensor(np.ones(rank), [np.array(factor, order="F") for factor in factors])
    more = {"gcp_tol": 1e-12, "ftol": 1e-12}
    if method == "gcp_sgd":
        more = {**SGD, "num_samples_nonzeros_grad": SAMPLES, "num_samples_zeros_grad": SAMPLES}
    with quiet():
        begin = perf_counter()
        result, _, history = getattr(gt, method)(
            data, rank=rank, init=init, loss_function_type="poisson", maxiters=most,
            maxsecs=seconds, printitn=0, **more
        )  # fmt: skip
        taken = perf_counter() - begin
    found = [np.array(factor) for factor in result.factor_matrices]
    return [found[0] * np.array(result.weights), *found[1:]], history.size(), taken
