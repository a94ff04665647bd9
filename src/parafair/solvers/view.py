"""How a fit looks in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.display import Cell, Html, curve, table

if TYPE_CHECKING:
    from parafair.solvers.result import Fit

# Iterations that are drawn.
MOST = 200


def fit_parts(fit: Fit) -> list[Html]:
    """Return the end of a fit, and its objective over the iterations."""
    last = fit.history[-1]
    rows: list[list[Cell]] = [
        ["status", fit.status.value],
        ["iterations", fit.n_iter],
        ["seconds", fit.seconds],
        ["relative residual", fit.residual],
        ["objective", last.objective],
        ["loss", last.loss],
        ["penalty", last.penalty],
    ]
    if fit.noise:
        rows.append(["residual due to noise", fit.noise_cost])
    history = fit.history[: fit.n_iter + 1]
    drawn = [entry.objective for entry in history[:: len(history) // MOST + 1]]
    label = f"objective over {fit.n_iter} iterations, {drawn[0]:.4g} to {drawn[-1]:.4g}"
    rows.append(["objective by iteration", curve(drawn, label)])
    return [table(rows)]
