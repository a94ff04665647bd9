r"""Fits to very many observed entries in the memory of a device, where they are drawn from a seed.

    python -m benchmarks.scale memory --people 1000000 --entries 100 --others 500,500 --rank 16 \
        --method invariant --device cuda --max-iter 2000 --tol 3e-5

Nothing is stored or copied from the host, so the time is that of the fit.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from math import prod
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from parafair import FairCP, Problem, SensitiveFeatures, TensorData
from parafair.errors import Interrupted
from parafair.penalties import Invariant
from parafair.solvers.init import make_starts
from parafair.solvers.lbfgs import LBFGS

Row = dict[str, object]

# People whose entries are drawn at once; steps that are timed, after some that load and compile.
AT_ONCE, WARM, STEPS = 100_000, 3, 10
# Seconds from one line on the progress of a fit to the next.
TELL = 10.0
STRENGTH = 20.0


def draw(
    people: int, others: tuple[int, ...], entries: int, rank: int, device: str, seed: int = 0
) -> tuple[TensorData, np.ndarray]:
    """Return entries of a tensor of low rank with noise, in single precision, and two groups.

    Everybody has the same number of entries, in cells that are drawn without repetition. The rows
    of the groups differ in their means.
    """
    generator = torch.Generator(device).manual_seed(seed)
    like = torch.empty(0, dtype=torch.float32, device=device)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=like.dtype, device=device)

    factors, shift, cells = [normal(size, rank) for size in others], normal(rank), prod(others)
    indices = torch.empty((1 + len(others), people * entries), dtype=torch.long, device=device)
    values = like.new_empty(people * entries)
    steps = torch.arange(entries, device=device) * (cells // entries)
    for first in range(0, people, AT_ONCE):
        own = torch.arange(first, min(first + AT_ONCE, people), device=device)
        rows = normal(len(own), rank) + (own % 2)[:, None] * shift
        begin = torch.randint(cells, (len(own), 1), generator=generator, device=device)
        # Steps of equal length from a random begin: no cell twice, and in order.
        cell = ((begin + steps) % cells).sort(1).values
        found = torch.stack([own[:, None].expand_as(cell), *torch.unravel_index(cell, others)])
        part = slice(first * entries, (first + len(own)) * entries)
        indices[:, part] = found.flatten(1)
        model = rows[:, None].expand(-1, entries, -1)
        for factor, place in zip(factors, found[1:], strict=True):
            model = model * factor[place]
        values[part] = (model.sum(-1) + 0.3 * normal(*cell.shape)).flatten()
    return TensorData(values, indices, (people, *others)), np.arange(people) % 2


def one_fit(settings: dict[str, object]) -> Row:
    """Return the time of a step with everybody, that of a whole fit, and the memory."""
    wanted = dict(settings)
    device, rank, method = str(wanted["device"]), int(wanted["rank"]), str(wanted["method"])  # type: ignore[call-overload]
    begin = _clock(device)
    data, groups = draw(
        int(wanted["people"]),  # type: ignore[call-overload]
        tuple(wanted["others"]),  # type: ignore[arg-type]
        int(wanted["entries"]),  # type: ignore[call-overload]
        rank,
        device,
    )
    drawn = _clock(device) - begin
    print(f"{data.observed:,} entries drawn in {drawn:.1f} s", file=sys.stderr, flush=True)
    penalized = method != "none"
    step = _step(data, groups if penalized else None, rank)
    row: Row = {
        "people": data.shape[0],
        "entries": data.observed,
        "rank": rank,
        "method": method,
        "device": device,
        "threads": torch.get_num_threads(),
        "drawn, s": drawn,
        "step, s": step,
    }
    if not wanted["steps_only"]:
        row.update(_fit(data, groups if penalized else None, wanted))
    if device.startswith("cuda"):
        row["GPU GB"] = torch.cuda.max_memory_allocated() / 1e9
    return row


def _fit(data: TensorData, groups: np.ndarray | None, wanted: dict[str, object]) -> Row:
    """Return the time and the result of a whole fit, or of as much as there was time for."""
    device = str(data.values.device)
    begin = said = _clock(device)
    first: list[float] = []

    def on_iteration(number: int, _: object) -> None:
        nonlocal said
        now = perf_counter()
        if not first:
            first.append(now - begin)
        if now - said > TELL:
            print(f"iteration {number} after {now - begin:.0f} s", file=sys.stderr, flush=True)
            said = now
        if now - begin > float(wanted["seconds"]):  # type: ignore[arg-type]
            raise KeyboardInterrupt

    model = FairCP(
        int(wanted["rank"]),  # type: ignore[call-overload]
        method=str(wanted["method"]),
        strength=None if groups is None else STRENGTH,
        ridge=1.0,
        max_iter=int(wanted["max_iter"]),  # type: ignore[call-overload]
        tol=float(wanted["tol"]),  # type: ignore[arg-type]
    )
    with suppress(Interrupted):
        model.fit(data, sensitive_features=groups, on_iteration=on_iteration)
    return {
        "fit, s": _clock(device) - begin,
        "first iteration, s": first[0],
        "iterations": {**model.fit_.counts, "last": model.n_iter_},
        "status": model.fit_.status.name,
        "residual": model.fit_.residual,
    }


def _step(data: TensorData, groups: np.ndarray | None, rank: int) -> float:
    """Return the mean seconds of a step of L-BFGS with everybody."""
    features = None if groups is None else SensitiveFeatures.of(groups)
    penalty = None if groups is None else Invariant(STRENGTH)
    problem = Problem(data, rank, penalty=penalty, sensitive=features, ridge=1.0)
    solver, device = LBFGS(), str(data.values.device)
    state = solver.init(problem, make_starts(problem, "normal", count=1, seed=0))
    for _ in range(WARM):
        state = solver.step(problem, state)
    begin = _clock(device)
    for _ in range(STEPS):
        state = solver.step(problem, state)
    return (_clock(device) - begin) / STEPS


def _clock(device: str) -> float:
    """Return the time when the device has finished all its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return perf_counter()


def exponent(rows: list[Row], name: str) -> float:
    """Return the power of the number of people with which a time grows, by least squares."""
    people, seconds = (np.log([float(row[key]) for row in rows]) for key in ("people", name))  # type: ignore[arg-type]
    return float(np.polyfit(people, seconds, 1)[0])
