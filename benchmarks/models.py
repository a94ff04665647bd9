"""Other models than plain CP, against TensorLy, from the same start and to the same error.

Run with ``python -m benchmarks.run non_negative_cp tucker``. Everything runs with one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter

import numpy as np
import torch

from parafair import FairTucker
from parafair.data.tensor_data import TensorData
from parafair.solvers import BlockDescent
from parafair.solvers.init import make_starts
from parafair.solvers.precision import solve_twice
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop

Row = dict[str, object]

# Fits end within this share of the smallest residual.
CLOSE = (1.01, 1.001, 1.0001)


def non_negative_cp(
    seeds: Sequence[int] = (0, 1, 2), shape: tuple[int, ...] = (200, 100, 100), rank: int = 8
) -> Iterable[Row]:
    """Seconds to an error, of 10 % noise: TensorLy's HALS against ours, from the same start."""
    torch.set_num_threads(1)
    for seed in seeds:
        tensor = non_negative_tensor(shape, rank, seed)
        problem = Problem(
            TensorData.from_array(tensor), rank, non_negative=tuple(range(len(shape)))
        )
        starts = make_starts(problem, "uniform", count=1, seed=seed)
        begin = [factor[0].numpy() for factor in starts]
        (ours,) = solve_twice(problem, BlockDescent(), starts=starts, stop=Stop(300, 1e-7))
        theirs = hals_of_tensorly(tensor, rank, begin)
        residuals = [entry.residual for entry in ours.history], [error for error, _ in theirs]
        least = min(map(min, residuals))
        for close in CLOSE:
            own = next(e.seconds for e in ours.history if e.residual <= close * least)
            other = next((s for error, s in theirs if error <= close * least), None)
            yield {
                "seed": seed,
                "residual": close * least,
                "above the smallest": close - 1,
                "parafair seconds": own,
                "tensorly seconds": other,
                "times faster": other and other / own,
            }


def hals_of_tensorly(
    tensor: np.ndarray, rank: int, begin: Sequence[np.ndarray], iterations: int = 100
) -> list[tuple[float, float]]:
    """Return errors and seconds after each iteration; the time is spread evenly over them."""
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import non_negative_parafac_hals

    start = CPTensor((np.ones(rank), [factor.copy() for factor in begin]))
    before = perf_counter()
    _, errors = non_negative_parafac_hals(
        tensor, rank, init=start, n_iter_max=iterations, tol=1e-13, return_errors=True
    )
    seconds = perf_counter() - before
    return [(float(e), seconds * (i + 1) / len(errors)) for i, e in enumerate(errors)]


def tucker(
    seeds: Sequence[int] = (0, 1, 2),
    shape: tuple[int, ...] = (200, 100, 100),
    ranks: tuple[int, ...] = (8, 6, 5),
) -> Iterable[Row]:
    """Seconds and residual of a plain Tucker decomposition with default settings."""
    from tensorly.decomposition import tucker as tucker_of_tensorly
    from tensorly.tucker_tensor import tucker_to_tensor

    torch.set_num_threads(1)
    for seed in seeds:
        tensor = tucker_tensor(shape, ranks, seed)
        before = perf_counter()
        ours = FairTucker(ranks, method="none").fit(tensor)
        own = perf_counter() - before
        before = perf_counter()
        theirs = tucker_of_tensorly(tensor, ranks)
        other = perf_counter() - before
        error = np.linalg.norm(tucker_to_tensor(theirs) - tensor) / np.linalg.norm(tensor)
        yield {
            "seed": seed,
            "parafair residual": ours.fit_.residual,
            "tensorly residual": float(error),
            "parafair seconds": own,
            "tensorly seconds": other,
            "times faster": other / own,
        }


def non_negative_tensor(shape: Sequence[int], rank: int, seed: int) -> np.ndarray:
    """Return a sum of uniform components with normal noise of 10 %, negative entries made zero."""
    random = np.random.default_rng(seed)
    factors = [random.random((size, rank)) for size in shape]
    return np.maximum(with_noise(np.einsum("ir,jr,kr->ijk", *factors), random), 0)


def tucker_tensor(shape: Sequence[int], ranks: Sequence[int], seed: int) -> np.ndarray:
    """Return a normal core times normal factors, with normal noise of 10 %."""
    random = np.random.default_rng(seed)
    factors = [random.standard_normal(pair) for pair in zip(shape, ranks, strict=True)]
    core = random.standard_normal(tuple(ranks))
    return with_noise(np.einsum("abc,ia,jb,kc->ijk", core, *factors, optimize=True), random)


def with_noise(tensor: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a tensor with normal noise of a tenth of its norm."""
    noise = random.standard_normal(tensor.shape)
    return tensor + 0.1 * np.linalg.norm(tensor) / np.linalg.norm(noise) * noise
