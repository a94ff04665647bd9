"""What the fits of a frontier have in common, all of it checked before any work is done."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from inspect import signature
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from parafair.audits import audit
from parafair.audits.run import check_settings
from parafair.data.centering import Offsets
from parafair.data.checks import as_data, check_device, resolve_dtype
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice
from parafair.frontiers.result import Member
from parafair.model.estimator import resolve_solver
from parafair.penalties import Penalty
from parafair.penalties.base import check_multiplier
from parafair.penalties.postprocessing import Postprocessing
from parafair.penalties.registry import resolve_method
from parafair.records import describe, plain
from parafair.solvers import Solver, decompose
from parafair.solvers.init import StartName, make_starts
from parafair.solvers.problem import Problem, find_mode, resolve_ridge
from parafair.solvers.result import Fit, Stop

T = TypeVar("T")

# Arguments of `audit` that are not settings, or are set here.
CHECKED = ("attackers", "folds", "repeats", "permutations", "max_people")
AUDITED = ("embedding", "sensitive_features", "target", "n_jobs", "on_progress")
# Bytes a batch may take on a processor; on a GPU, half of what is free.
MEMORY = 2**30
# Numbers kept for each row of each factor during a round, about.
COPIES = 40


@dataclass(frozen=True, eq=False)
class Plan:
    """All that the fits of a frontier have in common.

    Attributes:
        name: What the method is called.
        problem: The problem; the strength of its penalty is replaced.
        postprocessing: The change after the fit, for methods that are one.
        solver: How to minimize.
        start: Where to begin.
        stop: When to stop.
        audits: Settings of the audits; None for none.
        offsets: What was subtracted from the data; None for nothing.
        held_out: Entries to predict, as they were; None for none.
    """

    name: str
    problem: Problem
    postprocessing: Postprocessing | None
    solver: Solver[Any]
    start: StartName
    stop: Stop
    audits: Mapping[str, Any] | None
    offsets: Offsets | None = None
    held_out: TensorData | None = None

    def fit(self, members: Sequence[Member], keep: Callable[[int, Fit], None]) -> tuple[Fit, ...]:
        """Fit members in one batch."""
        problem = self.problem
        each = [make_starts(problem, self.start, count=1, seed=m.seed) for m in members]
        starts = tuple(torch.cat(mode) for mode in zip(*each, strict=True))
        if problem.penalty is not None:
            strengths = [member.strength or 0.0 for member in members]
            problem = problem.with_strengths(
                torch.tensor(strengths, dtype=torch.float64, device=problem.like.device)
            )
        return decompose(
            problem,
            self.solver,
            starts=starts,
            stop=self.stop,
            postprocessing=self.postprocessing,
            on_fit=keep,
        )

    @property
    def members_at_once(self) -> int:
        """How many members fit into memory together."""
        problem, like = self.problem, self.problem.like
        # The sums over the entries, and copies of all factors.
        numbers = problem.observations.working_memory(problem.rank)
        numbers += COPIES * problem.rank * sum(problem.shape)
        free = torch.cuda.mem_get_info(like.device)[0] // 2 if like.is_cuda else MEMORY
        return max(1, free // (numbers * like.element_size()))

    def batches(self, members: Sequence[Member], *, workers: int) -> list[list[Member]]:
        """Return the members in batches: at least one per process, each small enough for memory."""
        share = -(-len(members) // workers)
        return in_batches(members, max(1, min(self.members_at_once, share)))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What decides the results, as plain values."""
        problem = self.problem
        method = problem.penalty or self.postprocessing
        described = None if method is None else describe(method)
        if described is not None:
            described.pop("strength", None)
        return {
            "method": self.name,
            "penalty": described,
            "data": _fingerprint(problem.tensor, problem.sensitive),
            "held_out": self.held_out and _fingerprint(self.held_out, None),
            "shape": list(problem.shape),
            "rank": int(problem.rank),
            "mode": int(problem.mode),
            "ridge": float(problem.ridge),
            "center": self.offsets is not None,
            "solver": describe(self.solver),
            "start": self.start,
            "max_iter": int(self.stop.max_iter),
            "tol": float(self.stop.tol),
            "dtype": str(problem.like.dtype).removeprefix("torch."),
            "audits": plain(self.audits),
        }


def in_batches(items: Sequence[T], size: int) -> list[list[T]]:
    """Return the items in batches of at most `size`, in order."""
    return [list(items[begin : begin + size]) for begin in range(0, len(items), size)]


