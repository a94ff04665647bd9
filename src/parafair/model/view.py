"""How models, selections and tunings look in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.display import Cell, Html, nested, paragraph, table, view
from parafair.guarantees.view import certificate_parts
from parafair.solvers.view import fit_parts

if TYPE_CHECKING:
    from parafair.model.fitted import FittedCP
    from parafair.model.trials import Selection
    from parafair.model.tuning import Tuning


def model_view(model: FittedCP) -> str:
    """Return the result of a fitted model; nothing before the fit."""
    if not hasattr(model, "fit_"):
        return ""
    record, training, fit = model.record_, model.training_, model.fit_
    sizes = zip(training.modes, map(len, training.labels), strict=True)
    rows: list[list[Cell]] = [
        ["data", " x ".join(f"{size:,} {name}" for name, size in sizes)],
        ["entries", training.entries],
        ["embedding", f"{len(model.embedding_):,} people, {model.cp_.rank} columns"],
        ["relative residual", fit.residual],
        ["method", _method(model.method)],
        ["strength", "none" if record.strength is None else record.strength],
        ["noise", record.noise],
        ["ridge", model.ridge_],
        ["iterations", model.n_iter_],
        ["status", fit.status.value],
    ]
    if training.features is not None:
        columns = "; ".join(column.summary for column in training.features.columns)
        rows.insert(3, ["sensitive features", columns])
    parts = [table(rows), nested("fit", *fit_parts(fit))]
    if hasattr(model, "selection_"):
        parts.append(nested("strengths tried", *selection_parts(model.selection_)))
    if hasattr(model, "certificate_"):
        parts.append(nested("certificate", *certificate_parts(model.certificate_)))
    return view(f"{type(model).__name__}, fitted", *parts)


def selection_parts(selection: Selection) -> list[Html]:
    """Return all trials, the selected one emphasized."""
    rows: list[list[Cell]] = [
        [
            "shared places" if trial.strength is None else f"{trial.strength:.3g}",
            trial.noise,
            trial.residual,
            trial.deviation,
            trial.leakage,
            trial.certified,
            trial.verdict,
        ]
        for trial in selection.trials
    ]
    chosen = (selection.strength, selection.noise)
    places = [k for k, t in enumerate(selection.trials) if (t.strength, t.noise) == chosen]
    header = ["strength", "noise", "residual", "criterion (sd)", "leakage", "certified", "verdict"]
    text = "The selected trial is bold." if selection.passed else "No trial passed."
    return [table(rows, header=header, chosen=places[-1] if places else None), paragraph(text)]


def tuning_parts(tuning: Tuning) -> list[Html]:
    """Return all candidates, the selected one emphasized."""
    names = list(dict.fromkeys(name for c in tuning.candidates for name in c.settings))
    rows: list[list[Cell]] = []
    for number, candidate in enumerate(tuning.candidates):
        values: list[Cell] = [_value(candidate.settings.get(name)) for name in names]
        verdict = None if candidate.verdict is None else candidate.verdict.value
        errors = (candidate.rmse, candidate.mae, candidate.residual)
        rows.append([str(number + 1), *values, *errors, candidate.leakage, verdict])
    scores = ["held-out RMSE", "MAE", "residual", "leakage", "verdict"]
    header = ["candidate", *names, *scores]
    place = next(k for k, c in enumerate(tuning.candidates) if c is tuning.best)
    text = "The selected candidate is bold"
    if tuning.verdict is not None:
        text += f"; fitted to all entries, it {tuning.verdict.value}"
    return [table(rows, header=header, chosen=place), paragraph(f"{text}.")]


def _method(method: object) -> str:
    """Return a name, or of an object that of its class."""
    return method if isinstance(method, str) else type(method).__name__


def _value(value: object) -> Cell:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    return value
