"""Making a frontier: members in batches, batches on one machine or on many."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import Tensor

from parafair.adjustments import Adjustment
from parafair.audits import Audit, audit
from parafair.audits.base import check_settings
from parafair.description import describe, plain
from parafair.errors import ParafairWarning, unknown_choice
from parafair.estimator import resolve_solver
from parafair.fit import Fit, Status, Stop
from parafair.frontier.folder import Folder
from parafair.frontier.result import Frontier, Member, Point, mean_residuals
from parafair.frontier.strengths import coarse_strengths, refined_strengths
from parafair.limits import parity_limit
from parafair.methods import resolve_method
from parafair.penalties import Penalty
from parafair.penalties.base import check_multiplier
from parafair.problem import Problem, as_tensor, check_device, resolve_dtype
from parafair.sensitive import SensitiveFeatures
from parafair.solvers import Solver, decompose
from parafair.starts import StartName, make_starts

OnProgress = Callable[[str, int, int], None]

# Attackers of a point: those that find the most in the least time.
AUDIT: dict[str, Any] = {
    "attackers": ("linear", "svm", "forest", "boosting", "neighbors"),
    "repeats": 1,
    "permutations": 100,
}
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
        adjustment: The change after the fit, for methods that are one.
        solver: How to minimize.
        start: Where to begin.
        stop: When to stop.
        audits: Settings of the audits; None for none.
    """

    name: str
    problem: Problem
    adjustment: Adjustment | None
    solver: Solver[Any]
    start: StartName
    stop: Stop
    audits: Mapping[str, Any] | None

    def fit(self, members: Sequence[Member], keep: Callable[[int, Fit], None]) -> tuple[Fit, ...]:
        """Fit members in one batch."""
        problem = self.problem
        each = [make_starts(problem, self.start, count=1, seed=m.seed) for m in members]
        starts = tuple(torch.cat(mode) for mode in zip(*each, strict=True))
        if problem.penalty is not None:
            strengths = [member.strength or 0.0 for member in members]
            problem = problem.with_strengths(
                torch.tensor(strengths, dtype=torch.float64, device=problem.tensor.device)
            )
        return decompose(
            problem,
            self.solver,
            starts=starts,
            stop=self.stop,
            adjustment=self.adjustment,
            on_fit=keep,
        )

    @property
    def members_at_once(self) -> int:
        """How many members fit into memory together."""
        tensor, rank = self.problem.tensor, self.problem.rank
        # The contraction with the first factor, and copies of all factors.
        numbers = 2 * rank * (tensor.numel() // len(tensor)) + COPIES * rank * sum(tensor.shape)
        free = torch.cuda.mem_get_info(tensor.device)[0] // 2 if tensor.is_cuda else MEMORY
        return max(1, free // (numbers * tensor.element_size()))


def frontier(
    tensor: Any,
    sensitive_features: Any,
    *,
    rank: int,
    method: str | Penalty | Adjustment = "invariant",
    name: str | None = None,
    strengths: Sequence[float] | int = 11,
    seeds: Sequence[int] | int = 1,
    mode: int = 0,
    solver: str | Solver[Any] = "block",
    start: StartName = "uniform",
    max_rounds: int = 500,
    tolerance: float = 1e-4,
    audits: Mapping[str, Any] | None = AUDIT,
    limit: bool = True,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    on_progress: OnProgress | None = None,
) -> Frontier:
    """Fit a model at many strengths and from many starts, as one batch, and audit all of them.

    Args:
        tensor: Numbers in 2 or more dimensions.
        sensitive_features: One row per index of `mode`, as in `FairCP.fit`.
        rank: Number of components.
        method: As in `FairCP`; the strength of a penalty object is replaced.
        name: What to call the method; by default its own name.
        strengths: Strengths to try, or how many: then they are found from the data, from no
            effect to a strong one, and close to each other where the residual changes most.
        seeds: Seeds of the starts, or how many.
        mode: The mode whose indices are people.
        solver: As in `FairCP`.
        start: "uniform", "normal" or "svd".
        max_rounds: Most rounds of a fit.
        tolerance: A fit stops when its objective falls by less than this share per round.
        audits: Settings of `audit` for each point; None for no audits.
        limit: Whether to compute the least residual that any model can have; needs POT.
        out: Folder in which finished fits are kept. If it holds some of the same frontier, they
            are not computed again.
        n_jobs: Processes for batches and audits; None is one, or what `joblib.parallel_config`
            says, which may be a cluster.
        device: Where to compute, such as "cuda"; None is where the data is.
        dtype: "float32" or "float64"; None keeps the precision of the data.
        on_progress: Called with "fits" or "audits", the number done and how many there are.

    Raises:
        ValueError: If an argument is wrong, or `out` holds a frontier with other settings.
    """
    plan = _plan(
        tensor, sensitive_features, rank=rank, method=method, name=name, mode=mode, solver=solver,
        start=start, stop=Stop(max_rounds=max_rounds, tolerance=tolerance), audits=audits,
        device=device, dtype=dtype,
    )  # fmt: skip
    wanted, chosen = _seeds(seeds), _strengths(strengths, plan)
    settings = _settings(plan)
    folder = None if out is None else Folder(Path(out) / plan.name)
    curve = folder.limit if folder else ()
    if limit and not curve:
        curve = _limit(plan.problem)
    if folder is not None:
        folder.open(settings, _about(plan.problem, curve))
    run = _Run(plan, folder, n_jobs, on_progress)
    if isinstance(chosen, int):
        points = _adaptive(run, wanted, chosen)
    else:
        points = run.points([Member(plan.name, s, seed) for s in chosen for seed in wanted])
    points = run.audited(points)
    versions = {"parafair": version("parafair"), "torch": torch.__version__}
    sensitive = plan.problem.sensitive
    assert sensitive is not None
    return Frontier(tuple(points), curve, sensitive, {plan.name: {**settings, **versions}})


@dataclass(eq=False)
class _Run:
    """Fits and audits members that are not in the folder yet."""

    plan: Plan
    folder: Folder | None
    n_jobs: int | None
    on_progress: OnProgress | None
    done: int = 0
    total: int = 0

    def points(self, members: Sequence[Member]) -> list[Point]:
        """Return the fits of members, in order."""
        self.total += len(members)
        read = {m: self.folder.read(m) if self.folder else None for m in members}
        kept = {member: point for member, point in read.items() if point is not None}
        self._report(len(kept))
        missing = [member for member in members if member not in kept]
        batches = list(self._batches(missing))
        jobs = [joblib.delayed(_fit_batch)(self.plan, batch, self.folder) for batch in batches]
        if len(jobs) == 1 or joblib.effective_n_jobs(self.n_jobs) == 1:
            # In this process, which can tell about every fit.
            found = [
                _fit_batch(self.plan, b, self.folder, lambda: self._report(1)) for b in batches
            ]
        else:
            found = joblib.Parallel(n_jobs=self.n_jobs)(jobs)
            self._report(len(missing))
        for batch, fits in zip(batches, found, strict=True):
            kept |= {m: Point(m, fit) for m, fit in zip(batch, fits, strict=True)}
        return [kept[member] for member in members]

    def audited(self, points: Sequence[Point]) -> list[Point]:
        """Return the points with their audits; those of diverged fits stay without."""
        if self.plan.audits is None:
            return list(points)
        sound = [p for p in points if p.audit is None and p.fit.status is not Status.DIVERGED]
        mode, sensitive = self.plan.problem.mode, self.plan.problem.sensitive
        jobs = (
            joblib.delayed(_audit_rows)(
                p.fit.cp.factors[mode].cpu(), sensitive, self.plan.audits, p.member, self.folder
            )
            for p in sound
        )
        found: dict[Member, Audit] = {}
        for point, result in zip(sound, self._in_turn(jobs), strict=True):
            found[point.member] = result
            if self.on_progress is not None:
                self.on_progress("audits", len(found), len(sound))
        return [replace(p, audit=found.get(p.member, p.audit)) for p in points]

    def _in_turn(self, jobs: Iterable[Any]) -> Iterable[Audit]:
        """Return results as they come, where the backend of joblib can do that."""
        try:
            parallel = joblib.Parallel(n_jobs=self.n_jobs, return_as="generator")
        except ValueError:
            parallel = joblib.Parallel(n_jobs=self.n_jobs)
        results: Iterable[Audit] = parallel(jobs)
        return results

    def _batches(self, members: Sequence[Member]) -> Iterator[list[Member]]:
        workers = joblib.effective_n_jobs(self.n_jobs)
        share = -(-len(members) // max(1, workers))
        size = max(1, min(self.plan.members_at_once, share))
        for begin in range(0, len(members), size):
            yield list(members[begin : begin + size])

    def _report(self, more: int) -> None:
        self.done += more
        if self.on_progress is not None:
            self.on_progress("fits", self.done, self.total)


def _fit_batch(
    plan: Plan,
    members: Sequence[Member],
    folder: Folder | None,
    done: Callable[[], None] | None = None,
) -> tuple[Fit, ...]:
    """Fit a batch; every fit is written as soon as it is there."""
    settings = _settings(plan)

    def labelled(position: int, fit: Fit) -> Fit:
        member = members[position]
        return replace(fit, settings={**settings, "strength": member.strength, "seed": member.seed})

    def keep(position: int, fit: Fit) -> None:
        if folder is not None:
            folder.write(members[position], labelled(position, fit))
        if done is not None:
            done()

    fits = plan.fit(members, keep)
    return tuple(labelled(position, fit) for position, fit in enumerate(fits))


def _audit_rows(
    rows: Tensor,
    sensitive: SensitiveFeatures,
    settings: Mapping[str, Any],
    member: Member,
    folder: Folder | None,
) -> Audit:
    result = audit(rows, sensitive, **settings)
    if folder is not None:
        folder.write_audit(member, result)
    return result


def _adaptive(run: _Run, seeds: Sequence[int], count: int) -> list[Point]:
    """Try strengths that span the curve, then more where it bends."""
    plain = replace(run.plan, problem=replace(run.plan.problem, penalty=None))
    start = plain.fit([Member(plain.name, None, seeds[0])], lambda position, fit: None)
    strengths = coarse_strengths(run.plan.problem, start[0], count)
    points: list[Point] = []
    tried: list[float] = []
    while strengths:
        tried += strengths
        points += run.points([Member(run.plan.name, s, seed) for s in strengths for seed in seeds])
        strengths = refined_strengths(mean_residuals(points), tried, count)
    return sorted(points, key=lambda point: (point.member.strength or 0.0, point.member.seed))


def _plan(
    tensor: Any,
    sensitive_features: Any,
    *,
    rank: int,
    method: str | Penalty | Adjustment,
    name: str | None,
    mode: int,
    solver: str | Solver[Any],
    start: StartName,
    stop: Stop,
    audits: Mapping[str, Any] | None,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
) -> Plan:
    """Check all arguments before any work is done."""
    resolved = resolve_method(method)
    if name is None:
        name = method if isinstance(method, str) else type(method).__name__.lower()
    if not name or any(character in name for character in "/\\\0") or name.startswith("."):
        raise ValueError(f"name must be usable as the name of a folder, got {name!r}")
    sensitive = SensitiveFeatures.of(sensitive_features)
    if audits is not None:
        _check_audits(audits, sensitive)
    check_device(device)
    adjustment = resolved if isinstance(resolved, Adjustment) else None
    penalty = None if isinstance(resolved, Adjustment) else resolved
    if penalty is not None and not is_dataclass(penalty):
        raise TypeError(
            f"method must be a dataclass, whose strength can be replaced; got {penalty!r}. Add "
            "@dataclass(frozen=True) to its class"
        )
    problem = Problem(
        as_tensor(tensor, dtype=resolve_dtype(dtype), device=device), rank, mode, penalty, sensitive
    )
    return Plan(
        name, problem, adjustment, resolve_solver(solver), start, stop, audits and dict(audits)
    )


def _check_audits(audits: Mapping[str, Any], sensitive: SensitiveFeatures) -> None:
    """Raise now if an audit would fail after the fits."""
    known = [name for name in signature(audit).parameters if name not in AUDITED]
    for name in audits:
        if name not in known:
            raise unknown_choice("a key of audits", name, known)
    wanted = {name: audits[name] for name in CHECKED if name in audits}
    check_settings(sensitive, **wanted)


def _seeds(seeds: Sequence[int] | int) -> tuple[int, ...]:
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


def _strengths(
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


def _limit(problem: Problem) -> tuple[tuple[float, float], ...]:
    """Return the least residual at each leakage, or nothing where it cannot be computed."""
    try:
        found = parity_limit(problem.tensor.cpu(), problem.sensitive, mode=problem.mode)
    except (ImportError, ValueError) as error:
        warnings.warn(f"no lower bound on the residual: {error}", ParafairWarning, stacklevel=3)
        return ()
    columns = problem.sensitive.columns if problem.sensitive else ()
    if len(columns) == 1 and columns[0].kind == "categorical":
        return tuple(zip(found.leakages, found.residuals, strict=True))
    # Of several features or a number, attackers and the limit mean different things by leakage,
    # but none is none.
    return ((0.0, found.residual),)


def _settings(plan: Plan) -> dict[str, Any]:
    """Return what decides the results, as plain values."""
    problem = plan.problem
    method = problem.penalty or plan.adjustment
    described = None if method is None else describe(method)
    if described is not None:
        described.pop("strength", None)
    return {
        "method": plan.name,
        "penalty": described,
        "data": _fingerprint(problem.tensor, problem.sensitive),
        "shape": list(problem.shape),
        "rank": int(problem.rank),
        "mode": int(problem.mode),
        "solver": describe(plan.solver),
        "start": plan.start,
        "max_rounds": int(plan.stop.max_rounds),
        "tolerance": float(plan.stop.tolerance),
        "dtype": str(problem.tensor.dtype).removeprefix("torch."),
        "audits": plain(plan.audits),
    }


def _about(problem: Problem, limit: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    """Return what a report needs besides the fits."""
    assert problem.sensitive is not None
    return {
        "sensitive": [
            {
                "name": column.name,
                "kind": column.kind,
                "categories": list(column.categories),
                "values": column.values.tolist(),
            }
            for column in problem.sensitive.columns
        ],
        "limit": [list(pair) for pair in limit],
        "versions": {"parafair": version("parafair"), "torch": torch.__version__},
    }


def _fingerprint(tensor: Tensor, sensitive: SensitiveFeatures | None) -> str:
    """Return a hash of the data, so that a folder is not continued with other data."""
    found = hashlib.sha256(np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    for column in sensitive.columns if sensitive else ():
        found.update(repr((column.name, column.kind, column.categories)).encode())
        found.update(np.ascontiguousarray(column.values).tobytes())
    return found.hexdigest()[:16]
