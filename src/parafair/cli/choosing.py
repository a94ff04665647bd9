"""Several values for a setting of `parafair fit`: the choice among them."""

from __future__ import annotations

from math import prod
from typing import Any

import typer

from parafair.cli.shell import INTERRUPTED, echo, numbers, output, progress
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.model.estimator import FairCP
from parafair.model.tuning import Candidate, Tuning, tune
from parafair.penalties.base import check_multiplier
from parafair.penalties.registry import METHODS, PENALTIES

# The end of the help of options that `read_settings` reads.
SEVERAL = "; or several, as 4,8, to choose from (see --validation)."


def read_settings(
    *, rank: str, ridge: str | None, strength: str | None, method: str
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return arguments of the model, and the values to choose from where there are several.

    What is wrong whatever the data is refused here, before the data is read.
    """
    values: dict[str, list[Any]] = {"rank": numbers("--rank", rank, int)}
    if min(values["rank"]) < 1:
        raise ValueError(f"--rank must be a whole number of at least 1, got {rank!r}")
    if ridge is not None:
        values["ridge"] = numbers("--ridge", ridge, float)
    if strength is not None:
        if method in METHODS and method not in PENALTIES:
            raise ValueError(
                f"--strength {strength} was given, but --method {method} has no penalty; leave it "
                f"out, or choose one of {', '.join(PENALTIES)}"
            )
        auto = strength == "auto"
        values["strength"] = ["auto"] if auto else _strengths(strength)
    for name in ("ridge", "strength"):
        for value in values.get(name, []):
            if value != "auto":
                check_multiplier(f"--{name}", value)
    grid = {name: found for name, found in values.items() if len(found) > 1}
    return {name: found[0] for name, found in values.items()}, grid


def _strengths(text: str) -> list[float]:
    try:
        return numbers("--strength", text, float)
    except ValueError as error:
        raise ValueError(
            f"--strength must be a number, several separated by commas, or auto; got {text!r}"
        ) from error


def choose(
    model: FairCP,
    data: TensorData,
    features: SensitiveFeatures | None,
    grid: dict[str, list[Any]],
    validation: float,
    max_leakage: float,
) -> Tuning:
    """Try all settings, a line for each; among several strengths, only fair ones count."""
    fair = "strength" in grid or model.strength == "auto"
    if fair and features is None:
        raise ValueError("a choice by strength needs an audit: give the people with --sensitive")
    total, done = prod(map(len, grid.values())), 0

    def show(candidate: Candidate) -> None:
        nonlocal done
        settings = ", ".join(f"{name} {value:g}" for name, value in candidate.settings.items())
        if candidate.passes is None:
            done += 1
            advance(done, total)
            found = f"RMSE {candidate.rmse:.4g} of held-out entries"
        else:
            verdict = "passes" if candidate.passes else "does not pass"
            verdict += ", but below_chance" if candidate.passes and candidate.below_chance else ""
            found = f"leakage {candidate.leakage:.3f}: {verdict}"
        output.print(f"{settings}: {found}", highlight=False)

    try:
        with progress("fitting", total) as advance:
            tuning = tune(
                model,
                data,
                grid=grid,
                sensitive_features=features,
                held_out=validation,
                leakage=max_leakage if fair else None,
                random_state=model.random_state,
                on_candidate=show,
            )
    except (Interrupted, KeyboardInterrupt) as error:
        echo("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from error
    chosen = ", ".join(f"{name} {value:g}" for name, value in tuning.best.settings.items())
    output.print(f"chosen: {chosen}", highlight=False)
    return tuning
