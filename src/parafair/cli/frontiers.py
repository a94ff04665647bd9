"""The commands `parafair frontier`, `parafair pick` and `parafair report`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from parafair.audits import check_max_leakage
from parafair.cli.command import command
from parafair.cli.held_out import HeldOutOptions
from parafair.cli.inputs import INPUTS_FILE, Inputs
from parafair.cli.models import FIT, DecompositionOptions, SolverOptions, make_model
from parafair.cli.options import (
    ATTACK,
    AUDIT,
    MAX_LEAKAGE,
    MODEL,
    RESULT,
    SOLVER,
    AuditOptions,
    Force,
    Jobs,
    MaxLeakage,
    RunOptions,
    defaults,
    numbers,
    option,
)
from parafair.cli.people import ModeOptions, load
from parafair.cli.processes import process_group, writes_files
from parafair.cli.runs import check_result, write_run
from parafair.cli.shell import INTERRUPTED, echo, output, progress
from parafair.cli.side import SideOptions
from parafair.cli.tensors import TensorOptions
from parafair.data.splits import split_cells
from parafair.errors import Interrupted, unknown_choice
from parafair.frontiers import Frontier, frontier
from parafair.frontiers import load as load_frontier
from parafair.frontiers.certified import AUTO, MOST_PEOPLE
from parafair.frontiers.choice import GUARANTEES
from parafair.frontiers.folder import Folder, method_folders
from parafair.frontiers.point import Point
from parafair.frontiers.result import join
from parafair.frontiers.run import AUDITS
from parafair.guarantees.statements import rounded_up
from parafair.model.estimator import FairCP
from parafair.model.methods import METHODS
from parafair.model.preparation import Settings
from parafair.model.tucker import FairTucker
from parafair.records import plain
from parafair.report import FORMATS, write_report
from parafair.storage import check_same_settings, new_folder
from parafair.stored import is_stored
from parafair.team import team_of
from parafair.temporaries import MANIFEST_FILE, put_back

FRONTIER, REPORT = defaults(frontier), defaults(write_report)
# The defaults of an audit of one of many fits.
POINT_AUDITS = AuditOptions(**{**AUDITS, "attackers": ",".join(AUDITS["attackers"])})

# Files of a frontier before its first fit.
BEGUN = frozenset({INPUTS_FILE, MANIFEST_FILE})

# Which fits are certified, and what `frontier` takes for it.
CERTIFICATES: dict[str, Any] = {AUTO: AUTO, "all": {}, "none": None}

FrontierFolder = Annotated[Path, typer.Argument(help="A folder that `parafair frontier` wrote.")]


@dataclass(frozen=True)
class SweepOptions:
    """Which fits to make."""

    out: Annotated[Path, option(RESULT, "Folder for the fits; continued if it holds some.")]
    methods: Annotated[str, option(MODEL, f"Some of {', '.join(METHODS)}, as a,b.")] = FIT["method"]
    strengths: Annotated[
        str, option(MODEL, "How many strengths to try, or the strengths, as 1,4,16.")
    ] = str(FRONTIER["strengths"])
    noises: Annotated[
        str | None,
        option(MODEL, "Noises to try at each strength, as 0.1,0.5; by default that of --noise."),
    ] = FRONTIER["noises"]
    seeds: Annotated[
        str, option(SOLVER, "How many starts for each strength, or their seeds, as 3,5.")
    ] = str(FRONTIER["seeds"])
    certificates: Annotated[
        str,
        option(
            ATTACK,
            f"Which fits with noise are certified; auto is none above {MOST_PEOPLE:,} people.",
            choices=tuple(CERTIFICATES),
        ),
    ] = AUTO
    n_jobs: Jobs = FRONTIER["n_jobs"]
    max_leakage: MaxLeakage = MAX_LEAKAGE


@dataclass(frozen=True)
class ChoiceOptions:
    """Which fit is picked."""

    max_leakage: MaxLeakage = MAX_LEAKAGE
    guarantee: Annotated[
        str | None,
        option(
            RESULT,
            "Also require that the certified leakage of this kind is within the limit.",
            choices=GUARANTEES,
        ),
    ] = None
    max_certified: Annotated[
        float | None,
        option(RESULT, "The largest certified leakage; by default that of --max-leakage."),
    ] = None


@command("frontier")
def frontier_command(
    tensor: TensorOptions,
    people: ModeOptions,
    model: DecompositionOptions,
    solver: SolverOptions,
    sweep: SweepOptions,
    held: HeldOutOptions,
    side: SideOptions,
    audits: AuditOptions = POINT_AUDITS,
) -> None:
    """Fit at many strengths at once, audit every fit, and show what each level costs.

    Finished fits are written at once. If the command is interrupted, the same command continues;
    with other settings it refuses the folder. Several processes share the people of every fit if
    torchrun starts them: torchrun --nproc-per-node 4 -m parafair frontier ...; process 0 audits.
    """
    check_max_leakage(sweep.max_leakage)
    strengths = _count_or_list("--strengths", sweep.strengths, float)
    noises = None if sweep.noises is None else numbers("--noises", sweep.noises, float)
    if sweep.certificates not in CERTIFICATES:
        raise unknown_choice("--certificates", sweep.certificates, CERTIFICATES)
    seeds = _count_or_list("--seeds", sweep.seeds, int)
    models = {name: _model(name, model, solver, side) for name in sweep.methods.split(",")}
    if people.sensitive is None:
        raise ValueError("--sensitive is missing; give the table of people, which audits need")
    found: list[Frontier] = []
    with process_group(solver.device) as group:
        team = team_of(group)
        team.first(lambda: _check_folder(sweep.out, models))
        loaded = load(tensor, people, side)
        split = held.split(loaded, tensor, defaults(split_cells)["random_state"])
        inputs = Inputs.of(tensor, people, side, **held.record())
        try:
            with _recorded(sweep.out, inputs) if writes_files(group) else nullcontext():
                for name, each in models.items():
                    with progress(name) as bar:

                        def on_progress(what: str, done: int, total: int) -> None:
                            bar(done, total, what)

                        found.append(
                            frontier(
                                each.set_params(mode=loaded.mode),
                                loaded.data if split is None else split.train,
                                sensitive_features=loaded.features,
                                side=loaded.side,
                                strengths=strengths,
                                noises=noises,
                                seeds=seeds,
                                audits=_changed(audits),
                                certificates=CERTIFICATES[sweep.certificates],
                                limit=not found,
                                X_test=None if split is None else split.test,
                                out=sweep.out,
                                n_jobs=sweep.n_jobs,
                                on_progress=on_progress,
                                process_group=group,
                            )
                        )
        except (Interrupted, KeyboardInterrupt) as error:
            echo(f"interrupted; finished fits are in {sweep.out}, and the same command continues")
            raise typer.Exit(INTERRUPTED) from error
        show(join(found), sweep.max_leakage)
        echo(f"written to {sweep.out}; for a page: parafair report {sweep.out}")


@command("pick")
def pick(folder: FrontierFolder, result: RunOptions, choice: ChoiceOptions) -> None:
    """Write the passing fit of a frontier with the smallest residual, as `parafair fit` would."""
    check_result(result)
    found = load_frontier(folder)
    point = found.best(**vars(choice))
    inputs = replace(Inputs.read(folder), frontier=str(folder), **vars(choice))
    write_run(result, found.model(point), inputs)
    echo(f"{_words(point, choice.max_leakage)}\nwritten to {result.out}")


@command("report")
def report(
    folder: FrontierFolder,
    choice: ChoiceOptions,
    out: Annotated[
        Path | None, option(RESULT, "The page to write; by default report.html in the folder.")
    ] = None,
    formats: Annotated[
        str | None, option(RESULT, f"Also draw figures: {', '.join(FORMATS)}, as a,b.", "--format")
    ] = None,
    title: Annotated[str, option(RESULT, "Heading of the page.")] = REPORT["title"],
    force: Force = False,
) -> None:
    """Write a page with the frontier, every fit behind it and what was achieved."""
    wanted = () if formats is None else tuple(formats.split(","))
    for name in wanted:
        if name not in FORMATS:
            raise unknown_choice("--format", name, FORMATS)
    page = folder / "report.html" if out is None else out
    written = write_report(
        load_frontier(folder),
        page,
        title=title,
        **vars(choice),
        formats=wanted,
        overwrite=force,
    )
    for path in written:
        echo(str(path))


def _check_folder(out: Path, methods: Iterable[str]) -> None:
    """Raise if files in the folder would be lost that are no frontier's."""
    put_back(out.resolve())
    begun = method_folders(out) or _is_begun(out)
    if (out / INPUTS_FILE).exists() and not begun:
        raise FileExistsError(
            f"{out / INPUTS_FILE} already exists, but {out} holds no frontier; choose another "
            "folder"
        )
    for name in methods:
        Folder(out / name).check()


