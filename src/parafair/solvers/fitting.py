"""From initial factors to finished fits: plain decompositions, repairs, the solver, postprocessing.

From a random start, a strong penalty destroys the fit and the solver does not recover it. So a fit
with a scale-free penalty begins at a converged plain decomposition, and also at its transport
repair, where all groups have the same distribution. The lower objective wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.errors import Interrupted
from parafair.penalties import Transport
from parafair.penalties.base import is_scale_free
from parafair.penalties.postprocessing import Postprocessing, SeededPostprocessing
from parafair.solvers.block import BlockDescent
from parafair.solvers.decomposition import Decomposition, repair
from parafair.solvers.loop import OnFit, OnIteration, Solver, solve_batch
from parafair.solvers.problem import Objective, Problem
from parafair.solvers.result import Fit, Status, Stop, best

# The repair of more people takes longer than the fit.
MOST_REPAIRED = 1000

# Rough fits decide between starts: the decrease of the objective per iteration at which they stop,
# and the iterations to average over.
ROUGH_TOL, ROUGH_WINDOW = 1e-3, 5

# Starts whose rough objectives exceed the lowest by no more than this share are all finished.
CLOSE = 0.05


def decompose(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    postprocessing: Postprocessing | None = None,
    seeds: Sequence[int] = (),
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Return one fit per start of a batch, straight from the given factors.

    Args:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        starts: One factor (batch, size, rank) per mode.
        stop: When a member stops.
        postprocessing: Changes the decomposition after the fit; None for no change.
        seeds: A seed for each member, for postprocessing that draws random numbers; none of them
            leaves that to its own seed.
        on_iteration: Called after each iteration, as in `solve_batch`.
        on_fit: Called with the position of a member and its fit as soon as it is finished.
    """
    if postprocessing is not None and problem.sensitive is not None:
        postprocessing.check(problem.penalized_features)
    finished: dict[int, Fit] = {}

    def finish(member: int, fit: Fit) -> None:
        # A member that diverged at its start has no finite factors.
        finite = all(bool(factor.isfinite().all()) for factor in fit.cp.factors)
        if postprocessing is not None and problem.sensitive is not None and finite:
            begin = perf_counter()
            plain = Decomposition(problem, tuple(factor[None] for factor in fit.cp.factors))
            own = postprocessing
            if seeds and isinstance(own, SeededPostprocessing):
                own = own.with_seed(seeds[member])
            changed = [factor[0] for factor in own.apply(plain).factors]
            fit = fit.with_factors(problem, changed, seconds=perf_counter() - begin)
        finished[member] = complete(problem, fit)
        if on_fit is not None:
            on_fit(member, finished[member])

    solve_batch(problem, solver, starts=starts, stop=stop, on_iteration=on_iteration, on_fit=finish)
    return tuple(finished[member] for member in range(len(starts[0])))


def starts_plain(problem: Problem) -> bool:
    """Tell whether fits begin at plain decompositions."""
    return is_scale_free(problem.penalty)


def decompose_plain(
    problem: Problem,
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    on_iteration: OnIteration | None = None,
) -> tuple[Fit, ...]:
    """Return the decomposition without the penalty for every start of a batch."""
    plain = replace(problem, penalty=None, other_sensitive={})
    try:
        return solve_batch(
            plain, BlockDescent(), starts=starts, stop=stop, on_iteration=on_iteration
        )
    except Interrupted as interruption:
        raise Interrupted(interruption.fit, strength=0.0) from interruption