def make_plan(
    tensor: Any,
    sensitive_features: Any,
    *,
    rank: int,
    method: str | Penalty | Postprocessing,
    name: str | None,
    mode: int | str,
    solver: str | Solver[Any],
    start: StartName,
    stop: Stop,
    audits: Mapping[str, Any] | None,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
    ridge: float | None = None,
    center: bool = False,
    held_out: TensorData | None = None,
) -> Plan:
    """Check all arguments before any work is done."""
    resolved = resolve_method(method)
    if name is None:
        name = method if isinstance(method, str) else type(method).__name__.lower()
    if not name or any(character in name for character in "/\\\0") or name.startswith("."):
        raise ValueError(f"name must be usable as the name of a folder, got {name!r}")
    sensitive = SensitiveFeatures.of(sensitive_features)
    if audits is not None:
        _check_audits(audits, sensitive.with_features())
    check_device(device)
    postprocessing = resolved if isinstance(resolved, Postprocessing) else None
    penalty = None if isinstance(resolved, Postprocessing) else resolved
    if penalty is not None and not is_dataclass(penalty):
        raise TypeError(
            f"method must be a dataclass, whose strength can be replaced; got {penalty!r}. Add "
            "@dataclass(frozen=True) to its class"
        )
    data = as_data(tensor, dtype=resolve_dtype(dtype), device=device)
    _check_held_out(held_out, data)
    people = find_mode(data, mode)
    offsets = Offsets.of(data, people) if center else None
    if offsets is not None:
        data = offsets.subtract(data)
    problem = Problem(data, rank, people, penalty, sensitive, resolve_ridge(ridge, data, rank))
    solver, audits = resolve_solver(solver), audits and dict(audits)
    return Plan(name, problem, postprocessing, solver, start, stop, audits, offsets, held_out)


def _check_held_out(held_out: Any, data: Tensor | TensorData) -> None:
    """Raise unless the entries are of the same tensor."""
    if held_out is None:
        return
    if not isinstance(held_out, TensorData) or not isinstance(data, TensorData):
        raise TypeError(
            "held_out needs both parts of the data as TensorData, as split_cells returns them; got "
            f"{type(held_out).__name__} held out of {type(data).__name__}"
        )
    if held_out.shape != data.shape:
        raise ValueError(f"held_out must have shape {data.shape} as tensor, got {held_out.shape}")


def _check_audits(audits: Mapping[str, Any], sensitive: SensitiveFeatures) -> None:
    """Raise now if an audit would fail after the fits."""
    known = [name for name in signature(audit).parameters if name not in AUDITED]
    for name in audits:
        if name not in known:
            raise unknown_choice("a key of audits", name, known)
    wanted = {name: audits[name] for name in CHECKED if name in audits}
    check_settings(sensitive, **wanted)


def check_seeds(seeds: Sequence[int] | int) -> tuple[int, ...]:
    """Return the seeds."""
    if isinstance(seeds, (int, np.integer)):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, or a list of seeds; got {seeds!r}")
        return tuple(range(int(seeds)))
    if not isinstance(seeds, Iterable):
        raise ValueError(f"seeds must be a list of seeds, or how many; got {seeds!r}")
    found = tuple(int(seed) for seed in seeds)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"seeds must be one or more different whole numbers, got {seeds!r}")
    return found


def check_strengths(
    strengths: Sequence[float] | int, plan: Plan
) -> int | tuple[float, ...] | tuple[None]:
    """Return strengths, how many to find, or the None of a method without strength."""
    if plan.problem.penalty is None:
        return (None,)
    if isinstance(strengths, (int, np.integer)):
        if strengths < 2:
            raise ValueError(f"strengths must be at least 2, or a list; got {strengths!r}")
        return int(strengths)
    if not isinstance(strengths, Iterable):
        raise ValueError(f"strengths must be a list, or how many to try; got {strengths!r}")
    found = tuple(float(strength) for strength in strengths)
    for strength in found:
        check_multiplier("each of strengths", strength)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"strengths must be one or more different numbers, got {strengths!r}")
    return tuple(sorted(found))


def _fingerprint(tensor: Tensor | TensorData, sensitive: SensitiveFeatures | None) -> str:
    """Return a hash of the data, so that a folder is not continued with other data."""
    found = hashlib.sha256()
    parts = (tensor.values, tensor.indices) if isinstance(tensor, TensorData) else (tensor,)
    for part in parts:
        if part is not None:
            found.update(np.ascontiguousarray(part.cpu().numpy()).tobytes())
    for column in sensitive.columns if sensitive else ():
        found.update(repr((column.name, column.kind, column.categories)).encode())
        found.update(np.ascontiguousarray(column.values).tobytes())
    return found.hexdigest()[:16]
