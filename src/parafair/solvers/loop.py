"""The loop that runs every solver, and the solver protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.errors import Interrupted
from parafair.solvers.checkpoints import current_journal
from parafair.solvers.objective import Objective
from parafair.solvers.packing import packed
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Iteration, Status, Stop, best
from parafair.tiles import in_smaller_tiles


class State(Protocol):
    """State of a solver, for every member of a batch."""

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """One per mode, each (batch, size, rank)."""

    @property
    def objective(self) -> Objective:
        """The objective at `factors`."""

    @property
    def counts(self) -> Mapping[str, Tensor]:
        """Totals to report, each (batch,)."""

    def take(self, members: Tensor) -> Self:
        """Return the state of some members."""


@runtime_checkable
class StallingState(Protocol):
    """A `State` whose members can be unable to move; such members stop, with any tolerance.

    A member that cannot move has converged if its objective decreased by less than the tolerance
    over the last iterations, or if it is at a stationary point. Otherwise its status is STALLED.
    """

    @property
    def stalled(self) -> Tensor:
        """Where no step decreased the objective, shape (batch,)."""

    @property
    def settled(self) -> Tensor:
        """Where no step can, because the point is stationary up to rounding, shape (batch,)."""


S = TypeVar("S", bound=State)


@runtime_checkable
class Solver(Protocol[S]):
    """Settings of a solver; usually a frozen dataclass. Members of a batch must not mix."""

    def init(self, problem: Problem, factors: tuple[Tensor, ...]) -> S:
        """Return the state before the first iteration."""

    def step(self, problem: Problem, state: S) -> S:
        """Return the state after one more iteration."""


@runtime_checkable
class ResumingSolver(Solver[S], Protocol[S]):
    """A solver that keeps what it has learned when the problem changes a little."""

    def resume(self, problem: Problem, state: S) -> S:
        """Return the state of the changed problem at the same factors."""


OnIteration = Callable[[int, Objective], None]
OnFit = Callable[[int, Fit], None]


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


def solve_batch(
    problem: Problem,
    solver: Solver[S],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop | None = None,
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
    before: Sequence[Fit] = (),
) -> tuple[Fit, ...]:
    """Run a solver from many starts at once; a finished member leaves the batch.

    Args:
        problem: What to minimize.
        solver: The solver.
        starts: One factor (batch, size, rank) per mode.
        stop: When a member stops; ``Stop()`` if None.
        on_iteration: Called after each iteration with its number and the objective of the members
            still running.
        on_fit: Called with the number of a member and its fit as soon as it is finished.
        before: Fits that ended at the starts. Their iterations, time and counts are continued, and
            the limits of `stop` count for all together.

    Returns:
        One fit per start, in order.

    Raises:
        Interrupted: On Ctrl-C, with the best fit after the last finished iteration.
    """
    journal = current_journal()
    key = "" if journal is None else journal.begin()
    ended: tuple[Fit, ...] | None = None if journal is None else journal.result(key)
    if ended is not None:
        for member, fit in enumerate(ended if on_fit is not None else ()):
            on_fit(member, fit)  # type: ignore[misc]
        return ended
    stop, whole = stop or Stop(), problem
    # A smaller objective is rounding error.
    least = max(torch.finfo(problem.prototype.dtype).eps ** 2, stop.enough)
    floor = least * problem.total / problem.count
    begin = perf_counter() - max((fit.seconds for fit in before), default=0.0)
    state, step = in_smaller_tiles(solver.init)(problem, starts), in_smaller_tiles(solver.step)
    histories = [[entry] for entry in _entries(state.objective, perf_counter() - begin)]
    if before:
        histories = [list(fit.history) for fit in before]
    begun = [len(history) for history in histories]
    counted = [fit.counts for fit in before] or [{}] * len(histories)
    sound = torch.isfinite(state.objective.value)
    if not sound.any():
        raise ValueError(
            "the objective is not finite at the start, for the initial factors of init, the "
            "strength and the ridge; use smaller ones, or rescale X"
        )
    fits: dict[int, Fit] = {}
    for member in (~sound).nonzero().flatten().tolist():
        fits[member] = _finish(state, member, Status.DIVERGED, histories[member], counted[member])
        if on_fit is not None:
            on_fit(member, fits[member])
    if fits:
        positions = sound.nonzero().flatten()
        state, problem = state.take(positions), problem.take(positions)
    # The state, the member at each of its positions and the number of iterations. They are replaced
    # together, so that they agree whenever an interruption comes.
    current = (state, [member for member in range(len(histories)) if member not in fits], 0)
    stored = None if journal is None else journal.state(key)
    if stored is not None:
        state, running, iterations = current = stored.current
        histories, fits = [list(history) for history in stored.histories], dict(stored.fits)
        begin = perf_counter() - max(history[-1].seconds for history in histories)
        if len(running) < len(histories):
            problem = whole.take(torch.tensor(running, dtype=torch.long, device=starts[0].device))
    try:
        while current[1]:
            previous, running, iterations = current
            state = step(problem, previous)
            kept, ends = [], _ends(state)
            entries = _entries(state.objective, perf_counter() - begin)
            for position, (member, entry) in enumerate(zip(running, entries, strict=True)):
                histories[member].append(entry)
                status = stop.judge(histories[member], floor)
                if status not in (Status.CONVERGED, Status.DIVERGED):
                    status = ends.get(position, status)
                if status is Status.RUNNING:
                    kept.append(position)
                    continue
                if status is Status.DIVERGED:
                    histories[member].pop()
                end = previous if status is Status.DIVERGED else state
                history = histories[member]
                fits[member] = _finish(end, position, status, history, counted[member])
                if on_fit is not None:
                    on_fit(member, fits[member])
            objective = state.objective
            if len(kept) < len(running):
                positions = torch.tensor(kept, dtype=torch.long, device=starts[0].device)
                state, problem = state.take(positions), problem.take(positions)
            current = (state, [running[position] for position in kept], iterations + 1)
            if on_iteration is not None:
                on_iteration(iterations + 1, objective)
            if journal is not None and current[1]:
                journal.offer(key, lambda: Running.of(current, histories, begun, fits))  # noqa: B023
    except KeyboardInterrupt as error:
        state, running, iterations = current
        for position, member in enumerate(running):
            history = histories[member][: begun[member] + iterations]
            status = Status.INTERRUPTED
            fits[member] = _finish(state, position, status, history, counted[member])
        raise Interrupted(best(list(fits.values()))) from error
    found = tuple(fits[member] for member in range(len(histories)))
    if journal is not None:
        journal.end(key, found)
    return found


@packed
@dataclass(frozen=True, eq=False)
class Running:
    """A solve that has not ended.

    Attributes:
        current: The state, the member at each of its positions and the number of iterations.
        histories: The iterations of each member.
        fits: The members that have ended.
    """

    current: tuple[Any, list[int], int]
    histories: list[list[Iteration]]
    fits: dict[int, Fit]

    @classmethod
    def of(
        cls,
        current: tuple[Any, list[int], int],
        histories: Sequence[list[Iteration]],
        begun: Sequence[int],
        fits: Mapping[int, Fit],
    ) -> Running:
        """Return the solve without what an unfinished iteration has added.

        Args:
            current: As in the class.
            histories: As in the class.
            begun: The length of each history before the first iteration.
            fits: As in the class.
        """
        whole = [h[: n + current[2]] for h, n in zip(histories, begun, strict=True)]
        ended = {member: fit for member, fit in fits.items() if member not in current[1]}
        return cls(current, whole, ended)


def _entries(objective: Objective, seconds: float) -> list[Iteration]:
    """Return one history entry per member."""
    columns = (
        objective.value,
        objective.loss,
        objective.penalty,
        objective.residual,
        objective.side,
    )
    rows: list[list[float]] = torch.stack(columns, 1).tolist()
    return [
        Iteration(value, loss, penalty, residual, seconds, side)
        for value, loss, penalty, residual, side in rows
    ]


def _ends(state: State) -> dict[int, Status]:
    """Return the status of members that cannot move, by position."""
    if not isinstance(state, StallingState):
        return {}
    rows: list[list[bool]] = torch.stack([state.stalled, state.settled], 1).tolist()
    return {
        position: Status.CONVERGED if settled else Status.STALLED
        for position, (stalled, settled) in enumerate(rows)
        if stalled or settled
    }


def _finish(
    state: State,
    position: int,
    status: Status,
    history: list[Iteration],
    counted: Mapping[str, int],
) -> Fit:
    """Return the fit of one member, with its own copy of the factors.

    Args:
        state: The state of all members.
        position: That of the member in it.
        status: Why the member stopped.
        history: Its iterations.
        counted: Counts to add to those of the state.
    """
    cp = CPTensor.from_factors([factor[position].clone() for factor in state.factors])
    counts = {name: int(c[position]) + counted.get(name, 0) for name, c in state.counts.items()}
    return Fit(cp, status, tuple(history), counts)
