"""The commands `parafair frontier`, `parafair pick` and `parafair report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from parafair.cli.fitting import describe_inputs
from parafair.cli.people import People, read_inputs
from parafair.cli.runs import check_table_format, describe_source, write_run
from parafair.cli.shell import (
    ATTACK,
    INTERRUPTED,
    MODEL,
    PEOPLE,
    RESULT,
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
    Ridge,
    TableFormat,
    Tensor,
    Test,
    Value,
    app,
    echo,
    numbers,
    option,
    output,
    progress,
    readable_errors,
)
from parafair.cli.tensors import Source
from parafair.data.splits import split_cells
from parafair.errors import Interrupted, unknown_choice
from parafair.frontiers import Frontier, frontier
from parafair.frontiers.folder import load
from parafair.frontiers.result import Point, join
from parafair.frontiers.run import AUDIT
from parafair.penalties.registry import METHODS
from parafair.report import FORMATS, pick_point, write_report
from parafair.storage import check_new_folder, read_json, write_json

INPUTS_FILE = "inputs.json"

Leakage = Annotated[float, option(RESULT, "Pick the least residual at this leakage.")]


@app.command(name="frontier")
def frontier_command(
    tensor: Tensor,
    out: Annotated[Path, option(RESULT, "Folder for the fits; continued if it holds some.")],
    rank: Annotated[int, option(MODEL, "Number of components.")],
    sensitive: Annotated[
        Path, option(PEOPLE, "Table (.csv, .parquet), a row per person; of an array, in its order.")
    ],
    modes: Modes = None,
    value: Value = None,
    duplicates: Duplicates = None,
    test: Test = None,
    columns: Columns = None,
    kind: Kinds = None,
    key: Key = None,
    mode: Mode = None,
    missing: Missing = "error",
    methods: Annotated[
        str, option(MODEL, f"Some of {', '.join(METHODS)}, as a,b.", "--methods", "--method")
    ] = "invariant",
    strengths: Annotated[
        str, option(MODEL, "How many strengths to try, or the strengths, as 1,4,16.")
    ] = "11",
    ridge: Ridge = None,
    center: Center = False,
    seeds: Annotated[int, option(SOLVER, "Starts for each strength.")] = 1,
    solver: Annotated[str, option(SOLVER, "block or gradient.")] = "block",
    max_iter: Annotated[int, option(SOLVER, "Most rounds of a fit.")] = 500,
    tol: Annotated[
        float, option(SOLVER, "Stop when the objective falls by less than this share per round.")
    ] = 1e-4,
    attackers: Annotated[str, option(ATTACK, "Attackers of each fit, as a,b.")] = ",".join(
        AUDIT["attackers"]
    ),
    repeats: Annotated[int, option(ATTACK, "Times the cross-validation is repeated.")] = 1,
    jobs: Annotated[int, option(SOLVER, "Processes to use; -1 is all processors.")] = 1,
    device: Annotated[str | None, option(SOLVER, "Where to compute, such as cuda.")] = None,
    leakage: Leakage = 0.05,
) -> None:
    """Fit at many strengths at once, audit every fit, and show what each level costs.

    Finished fits are written as they come. If the command is interrupted, the same command goes
    on where it was; with other settings it refuses the folder.
    """
    with readable_errors():
        chosen = methods.split(",")
        for method in chosen:
            if method not in METHODS:
                raise unknown_choice("--methods", method, METHODS)
        count = int(strengths) if strengths.isdigit() else None
        wanted = numbers("--strengths", strengths, float)
        people = People.of(sensitive, columns, kind, key, missing)
        source = Source(tensor, modes, value, duplicates)
        inputs = read_inputs(source, people, mode)
        split = None if test is None else split_cells(inputs.data, test_size=test, random_state=0)
        describe_inputs(inputs)
        found: list[Frontier] = []
        try:
            for method in chosen:
                with progress(method) as advance:

                    def on_progress(what: str, done: int, total: int) -> None:
                        advance(done, total, what)

                    found.append(
                        frontier(
                            inputs.data if split is None else split.train,
                            inputs.features,
                            rank=rank,
                            method=method,
                            strengths=wanted if count is None else count,
                            seeds=seeds,
                            mode=inputs.mode,
                            ridge=ridge,
                            center=center,
                            held_out=None if split is None else split.test,
                            solver=solver,
                            max_iter=max_iter,
                            tol=tol,
                            audits={**AUDIT, "attackers": attackers.split(","), "repeats": repeats},
                            limit=not found,
                            out=out,
                            n_jobs=jobs,
                            device=device,
                            on_progress=on_progress,
                        )
                    )
        except (Interrupted, KeyboardInterrupt) as error:
            echo(f"interrupted; what is finished is in {out}, and the same command goes on from it")
            raise typer.Exit(INTERRUPTED) from error
        write_json(out / INPUTS_FILE, describe_source(source, people, test))
        show(join(found), leakage)
        echo(f"written to {out}; for a page: parafair report {out}")


@app.command()
def pick(
    run: Annotated[Path, typer.Argument(help="A folder that `parafair frontier` wrote.")],
    out: Annotated[Path, option(RESULT, "Folder to create.")],
    leakage: Leakage = 0.05,
    table_format: TableFormat = "csv",
    force: Force = False,
) -> None:
    """Write the closest fit of a frontier within a leakage, as `parafair fit` would have."""
    with readable_errors():
        check_new_folder(out, overwrite=force)
        check_table_format("--format", table_format)
        found = load(run)
        point = found.best(leakage=leakage)
        file, model = run / INPUTS_FILE, found.model(point)
        record = read_json(file) if file.exists() else None
        picked = {"frontier": str(run), "most_leakage": leakage, "leakage": point.leakage}
        model.fit_ = replace(model.fit_, settings={**model.fit_.settings, "picked": picked})
        write_run(out, model, record, None, table_format=table_format, force=force)
        echo(
            f"{point.member.id}: residual {point.residual:.4f}, leakage {point.leakage:.3f}"
            f"{_warning(point)}\nwritten to {out}"
        )


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A folder that `parafair frontier` wrote.")],
    out: Annotated[
        Path | None, option(RESULT, "The page to write; by default report.html in the folder.")
    ] = None,
    formats: Annotated[
        str | None, option(RESULT, f"Also draw figures: {', '.join(FORMATS)}.", "--format")
    ] = None,
    title: Annotated[str, option(RESULT, "Heading of the page.")] = "Fit and fairness",
    leakage: Leakage = 0.05,
) -> None:
    """Write a page with the frontier, every fit behind it and what was achieved."""
    with readable_errors():
        wanted = () if formats is None else tuple(formats.split(","))
        for name in wanted:
            if name not in FORMATS:
                raise unknown_choice("--format", name, FORMATS)
        page = run / "report.html" if out is None else out
        for path in write_report(load(run), page, title=title, max_leakage=leakage, formats=wanted):
            echo(str(path))


def show(found: Frontier, leakage: float) -> None:
    """Print the fits worth having, and the one that was picked."""
    table = Table(
        box=None,
        pad_edge=False,
        title="Fits than which no other is closer and reveals less",
    )
    if any(point.audit is not None and point.audit.below_chance for point in found.efficient):
        table.caption = (
            "! an attacker is below chance beyond doubt: people are matched across groups"
        )
    tested = ("RMSE",) if found.baseline else ()
    names = ("method", "strength", "seed", "residual", "leakage", "95 %", "p-value", *tested, "")
    for name in names:
        table.add_column(name, justify="left" if name in ("method", "") else "right")
    for point in found.efficient:
        row = point.row()
        strength = "" if row["strength"] is None else f"{row['strength']:.3g}"
        table.add_row(
            row["method"],
            strength,
            str(row["seed"]),
            f"{row['residual']:.4f}",
            f"{row['leakage']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['p_value']:.3g}",
            *([f"{row['rmse']:.4g}"] if tested else []),
            "!" if row["below_chance"] else "",
        )
    output.print(table)
    if found.baseline:
        output.print(
            f"RMSE of the {found.coverage.held_out if found.coverage else 0:,} held-out entries; "
            f"without people {found.baseline.value('rmse'):.4g}",
            highlight=False,
        )
    picked = pick_point(found, leakage)
    if picked is not None:
        name = picked.member.id
        reached = "" if picked.leakage <= leakage else f" (none has leakage <= {leakage:g})"
        reached += _warning(picked)
        output.print(
            f"picked {name}: residual {picked.residual:.4f}, leakage {picked.leakage:.3f}{reached}",
            highlight=False,
        )


def _warning(point: Point) -> str:
    """Say that people are matched across groups, if they are."""
    below_chance = point.audit is not None and point.audit.below_chance
    return "; some attackers are below chance, see the report" if below_chance else ""
