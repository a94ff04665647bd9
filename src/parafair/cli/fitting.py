"""The command `parafair fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from parafair.cli.choosing import SEVERAL, choose, read_settings
from parafair.cli.people import Inputs, People, read_inputs
from parafair.cli.runs import HeldOut, check_table_format, describe_source, write_run
from parafair.cli.shell import (
    DATA,
    INTERRUPTED,
    MODEL,
    PEOPLE,
    RESULT,
    RIDGE_HELP,
    SOLVER,
    Center,
    Columns,
    Duplicates,
    Force,
    Key,
    Kinds,
    Missing,
    Mode,
    Modes,
    TableFormat,
    Tensor,
    Test,
    Value,
    app,
    echo,
    gradient_solver,
    option,
    output,
    progress,
    readable_errors,
)
from parafair.cli.tensors import Source
from parafair.data.splits import split_cells
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.model.estimator import FairCP
from parafair.model.strength import Trial
from parafair.solvers.problem import Objective
from parafair.storage import check_new_folder


@app.command()
def fit(
    tensor: Tensor,
    out: Annotated[Path, option(RESULT, "Folder to create.")],
    rank: Annotated[str, option(MODEL, f"Number of components{SEVERAL}")],
    modes: Modes = None,
    value: Value = None,
    duplicates: Duplicates = None,
    test: Test = None,
    sensitive: Annotated[
        Path | None,
        option(PEOPLE, "Table (.csv, .parquet), a row per person; of an array, in its order."),
    ] = None,
    columns: Columns = None,
    kind: Kinds = None,
    key: Key = None,
    mode: Mode = None,
    missing: Missing = "error",
    method: Annotated[
        str,
        option(
            MODEL,
            "invariant, khsic (the paper), hsic, fatr, correlation-removal, moment-matching, or "
            "none for a plain fit.",
        ),
    ] = "invariant",
    strength: Annotated[
        str | None,
        option(
            MODEL,
            f"Multiplier of the penalty, or auto: the closest fit that passes the audit{SEVERAL}",
        ),
    ] = None,
    max_leakage: Annotated[
        float,
        option(
            MODEL,
            "With --strength auto or several strengths: the most an attacker may be above chance.",
        ),
    ] = 0.05,
    ridge: Annotated[str | None, option(MODEL, RIDGE_HELP + SEVERAL)] = None,
    validation: Annotated[
        float, option(DATA, "Share of the entries to choose among several settings by.")
    ] = 0.1,
    center: Center = False,
    solver: Annotated[
        str,
        option(
            SOLVER, "block (block updates, extrapolated) or gradient (the paper's Algorithm 1)."
        ),
    ] = "block",
    step_sizes: Annotated[
        str, option(SOLVER, "Gradient solver: steps for the people's mode and the others.")
    ] = "0.5,1",
    inner_steps: Annotated[
        int, option(SOLVER, "Gradient solver: steps on one factor before the next.")
    ] = 200,
    start: Annotated[str, option(SOLVER, "uniform, normal or svd.")] = "uniform",
    n_init: Annotated[int, option(SOLVER, "Random starts; the best is kept.")] = 1,
    max_iter: Annotated[int, option(SOLVER, "Most rounds.")] = 500,
    tol: Annotated[
        float, option(SOLVER, "Stop when the objective falls by less than this share per round.")
    ] = 1e-4,
    seed: Annotated[int, option(SOLVER, "Seed of the random starts.")] = 0,
    device: Annotated[str | None, option(SOLVER, "Where to compute, such as cuda.")] = None,
    dtype: Annotated[str | None, option(SOLVER, "float32 or float64.")] = None,
    table_format: TableFormat = "csv",
    force: Force = False,
) -> None:
    """Decompose a tensor and write the embedding, the factors and a record of the fit.

    The folder holds embedding.csv (one row per person), a table like factor_module.csv for each
    other mode, fit.json (settings, seed, versions, status, history), evaluation.json with --test,
    and the model itself. Ctrl-C stops after the last finished round and writes that; while settings
    are being chosen, it writes nothing.
    """
    with readable_errors():
        check_new_folder(out, overwrite=force)
        check_table_format("--format", table_format)
        settings, grid = read_settings(rank=rank, ridge=ridge, strength=strength, method=method)
        if grid and not 0 < validation < 1:
            raise ValueError(
                f"--validation must be a share between 0 and 1, such as 0.1, got {validation:g}"
            )
        source = Source(tensor, modes, value, duplicates)
        people = People.of(sensitive, columns, kind, key, missing)
        inputs = read_inputs(source, people, mode)
        split = (
            None if test is None else split_cells(inputs.data, test_size=test, random_state=seed)
        )
        describe_inputs(inputs)
        data = inputs.data if split is None else split.train
        model = FairCP(
            **settings,
            method=method,
            max_leakage=max_leakage,
            mode=inputs.mode,
            center=center,
            solver=gradient_solver(step_sizes, inner_steps) if solver == "gradient" else solver,
            start=start,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            random_state=seed,
            device=device,
            dtype=dtype,
        )
        candidates, interrupted = None, False
        if grid:
            tuning = choose(model, data, inputs.features, grid, validation, max_leakage)
            model, candidates = tuning.model, tuning.to_list()
        else:
            interrupted = _fit(model, data, inputs)
        errors = None
        if split is not None and test is not None:
            errors = HeldOut.of(test, model, split.train, split.test, inputs.features)
        record = describe_source(source, people, test)
        if candidates is not None:
            record |= {"validation": validation, "candidates": candidates}
        write_run(out, model, record, errors, table_format=table_format, force=force)
        last = model.fit_.history[-1]
        added = "penalty and ridge" if model.fit_.settings["ridge"] else "penalty"
        output.print(
            f"{_chosen(model)}residual {last.residual:.4f}, {added} {last.penalty:.4g}, "
            f"{model.fit_.n_iter} rounds in {last.seconds:.1f} s: {model.fit_.status.value}",
            highlight=False,
        )
        if errors is not None:
            output.print(_show_errors(errors))
        echo(f"written to {out}")
        if interrupted:
            raise typer.Exit(INTERRUPTED)


def _fit(model: FairCP, data: TensorData, inputs: Inputs) -> bool:
    """Fit with a bar; return whether it was interrupted."""
    try:
        with progress("fitting", model.max_iter) as advance:

            def on_iteration(number: int, objective: Objective) -> None:
                leader = int(objective.value.nan_to_num(float("inf")).argmin())
                residual = float(objective.residual[leader])
                penalty = float(objective.penalty[leader])
                state = f"residual {residual:.4f}  penalty {penalty:.4g}"
                advance(number, model.max_iter, state)

            model.fit(
                data,
                sensitive_features=inputs.features,
                on_iteration=on_iteration,
                on_trial=_show_trial,
            )
    except Interrupted:
        return True
    return False


def describe_inputs(inputs: Inputs) -> None:
    """Say what was read, if it is not simply all there is."""
    if inputs.data.coverage < 1:
        echo(str(inputs.data).removeprefix("TensorData(").removesuffix(")"))
    if inputs.left_out:
        echo(inputs.left_out)


def _show_errors(errors: HeldOut) -> Table:
    """Return a table of held-out errors, beside those of a prediction without people."""
    table = Table(box=None, title="Errors of held-out entries", title_justify="left")
    for name in ("people", "entries", "RMSE", "MAE", "RMSE without people"):
        table.add_column(name, justify="left" if name == "people" else "right")
    for score in errors.model.scores:
        if score.measure == "rmse":
            group, feature = score.group, score.feature
            mae = errors.model.value("mae", group, feature=feature)
            without = errors.baseline.value("rmse", group, feature=feature)
            name = escape(f"{feature}: {group}" if feature else group)
            numbers = [f"{number:.4g}" for number in (score.value, mae, without)]
            table.add_row(name, f"{score.count:,}", *numbers)
    return table


def _show_trial(trial: Trial) -> None:
    """Print a line for each strength that was tried."""
    leakage = "" if trial.leakage is None else f", leakage {trial.leakage:.3f}"
    noise = f", noise {trial.noise:g}" if trial.noise else ""
    output.print(
        f"strength {trial.strength:.3g}{noise}: residual {trial.residual:.4f}, criterion "
        f"{trial.criterion / trial.null:.2f} of its null level{leakage}: {trial.verdict}",
        highlight=False,
    )


def _chosen(model: FairCP) -> str:
    """Say which strength was found, if it was looked for."""
    if model.strength != "auto" or not hasattr(model, "selection_"):
        return ""
    return f"strength {model.selection_.strength:.3g} after {len(model.selection_.trials)} trials\n"
