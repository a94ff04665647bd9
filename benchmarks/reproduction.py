"""The fits of the paper's figures: step by step with autograd, and in parafair's batches.

Run with ``python -m benchmarks.run reproduction``.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import torch
from tests.reference import paper_bcd

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.paper import Item, Readings, Setup
from parafair.paper.config import BCD, FATR, HSIC, KHSIC, RIDGE
from parafair.paper.recipes import Data, load_data, recipe
from parafair.paper.work import AT_ONCE
from parafair.penalties import Penalty
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem

Row = dict[str, object]

# Steps of autograd and iterations of parafair that are measured; the rest is extrapolated.
MEASURED_STEPS, MEASURED_ITERATIONS = 10, 2


def reproduction() -> Iterable[Row]:
    """Time all fits of the paper's four methods: with autograd, and in parafair's batches.

    Both are measured on a part of the work and extrapolated: all steps of a method cost the same.
    Audits, the classifier and our own methods are not included.
    """
    setup = Setup()
    every = dict.fromkeys(i for figure in setup.figures.values() for i in figure.items)
    groups: dict[tuple[str, str], dict[int, list[Item]]] = {}
    for item in every:
        if item.rounds is not None:
            group = groups.setdefault((item.data, item.method), {})
            group.setdefault(item.rounds, []).append(item)
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        rows = []
        for (name, method), group in groups.items():
            work = list(group.items())
            try:
                data = load_data(name, 0, setup)
            except (OSError, ImportError) as error:
                yield {**_row(device, name, method, work), "skipped": str(error)}
                continue
            slow = _autograd(data, method, work[0][1][-1], setup, device)
            slow *= sum(rounds * len(items) for rounds, items in work)
            fast = sum(r * _batches(data, method, items, setup, device) for r, items in work)
            row = _row(device, name, method, work)
            rows.append({**row, "autograd, s": slow, "parafair, s": fast, "ratio": slow / fast})
            yield {**rows[-1], "skipped": None}
        yield {**_total(rows), "skipped": None}


def _row(device: str, name: str, method: str, work: list[tuple[int, list[Item]]]) -> Row:
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "data": name,
        "method": method,
        "fits": sum(len(items) for _, items in work),
        "iterations": sum(rounds * len(items) for rounds, items in work),
        "autograd, s": None,
        "parafair, s": None,
        "ratio": None,
    }


def _total(rows: list[Row]) -> Row:
    sums = {name: sum(row[name] for row in rows) for name in list(rows[0])[3:7]}
    ratio = sums["autograd, s"] / sums["parafair, s"]
    return {"device": rows[0]["device"], "data": "all", "method": "all", **sums, "ratio": ratio}


def _problem(data: Data, method: str, setup: Setup, device: str) -> tuple[Problem, float]:
    """Return the problem at strength 1 and the unit of its strengths."""
    made = recipe(data, method, 1, setup.readings)
    penalty = made.model.method
    penalty = penalty if isinstance(penalty, Penalty) else None
    tensor = TensorData.from_array(data.tensor).to(device)
    sensitive = SensitiveFeatures.of(data.sensitive)
    return Problem(tensor, made.model.rank, 0, penalty, sensitive), made.unit


def _autograd(data: Data, method: str, item: Item, setup: Setup, device: str) -> float:
    """Return the seconds of one iteration of one fit, from a few steps on each factor."""
    problem, unit = _problem(data, method, setup, device)
    tensor, strength = problem.data.values, (item.strength or 0.0) * unit
    encoded = SensitiveFeatures.of(data.sensitive).encode(prototype=tensor)
    fixed = paper_bcd.centered_gaussian_gram(encoded)

    def khsic(factor: torch.Tensor) -> torch.Tensor:
        gram = paper_bcd.centered_gaussian_gram(factor)
        return strength / len(factor) ** 2 * (gram * fixed).sum()

    penalties = {
        BCD: None,
        FATR: lambda factor: paper_bcd.fatr_penalty(factor, encoded, strength, RIDGE),
        HSIC: lambda factor: paper_bcd.hsic_penalty(factor, encoded, strength),
        KHSIC: khsic,
    }
    starts = [f[0] for f in make_starts(problem, "uniform", count=1, seed=0)]
    steps = (1e-6, 1e-6)  # the cost of a step does not depend on its size
    times = []
    for _ in range(3):
        begin = perf_counter()
        paper_bcd.round_of_steps(tensor, starts, penalties[method], steps, MEASURED_STEPS)
        _wait(device)
        times.append(perf_counter() - begin)
    return min(times) * Readings().inner_steps / MEASURED_STEPS


def _batches(data: Data, method: str, items: list[Item], setup: Setup, device: str) -> float:
    """Return the seconds of one iteration of all fits, in batches as large as in a run."""
    problem, unit = _problem(data, method, setup, device)
    solver = recipe(data, method, 1, setup.readings).model.solver
    size = min(len(items), AT_ONCE if device == "cpu" else len(items))
    some = items[:size]
    each = [make_starts(problem, "uniform", count=1, seed=item.seed) for item in some]
    starts = tuple(torch.cat(mode) for mode in zip(*each, strict=True))
    if problem.penalty is not None:
        strengths = torch.tensor([(i.strength or 0.0) * unit for i in some], dtype=torch.float64)
        problem = problem.with_strengths(strengths.to(device))
    state = solver.init(problem, starts)
    state = solver.step(problem, state)  # the first iteration loads libraries and reserves memory
    _wait(device)
    begin = perf_counter()
    for _ in range(MEASURED_ITERATIONS):
        state = solver.step(problem, state)
    _wait(device)
    return (perf_counter() - begin) / MEASURED_ITERATIONS * len(items) / size


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