def _is_begun(out: Path) -> bool:
    """Tell whether a folder holds nothing but the record of a frontier without fits."""
    return out.is_dir() and {path.name for path in out.iterdir()} <= BEGUN


@contextmanager
def _recorded(out: Path, inputs: Inputs) -> Iterator[None]:
    """Record where the data comes from before the first fit; a frontier without fits is removed.

    A folder that holds fits keeps its record, and the data must be read in the same way.
    """
    if method_folders(out):
        if is_stored(out / INPUTS_FILE):
            check_same_settings(out, plain(Inputs.read(out).reading), inputs.reading)
        else:  # the fits were made from Python
            inputs.write(out)
    elif not out.exists() or _is_begun(out):
        with new_folder(out, overwrite=True, ours=BEGUN) as folder:
            inputs.write(folder)
    else:
        inputs.write(out)
    try:
        yield
    finally:
        if not method_folders(out):
            (out / INPUTS_FILE).unlink(missing_ok=True)
            (out / MANIFEST_FILE).unlink(missing_ok=True)
            with suppress(OSError):  # there may be files of other kinds
                out.rmdir()


def show(found: Frontier, max_leakage: float) -> None:
    """Print the Pareto-efficient fits, and the one that is picked at a leakage."""
    table = Table(box=None, pad_edge=False, title="Pareto-efficient fits", title_justify="left")
    tested = ("RMSE",) if found.baseline else ()
    # A column of equal seeds would make the table wider than a terminal of 80 characters.
    seeds = ("seed",) if len({point.member.seed for point in found.points}) > 1 else ()
    same = {replace(point.member, noise=0.0) for point in found.points}
    noises = ("noise",) if len(same) < len(found) else ()
    names = (
        "method",
        "strength",
        *noises,
        *seeds,
        "residual",
        "leakage",
        "95 %",
        "p-value",
        *tested,
    )
    for name in (*names, "verdict"):
        left = name in ("method", "verdict")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "method")
    for point in found.efficient:
        row = point.row()
        strength = "" if row["strength"] is None else f"{row['strength']:.3g}"
        table.add_row(
            row["method"],
            strength,
            *([f"{row['noise']:g}"] if noises else []),
            *([str(row["seed"])] if seeds else []),
            f"{row['residual']:.4f}",
            f"{row['leakage']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['p_value']:.3g}",
            *([f"{row['rmse']:.4g}"] if tested else []),
            point.verdict(max_leakage).value,
        )
    output.print(table)
    if any(point.certificate for point in found.efficient):
        output.print(_certified_table(found.efficient))
    if found.baseline:
        count = found.coverage.held_out if found.coverage else 0
        without = found.baseline.value("rmse")
        echo(f"RMSE of the {count:,} held-out entries; without people {without:.4g}")
    picked = found.best_or_none(max_leakage)
    if picked is not None:
        echo(f"picked {_words(picked, max_leakage)}")
    elif found.audited:
        echo(f"none is picked: all fits leak at --max-leakage {max_leakage:g}")


