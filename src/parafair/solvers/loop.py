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
from parafair.solvers.race import Race
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
    race: Race | None = None,
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
        race: Which members are starts of the same fit. Those that fall behind leave the batch.

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
    batch = _Batch(
        problem, solver, starts, stop=stop or Stop(), on_fit=on_fit, before=before, race=race
    )
    stored: Running | None = None if journal is None else journal.state(key)
    if stored is not None:
        batch.resume(stored)
    try:
        while batch.is_running:
            objective = batch.iterate()
            if on_iteration is not None:
                on_iteration(batch.iterations, objective)
            if journal is not None and batch.is_running:
                journal.offer(key, batch.so_far)
    except KeyboardInterrupt as error:
        batch.interrupt()
        raise Interrupted(best(list(batch.fits.values()))) from error
    found = tuple(batch.fits[member] for member in range(len(batch.fits)))
    if journal is not None:
        journal.end(key, found)
    return found


class _Batch:
    """The members of a batch: those that run, and the fits of those that have ended."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver[Any],
        starts: tuple[Tensor, ...],
        *,
        stop: Stop,
        on_fit: OnFit | None,
        before: Sequence[Fit],
        race: Race | None,
    ) -> None:
        """Begin at the starts; the arguments are those of `solve_batch`."""
        self.whole, self.solver, self.stop, self.on_fit = problem, solver, stop, on_fit
        self.race = race
        self.device = starts[0].device
        # A smaller objective is rounding error.
        least = max(torch.finfo(problem.prototype.dtype).eps ** 2, stop.enough)
        self.floor = least * problem.total / problem.count
        self.begin = perf_counter() - max((fit.seconds for fit in before), default=0.0)
        state = in_smaller_tiles(solver.init)(problem, starts)
        self.histories = [[entry] for entry in self._entries(state)]
        if before:
            self.histories = [list(fit.history) for fit in before]
        self.begun = [len(history) for history in self.histories]
        self.counted = [fit.counts for fit in before] or [{}] * len(self.histories)
        self.fits: dict[int, Fit] = {}
        self._start(state)

    def _start(self, state: Any) -> None:
        """Keep the members whose objective is finite; the others have diverged."""
        sound = torch.isfinite(state.objective.value)
        if not sound.any():
            raise ValueError(
                "the objective is not finite at the start, for the initial factors of init, the "
                "strength and the ridge; use smaller ones, or rescale X"
            )
        members = list(range(len(self.histories)))
        for member in (~sound).nonzero().flatten().tolist():
            self._end(state, member, member, Status.DIVERGED)
        self.problem = self.whole
        self._keep(state, members, sound.nonzero().flatten().tolist(), 0)

    @property
    def is_running(self) -> bool:
        """Whether a member still runs."""
        return bool(self.current[1])

    @property
    def iterations(self) -> int:
        """Number of finished iterations."""
        return self.current[2]

    def resume(self, stored: Running) -> None:
        """Continue where a stored solve was."""
        _, running, _ = self.current = stored.current
        self.histories = [list(history) for history in stored.histories]
        self.fits = dict(stored.fits)
        self.begin = perf_counter() - max(history[-1].seconds for history in self.histories)
        self.problem = self.whole
        if len(running) < len(self.histories):
            self.problem = self.whole.take(self._positions(running))

    def iterate(self) -> Objective:
        """Take one step; return the objective of the members that ran."""
        previous, running, iterations = self.current
        state = in_smaller_tiles(self.solver.step)(self.problem, previous)
        kept, ends = [], _ends(state)
        for position, entry in enumerate(self._entries(state)):
            history = self.histories[running[position]]
            history.append(entry)
            status = self.stop.judge(history, self.floor)
            if status not in (Status.CONVERGED, Status.DIVERGED):
                status = ends.get(position, status)
            if status is Status.RUNNING:
                kept.append(position)
            elif status is Status.DIVERGED:
                history.pop()
                self._end(previous, position, running[position], status)
            else:
                self._end(state, position, running[position], status)
        for position in self._beaten(running, kept):
            kept.remove(position)
            self._end(state, position, running[position], Status.BEATEN)
        objective: Objective = state.objective
        self._keep(state, running, kept, iterations + 1)
        return objective

    def _beaten(self, running: list[int], kept: list[int]) -> list[int]:
        """Return the positions of members that have fallen behind other starts of their fit."""
        if self.race is None:
            return []
        by_themselves = {running[position] for position in kept}
        for member, fit in self.fits.items():
            if fit.status not in (Status.BEATEN, Status.DIVERGED):
                by_themselves.add(member)
        beaten = self.race.beaten({m: self.histories[m] for m in sorted(by_themselves)})
        return [position for position in kept if running[position] in beaten]

    def so_far(self) -> Running:
        """Return the solve after the last finished iteration, without what another has added."""
        _, running, iterations = self.current
        lengths = (length + iterations for length in self.begun)
        histories = [own[:length] for own, length in zip(self.histories, lengths, strict=True)]
        ended = {member: fit for member, fit in self.fits.items() if member not in running}
        return Running(self.current, histories, ended)

    def interrupt(self) -> None:
        """End the members that run after the last finished iteration."""
        state, running, iterations = self.current
        for position, member in enumerate(running):
            del self.histories[member][self.begun[member] + iterations :]
            self.fits[member] = self._fit(state, position, member, Status.INTERRUPTED)

    def _keep(self, state: Any, running: list[int], kept: list[int], iterations: int) -> None:
        """Go on with the members at some positions."""
        if len(kept) < len(running):
            positions = self._positions(kept)
            state, self.problem = state.take(positions), self.problem.take(positions)
        # The state, the member at each of its positions and the number of iterations. They are
        # replaced together, so that they agree whenever an interruption comes.
        self.current = (state, [running[position] for position in kept], iterations)

    def _positions(self, chosen: list[int]) -> Tensor:
        return torch.tensor(chosen, dtype=torch.long, device=self.device)

    def _entries(self, state: Any) -> list[Iteration]:
        return _entries(state.objective, perf_counter() - self.begin)

    def _end(self, state: Any, position: int, member: int, status: Status) -> None:
        """End a member, which is at a position of a state."""
        self.fits[member] = self._fit(state, position, member, status)
        if self.on_fit is not None:
            self.on_fit(member, self.fits[member])

    def _fit(self, state: Any, position: int, member: int, status: Status) -> Fit:
        """Return the fit of a member, with its own copy of the factors."""
        cp = CPTensor.from_factors([factor[position].clone() for factor in state.factors])
        before = self.counted[member]
        counts = {name: int(c[position]) + before.get(name, 0) for name, c in state.counts.items()}
        return Fit(cp, status, tuple(self.histories[member]), counts)


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
