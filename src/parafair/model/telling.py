"""What a fit tells the user: how its ridge was selected, what noise has cost, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.errors import ConvergenceWarning, ParafairWarning, warn
from parafair.model.noise import describe_noise, warn_of_costly_noise, warn_without_noise
from parafair.model.progress import print_line
from parafair.model.task import Task
from parafair.solvers import LBFGS, BlockDescent, GradientBCD, Status

if TYPE_CHECKING:
    from parafair.model.fair_model import FairModel

# Relative rounding error of an objective in single precision.
ROUNDING = 1e-6


def tell_ridge(model: FairModel, task: Task, *, stacklevel: int) -> None:
    """Print how the ridge was selected, if verbose; warn if no ridge is good enough.

    Args:
        model: The model, which is not fitted yet.
        task: What is fitted.
        stacklevel: As in `warn`.
    """
    if task.ridge is None:
        return
    print_line(model.verbose, str(task.ridge))
    if task.ridge.loses:
        warn(
            f"held-out entries are predicted worse than by offsets alone (RMSE "
            f"{task.ridge.rmse:.4g} against {task.ridge.offsets_rmse:.4g}) at every ridge; use "
            "center=True or another rank",
            ParafairWarning,
            stacklevel=stacklevel + 1,
        )


def tell_noise(model: FairModel) -> None:
    """Print what noise has cost, if verbose."""
    if model.fit_.noise:
        print_line(model.verbose, describe_noise(model.record_.noise, model.fit_))


def warn_of_fit(model: FairModel, task: Task, *, stacklevel: int) -> None:
    """Warn of too little or costly noise, and of a fit that did not converge.

    Args:
        model: The fitted model.
        task: What was fitted.
        stacklevel: As in `warn`.
    """
    settings, record, above = task.settings, model.record_, stacklevel + 1
    warn_without_noise(record.noise, settings.usual_noise(record.strength), stacklevel=above)
    warn_of_costly_noise(model.fit_, settings.loss, stacklevel=above)
    # Audits have judged a selected strength as it is; postprocessing changes the objective.
    if not settings.automatic and settings.postprocessing is None:
        _warn_of_the_end(model, task, stacklevel=above)


def _warn_of_the_end(model: FairModel, task: Task, *, stacklevel: int) -> None:
    """Warn if the fit did not converge."""
    solver, fit, name = task.settings.solver, model.fit_, type(model).__name__
    remedy = "use smaller steps, or another solver"
    if isinstance(solver, GradientBCD):
        remedy = "use smaller step_sizes, or solver='block'"
    learned = fit.status is Status.FINISHED
    if learned:
        remedy = "raise the steps of the encoder, or lower its learning_rate"
    # Two solvers never increase the objective. Those of chunks that were dealt anew cannot be
    # compared.
    monotone = task.problem.in_chunks or isinstance(solver, (LBFGS, BlockDescent))
    # The first and the last may have been computed in different precisions.
    most = (1 + ROUNDING) * fit.history[0].objective
    if (learned or not monotone) and fit.before_noise.objective > most:
        warn(
            f"the objective of {name} increased during the fit: the steps were too large for the "
            f"penalty; {remedy}",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )
    elif fit.status in (Status.DIVERGED, Status.STALLED) or (
        model.tol > 0 and fit.status is Status.OUT_OF_ITERATIONS
    ):
        warn(
            f"{name} after {model.n_iter_} iterations: {fit.status.value}",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )
