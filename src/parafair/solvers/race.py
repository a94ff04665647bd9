"""Starts of the same fit that compete in one batch: those that fall behind leave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from parafair.solvers.result import Fit, Iteration, Status, Stop, best


@dataclass(frozen=True)
class Round:
    """A rule by which starts leave.

    Attributes:
        tol: It applies when the objective of every start falls by less than this share per
            iteration.
        window: Iterations to average over.
        close: Starts whose objectives exceed the lowest by no more than this share stay.
    """

    tol: float
    window: int
    close: float

    def stop(self, stop: Stop) -> Stop:
        """Return when fits are as far as this round asks; as late as given, at the latest."""
        return replace(
            stop,
            tol=max(stop.tol, self.tol) if stop.tol else 0.0,
            window=min(stop.window, self.window),
        )


# Some starts that are close after the first round end far apart, but none that are after the last.
ROUNDS = (Round(1e-3, 5, 0.05), Round(2e-4, 10, 0.0))

# A start also leaves if it would not reach another in so many iterations like its last ones, once
# one of both has settled.
REACH, WINDOW = 50, 10


@dataclass(frozen=True)
class Race:
    """Which members of a batch are starts of the same fit.

    Attributes:
        fits: For each member of the batch, the number of its fit.
        stop: When a fit stops.
    """

    fits: tuple[int, ...]
    stop: Stop

    def beaten(self, histories: Mapping[int, Sequence[Iteration]]) -> set[int]:
        """Return the members that have fallen behind.

        Args:
            histories: Those of the members that run, and of those that have ended by themselves.
        """
        found: set[int] = set()
        for fit in dict.fromkeys(self.fits[member] for member in histories):
            rivals = {m: own for m, own in histories.items() if self.fits[m] == fit}
            if len(rivals) < 2:
                continue
            last = {member: own[-1].objective for member, own in rivals.items()}
            for current in ROUNDS:
                if len(self._settled(rivals, current)) == len(rivals):
                    found |= _behind(last, current)
            settled = self._settled(rivals, ROUNDS[0])
            for member, own in rivals.items():
                others = set(rivals) if member in settled else settled
                lowest = min((last[other] for other in others - {member}), default=inf)
                if _out_of_reach(own, lowest):
                    found.add(member)
        return found

    def _settled(self, rivals: Mapping[int, Sequence[Iteration]], current: Round) -> set[int]:
        """Return the members whose objective falls as slowly as a round asks."""
        stop = current.stop(self.stop)
        return {m for m, own in rivals.items() if stop.judge(own) is Status.CONVERGED}

    def winners(self, found: Sequence[Fit]) -> list[int]:
        """Return the member with the best fit of each number, of the fits of the batch."""
        chosen = []
        for fit in dict.fromkeys(self.fits):
            rivals = [member for member, own in enumerate(self.fits) if own == fit]
            fits = [found[member] for member in rivals]
            chosen.append(rivals[fits.index(best(fits))])
        return chosen


def _behind(objectives: Mapping[int, float], current: Round) -> set[int]:
    """Return all but the lowest, and but those that are close to it."""
    first = min(objectives, key=lambda member: objectives[member])
    most = (1 + current.close) * objectives[first]
    stay = {m for m, value in objectives.items() if current.close and value <= most}
    return set(objectives) - stay - {first}


def _out_of_reach(history: Sequence[Iteration], lowest: float) -> bool:
    """Tell whether a start would stay above an objective for long."""
    if len(history) <= WINDOW:
        return False
    each = max(0.0, history[-1 - WINDOW].objective - history[-1].objective) / WINDOW
    return history[-1].objective - REACH * each > lowest
