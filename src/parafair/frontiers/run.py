"""Making a frontier: members in batches, batches on one machine or on many."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import joblib
import torch
from torch import Tensor

from parafair.audits import Audit, audit, panel
from parafair.audits.evaluation import Evaluation, evaluate_predictions
from parafair.data.centering import Offsets
from parafair.data.checks import as_data
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import ParafairWarning
from parafair.frontiers.coverage import Coverage
from parafair.frontiers.folder import Folder
from parafair.frontiers.plan import Plan, check_seeds, check_strengths, make_plan
from parafair.frontiers.result import Frontier, Member, Point, mean_residuals
from parafair.frontiers.strengths import coarse_strengths, refined_strengths
from parafair.guarantees.limits import parity_limit
from parafair.model.estimator import FairCP
from parafair.model.training import Training
from parafair.penalties import Penalty
from parafair.penalties.postprocessing import Postprocessing
from parafair.solvers import Solver
from parafair.solvers.init import StartName
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status, Stop

OnProgress = Callable[[str, int, int], None]

# Attackers of a point: those that find the most in the least time.
AUDIT: dict[str, Any] = {
    "attackers": panel("thorough"),
    "repeats": 1,
    "permutations": 100,
}


def frontier(
    tensor: Any,
    sensitive_features: Any,
    *,
    rank: int,
    method: str | Penalty | Postprocessing = "invariant",
    name: str | None = None,
    strengths: Sequence[float] | int = 11,
    seeds: Sequence[int] | int = 1,
    mode: int | str = 0,
    ridge: float | None = None,
    center: bool = False,
    solver: str | Solver[Any] = "block",
    start: StartName = "uniform",
    max_iter: int = 500,
    tol: float = 1e-4,
    audits: Mapping[str, Any] | None = AUDIT,
    limit: bool = True,
    held_out: TensorData | None = None,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    on_progress: OnProgress | None = None,
) -> Frontier:
    """Fit a model at many strengths and from many starts, as one batch, and audit all of them.

    Args:
        tensor: Numbers in 2 or more dimensions, as in `FairCP.fit`; NaN is missing.
        sensitive_features: One row per index of `mode`, as in `FairCP.fit`.
        rank: Number of components.
        method: As in `FairCP`; the strength of a penalty object is replaced.
        name: What to call the method; by default its own name.
        strengths: Strengths to try, or how many: then they are found from the data, from no
            effect to a strong one, and close to each other where the residual changes most.
        seeds: Seeds of the starts, or how many.
        mode: The mode whose indices are people.
        ridge: As in `FairCP`.
        center: As in `FairCP`.
        solver: As in `FairCP`.
        start: "uniform", "normal" or "svd".
        max_iter: Most rounds of a fit.
        tol: A fit stops when its objective falls by less than this share per round.
        audits: Settings of `audit` for each point; None for no audits.
        limit: Whether to compute the least residual that any model can have; needs POT.
        held_out: Entries that every fit predicts, such as ``split_cells(data).test`` where `tensor`
            is its ``train``; errors are for everybody and for each group.
        out: Folder in which finished fits are kept. If it holds some of the same frontier, they
            are not computed again.
        n_jobs: Processes for batches and audits; None is one, or what `joblib.parallel_config`
            says, which may be a cluster. Batches on a GPU stay in this process, which fills it.
        device: Where to compute, such as "cuda"; None is where the data is.
        dtype: "float32" or "float64"; None keeps the precision of the data.
        on_progress: Called with "fits" or "audits", the number done and how many there are.

    Raises:
        ValueError: If an argument is wrong, or `out` holds a frontier with other settings.
    """
    plan = make_plan(
        tensor, sensitive_features, rank=rank, method=method, name=name, mode=mode, solver=solver,
        start=start, stop=Stop(max_iter=max_iter, tol=tol), audits=audits,
        device=device, dtype=dtype, ridge=ridge, center=center, held_out=held_out,
    )  # fmt: skip
    wanted, chosen = check_seeds(seeds), check_strengths(strengths, plan)
    settings = plan.settings
    folder = None if out is None else Folder(Path(out) / plan.name)
    curve = folder.limit if folder else ()
    if limit and not curve:
        curve = _limit(plan.problem)
    training = Training.of(plan.problem, plan.offsets)
    coverage, baseline = Coverage.of(plan.problem, held_out), _baseline(plan, tensor)
    if folder is not None:
        about = {"coverage": coverage.to_dict(), "baseline": baseline and baseline.to_list()}
        folder.open(settings, {**_about(plan.problem, curve), **about}, training)
    run = _Run(plan, training, folder, n_jobs, on_progress)
    if isinstance(chosen, int):
        points = _adaptive(run, wanted, chosen)
    else:
        points = run.points([Member(plan.name, s, seed) for s in chosen for seed in wanted])
    points = run.evaluated(run.audited(points))
    versions = {"parafair": version("parafair"), "torch": torch.__version__}
    sensitive = plan.problem.sensitive
    assert sensitive is not None
    described = {plan.name: {**settings, **versions}}
    return Frontier(
        tuple(points), curve, sensitive, described, {plan.name: training}, coverage, baseline
    )


@dataclass(eq=False)
class _Run:
    """Fits, audits and evaluates members that are not in the folder yet."""

    plan: Plan
    training: Training
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
        if len(jobs) == 1 or self._workers == 1:
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
        problem = self.plan.problem
        jobs = (
            joblib.delayed(_audit_rows)(
                problem.penalized_rows(p.fit.cp.factors[problem.mode]).cpu(),
                problem.features,
                self.plan.audits,
                p.member,
                self.folder,
            )
            for p in sound
        )
        found: dict[Member, Audit] = {}
        for point, result in zip(sound, self._in_turn(jobs), strict=True):
            found[point.member] = result
            if self.on_progress is not None:
                self.on_progress("audits", len(found), len(sound))
        return [replace(p, audit=found.get(p.member, p.audit)) for p in points]

    def evaluated(self, points: Sequence[Point]) -> list[Point]:
        """Return the points with their errors; diverged fits stay without."""
        held_out, problem = self.plan.held_out, self.plan.problem
        if held_out is None:
            return list(points)
        cells, found = held_out.cells.T.cpu().numpy(), []
        for point in points:
            if point.evaluation is None and point.fit.status is not Status.DIVERGED:
                guess = FairCP.from_fit(point.fit, training=self.training).predict(cells)
                errors = evaluate_predictions(
                    held_out, guess, sensitive_features=problem.sensitive, mode=problem.mode
                )
                if self.folder is not None:
                    self.folder.write_evaluation(point.member, errors)
                point = replace(point, evaluation=errors)
            found.append(point)
        return found

    def _in_turn(self, jobs: Iterable[Any]) -> Iterable[Audit]:
        """Return results as they come, where the backend of joblib can do that."""
        try:
            parallel = joblib.Parallel(n_jobs=self.n_jobs, return_as="generator")
        except ValueError:
            parallel = joblib.Parallel(n_jobs=self.n_jobs)
        results: Iterable[Audit] = parallel(jobs)
        return results

    @property
    def _workers(self) -> int:
        """Processes that fit; several on one GPU would only wait for each other."""
        if self.plan.problem.like.is_cuda:
            return 1
        return max(1, int(joblib.effective_n_jobs(self.n_jobs)))

    def _batches(self, members: Sequence[Member]) -> Iterator[list[Member]]:
        share = -(-len(members) // self._workers)
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
    settings = plan.settings

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
    result = audit(rows, sensitive_features=sensitive, **settings)
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


def _limit(problem: Problem) -> tuple[tuple[float, float], ...]:
    """Return the least residual at each leakage, or nothing where it cannot be computed."""
    if problem.count < prod(problem.shape):
        # With missing entries people are not points between which something can be moved.
        return ()
    try:
        values = problem.entries.values.reshape(problem.shape)
        found = parity_limit(values.cpu(), sensitive_features=problem.sensitive, mode=problem.mode)
    except (ImportError, ValueError) as error:
        warnings.warn(f"no lower bound on the residual: {error}", ParafairWarning, stacklevel=3)
        return ()
    columns = problem.sensitive.columns if problem.sensitive else ()
    if len(columns) == 1 and columns[0].kind == "categorical":
        return tuple(zip(found.leakages, found.residuals, strict=True))
    # Of several features or a number, attackers and the limit mean different things by leakage,
    # but none is none.
    return ((0.0, found.residual),)


def _baseline(plan: Plan, tensor: Any) -> Evaluation | None:
    """Return the errors of predictions that know nothing about people."""
    held_out, problem = plan.held_out, plan.problem
    if held_out is None:
        return None
    guess = Offsets.of(as_data(tensor), problem.mode).at(held_out.cells).cpu().numpy()
    return evaluate_predictions(
        held_out, guess, sensitive_features=problem.sensitive, mode=problem.mode
    )


def _about(problem: Problem, limit: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    """Return what a report needs besides the fits."""
    assert problem.sensitive is not None
    return {
        "sensitive": problem.sensitive.to_list(),
        "limit": [list(pair) for pair in limit],
        "versions": {"parafair": version("parafair"), "torch": torch.__version__},
    }
