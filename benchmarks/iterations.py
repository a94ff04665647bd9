"""Where the time of one iteration of the default method goes, against what the hardware can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter

import numpy as np
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence.chunks import CHUNK_PEOPLE
from parafair.dependence.scales import PAIR_GAMMAS, ROW_GAMMAS, spectrum
from parafair.dependence.views import compare_columns, compare_rows
from parafair.dependence.waves import LEAST_IN_STRIPS, MOST_PAIRED
from parafair.dependence.whitening import RowViews
from parafair.penalties import Invariant
from parafair.solvers import LBFGS
from parafair.solvers.problem import Problem

Row = dict[str, object]

# People, size of both other modes, rank.
SIZES = ((200, 100, 8), (20_000, 20, 16), (1_000_000, 10, 16))
# As large as the last but for the people: how the time grows with them.
MIDDLE = (10_000, 10, 16)
REPEATS, STEPS = 5, 10


def iteration_time() -> Iterable[Row]:
    """One iteration in single precision on the CPU, by its parts, in milliseconds."""
    yield from (_row(n, other, rank, "cpu") for n, other, rank in SIZES[:2])


def gpu_iteration() -> Iterable[Row]:
    """One iteration in single precision on a CUDA device, by its parts, in milliseconds."""
    yield from (_row(n, other, rank, "cuda") for n, other, rank in (*SIZES, MIDDLE))


def _row(n: int, other: int, rank: int, device: str) -> Row:
    generator = torch.Generator().manual_seed(0)
    factors = [torch.randn(size, rank, generator=generator) for size in (n, other, other)]
    tensor = torch.einsum("ir,jr,kr->ijk", *factors)
    tensor += 0.5 * tensor.std() * torch.randn(tensor.shape, generator=generator)
    tensor = tensor.to(device)
    starts = tuple(factor.to(device).unsqueeze(0) for factor in factors)
    groups = SensitiveFeatures.of(np.arange(n) % 2)
    problem = Problem(TensorData(tensor), rank, 0, Invariant(20.0), groups)
    criterion = Invariant().criterion(groups, tensor)
    scorers, rows = criterion.scorers(rank), starts[0]
    views = RowViews(rows)
    whitened, robust = criterion._rows(views)
    columns = criterion._columns(views)
    upstream = views.whitened
    times = {
        "loss": _milliseconds(lambda: problem.loss_and_gradients(starts), device),
        "whitening": _milliseconds(
            lambda: RowViews(rows).pull_back(upstream, upstream, upstream), device
        ),
        "rows": _milliseconds(
            lambda: (
                compare_rows(whitened, scorers.rows, criterion.places, criterion.runs),
                compare_rows(robust, scorers.robust, criterion.places, criterion.runs),
            ),
            device,
        ),
        "columns": _milliseconds(
            lambda: compare_columns(columns, scorers.columns, scorers.pairs, criterion.alike),
            device,
        ),
        "criterion": _milliseconds(lambda: criterion.value_and_gradient(rows), device),
        **_steps(problem, starts, device),
    }
    chunk = min(n, CHUNK_PEOPLE)
    weights = criterion.row_weights.columns.shape[-1]
    # In pieces, half of the Gram matrix and one product with all kernels; else one with each.
    in_pieces = criterion.runs is not None and device == "cpu"
    each = rank / 2 + rank + 1 if in_pieces else rank + len(ROW_GAMMAS) * weights * (rank + 1)
    features = min(rank, MOST_PAIRED) * (2 * len(spectrum(PAIR_GAMMAS)[0]) - 1)
    return {
        "people": n,
        "shape": f"{n} x {other} x {other}",
        "rank": rank,
        "device": device,
        **{f"{name}, ms": value for name, value in times.items()},
        # Both views of whole rows, and both halves of the columns with their gradient.
        "exponentials, million": (1 if in_pieces else 2) * n * chunk / 1e6,
        "multiply-adds of rows, billion": 2 * n * chunk * each / 1e9,
        # On a processor, of the products of two columns with each other about half.
        "multiply-adds of columns, billion": (
            4 if device == "cuda" or n < LEAST_IN_STRIPS else 3.25
        )
        * n
        * features**2
        / 1e9,
        "multiply-adds of the loss, billion": 2 * n * other * other * rank / 1e9,
    }


def _steps(problem: Problem, starts: tuple[torch.Tensor, ...], device: str) -> dict[str, float]:
    """Return the mean time of a step, and how many evaluations it takes."""
    state = LBFGS().init(problem, starts)
    for _ in range(STEPS):  # the first ones have fewer earlier steps
        state = LBFGS().step(problem, state)
    before = int(state.evaluations.sum())
    _wait(device)
    begin = perf_counter()
    for _ in range(STEPS):
        state = LBFGS().step(problem, state)
    _wait(device)
    seconds = (perf_counter() - begin) / STEPS
    evaluations = (int(state.evaluations.sum()) - before) / STEPS
    return {"step": 1e3 * seconds, "step per evaluation": 1e3 * seconds / evaluations}


def _milliseconds(call: Callable[[], object], device: str) -> float:
    """Return the least time of some calls."""
    call()
    times = []
    for _ in range(REPEATS):
        _wait(device)
        begin = perf_counter()
        call()
        _wait(device)
        times.append(perf_counter() - begin)
    return 1e3 * min(times)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
