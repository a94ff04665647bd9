"""The command `parafair fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import typer
from rich.markup import escape

from parafair.cli.command import command
from parafair.cli.held_out import HeldOutOptions
from parafair.cli.inputs import Inputs
from parafair.cli.models import ModelOptions, StartOptions, make_model
from parafair.cli.options import FittedOptions
from parafair.cli.people import ModeOptions, load
from parafair.cli.processes import CheckpointOptions, process_group, writes_files
from parafair.cli.runs import HeldOut, certify_run, check_result, write_run
from parafair.cli.shell import INTERRUPTED, echo, errors, output, progress
from parafair.cli.side import SideOptions
from parafair.cli.tensors import StreamOptions
from parafair.cli.wording import in_shell_words
from parafair.data.handed_over import HandedOver
from parafair.errors import Interrupted
from parafair.losses import Loss, is_squared
from parafair.model.estimator import FairCP
from parafair.model.noise import describe_noise
from parafair.model.preparation import Settings
from parafair.model.tucker import FairTucker
from parafair.solvers.objective import Objective


@command("fit")
def fit(
    tensor: StreamOptions,
    people: ModeOptions,
    model: ModelOptions,
    solver: StartOptions,
    result: FittedOptions,
    held: HeldOutOptions,
    side: SideOptions,
    stored: CheckpointOptions,
) -> None:
    """Decompose a tensor and write the embedding, the factors and a record of the fit.

    The folder holds embedding.csv (one row per person), a table like factor_module.csv for each
    other mode, the model itself, inputs.json (where the data came from), certificate.json if the
    fit has noise and, with --test-size or --test, evaluation.json. With --side it has
    side_factor.csv, with --ranks core.csv. It has no rows without noise unless --keep-exact asks
    for them. Ctrl-C stops after the last finished iteration and writes that; with --checkpoint, the
    same command with --force continues. Several processes fit one model together if torchrun starts
    them: torchrun --nproc-per-node 4 -m parafair fit ...; Ctrl-C writes nothing then.
    """
    check_result(result)
    stored.check_apart(result.out)
    checkpoint = stored.settings()
    wanted = make_model(**model.settings(), **solver.settings())
    # Wrong settings are refused before the data is read.
    Settings.of(wanted).check_side(side.side)
    loaded = load(tensor, people, side)
    wanted.set_params(mode=loaded.mode)
    inputs = Inputs.of(tensor, people, side, **held.record())
    split = held.split(loaded, tensor, solver.random_state)
    with process_group(solver.device) as group:
        given = {**checkpoint, "process_group": group}
        given |= {"sensitive_features": loaded.features, "side": loaded.side}
        data = HandedOver(loaded.data if split is None else split.train)
        del loaded  # so that each of several processes can drop the entries of others
        interrupted = _fit(wanted, data, given)
        writes = writes_files(group)
        if interrupted and group is not None:  # each process is elsewhere
            stop_together(stored, writes)
    if not writes:
        return
    features = given["sensitive_features"]
    held_out = split and HeldOut.of(held.record(), wanted, split, features)
    uncertified = certify_run(result, wanted)
    write_run(result, wanted, inputs, held_out=held_out)
    show_result(wanted, held_out)
    echo(f"written to {result.out}")
    if interrupted:
        stays = stored.after_interruption()
        if stays:
            echo(f"this result is partial; {stays}: the same command with --force continues there")
    if interrupted or uncertified:
        raise typer.Exit(INTERRUPTED)


def stop_together(stored: CheckpointOptions, tells: bool) -> NoReturn:
    """End one of several processes after Ctrl-C, without a result.

    Args:
        stored: Where the fit had its checkpoint.
        tells: Whether this process says so.
    """
    if tells:
        stays = stored.after_interruption()
        again = f"; {stays}, start again with the same settings to continue there" if stays else ""
        text = escape(f"interrupted; nothing was written{again}")
        errors.print(text, highlight=False, soft_wrap=True)
    raise typer.Exit(INTERRUPTED)


def show_result(model: FairCP | FairTucker, held_out: HeldOut | None) -> None:
    """Print how a fit ended and what it predicts."""
    last = model.fit_.history[-1]
    added = "penalty and ridge" if model.record_.ridge else "penalty"
    of_side, table, side = model.fit_.side_residual, model.training_.side, ""
    if of_side is not None and table is not None:
        name = _measure(table.columns.loss)
        side = f"{name} of the side information {of_side:.4f}, "
    echo(
        f"{_measure(model.training_.loss)} {last.residual:.4f}, {side}{added} {last.penalty:.4g}, "
        f"{model.n_iter_} iterations in {last.seconds:.1f} s: "
        f"{in_shell_words(model.fit_.status.value)}"
    )
    if model.fit_.noise:
        echo(describe_noise(model.record_.noise, model.fit_))
    if model.ridge == "auto" and model.ridge_:
        echo(f"ridge {model.ridge_:g}, selected by --ridge auto")
    if held_out is not None:
        output.print(held_out.table())


def _measure(loss: Loss) -> str:
    """Return what the residual is called, by the loss."""
    return "residual" if is_squared(loss) else loss.measure


def _fit(model: FairCP | FairTucker, data: HandedOver, given: Mapping[str, Any]) -> bool:
    """Fit with a bar; return whether it was interrupted.

    Args:
        model: The model.
        data: The data.
        given: Further arguments of `FairCP.fit`.
    """
    try:
        with progress("fitting", model.max_iter) as bar:

            def on_iteration(number: int, objective: Objective) -> None:
                best = int(objective.value.nan_to_num(float("inf")).argmin())
                residual, penalty = objective.residual[best], objective.penalty[best]
                state = f"residual {float(residual):.4f}  penalty {float(penalty):.4g}"
                # The limit holds for each stage of a fit, and stages are counted through.
                bar(number, max(number, model.max_iter), state)

            model.fit(
                data,
                on_iteration=on_iteration,
                on_trial=lambda trial: bar.echo(str(trial)),
                on_audit=lambda done, total: bar(done, total, "attackers of an audit"),
                **given,
            )
    except Interrupted as interruption:
        if interruption.strength is not None and given["process_group"] is None:
            echo(str(interruption))
        if model.strength == "auto":
            echo("the search for a strength did not end, so the choice is open; audit this fit")
        return True
    if model.strength == "auto":
        chosen = model.selection_
        trials = f"{len(chosen.trials)} trials"
        what = "shared places" if chosen.strength is None else f"strength {chosen.strength:.3g}"
        echo(f"{what} after {trials}: {chosen.verdict}")
    return False
