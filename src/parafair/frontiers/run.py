"""Computing a frontier: members in batches, batches on one or many machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import joblib
import torch
from torch import Tensor

from parafair.arguments import as_path, callback, flag, jobs
from parafair.audits import Audit, audit, panel
from parafair.audits.evaluation import Evaluation, evaluate_predictions
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import warn
from parafair.failures import telling_others
from parafair.frontiers.certified import AUTO
from parafair.frontiers.coverage import Coverage
from parafair.frontiers.exchange import exchange, with_noise_of
from parafair.frontiers.folder import Folder
from parafair.frontiers.plan import Plan, check_noises, check_seeds, check_strengths, make_plan
from parafair.frontiers.point import Member, Point
from parafair.frontiers.references import errors_of_offsets, smallest_residuals
from parafair.frontiers.result import Frontier, mean_residuals
from parafair.frontiers.strengths import coarse_strengths, refined_strengths
from parafair.guarantees.certificate import Certificate
from parafair.guarantees.certifying import certify
from parafair.model.estimator import FairCP
from parafair.model.noise import warn_without_noise
from parafair.model.record import current_versions
from parafair.model.side import warn_of_proxies
from parafair.model.together import check_same
from parafair.model.tucker import FairTucker
from parafair.progress import Bar, check_verbose, tracked
from parafair.solvers import Fit, Status
from parafair.team import Team, team_of

OnProgress = Callable[[str, int, int], None]

# Default settings of the audits: the strongest attackers that are fast enough.
AUDITS: dict[str, Any] = {"attackers": panel("thorough"), "repeats": 1, "permutations": 100}


@telling_others
def frontier(  # noqa: PLR0913  (each argument is a setting of its own)
    model: FairCP | FairTucker,
    X: Any,
    *,
    sensitive_features: Any,
    side: Any = None,
    strengths: Sequence[float] | int = 11,
    noises: Sequence[float] | None = None,
    seeds: Sequence[int] | int = 1,
    name: str | None = None,
    audits: Mapping[str, Any] | None = AUDITS,
    certificates: Mapping[str, Any] | str | None = AUTO,
    limit: bool = True,
    X_test: Any = None,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    on_progress: OnProgress | None = None,
    verbose: int = 0,
    process_group: Any = None,
) -> Frontier:
    """Fit a model at many strengths and from many starts, in batches, and audit every fit.

    Fits with noise are certified too: see `certify`.

    Args:
        model: Has all settings except strength and random_state; it is not fitted itself.
        X: The tensor, as in `FairCP.fit`; NaN is missing.
        sensitive_features: One row per person, as in `FairCP.fit`.
        side: Side information, as in `FairCP.fit`.
        strengths: Strengths to try, or their number. A number selects strengths from the data, over
            four decades and denser where the residual changes most.
        noises: Noises to try at each strength, each as `FairCP` takes it; None for that of the
            model. Noise is added after a fit, so further noises cost audits but no fits.
        seeds: Seeds of the initial factors, or their number.
        name: Name of this curve; by default that of the method.
        audits: Settings of `audit` for each point; None for no audits.
        certificates: Settings of `certify` for each point with noise, by name; "auto" for the
            usual ones, and none for more than 5000 people; None for no certificates.
        limit: Whether to compute the smallest residual that any model can have; needs POT.
        X_test: Held-out entries that every fit predicts, such as ``split_cells(data).test`` where
            `X` is its ``train``; errors are reported overall and for each group.
        out: Folder for finished fits. Fits of the same frontier that it already has are not
            computed again.
        n_jobs: Processes for batches and audits; None for one, or for the setting of
            `joblib.parallel_config`, such as a cluster. Batches on a GPU run in this process.
        on_progress: Called with "fits" or "audits", the number finished and the total number.
        verbose: 1 shows a bar, 2 also prints a line for each audited fit; 0 shows nothing.
        process_group: A process group of torch, whose processes all call this with the same
            arguments and share the people of every fit, as in `FairCP.fit`. Process 0 alone audits,
            certifies, predicts and uses `out`, which all must give, while the others wait; all
            return the same.

    Raises:
        ValueError: If an argument is invalid, or `out` has a frontier with other settings.
        TeamError: If another process of the process group failed.
    """
    team = team_of(process_group)
    plan = make_plan(
        model,
        X,
        sensitive_features=sensitive_features,
        side=side,
        name=name,
        audits=audits,
        X_test=X_test,
        certificates=certificates,
        team=team,
    )
    wanted, levels = check_seeds(seeds), check_noises(noises)
    chosen = check_strengths(strengths, plan)
    flag("limit", limit)
    jobs("n_jobs", n_jobs)
    callback("on_progress", on_progress)
    check_verbose(verbose)
    problem, settings = plan.task.problem, plan.task.settings
    strongest = 1.0 if isinstance(chosen, int) else chosen[-1]
    least = plan.member(strongest, 0, levels[0]).noise
    warn_without_noise(least, settings.usual_noise(strongest), stacklevel=2)
    plan.task.warn_small_groups(stacklevel=2)
    warn_of_proxies(problem, plan.task.columns, stacklevel=2)
    same = {"strengths": chosen, "noises": levels, "seeds": wanted, "limit": limit}
    # Paths may differ between machines; but all processes must know whether there is one.
    check_same(team, {**same, "out": "a folder" if out is not None else None})
    folder = None if out is None else Folder(as_path("out", out) / plan.name)
    if folder is not None:
        team.first(folder.check)
    curve = team.first(lambda: folder.limit if folder else ())
    # Optimal transport between people needs complete rows, and is about squared errors.
    complete = problem.count == prod(problem.shape) and problem.is_squared
    if limit and complete and not curve:
        curve, missing = team.first(lambda: smallest_residuals(plan, X))
        if missing and team.rank == 0:
            warn(f"no lower bound on the residual: {missing}", stacklevel=2)
    assert problem.sensitive_of_all is not None
    found = Frontier(
        points=(),
        limit=curve,
        sensitive=problem.sensitive_of_all,
        settings={plan.name: {**plan.settings, **current_versions()}},
        training={plan.name: plan.task.training},
        coverage=Coverage.of(problem, plan.X_test),
        baseline=team.first(lambda: errors_of_offsets(plan, X)),
        classes=tuple(type(p) for p in (model.method, model.solver) if not isinstance(p, str)),
    )
    if folder is not None:
        team.first(lambda: folder.open(found, plan.settings))
    if isinstance(chosen, int):
        # A finished search is not repeated: exchanged fits could lead it elsewhere.
        stored = team.first(lambda: folder.strengths(wanted) if folder else [])
        chosen = tuple(stored) if len(stored) >= chosen else chosen
    kept = "pass out= to keep finished fits"
    if out is not None:
        kept = f"finished fits are in {out}, and the same call continues"
    with tracked("fits", 0 if team.rank else verbose, kept) as bar:
        each = list(product(levels, wanted))
        run = _Run(plan, found, folder, team, n_jobs, _told(bar, on_progress), bar.note, each)
        points = _adaptive(run, wanted, chosen) if isinstance(chosen, int) else run.points(chosen)
        points = run.certified(run.exchanged(points))
        return replace(found, points=tuple(run.evaluated(run.audited(points))))


def _told(bar: Bar, then: OnProgress | None) -> OnProgress:
    """Return a callback that moves a bar and calls `then`."""

    def on_progress(what: str, done: int, total: int) -> None:
        bar.stage(what)
        bar(done, total)
        if then is not None:
            then(what, done, total)

    return on_progress


@dataclass(eq=False)
class _Run:
    """Fits, certifies, audits and evaluates the members that are not in the folder yet.

    All processes of a team do the same in the same order. What is not a fit, process 0 does.
    """

    plan: Plan
    empty: Frontier
    folder: Folder | None
    team: Team
    n_jobs: int | None
    on_progress: OnProgress
    note: Callable[[str], None]
    each: Sequence[tuple[float | None, int]]  # noises and seeds at every strength
    done: int = 0
    total: int = 0

    def points(self, strengths: Iterable[float | None]) -> list[Point]:
        """Return the fits at these strengths, in order."""
        members = [self.plan.member(s, seed, noise) for s in strengths for noise, seed in self.each]
        self.total += len(members)
        read = {member: self._read(member) for member in members}
        kept = {member: point for member, point in read.items() if point is not None}
        kept |= self._with_other_noise([member for member in members if member not in kept])
        self._report(len(kept))
        missing = [member for member in members if member not in kept]
        batches = self.plan.batches(missing, workers=self._workers)
        writes = None if self.team.rank else self.folder
        jobs = [joblib.delayed(_fit_batch)(self.plan, batch, writes) for batch in batches]
        if len(jobs) == 1 or self._workers == 1:
            # In this process, progress is reported after every fit.
            found = [_fit_batch(self.plan, b, writes, lambda: self._report(1)) for b in batches]
        else:
            found = joblib.Parallel(n_jobs=self.n_jobs)(jobs)
            self._report(len(missing))
        for batch, fits in zip(batches, found, strict=True):
            kept |= {m: Point(m, fit) for m, fit in zip(batch, fits, strict=True)}
        return [kept[member] for member in members]

    def _read(self, member: Member) -> Point | None:
        """Return a member of the folder with what was computed for it; None without a fit."""
        folder = self.folder
        return None if folder is None else self.team.first(lambda: folder.read(member))

    def _with_other_noise(self, missing: Sequence[Member]) -> dict[Member, Point]:
        """Return members whose fit the folder has with another noise: they need no fit."""
        folder = self.folder
        if folder is None or not missing:
            return {}
        stored = self.team.first(folder.members)
        there = {self.plan.fit_of(member): member for member in stored}
        found = {}
        for member in missing:
            other = there.get(self.plan.fit_of(member))
            point = None if other is None else self._read(other)
            if point is not None and point.fit.status is not Status.DIVERGED:
                fit = with_noise_of(self.plan, point, member)
                self.team.first(partial(folder.write, member, fit))
                found[member] = Point(member, fit)
        return found

    def certified(self, points: Sequence[Point]) -> list[Point]:
        """Return the points with their certificates; only fits with noise have one."""
        if self.plan.certificates is None:
            return list(points)
        found, refused = [], []
        for point in points:
            sound = point.member.noise and point.fit.status is not Status.DIVERGED
            if sound and point.certificate is None:
                exact = replace(point, fit=with_noise_of(self.plan, point, point.member))
                try:
                    certificate = self.team.first(partial(self._certify, exact))
                except ValueError as error:  # such as a group of one person
                    refused.append(str(error))
                else:
                    point = replace(point, certificate=certificate)
            found.append(point)
        if refused:
            warn(
                f"{len(refused)} of {len(points)} fits have no certificate ({refused[0]}); "
                "certificates=None leaves certificates out",
                stacklevel=3,
            )
        return found

    def _certify(self, exact: Point) -> Certificate:
        """Return the certificate of a point, and write it."""
        assert self.plan.certificates is not None
        found = certify(self.empty.model(exact), **self.plan.certificates)
        if self.folder is not None:
            self.folder.write_certificate(exact.member, found)
        return found

    def exchanged(self, points: Sequence[Point]) -> list[Point]:
        """Return the points, each with the best fit of its seed."""
        found = exchange(self.plan, points)
        for before, after in zip(points, found, strict=True):
            if self.folder is not None and after is not before:
                self.team.first(partial(self.folder.replace, after.member, after.fit))
        return found

    def audited(self, points: Sequence[Point]) -> list[Point]:
        """Return the points with their audits; diverged fits are not audited."""
        if self.plan.audits is None:
            return list(points)
        sound = [p for p in points if p.audit is None and p.fit.status is not Status.DIVERGED]
        problem = self.plan.task.problem
        people = problem.penalized_of_all
        among = slice(None) if people is None else torch.from_numpy(people)
        jobs = (
            joblib.delayed(_audit_rows)(
                p.fit.cp.factors[problem.mode].cpu()[among],
                problem.penalized_features,
                self.plan.audits,
                p.member,
                self.folder,
            )
            for p in sound
        )
        found: dict[Member, Audit] = {}
        results = iter(() if self.team.rank else self._in_turn(jobs))
        for point in sound:
            result = self.team.first(partial(next, results))
            found[point.member] = result
            self.on_progress("audits", len(found), len(sound))
            self.note(repr(replace(point, audit=result)))
        return [replace(p, audit=found.get(p.member, p.audit)) for p in points]

    def evaluated(self, points: Sequence[Point]) -> list[Point]:
        """Return the points with their errors; diverged fits are not evaluated."""
        if self.plan.X_test is None:
            return list(points)
        found = []
        for point in points:
            if point.evaluation is None and point.fit.status is not Status.DIVERGED:
                errors = self.team.first(partial(self._evaluate, point))
                point = replace(point, evaluation=errors)
            found.append(point)
        return found

    def _evaluate(self, point: Point) -> Evaluation:
        """Return the errors of a point on held-out entries, and write them."""
        test, problem = self.plan.X_test, self.plan.task.problem
        assert test is not None
        errors = evaluate_predictions(
            test,
            self.empty.model(point).predict(test),
            sensitive_features=problem.sensitive_of_all,
            mode=problem.mode,
        )
        if self.folder is not None:
            self.folder.write_evaluation(point.member, errors)
        return errors

    def _in_turn(self, jobs: Iterable[Any]) -> Iterable[Audit]:
        """Return results one by one as they finish, if joblib's backend supports that."""
        try:
            parallel = joblib.Parallel(n_jobs=self.n_jobs, return_as="generator")
        except ValueError:
            parallel = joblib.Parallel(n_jobs=self.n_jobs)
        results: Iterable[Audit] = parallel(jobs)
        return results

    @property
    def _workers(self) -> int:
        """Number of processes for fits; one on a GPU, which several could not share efficiently."""
        if self.plan.task.problem.prototype.is_cuda or not self.team.is_alone:
            return 1
        return max(1, int(joblib.effective_n_jobs(self.n_jobs)))

    def _report(self, more: int) -> None:
        self.done += more
        self.on_progress("fits", self.done, self.total)


def _fit_batch(
    plan: Plan,
    members: Sequence[Member],
    folder: Folder | None,
    done: Callable[[], None] | None = None,
) -> tuple[Fit, ...]:
    """Fit a batch; write every fit as soon as it is finished."""

    def keep(position: int, fit: Fit) -> None:
        if folder is not None:
            folder.write(members[position], fit)
        if done is not None:
            done()

    return plan.fit(members, keep)


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
    """Fit strengths that span the curve, then more where the residual changes most."""
    task = run.plan.task
    strengths = coarse_strengths(task.problem, run.plan.fit_plain(seeds[:1])[0], count)
    points: list[Point] = []
    tried: list[float] = []
    while strengths:
        tried += strengths
        points += run.points(strengths)
        strengths = refined_strengths(mean_residuals(points), tried, count)
    return sorted(points, key=lambda point: point.member.order)
