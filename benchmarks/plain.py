"""Where fits without a penalty begin: what several rough fits find, and what compression saves.

Run with ``python -m benchmarks.run plain_starts plain_people``.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import process_time
from unittest.mock import patch

import numpy as np
import tensorly
from numpy.typing import NDArray
from tensorly.decomposition import parafac

from parafair import FairCP, datasets
from parafair.data.tensor_data import TensorData
from parafair.solvers import Stop, decompose_plain
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem

Row = dict[str, object]
TENSORS = 20


def plain_starts() -> Iterable[Row]:
    """Exact tensors, 60 x 40 x 30 and rank 3: residuals of default fits and of a single start.

    A residual above 0.001 is a poor local optimum. TensorLy's `parafac` has its default start, and
    up to 500 iterations.
    """
    contenders = {
        "parafair, default": lambda tensor, seed: _residual(tensor, seed, "auto"),
        "parafair, n_init=1": lambda tensor, seed: _residual(tensor, seed, 1),
        "TensorLy, svd": lambda tensor, _: _peer(tensor),
    }
    tensors = [_exact(seed) for seed in range(TENSORS)]
    for name, fit in contenders.items():
        begin = process_time()
        found = np.array([fit(tensor, seed) for seed, tensor in enumerate(tensors)])
        yield {
            "fit": name,
            "tensors": TENSORS,
            "poor optima": int((found > 1e-3).sum()),
            "largest residual": float(found.max()),
            "CPU seconds each": (process_time() - begin) / TENSORS,
        }


def plain_people() -> Iterable[Row]:
    """Plain decompositions of 20,000 x 20 x 20 at rank 16, without and with compressed people."""
    data = datasets.synthetic(0, shape=(20_000, 20, 20), rank=16)
    problem = Problem(TensorData.from_array(np.asarray(data.tensor)), 16)
    starts, stop = make_starts(problem, "uniform", count=5, seed=0), Stop(max_iter=2000, tol=3e-5)
    # Without people, no mode of this tensor has directions to spare.
    for name, most in (("whole", 0), ("compressed", 2000)):
        with patch("parafair.solvers.compression.MOST_INDICES", most):
            begin = process_time()
            (fit,) = decompose_plain(problem, starts=starts, stop=stop, each=5)
        yield {"people": name, "CPU seconds": process_time() - begin, "residual": fit.residual}


def _exact(seed: int) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    factors = [random.normal(size=(size, 3)) for size in (60, 40, 30)]
    tensor: NDArray[np.float64] = np.einsum("ir,jr,kr->ijk", *factors)
    return tensor


def _residual(tensor: NDArray[np.float64], seed: int, n_init: int | str) -> float:
    model = FairCP(3, method="none", n_init=n_init, random_state=seed)  # type: ignore[arg-type]
    return float(model.fit(tensor).fit_.residual)


def _peer(tensor: NDArray[np.float64]) -> float:
    _, errors = parafac(tensorly.tensor(tensor), 3, n_iter_max=500, return_errors=True)
    return float(errors[-1])
