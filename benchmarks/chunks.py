"""Chunks of people that stay the same during a fit, and chunks that are dealt anew.

Run with ``python -m benchmarks.run chance_chunks``. It needs the Adult data, downloaded or in the
folder PARAFAIR_DATA.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import numpy as np
from torch import Tensor

from parafair import FairCP, TensorData, audit, datasets
from parafair.model.preparation import Settings
from parafair.penalties import Invariant
from parafair.solvers.dealing import solve_dealt
from parafair.solvers.precision import solve_twice

Row = dict[str, object]

# Number of a deal that no fit uses.
UNSEEN = 1000


def chance_chunks() -> Iterable[Row]:
    """Adult, rank 8: the dependence that fits leave in their own chunks and in chunks of others.

    "own" is the root mean square of the statistics of the problem's chunks, in standard deviations,
    and "unseen" that of chunks which no fit has seen.
    """
    for people, strength in ((5000, 100.0), (12_000, 300.0)):
        yield from _compare(people, strength)


def _compare(people: int, strength: float) -> Iterable[Row]:
    data = datasets.adult()
    chosen = np.random.default_rng(0).permutation(len(data.target))[:people]
    sex = data.sensitive_features["sex"].to_numpy()[chosen]
    model = FairCP(8, strength=strength, random_state=0)
    task = Settings.of(model).bind(TensorData.from_array(data.tensor[chosen]), sex)
    problem, settings = task.problem, task.settings
    starts = tuple(factor[None] for factor in task.fit_plain().cp.factors)
    criterion = Invariant().criterion(problem.penalized_features, problem.prototype)
    for name, solve in (("stay", solve_twice), ("dealt anew", solve_dealt)):
        begin = perf_counter()
        (fit,) = solve(problem, settings.solver, starts=starts, stop=settings.stop)
        seconds, rows = perf_counter() - begin, fit.cp.factors[0]
        noise = task.noise(settings.noise_at(strength), strength=strength)
        released = noise.release(problem, fit)
        found = audit(
            released.cp.factors[0].numpy(),
            sensitive_features=sex,
            attackers=("linear", "boosting", "forest"),
            permutations=1,
        )
        yield {
            "people": people,
            "strength": strength,
            "chunks": name,
            "own": _root_mean_square(criterion.deviations(rows)),
            "unseen": _root_mean_square(criterion.with_deal(UNSEEN).deviations(rows)),
            "residual": fit.residual,
            "leakage": found.leakage,
            "iterations": fit.n_iter,
            "seconds": seconds,
        }


def _root_mean_square(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())
