"""The command `parafair recommend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from parafair.cli.command import command
from parafair.cli.inputs import Inputs
from parafair.cli.new_people import read_new
from parafair.cli.options import DATA, MODEL, PEOPLE, TableOptions, defaults, option
from parafair.cli.predicting import Run, Unknown, check_table_result
from parafair.cli.runs import write_table_file
from parafair.cli.shell import echo
from parafair.cli.tensors import TensorOptions
from parafair.model.estimator import FairCP
from parafair.model.training import Training
from parafair.temporaries import digest_of

RECOMMEND = defaults(FairCP.recommend)
REMEDY = "give the file of entries that people already have with --exclude, or add --include-rated"


@command("recommend")
def recommend(
    run: Run,
    result: TableOptions,
    people: Annotated[
        list[str] | None,
        option(PEOPLE, "Label of a person; can be repeated. [default: everybody]", "--person"),
    ] = None,
    k: Annotated[int, option(MODEL, "Number of recommendations for each person.", "--k")] = (
        RECOMMEND["k"]
    ),
    given: Annotated[
        list[str] | None,
        option(
            MODEL,
            "Recommend only cells with this label of a mode, as day=Sunday; can be repeated.",
            metavar="<mode=label>",
        ),
    ] = None,
    exclude: Annotated[
        Path | None,
        option(
            DATA,
            "Do not recommend the entries of this file, which is read like the data of the run. "
            "[default: the data of the run]",
        ),
    ] = None,
    include_rated: Annotated[
        bool, option(DATA, "Also recommend entries that people already have.", "--include-rated")
    ] = False,
    unknown: Unknown = RECOMMEND["unknown"],
) -> None:
    """Recommend to each person the cells with the highest predictions.

    Writes a table with one row per recommendation: the person, its rank, the labels of the other
    modes and the prediction. Entries of the data of the run are not recommended, those that it held
    out included; the file must still be there and the same, or be given with --exclude.
    """
    check_table_result(result)
    if include_rated and exclude is not None:
        raise ValueError("--include-rated and --exclude cannot both be given; leave one out")
    model, inputs = FairCP.load(run), Inputs.read(run)
    rated = None if include_rated else _read_rated(exclude, model.training_, inputs)
    found = model.recommend(people, k, given=_pairs(given), exclude=rated, unknown=unknown)
    write_table_file(found.to_frame(), result)
    echo(f"{len(found):,} recommendations written to {result.out}")


def _read_rated(path: Path | None, training: Training, inputs: Inputs) -> Any:
    """Return the entries that are not recommended."""
    if path is None and inputs.tensor is None:
        raise ValueError(
            "the run does not say which file its data came from; give it with --exclude, or add "
            "--include-rated"
        )
    chosen = Path(str(inputs.tensor)) if path is None else path
    if not chosen.exists():
        origin = "the data of the run" if path is None else "--exclude"
        raise ValueError(f"{origin}, {chosen}, does not exist{_where(chosen)}; {REMEDY}")
    found = digest_of(chosen) if path is None and chosen.is_file() else None
    if path is None and inputs.checksum not in (None, found):
        raise ValueError(
            f"{chosen}{_where(chosen)} is not the data of the run: its content differs from "
            f"that of the file which was read for it; {REMEDY}"
        )
    return read_new(TensorOptions(tensor=chosen), training, inputs)


def _where(path: Path) -> str:
    """Return in which folder a relative path was looked for."""
    return "" if path.is_absolute() else f" in the folder {Path.cwd()}"


def _pairs(given: list[str] | None) -> dict[str, str] | None:
    """Return the fixed labels by mode."""
    found = {}
    for entry in given or ():
        name, separator, label = entry.partition("=")
        if not separator:
            raise ValueError(
                f"--given takes the name of a mode, an equals sign and a label, got {entry!r}"
            )
        found[name] = label
    return found or None
