"""Losses beside the squared error: time to the same deviance, and what noise costs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from time import perf_counter

import numpy as np
import torch

from parafair import FairCP, TensorData
from parafair.losses import LOSSES
from parafair.solvers import Stop, decompose_plain
from parafair.solvers.init import make_starts
from parafair.solvers.linking import linked_starts
from parafair.solvers.problem import Problem

Row = dict[str, object]
SHAPE, RANK = (200, 100, 100), 8
# A fit has reached the deviance of ours if it exceeds it by no more than this share.
CLOSE = 1e-3
# Iterations of the other library.
MOST = 200
RUNS = 3


def losses() -> Iterable[Row]:
    """200 x 100 x 100, rank 8, events and counts, complete and 30 % missing: seconds to a deviance.

    The time is that of the first iteration within 0.1 % of the deviance at which ours converges, or
    of all iterations. Ours includes its start. pyttb's ``gcp_opt`` (L-BFGS-B) runs from small
    normal factors, and from our start, whose time is then not counted. The best of three runs.
    """
    for name in ("bernoulli", "poisson"):
        for missing in (0.0, 0.3):
            entries, observed = _draw(name, missing)
            data = TensorData.from_array(np.where(observed, entries, np.nan))
            problem = Problem(data, RANK, loss=LOSSES[name])
            case = {"loss": name, "missing": missing}
            _, starts, residual = _ours(problem)
            random = np.random.default_rng(1)
            small = [0.3 * random.standard_normal((size, RANK)) for size in SHAPE]
            begins = {"pyttb": small, "pyttb, our start": [f[0].numpy() for f in starts]}
            # One after the other, so that other load on the machine meets all of them.
            found: dict[str, list[Row]] = {name: [] for name in ("parafair", *begins)}
            for _ in range(RUNS):
                found["parafair"].append(_ours(problem)[0])
                for method, factors in begins.items():
                    row = _pyttb(problem, entries, observed, factors, residual)
                    found[method].append(row)
            for method, rows in found.items():
                yield {**case, "method": method, **min(rows, key=_seconds)}


def _seconds(row: Row) -> float:
    return float(row["seconds"])  # type: ignore[arg-type]


def _ours(problem: Problem) -> tuple[Row, tuple[torch.Tensor, ...], float]:
    """Return the time of a plain decomposition, its start, and its deviance ratio in the end."""
    begin = perf_counter()
    starts = linked_starts(problem, make_starts(problem, "uniform", count=1, seed=0))
    before = perf_counter() - begin
    (fit,) = decompose_plain(problem, starts=starts, stop=Stop())
    close = [entry.residual <= (1 + CLOSE) * fit.residual for entry in fit.history].index(True)
    row: Row = {"iterations": close, "seconds": before + fit.history[close].seconds,
                "deviance ratio": fit.history[close].residual, "reached": "yes"}  # fmt: skip
    return row, starts, fit.residual


def _draw(name: str, missing: float) -> tuple[np.ndarray, np.ndarray]:
    """Return entries of a model of this rank, and which of them are observed."""
    random = np.random.default_rng(0)
    model = np.einsum("ir,jr,kr->ijk", *(random.standard_normal((n, RANK)) for n in SHAPE))
    model /= model.std()
    if name == "bernoulli":
        entries = (random.uniform(size=SHAPE) < 1 / (1 + np.exp(-2 * model))).astype(float)
    else:
        entries = random.poisson(np.exp(model.clip(-6, 4))).astype(float)
    return entries, random.uniform(size=SHAPE) >= missing


def _pyttb(
    problem: Problem,
    entries: np.ndarray,
    observed: np.ndarray,
    factors: list[np.ndarray],
    residual: float,
) -> Row:
    """Run ``pyttb.gcp_opt``; all points are judged by the problem, off the clock."""
    try:
        import pyttb as ttb
        from pyttb.gcp.handles import Objectives
        from pyttb.gcp.optimizers import LBFGSB
    except ImportError:
        return {"iterations": 0, "seconds": float("nan"), "deviance ratio": float("nan"),
                "reached": "skipped: pyttb is not installed"}  # fmt: skip
    objectives = {"bernoulli": Objectives.BERNOULLI_LOGIT, "poisson": Objectives.POISSON_LOG}
    points: list[tuple[float, np.ndarray]] = []
    data = ttb.tensor(np.asfortranarray(entries * observed))
    logging.getLogger().setLevel(logging.ERROR)  # it logs a line for every evaluation
    begin = perf_counter()
    ttb.gcp_opt(
        data,
        RANK,
        objectives[problem.loss.name],
        LBFGSB(maxiter=MOST, callback=lambda x: points.append((perf_counter() - begin, x.copy()))),
        init=ttb.ktensor([np.asfortranarray(factor) for factor in factors]),
        mask=None if observed.all() else observed.astype(float),
        printitn=0,
    )
    reached = False
    for number, (seconds, vector) in enumerate(points, 1):
        # Factors one after the other, each column by column.
        cut = np.split(vector, np.cumsum([n * RANK for n in SHAPE])[:-1])
        parts = [part.reshape(RANK, n).T for part, n in zip(cut, SHAPE, strict=True)]
        found = float(problem.evaluate([torch.from_numpy(p.copy())[None] for p in parts]).residual)
        reached = found <= (1 + CLOSE) * residual
        row: Row = {"iterations": number, "seconds": seconds, "deviance ratio": found}
        if reached:
            break
    return {**row, "reached": "yes" if reached else "no"}


def linked_noise() -> Iterable[Row]:
    """Counts, 120 x 12 x 10, six people with zeros alone: deviance ratio before and after noise."""
    for seed in (0, 1):
        random = np.random.default_rng(seed)
        groups, rows = random.integers(0, 2, 120), random.normal(size=(120, 3))
        rows[:, 0] += groups
        model = np.einsum("ir,jr,kr->ijk", rows, *(random.normal(size=(m, 3)) for m in (12, 10)))
        counts = random.poisson(np.exp((1.5 * model / model.std() - 1).clip(-8, 5))).astype(float)
        counts[:6] = 0
        for center in (False, True):
            for ridge in (0.0, 0.1, 1.0):
                for noise in (0.1, 0.5):
                    fitted = FairCP(3, loss="poisson", method="none", center=center, ridge=ridge,
                                    noise=noise)  # fmt: skip
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # what it measures
                        fitted.fit(counts, sensitive_features=groups)
                    yield {"seed": seed, "center": center, "ridge": ridge, "noise": noise,
                           "before": fitted.fit_.before_noise.residual,
                           "after": fitted.fit_.residual}  # fmt: skip
