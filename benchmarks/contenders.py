"""Plain CP with other libraries: from a tensor, a start and a number of sweeps to factors.

Conversions to the tensor class of a library are not timed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np
import torch

from parafair.data.tensor_data import TensorData
from parafair.solvers import BlockDescent, solve_batch
from parafair.solvers.compression import compressed_fits
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop

# prepare(tensor, start) returns run(sweeps), which returns the factors.
Run = Callable[[int], list[np.ndarray]]


def parafair(tensor: np.ndarray, start: list[np.ndarray]) -> Run:
    """Our plain decompositions, as fits begin: those of the compressed tensor."""
    problem, starts = _problem(tensor, start)

    def run(sweeps: int) -> list[np.ndarray]:
        found = compressed_fits(problem, starts, stop=Stop(sweeps, 0))
        assert found is not None
        return [factor.numpy() for factor in found[0].cp.factors]

    return run


def blocks(extrapolate: bool) -> Callable[[np.ndarray, list[np.ndarray]], Run]:
    """Our block descent on the whole tensor, with or without extrapolation."""

    def prepare(tensor: np.ndarray, start: list[np.ndarray]) -> Run:
        problem, starts = _problem(tensor, start)

        def run(sweeps: int) -> list[np.ndarray]:
            solver = BlockDescent(extrapolate)
            (fit,) = solve_batch(problem, solver, starts=starts, stop=Stop(sweeps, 0))
            return [factor.numpy() for factor in fit.cp.factors]

        return run

    return prepare


def _problem(
    tensor: np.ndarray, start: list[np.ndarray]
) -> tuple[Problem, tuple[torch.Tensor, ...]]:
    """Return the problem and its start."""
    starts = tuple(torch.from_numpy(factor)[None] for factor in start)
    return Problem(TensorData.from_array(tensor), start[0].shape[1]), starts


def tensorly(backend: str) -> Callable[[np.ndarray, list[np.ndarray]], Run]:
    """``tensorly.decomposition.parafac``."""

    def prepare(tensor: np.ndarray, start: list[np.ndarray]) -> Run:
        import tensorly as tl
        from tensorly.decomposition import parafac

        tl.set_backend(backend)
        data = tl.tensor(tensor)

        def run(sweeps: int) -> list[np.ndarray]:
            init = tl.cp_tensor.CPTensor((None, [tl.tensor(factor.copy()) for factor in start]))
            weights, factors = parafac(
                data, start[0].shape[1], n_iter_max=sweeps, init=init, tol=1e-300
            )
            factors = [np.asarray(factor) for factor in factors]
            return [factors[0] * np.asarray(weights), *factors[1:]]

        return run

    return prepare


def pyttb(tensor: np.ndarray, start: list[np.ndarray]) -> Run:
    """``pyttb.cp_als``."""
    import pyttb as ttb

    data = ttb.tensor(tensor)

    def run(sweeps: int) -> list[np.ndarray]:
        init = ttb.ktensor([factor.copy() for factor in start])
        result, _, _ = ttb.cp_als(
            data, start[0].shape[1], init=init, maxiters=sweeps, stoptol=1e-300, printitn=0
        )
        return [result.factor_matrices[0] * result.weights, *result.factor_matrices[1:]]

    return run


def pygenten(tensor: np.ndarray, start: list[np.ndarray]) -> Run:
    """``pygenten.cp_als`` (OpenMP)."""
    os.environ.setdefault("OMP_PROC_BIND", "false")
    import pygenten as gt

    data = gt.Tensor(np.asfortranarray(tensor))

    def run(sweeps: int) -> list[np.ndarray]:
        init = gt.Ktensor(
            np.ones(start[0].shape[1]), [np.array(factor, order="F") for factor in start]
        )
        with quiet():
            result, _, _ = gt.cp_als(
                data, rank=start[0].shape[1], init=init, maxiters=sweeps, tol=1e-300, printitn=0
            )
        weights, factors = np.array(result.weights), [np.array(f) for f in result.factor_matrices]
        return [factors[0] * weights, *factors[1:]]

    return run


@contextmanager
def quiet():
    """Silence output written from C++."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


CONTENDERS = {
    "parafair": parafair,
    "parafair, whole tensor": blocks(True),
    "parafair, whole tensor, no extrapolation": blocks(False),
    "tensorly (numpy)": tensorly("numpy"),
    "tensorly (torch)": tensorly("pytorch"),
    "pyttb": pyttb,
    "pygenten": pygenten,
}
