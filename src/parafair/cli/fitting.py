"""The command `parafair fit`."""

from __future__ import annotations

import typer

from parafair.cli.command import command
from parafair.cli.inputs import Inputs
from parafair.cli.models import ModelOptions, StartOptions
from parafair.cli.options import RunOptions, TestSize
from parafair.cli.people import Loaded, ModeOptions, load
from parafair.cli.runs import HeldOut, check_result, write_run
from parafair.cli.shell import INTERRUPTED, echo, output, progress
from parafair.cli.tensors import TensorOptions
from parafair.data.splits import Split, split_cells
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.model.estimator import FairCP
from parafair.model.preparation import Settings
from parafair.solvers.problem import Objective


@command("fit")
def fit(
    tensor: TensorOptions,
    people: ModeOptions,
    model: ModelOptions,
    solver: StartOptions,
    result: RunOptions,
    test_size: TestSize = None,
) -> None:
    """Decompose a tensor and write the embedding, the factors and a record of the fit.

    The folder holds embedding.csv (one row per person), a table like factor_module.csv for each
    other mode, the model itself, inputs.json (where the data came from) and, with --test-size,
    evaluation.json. Ctrl-C stops after the last finished iteration and writes that.
    """
    check_result(result)
    wanted = FairCP(**model.settings(), **solver.settings())
    Settings.of(wanted)  # wrong settings are refused before the data is read
    loaded = load(tensor, people)
    wanted.set_params(mode=loaded.mode)
    train, split = hold_out(loaded, test_size, solver.random_state)
    interrupted = _fit(wanted, train, loaded)
    held_out = errors_of(wanted, loaded, split, test_size)
    inputs = Inputs.of(tensor, people, test_size=test_size)
    write_run(result, wanted, inputs, held_out=held_out)
    show_result(wanted, held_out)
    echo(f"written to {result.out}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def hold_out(
    loaded: Loaded, test_size: float | None, random_state: int
) -> tuple[TensorData, Split[TensorData] | None]:
    """Show what was read; return the data to fit, and the split it is part of."""
    split = None
    if test_size is not None:
        split = split_cells(loaded.data, test_size=test_size, random_state=random_state)
    if str(loaded):
        echo(str(loaded))
    return (loaded.data if split is None else split.train), split


def errors_of(
    model: FairCP, loaded: Loaded, split: Split[TensorData] | None, test_size: float | None
) -> HeldOut | None:
    """Return the errors of the held-out entries; None if there are none."""
    if split is None or test_size is None:
        return None
    return HeldOut.of(test_size, model, split, loaded.features)


def show_result(model: FairCP, held_out: HeldOut | None) -> None:
    """Print how a fit ended and what it predicts."""
    last = model.fit_.history[-1]
    added = "penalty and ridge" if model.record_.ridge else "penalty"
    echo(
        f"residual {last.residual:.4f}, {added} {last.penalty:.4g}, {model.n_iter_} iterations in "
        f"{last.seconds:.1f} s: {model.fit_.status.value}"
    )
    if model.ridge == "auto" and model.ridge_:
        echo(f"ridge {model.ridge_:g}, selected by the error of held-out entries")
    if held_out is not None:
        output.print(held_out.table())


def _fit(model: FairCP, data: TensorData, loaded: Loaded) -> bool:
    """Fit with a bar; return whether it was interrupted."""
    try:
        with progress("fitting", model.max_iter) as bar:

            def on_iteration(number: int, objective: Objective) -> None:
                best = int(objective.value.nan_to_num(float("inf")).argmin())
                residual, penalty = objective.residual[best], objective.penalty[best]
                state = f"residual {float(residual):.4f}  penalty {float(penalty):.4g}"
                bar(number, model.max_iter, state)

            model.fit(
                data,
                sensitive_features=loaded.features,
                on_iteration=on_iteration,
                on_trial=lambda trial: bar.echo(str(trial)),
                on_audit=lambda done, total: bar(done, total, "attackers of an audit"),
            )
    except Interrupted:
        if model.strength == "auto":
            echo("the search for a strength was interrupted: this fit was not audited")
        return True
    if model.strength == "auto":
        chosen = model.selection_
        trials = f"{len(chosen.trials)} trials"
        echo(f"strength {chosen.strength:.3g} after {trials}: {chosen.verdict}")
    return False