def _certified_table(points: Iterable[Point]) -> Table:
    """Return certified values of fits beside measured ones, by the threat they are about.

    A bound on threat (b) is never alone: pairs of people help against it, and hurt against (a).
    """
    title = "Certified (every attacker of threat b) beside measured (threat a)"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name in ("method", "strength", "noise", "(F) at most", "(C) at most", "leakage", "vote"):
        left = name == "method"
        table.add_column(name, justify="left" if left else "right", no_wrap=not left)
    for point in points:
        row = point.row()
        bounds = [row["certified_release"], row["certified_matrix"]]
        table.add_row(
            row["method"],
            "" if row["strength"] is None else f"{row['strength']:.3g}",
            f"{row['noise']:g}",
            *("none" if bound is None else f"{rounded_up(bound):.4f}" for bound in bounds),
            f"{row['leakage']:.3f}",
            "" if row["vote"] is None else f"{row['vote']:.3f}",
        )
    return table


def _model(
    name: str, model: DecompositionOptions, solver: SolverOptions, side: SideOptions
) -> FairCP | FairTucker:
    """Return the model of a method; wrong settings are refused before the data is read."""
    if name not in METHODS:
        raise unknown_choice("--methods", name, METHODS)
    found = make_model(method=name, **model.settings(), **solver.settings())
    Settings.of(found).check_side(side.side)
    return found


def _count_or_list(option: str, text: str, convert: type) -> Any:
    """Return how many there are to be, or which."""
    return int(text) if text.isdigit() else numbers(option, text, convert)


def _changed(audits: AuditOptions) -> dict[str, Any]:
    """Return the settings of audits that a frontier of Python would have."""
    given = audits.settings().items()
    return {name: v for name, v in given if name in AUDITS or v != AUDIT[name]}


def _words(point: Point, max_leakage: float) -> str:
    text = (
        f"{point.member.id}: residual {point.residual:.4f}, leakage {point.leakage:.3f}; verdict "
        f"at --max-leakage {max_leakage:g}: {point.verdict(max_leakage).value}"
    )
    if point.certificate is None:
        return text
    return f"{text}; certified leakage (release) {rounded_up(point.certified()):.4f}"
