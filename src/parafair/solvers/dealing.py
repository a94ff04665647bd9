"""Fits with a penalty that compares people in chunks: the chunks are dealt anew every few steps.

A statistic of a chunk is at chance if what all people have in common and what is particular to the
chunk cancel. Rows that are fitted to fixed chunks make use of that: they lose what is particular,
and keep as much of what is common as a chunk shows by chance, which is far more than everybody
together would show. No rows can do so for chunks that change. The objective of a fit is that of
chunks that were never fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, stack_factors
from parafair.errors import Interrupted
from parafair.solvers.checkpoints import current_journal, without_journal
from parafair.solvers.loop import (
    Counted,
    OnFit,
    OnIteration,
    ResumingSolver,
    Solver,
    State,
    solve_batch,
)
from parafair.solvers.packing import is_packed, packed
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status, Stop, best

# Iterations with the same chunks. Three times as many left up to twice the dependence after the
# same time, on 4,000 people of Adult.
ITERATIONS = 10
# A fit ends if the objective has no new minimum in so many deals. It rises and falls a little from
# deal to deal.
PATIENCE = 2
# Multiple of the tolerance: much of what later iterations gain, the next deal takes back.
TOLERANCES = 4


def solve_dealt(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
    dealt: int = 0,
) -> tuple[Fit, ...]:
    """Run a solver with chunks that are dealt anew every few iterations.

    Fits are those of `solve_batch`; all members end together. The tolerance is about the objective
    with the problem's own chunks, which are never fitted. It may rise, so a fit has the factors of
    the deal after which it was lowest, or those it began with.

    Args:
        problem: What to minimize.
        solver: The solver.
        starts: One factor (batch, size, rank) per mode.
        stop: When all members stop.
        on_iteration: As in `solve_batch`.
        on_fit: As in `solve_batch`.
        dealt: How many deals the starts were fitted to. Fitted once more, these would look better
            and be worse.

    Raises:
        Interrupted: On Ctrl-C, with the best fit after the last finished iteration.
    """
    # Not in single precision: in components that nearly cancel, rounding would be larger than what
    # an iteration gains. Pairs of people are compared in single precision in any case.
    counted, lasting, factors = Counted(on_iteration), Lasting(solver), starts
    fits: tuple[Fit, ...] = ()
    judged, lowest = [problem.evaluate(factors).value], factors
    journal, first = current_journal(), 1
    key = "" if journal is None else journal.begin()
    stored: Dealt | None = None if journal is None else journal.state(key)
    if stored is not None:
        first, fits, judged, lasting.last = stored.deal + 1, stored.fits, stored.judged, stored.last
        lowest = stored.lowest
        factors = stack_factors(fit.cp.factors for fit in fits)
    for deal in count(first):
        last = min(deal * ITERATIONS, stop.max_iter)
        try:
            with without_journal():
                fits = solve_batch(
                    problem.with_deal(dealt + deal),
                    lasting,
                    starts=factors,
                    stop=replace(stop, max_iter=last, tol=0.0),
                    on_iteration=counted.later(),
                    before=fits,
                )
            if any(fit.status is not Status.OUT_OF_ITERATIONS for fit in fits):
                lasting.last = None  # it is not the state of all members
            factors = stack_factors(fit.cp.factors for fit in fits)
            judged.append(problem.evaluate(factors).value)
            lowest = _lower(judged, factors, lowest)
        except Interrupted:
            raise
        except KeyboardInterrupt as error:  # between two deals
            if not fits:
                raise
            fit = replace(best(list(fits)), status=Status.INTERRUPTED)
            raise Interrupted(fit) from error
        settled = _settled(judged, stop)
        ended = all(fit.status in (Status.DIVERGED, Status.OUT_OF_TIME) for fit in fits)
        if settled or ended or last == stop.max_iter:
            break
        if journal is not None:
            kept = lasting.last if is_packed(lasting.last) else None
            now = Dealt(deal, fits, list(judged), lowest, kept)
            journal.offer(key, lambda: now)  # noqa: B023
    found = []
    for member, fit in enumerate(fits):
        if settled and fit.status is not Status.DIVERGED:
            fit = replace(fit, status=Status.CONVERGED)
        own = problem.take(torch.tensor([member], dtype=torch.long, device=factors[0].device))
        if fit.status is not Status.DIVERGED:
            fit = replace(fit, cp=CPTensor.from_factors([factor[member] for factor in lowest]))
        # One that diverged at its start has no other entry.
        history = fit.history[:-1] or fit.history
        fit = replace(fit, history=history)
        seconds = fits[member].seconds - fit.seconds
        found.append(fit.with_factors(own, fit.cp.factors, seconds=seconds))
        if on_fit is not None:
            on_fit(member, found[-1])
    return tuple(found)


@packed
@dataclass(frozen=True, eq=False)
class Dealt:
    """A solve after some deals.

    Attributes:
        deal: The last deal.
        fits: The fits after it.
        judged: The objective after each deal, and before the first.
        lowest: The factors of each member after the deal with its lowest objective.
        last: The state of the solver; None to begin anew.
    """

    deal: int
    fits: tuple[Fit, ...]
    judged: list[Tensor]
    lowest: tuple[Tensor, ...]
    last: Any


class Lasting:
    """A solver that continues from its last state, if it can, instead of beginning anew.

    With other chunks the objective has nearly the same curvature, which takes many iterations to
    learn.

    Attributes:
        last: The last state; None to begin anew.
    """

    def __init__(self, solver: Solver[Any]) -> None:
        self.solver = solver
        self.last: State | None = None

    def init(self, problem: Problem, factors: tuple[Tensor, ...]) -> State:
        """Return the state of the problem with other chunks."""
        if self.last is not None and isinstance(self.solver, ResumingSolver):
            state: State = self.solver.resume(problem, self.last)
        else:
            state = self.solver.init(problem, factors)
        return state

    def step(self, problem: Problem, state: State) -> State:
        """Return the state after one more iteration."""
        self.last = self.solver.step(problem, state)
        return self.last


def _lower(
    judged: Sequence[Tensor], factors: tuple[Tensor, ...], lowest: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Return the factors of members whose last objective is their lowest, else those before."""
    before = torch.stack(list(judged[:-1])).nan_to_num(nan=torch.inf).amin(0)
    is_lower = (judged[-1] < before)[:, None, None]
    return tuple(torch.where(is_lower, *pair) for pair in zip(factors, lowest, strict=True))


def _settled(judged: Sequence[Tensor], stop: Stop) -> bool:
    """Whether the objective of no member has fallen by more than the tolerance of late."""
    if not stop.tol or len(judged) <= PATIENCE:
        return False
    found = torch.stack(list(judged)).nan_to_num(nan=torch.inf)
    before, now = found[:-PATIENCE].amin(0), found[-PATIENCE:].amin(0)
    least = PATIENCE * ITERATIONS * TOLERANCES * stop.tol * now.clamp_min(stop.noise_cost)
    return bool((before - now <= least).all())
