"""One fit by several processes: the same result, what travels, and the time.

Run with ``python -m benchmarks.run many_processes``, on a machine with at least 2 cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from tests.processes import together

from parafair import Problem, SensitiveFeatures, TensorData
from parafair.dependence.criterion import Criterion
from parafair.penalties import Invariant
from parafair.solvers.init import make_starts
from parafair.solvers.lbfgs import LBFGS
from parafair.solvers.sharing import share_problem
from parafair.team import team_of

Row = dict[str, object]

SHAPE, RANK, STEPS, BEST_OF = (20, 20), 16, 5, 3
PATIENCE = 3600
PROCESSES_AND_THREADS = ((1, 1), (1, 2), (2, 1))


class DoubleInvariant(Invariant):
    """The invariant criterion in double precision, so that digits can be compared."""

    def criterion(self, sensitive: SensitiveFeatures, prototype: torch.Tensor) -> Criterion:
        """Return the criterion."""
        return Criterion(sensitive, prototype.flatten()[:0], self.chunk_size)


def many_processes() -> Iterable[Row]:
    """Criterion and loss, rank 16: gradients in double precision, steps as fits take them.

    "difference" is the largest difference of the objective and of the gradients of all factors from
    those of one process, relative to the largest entry. Bytes are those that a process gives to all
    sums of an iteration. CPU seconds are those of all processes together; other load on the machine
    adds little to them.
    """
    for people in (20_000, 40_000):
        expected: list[torch.Tensor] | None = None
        for processes, threads in PROCESSES_AND_THREADS:
            with tempfile.TemporaryDirectory() as folder:
                found = together(Path(folder), processes, _Work(people, threads), PATIENCE)
            for each in found:
                if isinstance(each, BaseException):
                    raise each
            exact, _, _, messages, sent = found[0]
            expected = exact if expected is None else expected
            pairs = zip(exact, expected, strict=True)
            yield {
                "people": people,
                "processes": processes,
                "threads": threads,
                "difference": max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs),
                "seconds an iteration": max(each[1] for each in found),
                "CPU seconds an iteration": sum(each[2] for each in found),
                "messages an iteration": messages,
                "bytes an iteration": sent,
            }


class _Work:
    """What each process does."""

    def __init__(self, people: int, threads: int) -> None:
        self.people, self.threads = people, threads

    def __call__(self, group: Any) -> tuple[list[torch.Tensor], float, float, float, float]:
        torch.set_num_threads(self.threads)
        team = team_of(group)
        own = share_problem(_problem(self.people, DoubleInvariant()), team)
        objective, gradients, _ = own.value_and_gradients(
            make_starts(own, "normal", count=1, seed=0)
        )
        exact = [objective.value, *gradients[1:]]
        own = share_problem(_problem(self.people, Invariant()), team).single
        state = LBFGS().step(own, LBFGS().init(own, make_starts(own, "normal", count=1, seed=0)))
        messages, sent, times, cpu = team.messages, team.bytes, [], process_time()
        for _ in range(BEST_OF):
            begin = perf_counter()
            for _ in range(STEPS):
                state = LBFGS().step(own, state)
            times.append((perf_counter() - begin) / STEPS)
        steps = BEST_OF * STEPS
        used = (process_time() - cpu) / steps
        told = (team.messages - messages) / steps, (team.bytes - sent) / steps
        return exact, min(times), used, *told


def _problem(people: int, penalty: Invariant) -> Problem:
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, people)
    rows = random.normal(size=(people, RANK)) + groups[:, None] * random.normal(size=RANK)
    others = [random.normal(size=(size, RANK)) for size in SHAPE]
    tensor = np.einsum("ir,jr,kr->ijk", rows, *others, optimize=True)
    tensor += random.normal(size=tensor.shape)
    features = SensitiveFeatures.of(np.array(["a", "b"])[groups])
    return Problem(TensorData.from_array(tensor), RANK, penalty=penalty, sensitive=features)
