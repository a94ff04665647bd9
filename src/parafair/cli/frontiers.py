"""The commands `parafair frontier` and `parafair report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from parafair.cli.people import pick_features
from parafair.cli.shell import (
    ATTACK,
    INTERRUPTED,
    MODEL,
    PEOPLE,
    RESULT,
    SOLVER,
    Columns,
    Kinds,
    app,
    numbers,
    option,
    output,
    progress,
    readable_errors,
)
from parafair.errors import Interrupted, unknown_choice
from parafair.frontier import Frontier, frontier
from parafair.frontier.folder import load
from parafair.frontier.result import join
from parafair.frontier.run import AUDIT
from parafair.methods import METHODS
from parafair.report import FORMATS, pick_point, write_report
from parafair.storage import read_tensor
from parafair.tables import read_table

Leakage = Annotated[float, option(RESULT, "Pick the least residual at this leakage.")]


@app.command(name="frontier")
def frontier_command(
    tensor: Annotated[Path, typer.Argument(help="The data: a .npy file, or .npz with one array.")],
    out: Annotated[Path, option(RESULT, "Folder for the fits; continued if it holds some.")],
    rank: Annotated[int, option(MODEL, "Number of components.")],
    sensitive: Annotated[Path, option(PEOPLE, "Table (.csv, .parquet), a row per person.")],
    columns: Columns = None,
    kind: Kinds = None,
    key: Annotated[str | None, option(PEOPLE, "Column of the table that labels people.")] = None,
    mode: Annotated[int, option(PEOPLE, "The mode of the tensor whose indices are people.")] = 0,
    methods: Annotated[
        str, option(MODEL, f"Some of {', '.join(METHODS)}, as a,b.", "--methods", "--method")
    ] = "invariant",
    strengths: Annotated[
        str, option(MODEL, "How many strengths to try, or the strengths, as 1,4,16.")
    ] = "11",
    seeds: Annotated[int, option(SOLVER, "Starts for each strength.")] = 1,
    solver: Annotated[str, option(SOLVER, "block or gradient.")] = "block",
    max_rounds: Annotated[int, option(SOLVER, "Most rounds of a fit.")] = 500,
    tolerance: Annotated[
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
        data, people = (
            read_tensor(tensor),
            read_table(sensitive, labels=[] if key is None else [key]),
        )
        features = pick_features(people, columns, kind, key)
        found: list[Frontier] = []
        try:
            for method in chosen:
                with progress(method) as advance:

                    def on_progress(what: str, done: int, total: int) -> None:
                        advance(done, total, what)

                    found.append(
                        frontier(
                            data,
                            features,
                            rank=rank,
                            method=method,
                            strengths=wanted if count is None else count,
                            seeds=seeds,
                            mode=mode,
                            solver=solver,
                            max_rounds=max_rounds,
                            tolerance=tolerance,
                            audits={**AUDIT, "attackers": attackers.split(","), "repeats": repeats},
                            limit=not found,
                            out=out,
                            n_jobs=jobs,
                            device=device,
                            on_progress=on_progress,
                        )
                    )
        except (Interrupted, KeyboardInterrupt) as error:
            output.print(
                f"interrupted; what is finished is in {out}, and the same command goes on from it",
                highlight=False, markup=False, soft_wrap=True,
            )  # fmt: skip
            raise typer.Exit(INTERRUPTED) from error
        show(join(found), leakage)
        output.print(
            f"written to {out}; for a page: parafair report {out}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip


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
        for path in write_report(load(run), page, title=title, leakage=leakage, formats=wanted):
            output.print(str(path), highlight=False, markup=False, soft_wrap=True)


def show(found: Frontier, leakage: float) -> None:
    """Print the fits worth having, and the one that was picked."""
    table = Table(
        box=None,
        title="Fits than which no other is closer and reveals less",
        caption="! an attacker is below chance beyond doubt: people are matched across groups",
    )
    for name in ("method", "strength", "seed", "residual", "leakage", "95 %", "p-value", ""):
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
            "!" if row["overfitted"] else "",
        )
    output.print(table)
    picked = pick_point(found, leakage)
    if picked is not None:
        name = picked.member.id
        reached = "" if picked.leakage <= leakage else f" (none has leakage <= {leakage:g})"
        if picked.audit is not None and picked.audit.overfitted:
            reached += "; some attackers are below chance, see the report"
        output.print(
            f"picked {name}: residual {picked.residual:.4f}, leakage {picked.leakage:.3f}{reached}",
            highlight=False,
        )
