"""The command `parafair fit`."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from parafair.cli.people import check_key, labels_of, pick_features, write_run
from parafair.cli.shell import (
    INTERRUPTED,
    MODEL,
    PEOPLE,
    RESULT,
    SOLVER,
    Columns,
    Force,
    Kinds,
    app,
    gradient_solver,
    option,
    output,
    progress,
    readable_errors,
)
from parafair.errors import Interrupted, unknown_choice
from parafair.estimator import FairCP
from parafair.problem import Objective
from parafair.selection import Trial
from parafair.storage import check_new_folder, read_tensor
from parafair.tables import read_table


@app.command()
def fit(
    tensor: Annotated[Path, typer.Argument(help="The data: a .npy file, or .npz with one array.")],
    out: Annotated[Path, option(RESULT, "Folder to create.")],
    rank: Annotated[int, option(MODEL, "Number of components.")],
    sensitive: Annotated[
        Path | None, option(PEOPLE, "Table (.csv, .parquet), a row per person in tensor order.")
    ] = None,
    columns: Columns = None,
    kind: Kinds = None,
    key: Annotated[str | None, option(PEOPLE, "Column of the table that labels people.")] = None,
    mode: Annotated[int, option(PEOPLE, "The mode of the tensor whose indices are people.")] = 0,
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
        option(MODEL, "Multiplier of the penalty, or auto: the closest fit that passes the audit."),
    ] = None,
    target_leakage: Annotated[
        float, option(MODEL, "With --strength auto: the most an attacker may be above chance.")
    ] = 0.05,
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
    max_rounds: Annotated[int, option(SOLVER, "Most rounds.")] = 500,
    tolerance: Annotated[
        float, option(SOLVER, "Stop when the objective falls by less than this share per round.")
    ] = 1e-4,
    seed: Annotated[int, option(SOLVER, "Seed of the random starts.")] = 0,
    device: Annotated[str | None, option(SOLVER, "Where to compute, such as cuda.")] = None,
    dtype: Annotated[str | None, option(SOLVER, "float32 or float64.")] = None,
    table_format: Annotated[
        str, option(RESULT, "Of the embedding: csv or parquet.", "--format")
    ] = "csv",
    force: Force = False,
) -> None:
    """Decompose a tensor and write the embedding, the factors and a record of the fit.

    The folder holds embedding.csv (one row per person), factors.safetensors (every factor) and
    fit.json (settings, seed, versions, status, history). Ctrl-C stops after the last finished
    round and writes that.
    """
    with readable_errors():
        check_new_folder(out, overwrite=force)
        if table_format not in ("csv", "parquet"):
            raise unknown_choice("--format", table_format, ("csv", "parquet"))
        if table_format == "parquet" and find_spec("pyarrow") is None:
            raise ValueError(
                "--format parquet needs the package 'pyarrow'; install it with "
                "pip install 'parafair[parquet]', or use --format csv"
            )
        data = read_tensor(tensor)
        if sensitive is None and (key or columns or kind):
            raise ValueError("--key, --columns and --kind need the table of people: --sensitive")
        table = (
            None
            if sensitive is None
            else read_table(sensitive, labels=[] if key is None else [key])
        )
        features = None if table is None else pick_features(table, columns, kind, key)
        if table is not None and key is not None:
            check_key(table, key, sensitive)
        model = FairCP(
            rank,
            method=method,
            strength=_strength(strength),
            target_leakage=target_leakage,
            mode=mode,
            solver=gradient_solver(step_sizes, inner_steps) if solver == "gradient" else solver,
            start=start,
            n_init=n_init,
            max_rounds=max_rounds,
            tolerance=tolerance,
            random_state=seed,
            device=device,
            dtype=dtype,
        )
        interrupted = False
        try:
            with progress("fitting", max_rounds) as advance:

                def on_round(number: int, objective: Objective) -> None:
                    leader = int(objective.value.nan_to_num(float("inf")).argmin())
                    residual = float(objective.residual[leader])
                    penalty = float(objective.penalty[leader])
                    state = f"residual {residual:.4f}  penalty {penalty:.4g}"
                    advance(number, max_rounds, state)

                model.fit(
                    data, sensitive_features=features, on_round=on_round, on_trial=_show_trial
                )
        except Interrupted:
            interrupted = True
        labels = labels_of(table, key, len(model.embedding_))
        inputs = {"tensor": str(tensor), "sensitive": sensitive and str(sensitive), "key": key}
        record = replace(model.fit_, settings={**model.fit_.settings, "inputs": inputs})
        write_run(out, record, model.embedding_, labels, table_format, force)
        last = model.fit_.history[-1]
        output.print(
            f"{_chosen(model)}residual {last.residual:.4f}, penalty {last.penalty:.4g}, "
            f"{model.fit_.rounds} rounds in {last.seconds:.1f} s: {model.fit_.status.value}",
            highlight=False,
        )
        output.print(f"written to {out}", highlight=False, markup=False, soft_wrap=True)
        if interrupted:
            raise typer.Exit(INTERRUPTED)


def _show_trial(trial: Trial) -> None:
    """Print a line for each strength that was tried."""
    leakage = "" if trial.leakage is None else f", leakage {trial.leakage:.3f}"
    blur = f", noise {trial.blur:g}" if trial.blur else ""
    output.print(
        f"strength {trial.strength:.3g}{blur}: residual {trial.residual:.4f}, criterion "
        f"{trial.criterion / trial.null:.2f} of its null level{leakage}: {trial.verdict}",
        highlight=False,
    )


def _chosen(model: FairCP) -> str:
    """Say which strength was found, if it was looked for."""
    if model.strength != "auto" or not hasattr(model, "selection_"):
        return ""
    return f"strength {model.selection_.strength:.3g} after {len(model.selection_.trials)} trials\n"


def _strength(text: str | None) -> float | Literal["auto"] | None:
    if text is None:
        return None
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"--strength must be a number or auto, got {text!r}") from error
