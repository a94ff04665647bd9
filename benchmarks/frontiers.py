"""Frontiers: the speed of a batch, and the hypervolume of each method.

Run with ``python -m benchmarks.run batch hypervolume``.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import joblib
import numpy as np
import torch
from examples.demo import methods

from parafair import Frontier, datasets, frontier
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.frontiers.result import join
from parafair.penalties import KHSIC
from parafair.solvers import GradientBCD, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop

Row = dict[str, object]

ROUNDS, STRENGTHS, SEEDS, ALONE = 5, 50, 5, 5


def batch() -> Iterable[Row]:
    """250 fits of the paper's KHSIC-BCD (50 strengths x 5 seeds), 5 iterations: batched or single.

    Single fits are measured on 5 of the 250 and extrapolated; all fits take the same steps.
    """
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        for dtype in (torch.float64, torch.float32):
            yield batch_on(device, dtype)


def batch_on(device: str, dtype: torch.dtype) -> Row:
    """Time batched and single fits on one device."""
    data = datasets.synthetic(0)
    tensor = TensorData.from_array(data.tensor).to(device, dtype)
    problem = Problem(tensor, 8, 0, KHSIC(), SensitiveFeatures.of(data.sensitive_features))
    grid = torch.linspace(0, 0.4, STRENGTHS, dtype=torch.float64) * len(data.tensor) ** 2
    drawn = [make_starts(problem, "uniform", count=1, seed=seed) for seed in range(SEEDS)]
    starts = tuple(torch.cat(mode * STRENGTHS) for mode in zip(*drawn, strict=True))
    strengths = grid.repeat_interleave(SEEDS).to(device)
    solver, stop = GradientBCD((0.5, 1.0)), Stop(max_iter=ROUNDS, tol=0)
    problem = problem.with_strengths(strengths)

    def run(members: torch.Tensor) -> tuple[float, list[float]]:
        begin = perf_counter()
        some = tuple(factor[members] for factor in starts)
        fits = solve_batch(problem.take(members), solver, starts=some, stop=stop)
        return perf_counter() - begin, [fit.objective for fit in fits]

    everybody = torch.arange(len(strengths), device=device)
    run(everybody[:1])  # the first call on a device loads its libraries
    together, objectives = run(everybody)
    chosen = everybody[:: len(everybody) // ALONE]
    single = [run(member.unsqueeze(0)) for member in chosen]
    alone = sum(seconds for seconds, _ in single) / len(single) * len(everybody)
    worst = max(
        abs(objectives[int(member)] - found[0]) / abs(found[0])
        for member, (_, found) in zip(chosen, single, strict=True)
    )
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "dtype": str(dtype).removeprefix("torch."),
        "250 fits together, s": together,
        "one by one, s": alone,
        "ratio": alone / together,
        "largest relative difference": worst,
    }


OURS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 22, 32, 45, 64, 90, 128)


def hypervolume() -> Iterable[Row]:
    """Share of the (residual, leakage) plane each method dominates, synthetic data, seeds 0-4."""
    names = list(methods(200))
    jobs = [(seed, name) for seed in range(5) for name in names]
    found = joblib.Parallel(n_jobs=-1)(joblib.delayed(curve_of)(*job) for job in jobs)
    curves = dict(zip(jobs, found, strict=True))
    for name in names:
        areas = [curves[seed, name].hypervolume() for seed in range(5)]
        yield {"method": name, "mean": float(np.mean(areas)), "sd": float(np.std(areas))}
    everything = [join(curves[seed, name] for name in names).hypervolume() for seed in range(5)]
    yield {
        "method": "all of them together",
        "mean": float(np.mean(everything)),
        "sd": float(np.std(everything)),
    }


def curve_of(seed: int, name: str) -> Frontier:
    """Return the frontier of one method on one data set, audited by five attackers."""
    torch.set_num_threads(1)
    data = datasets.synthetic(seed)
    model, strengths = methods(len(data.sensitive_features))[name]
    return frontier(
        model,
        data.tensor,
        sensitive_features=data.sensitive_features,
        strengths=OURS if name == "invariant" else strengths,
        name=name,
        seeds=(seed,),
        limit=False,
    )