def decompose_from(
    problem: Problem,
    solver: Solver[Any],
    *,
    plain: Sequence[Fit],
    stop: Stop,
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Return one fit per plain decomposition: from it or from its repair.

    Rough fits from both come first. The one with the higher objective continues only if it is
    close; then the lower objective at the end wins.

    Args:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        plain: A plain decomposition for each member; several members may share one.
        stop: When a member stops.
        on_iteration: Called after each iteration, as in `solve_batch`, of the rough fits and then
            of the others.
        on_fit: Called with the position of a member and its fit as soon as it is finished.
    """
    finished: dict[int, list[Fit]] = {member: [] for member in range(len(plain))}

    def finish(place: int, fit: Fit) -> None:
        member, rough = first[place]
        finished[member].append(_after(complete(problem, fit), plain[member], rough))
        if on_fit is not None and len(finished[member]) == owners.count(member):
            on_fit(member, best(finished[member]))

    counted = Counted(on_iteration)
    try:
        first = _rough_fits(problem, solver, plain, stop, counted.later())
        owners = [member for member, _ in first]
        solve_batch(
            _of_members(problem, owners),
            solver,
            starts=_stack([rough.cp.factors for _, rough in first]),
            stop=stop,
            on_iteration=counted.later(),
            on_fit=finish,
        )
    except Interrupted as interruption:
        # The best may be a rough fit that had converged, or one of two contenders.
        fit = replace(interruption.fit, status=Status.INTERRUPTED)
        raise Interrupted(fit, interruption.strength, interruption.noise) from interruption
    except KeyboardInterrupt as error:  # during a repair
        fit = replace(best(list(plain)), status=Status.INTERRUPTED)
        raise Interrupted(fit, strength=0.0) from error
    return tuple(best(fits) for fits in finished.values())


def _rough_fits(
    problem: Problem,
    solver: Solver[Any],
    plain: Sequence[Fit],
    stop: Stop,
    on_iteration: OnIteration | None,
) -> list[tuple[int, Fit]]:
    """Return the rough fits that continue, from plain decompositions and from repairs.

    Each has the position of its member before it; all members have at least one.
    """
    repairs = _repairs(problem, plain)
    each = [(member, fit.cp.factors) for member, fit in enumerate(plain)]
    each += [(member, factors) for member, factors in enumerate(repairs) if factors is not None]
    owners = [member for member, _ in each]
    found = solve_batch(
        _of_members(problem, owners),
        solver,
        starts=_stack([factors for _, factors in each]),
        stop=roughly(stop),
        on_iteration=on_iteration,
    )
    lowest = [
        best([fit for fit, owner in zip(found, owners, strict=True) if owner == member])
        for member in range(len(plain))
    ]
    return [
        (owner, fit)
        for fit, owner in zip(found, owners, strict=True)
        if fit is lowest[owner]
        or (
            fit.status is not Status.DIVERGED
            and fit.objective <= (1 + CLOSE) * lowest[owner].objective
        )
    ]


def _of_members(problem: Problem, members: Sequence[int]) -> Problem:
    """Return the problem of a batch with these members, which may repeat."""
    if problem.strengths is None:
        return problem
    device = problem.strengths.device
    return problem.take(torch.tensor(members, dtype=torch.long, device=device))


def roughly(stop: Stop) -> Stop:
    """Return a rule that stops early."""
    return replace(
        stop,
        tol=max(stop.tol, ROUGH_TOL) if stop.tol else 0.0,
        window=min(stop.window, ROUGH_WINDOW),
    )


def _stack(factors: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """Return a batch of factors, one (batch, size, rank) per mode."""
    return tuple(torch.stack(mode) for mode in zip(*factors, strict=True))


def _repairs(problem: Problem, plain: Sequence[Fit]) -> list[tuple[Tensor, ...] | None]:
    """Return the repaired factors of each member, or None where a fit need not begin there."""
    if not _repairable(problem):
        return [None] * len(plain)
    assert problem.penalty is not None
    strengths = [problem.penalty.strength] * len(plain)
    if problem.strengths is not None:
        strengths = problem.strengths.tolist()
    unpenalized = replace(problem, penalty=None, other_sensitive={})
    repaired: dict[int, tuple[Tensor, ...]] = {}
    found: list[tuple[Tensor, ...] | None] = []
    for fit, strength in zip(plain, strengths, strict=True):
        if not strength or fit.status is Status.DIVERGED:
            found.append(None)
            continue
        if id(fit) not in repaired:
            repaired[id(fit)] = repair(unpenalized, fit.cp.factors)
        found.append(repaired[id(fit)])
    return found


def _repairable(problem: Problem) -> bool:
    """Tell whether there is a repair, and whether it is worth its time."""
    try:
        Transport().check(problem.penalized_features)
    except ValueError:  # numbers, or too many groups
        return False
    return len(problem.penalized_features) <= MOST_REPAIRED


def _after(fit: Fit, plain: Fit, first: Fit) -> Fit:
    """Return a fit with the time of the fits before it, and with their iterations as counts."""
    seconds = plain.seconds + first.seconds
    history = tuple(replace(entry, seconds=entry.seconds + seconds) for entry in fit.history)
    counts = {"plain iterations": plain.n_iter, "rough iterations": first.n_iter}
    return replace(fit, history=history, counts={**fit.counts, **counts})


class Counted:
    """Numbers the iterations of several fits one after the other."""

    def __init__(self, on_iteration: OnIteration | None) -> None:
        self.on_iteration = on_iteration
        self.last = 0

    def later(self) -> OnIteration:
        """Return a callback for the next fit."""
        before = self.last

        def count(number: int, objective: Objective) -> None:
            self.last = before + number
            if self.on_iteration is not None:
                self.on_iteration(self.last, objective)

        return count


def complete(problem: Problem, fit: Fit) -> Fit:
    """Return a fit with rows for everybody, and with its plain rows."""
    return replace(fit, cp=fill_empty(problem, fit.cp)).with_plain(problem)


def fill_empty(problem: Problem, cp: CPTensor) -> CPTensor:
    """Return the decomposition with the mean row at every index without observed entries."""
    factors = list(cp.factors)
    for mode, empty in problem.empty.items():
        if len(empty):
            mean = factors[mode].sum(0) - factors[mode][empty].sum(0)
            mean = mean / (len(factors[mode]) - len(empty))
            factors[mode] = factors[mode].index_copy(0, empty, mean.expand(len(empty), -1))
    return replace(cp, factors=tuple(factors))
