"""The command `parafair tune`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any

import typer

from parafair.cli.command import command
from parafair.cli.fitting import show_result
from parafair.cli.held_out import HeldOutOptions, read_entries
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
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.model.preparation import Settings
from parafair.model.tuning import Candidate, Tuning, default_grid
from parafair.model.tuning import tune as choose


@dataclass(frozen=True)
class SplitOptions:
    """What to hold out."""

    validation_size: Annotated[
        float | None,
        option(
            DATA,
            f"Share of the entries held out to compare settings. [default: {TUNE['validation']:g}]",
        ),
    ] = None
    validation: Annotated[
        Path | None,
        option(DATA, "Compare settings by the entries of this file, which is read like the data."),
    ] = None
    cv: Annotated[
        int | None,
        option(DATA, "Compare settings by cross-validation with this many folds, such as 5."),
    ] = TUNE["cv"]
    n_jobs: Jobs = TUNE["n_jobs"]

    def check(self) -> None:
        """Raise if more than one option says what to hold out."""
        flags = {
            "--validation-size": self.validation_size,
            "--validation": self.validation,
            "--cv": self.cv,
        }
        given = [flag for flag, value in flags.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} cannot be given together; choose one of them")

    def settings(self, train: TensorData, tensor: TensorOptions) -> dict[str, Any]:
        """Return arguments of `tune`."""
        found: dict[str, Any] = {"cv": self.cv, "n_jobs": self.n_jobs}
        if self.validation is not None:
            found["validation"] = read_entries(self.validation, train, tensor)
        elif self.validation_size is not None:
            found["validation"] = self.validation_size
        return found

    def record(self) -> dict[str, Any]:
        """Return the options as values for JSON."""
        one = self.validation is None and self.cv is None
        return {
            "validation_size": (self.validation_size or TUNE["validation"]) if one else None,
            "validation": None if self.validation is None else str(self.validation),
            "cv": self.cv,
        }


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

    Settings are compared by the error of entries held out for this: a tenth of the data, those of
    --validation, or with --cv all entries in turn. Without several values of an option, ridges are
    compared. With --max-leakage settings are audited in order of their error, and the first that
    passes is chosen. The chosen settings are then fitted to all entries of the data. tuning.json in
    the folder lists everything that was tried. Ctrl-C writes nothing.
    """
    check_result(result)
    split.check()
    settings, grid = model.grid()
    wanted = make_model(**settings, **solver.settings())
    # Wrong settings are refused before the data is read.
    Settings.of(wanted).check_side(side.side)
    loaded = load(tensor, people, side)
    wanted.set_params(mode=loaded.mode)
    inputs = Inputs.of(tensor, people, side, **held.record())
    parts = held.split(loaded, tensor, solver.random_state)
    train = loaded.data if parts is None else parts.train
    compared = split.settings(train, tensor)
    grid = grid or default_grid(wanted, train)
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
                train,
                grid=grid,
                sensitive_features=loaded.features,
                side=loaded.side,
                max_leakage=model.max_leakage,
                random_state=solver.random_state,
                on_candidate=show,
                **compared,
            )
    except (Interrupted, KeyboardInterrupt) as error:
        echo("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from error
    held_out = parts and HeldOut.of(held.record(), tuning.model, parts, loaded.features)
    record = _record(tuning, split, model.max_leakage)
    uncertified = certify_run(result, tuning.model)
    write_run(result, tuning.model, inputs, held_out=held_out, tuning=record)
    verdict = "" if tuning.verdict is None else f": {tuning.verdict.value}"
    echo(f"chosen: {_words(tuning.best.settings)}{verdict}")
    show_result(tuning.model, held_out)
    echo(f"written to {result.out}")
    if uncertified:
        raise typer.Exit(INTERRUPTED)


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())


def _record(tuning: Tuning, split: SplitOptions, max_leakage: float | None) -> dict[str, Any]:
    """Return what tuning.json holds."""
    return {
        **split.record(),
        "max_leakage": max_leakage,
        "verdict": tuning.verdict and tuning.verdict.value,
        "candidates": tuning.to_list(),
    }
