"""The command line: arguments in, library calls out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from parafair import __version__
from parafair.audits import ATTACKERS, audit
from parafair.datasets import DATASETS
from parafair.errors import Interrupted, ParafairWarning, unknown_choice
from parafair.estimator import FairCP
from parafair.problem import Objective
from parafair.solvers import GradientBCD
from parafair.storage import (
    DATASET_FILES,
    check_new_folder,
    new_folder,
    read_table,
    read_tensor,
)
from parafair.tables import (
    align,
    check_key,
    labels_of,
    pick_features,
    read_embedding,
    write_run,
)

app = typer.Typer(
    name="parafair",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""Decompose a tensor so that the embedding of people reveals less about them.

Try it:

parafair datasets synthetic --out data

parafair fit data/tensor.npy --sensitive data/sensitive.csv --key person --rank 8 --strength 20
--out run

parafair audit run --sensitive data/sensitive.csv --key person
""",
)
output, errors = Console(), Console(stderr=True)

INTERRUPTED, BAD_INPUT = 130, 2


def _option(panel: str, text: str, *names: str) -> Any:
    """Return an option of the command line, listed under a heading."""
    return typer.Option(*names, help=text, rich_help_panel=panel)


PEOPLE, MODEL, SOLVER, ATTACK, RESULT = "People", "Model", "Solver", "Attackers", "Result"

Columns = Annotated[
    str | None, _option(PEOPLE, "Sensitive columns, as a,b; by default all but the key.")
]
Kinds = Annotated[
    list[str] | None, _option(PEOPLE, "State a column's kind, as age=numeric or code=categorical.")
]
Force = Annotated[bool, _option(RESULT, "Replace an earlier result in the folder.", "--force")]


