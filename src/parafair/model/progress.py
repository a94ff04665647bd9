"""Progress of a fit on the terminal, for `verbose`."""

from __future__ import annotations

import sys

from parafair.model.strength import OnAudit
from parafair.model.trials import OnTrial, Trial
from parafair.solvers.loop import OnIteration
from parafair.solvers.objective import Objective

# With verbose=1, one iteration in this many is printed.
EVERY = 10


def print_iterations(verbose: int, then: OnIteration | None) -> OnIteration | None:
    """Return a callback that prints iterations and calls `then`; just `then` if not verbose."""
    if not verbose:
        return then

    def on_iteration(number: int, objective: Objective) -> None:
        if verbose > 1 or number % EVERY == 0:
            best = int(objective.value.nan_to_num(float("inf")).argmin())
            print_line(
                verbose,
                f"iteration {number}: objective {float(objective.value[best]):.6g}, residual "
                f"{float(objective.residual[best]):.4f}",
            )
        if then is not None:
            then(number, objective)

    return on_iteration


def print_trials(verbose: int, then: OnTrial | None) -> OnTrial | None:
    """Return a callback that prints trials and calls `then`; just `then` if not verbose."""
    if not verbose:
        return then

    def on_trial(trial: Trial) -> None:
        print_line(verbose, str(trial))
        if then is not None:
            then(trial)

    return on_trial


def print_audits(verbose: int, then: OnAudit | None) -> OnAudit | None:
    """Return a callback that prints audits and calls `then`; just `then` if not verbose."""
    if not verbose:
        return then

    def on_audit(done: int, total: int) -> None:
        if verbose > 1 or done == 1:
            print_line(verbose, f"audit: {done} of {total} attackers")
        if then is not None:
            then(done, total)

    return on_audit


def print_line(verbose: int, line: str) -> None:
    """Print a line if verbose."""
    if verbose:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
