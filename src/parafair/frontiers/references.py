"""What the fits of a frontier are compared with: a lower bound, and predictions without people."""

from __future__ import annotations

from typing import Any

from parafair.audits.evaluation import Evaluation, evaluate_predictions
from parafair.data.centering import Offsets
from parafair.data.checks import as_data
from parafair.frontiers.plan import Plan
from parafair.guarantees.limits import parity_limit


def smallest_residuals(plan: Plan, X: Any) -> tuple[tuple[tuple[float, float], ...], str]:
    """Return the smallest residual of any model at each leakage, or why there is none.

    Args:
        plan: The settings of the frontier.
        X: The tensor as it was given, complete.
    """
    problem = plan.task.problem
    sensitive = problem.sensitive_of_all
    try:
        found = parity_limit(
            plan.whole_data(X).to("cpu"), sensitive_features=sensitive, mode=problem.mode
        )
    except (ImportError, ValueError) as error:
        return (), str(error)
    columns = sensitive.columns if sensitive else ()
    if len(columns) == 1 and columns[0].kind == "categorical":
        return tuple(zip(found.leakages, found.residuals, strict=True)), ""
    # With several features or a numeric one, attackers and the limit measure leakage differently;
    # only zero leakage is comparable.
    return ((0.0, found.residual),), ""


def errors_of_offsets(plan: Plan, X: Any) -> Evaluation | None:
    """Return the errors of predictions from offsets alone, without people; None without a test.

    Args:
        plan: The settings of the frontier.
        X: The tensor as it was given.
    """
    test, problem = plan.X_test, plan.task.problem
    if test is None:
        return None
    guess = Offsets.of(plan.task.seen(as_data(X)), problem.mode).at(test.cells).cpu().numpy()
    return evaluate_predictions(
        test, guess, sensitive_features=problem.sensitive_of_all, mode=problem.mode
    )