def _show_version(wanted: bool) -> None:
    if wanted:
        output.print(f"parafair {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Hold the options of the command itself."""


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Turn the library's errors and warnings into one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", ParafairWarning)
        try:
            yield
        except (ValueError, TypeError, OSError, MemoryError) as error:
            text = str(error) or "not enough memory; use a smaller tensor"
            errors.print(f"[bold red]Error:[/] {escape(text)}", highlight=False)
            raise typer.Exit(BAD_INPUT) from error
        finally:
            for warning in caught:
                if issubclass(warning.category, ParafairWarning):
                    text = escape(str(warning.message))
                    errors.print(f"[yellow]Warning:[/] {text}", highlight=False)


@app.command()
def fit(
    tensor: Annotated[Path, typer.Argument(help="The data: a .npy file, or .npz with one array.")],
    out: Annotated[Path, _option(RESULT, "Folder to create.")],
    rank: Annotated[int, _option(MODEL, "Number of components.")],
    sensitive: Annotated[
        Path | None, _option(PEOPLE, "Table (.csv, .parquet), a row per person in tensor order.")
    ] = None,
    columns: Columns = None,
    kind: Kinds = None,
    key: Annotated[str | None, _option(PEOPLE, "Column of the table that labels people.")] = None,
    mode: Annotated[int, _option(PEOPLE, "The mode of the tensor whose indices are people.")] = 0,
    method: Annotated[
        str,
        _option(
            MODEL,
            "invariant, khsic (the paper), hsic, fatr, correlation-removal, moment-matching, or "
            "none for a plain fit.",
        ),
    ] = "invariant",
    strength: Annotated[
        str | None,
        _option(MODEL, "Multiplier of the penalty, or auto: the least one that passes the audit."),
    ] = None,
    target_leakage: Annotated[
        float, _option(MODEL, "With --strength auto: the most an attacker may be above chance.")
    ] = 0.05,
    solver: Annotated[
        str,
        _option(
            SOLVER, "block (block updates, extrapolated) or gradient (the paper's Algorithm 1)."
        ),
    ] = "block",
    step_sizes: Annotated[
        str, _option(SOLVER, "Gradient solver: steps for the people's mode and the others.")
    ] = "0.5,1",
    inner_steps: Annotated[
        int, _option(SOLVER, "Gradient solver: steps on one factor before the next.")
    ] = 200,
    start: Annotated[str, _option(SOLVER, "uniform, normal or svd.")] = "uniform",
    n_init: Annotated[int, _option(SOLVER, "Random starts; the best is kept.")] = 1,
    max_rounds: Annotated[int, _option(SOLVER, "Most rounds.")] = 500,
    tolerance: Annotated[
        float, _option(SOLVER, "Stop when the objective falls by less than this share per round.")
    ] = 1e-5,
    seed: Annotated[int, _option(SOLVER, "Seed of the random starts.")] = 0,
    device: Annotated[str | None, _option(SOLVER, "Where to compute, such as cuda.")] = None,
    dtype: Annotated[str | None, _option(SOLVER, "float32 or float64.")] = None,
    table_format: Annotated[
        str, _option(RESULT, "Of the embedding: csv or parquet.", "--format")
    ] = "csv",
    force: Force = False,
) -> None:
    """Decompose a tensor and write the embedding, the factors and a record of the fit.

    The folder holds embedding.csv (one row per person), factors.safetensors (every factor) and
    fit.json (settings, seed, versions, status, history). Ctrl-C stops after the last finished
    round and writes that.
    """
    with _readable_errors():
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
        table = None if sensitive is None else read_table(sensitive, key=key)
        features = None if table is None else pick_features(table, columns, kind, key)
        if table is not None and key is not None:
            check_key(table, key, sensitive)
        model = FairCP(
            rank,
            method=method,
            strength=_strength(strength),
            target_leakage=target_leakage,
            mode=mode,
            solver=_gradient_solver(step_sizes, inner_steps) if solver == "gradient" else solver,
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
            with _progress(max_rounds) as on_round:
                model.fit(data, sensitive_features=features, on_round=on_round)
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


@app.command(name="audit")
def audit_command(
    embedding: Annotated[
        Path, typer.Argument(help="A run folder, or a table (.csv, .parquet) or .npy of rows.")
    ],
    sensitive: Annotated[Path, _option(PEOPLE, "Table (.csv, .parquet), a row per person.")],
    columns: Columns = None,
    kind: Kinds = None,
    key: Annotated[
        str | None, _option(PEOPLE, "Column of both tables that identifies people.")
    ] = None,
    target: Annotated[
        str | None,
        _option(PEOPLE, "Column of the table that someone would predict; compares groups."),
    ] = None,
    attackers: Annotated[
        str | None, _option(ATTACK, f"Some of {', '.join(ATTACKERS)}, as a,b; by default all.")
    ] = None,
    folds: Annotated[int, _option(ATTACK, "Parts of the cross-validation.")] = 5,
    repeats: Annotated[int, _option(ATTACK, "Times it is repeated with other parts.")] = 2,
    max_people: Annotated[int, _option(ATTACK, "Larger tables are sampled down.")] = 5000,
    jobs: Annotated[int, _option(ATTACK, "Processes to use; -1 is all processors.")] = 1,
    seed: Annotated[int, _option(ATTACK, "Seed of the audit.")] = 0,
    json: Annotated[Path | None, _option(RESULT, "Also write the audit to this file.")] = None,
    picture: Annotated[Path | None, _option(RESULT, "Also draw it, as .png, .svg or .pdf.")] = None,
) -> None:
    """Measure what an embedding reveals about sensitive features.

    Cross-validated attackers guess each feature from the embedding; a permutation test and the
    paper's measures stand beside them. Without --key, rows must be in the same order.
    """
    with _readable_errors():
        for option, path in (("--json", json), ("--picture", picture)):
            _check_new_file(option, path)
        rows, labels = read_embedding(embedding, key)
        people = read_table(sensitive, key=key)
        if key is not None and labels is not None:
            people = align(people, labels, key, sensitive)
        wanted = None
        if target is not None:
            if target not in people.columns:
                raise unknown_choice("--target", target, map(str, people.columns))
            wanted = people[target].to_numpy()
            people = people.drop(columns=target)
        with _trials() as on_progress:
            result = audit(
                rows,
                pick_features(people, columns, kind, key),
                target=wanted,
                attackers=None if attackers is None else attackers.split(","),
                folds=folds,
                repeats=repeats,
                max_people=max_people,
                n_jobs=jobs,
                random_state=seed,
                on_progress=on_progress,
            )
        output.print(str(result), markup=False, highlight=False, soft_wrap=True)
        if json is not None:
            json.write_text(result.to_json() + "\n", encoding="utf-8")
        if picture is not None:
            result.draw(picture)


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="A data set to write to --out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to create.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of generated data.")] = 0,
    shape: Annotated[str, typer.Option(help="Sizes of generated data.")] = "200,100,100",
    rank: Annotated[int, typer.Option(help="Components of generated data.")] = 10,
    force: Force = False,
) -> None:
    """List the data sets, or write one as tensor.npy and sensitive.csv."""
    with _readable_errors():
        if name is None:
            table = Table("name", "about", box=None)
            for known in DATASETS:
                table.add_row(known, DATASETS[known]().about)
            output.print(table)
            return
        if name not in DATASETS:
            raise unknown_choice("name", name, DATASETS)
        if out is None:
            raise ValueError("--out is missing; give the folder to write the data set to")
        check_new_folder(out, overwrite=force, ours=DATASET_FILES)
        sizes = tuple(_numbers("--shape", shape, int))
        data = DATASETS[name](seed, shape=sizes, rank=rank)
        with new_folder(out, overwrite=force, ours=DATASET_FILES) as folder:
            np.save(folder / "tensor.npy", data.tensor)
            people = pandas.DataFrame(
                {"person": range(len(data.sensitive)), "group": data.sensitive}
            )
            people.to_csv(folder / "sensitive.csv", index=False)
        output.print(
            f"{data.about}\nwritten to {out}", highlight=False, markup=False, soft_wrap=True
        )


