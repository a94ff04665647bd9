"""The command `parafair tune`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any

import typer

from parafair.cli.command import command
from parafair.cli.fitting import show_result
from parafair.cli.held_out import HeldOutOptions
from parafair.cli.inputs import Inputs
from parafair.cli.models import TUNE, GridOptions, StartOptions, make_model
from parafair.cli.options import (
    DATA,
    FittedOptions,
    Jobs,
    option,
)
from parafair.cli.people import ModeOptions, load
from parafair.cli.runs import HeldOut, certify_run, check_result, write_run
from parafair.cli.shell import INTERRUPTED, echo, progress
from parafair.cli.side import SideOptions
from parafair.cli.tensors import TensorOptions
from parafair.errors import Interrupted
from parafair.model.preparation import Settings
from parafair.model.tuning import Candidate, Tuning
from parafair.model.tuning import tune as choose


@dataclass(frozen=True)
class SplitOptions:
    """What to hold out."""

    validation_size: Annotated[
        float, option(DATA, "Share of the entries held out to compare settings.")
    ] = TUNE["validation_size"]
    n_jobs: Jobs = TUNE["n_jobs"]


@command("tune")
def tune(
    tensor: TensorOptions,
    people: ModeOptions,
    model: GridOptions,
    solver: StartOptions,
    split: SplitOptions,
    held: HeldOutOptions,
    side: SideOptions,
    result: FittedOptions,
) -> None:
    """Try several settings and write the best as `parafair fit` would.

    Settings are compared by the error of entries held out for this. With --max-leakage they are
    audited in order of their error, and the first that passes is chosen. The chosen settings are
    then fitted to all entries. tuning.json in the folder lists everything that was tried. Ctrl-C
    writes nothing.
    """
    check_result(result)
    settings, grid = model.grid()
    wanted = make_model(**settings, **solver.settings())
    # Wrong settings are refused before the data is read.
    Settings.of(wanted).check_side(side.side)
    loaded = load(tensor, people, side)
    wanted.set_params(mode=loaded.mode)
    parts = held.split(loaded, tensor, solver.random_state)
    total, done = prod(map(len, grid.values())), 0

    def show(candidate: Candidate) -> None:
        nonlocal done
        if candidate.verdict is None:
            done += 1
            bar(done, total)
            found = f"RMSE {candidate.rmse:.4g} of held-out entries"
        else:
            found = f"leakage {candidate.leakage:.3f}: {candidate.verdict.value}"
        bar.echo(f"{_words(candidate.settings)}: {found}")

    try:
        with progress("fitting", total) as bar:
            tuning = choose(
                wanted,
                loaded.data if parts is None else parts.train,
                grid=grid,
                sensitive_features=loaded.features,
                side=loaded.side,
                validation_size=split.validation_size,
                max_leakage=model.max_leakage,
                random_state=solver.random_state,
                n_jobs=split.n_jobs,
                on_candidate=show,
            )
    except (Interrupted, KeyboardInterrupt) as error:
        echo("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from error
    held_out = parts and HeldOut.of(held.record(), tuning.model, parts, loaded.features)
    inputs = Inputs.of(tensor, people, side, **held.record())
    record = _record(tuning, split.validation_size, model.max_leakage)
    certify_run(result, tuning.model)
    write_run(result, tuning.model, inputs, held_out=held_out, tuning=record)
    verdict = "" if tuning.verdict is None else f": {tuning.verdict.value}"
    echo(f"chosen: {_words(tuning.best.settings)}{verdict}")
    show_result(tuning.model, held_out)
    echo(f"written to {result.out}")


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())


def _record(tuning: Tuning, validation_size: float, max_leakage: float | None) -> dict[str, Any]:
    """Return what tuning.json holds."""
    return {
        "validation_size": validation_size,
        "max_leakage": max_leakage,
        "verdict": tuning.verdict and tuning.verdict.value,
        "candidates": tuning.to_list(),
    }