def _chosen(model: FairCP) -> str:
    """Say which strength was found, if it was looked for."""
    if model.strength != "auto" or not hasattr(model, "selection_"):
        return ""
    return f"strength {model.selection_.strength:.3g} after {len(model.selection_.trials)} trials\n"


def _numbers(option: str, text: str, convert: type) -> list[Any]:
    try:
        return [convert(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{option} must be numbers separated by commas, got {text!r}") from error


def _strength(text: str | None) -> float | Literal["auto"] | None:
    if text is None:
        return None
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"--strength must be a number or auto, got {text!r}") from error


def _gradient_solver(step_sizes: str, inner_steps: int) -> GradientBCD:
    steps = _numbers("--step-sizes", step_sizes, float)
    return GradientBCD(tuple(steps), inner_steps)


@contextmanager
def _progress(max_rounds: int) -> Iterator[Any]:
    """Show rounds, residual and penalty while a fit runs."""
    with Progress(
        TextColumn("fitting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
    ) as progress:
        task = progress.add_task("fit", total=max_rounds, state="")

        def on_round(number: int, objective: Objective) -> None:
            leader = int(objective.value.nan_to_num(float("inf")).argmin())
            residual, penalty = float(objective.residual[leader]), float(objective.penalty[leader])
            state = f"residual {residual:.4f}  penalty {penalty:.4g}"
            progress.update(task, completed=number, state=state)

        yield on_round


@contextmanager
def _trials() -> Iterator[Any]:
    """Show how many attackers have been tried."""
    with Progress(
        TextColumn("attacking"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
    ) as progress:
        task = progress.add_task("audit", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _check_new_file(option: str, path: Path | None) -> None:
    """Raise before any work if a file cannot be written later, or would be lost."""
    if path is not None and path.exists():
        raise FileExistsError(f"{path} already exists; choose another file for {option}")
    if path is not None and not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
