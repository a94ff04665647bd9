"""The command `parafair audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from parafair.audits import ATTACKERS, audit
from parafair.cli.people import People
from parafair.cli.runs import Embedding, read_embedding
from parafair.cli.shell import (
    ATTACK,
    PEOPLE,
    RESULT,
    Columns,
    Kinds,
    Missing,
    app,
    echo,
    option,
    progress,
    readable_errors,
)
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import unknown_choice
from parafair.storage import check_new_file, write_json


@app.command(name="audit")
def audit_command(
    embedding: Annotated[
        Path, typer.Argument(help="A run folder, or a table (.csv, .parquet) or .npy of rows.")
    ],
    sensitive: Annotated[Path, option(PEOPLE, "Table (.csv, .parquet), a row per person.")],
    columns: Columns = None,
    kind: Kinds = None,
    key: Annotated[
        str | None, option(PEOPLE, "Column of the people's table that says who it is.")
    ] = None,
    missing: Missing = "error",
    target: Annotated[
        str | None,
        option(PEOPLE, "Column of the table that someone would predict; compares groups."),
    ] = None,
    attackers: Annotated[
        str | None, option(ATTACK, f"Some of {', '.join(ATTACKERS)}, as a,b; by default all.")
    ] = None,
    folds: Annotated[int, option(ATTACK, "Folds of the cross-validation.")] = 5,
    repeats: Annotated[int, option(ATTACK, "Repetitions with other folds.")] = 2,
    max_people: Annotated[int, option(ATTACK, "Larger tables are sampled down.")] = 5000,
    jobs: Annotated[int, option(ATTACK, "Processes to use; -1 is all processors.")] = 1,
    seed: Annotated[int, option(ATTACK, "Seed of the audit.")] = 0,
    json: Annotated[Path | None, option(RESULT, "Also write the audit to this file.")] = None,
    picture: Annotated[Path | None, option(RESULT, "Also draw it, as .png, .svg or .pdf.")] = None,
) -> None:
    """Measure what an embedding reveals about sensitive features.

    Cross-validated attackers guess each feature from the embedding; a permutation test and the
    paper's measures stand beside them. Of a run, the people whom its criterion examined are
    audited, found by its own key unless --key names another column. Other rows must be in the
    order of the table, unless --key is a column of both.
    """
    with readable_errors():
        for path in (json, picture):
            if path is not None:
                check_new_file(path, overwrite=False)
        found = read_embedding(embedding, key)
        people = People(sensitive, columns, tuple(kind or ()), key, missing)
        if found.mode is not None:
            people = people.matched_by((found.key, found.mode), found.mode)
        rows, features, wanted = _pair(found, people, target)
        with progress("attacking") as on_progress:
            result = audit(
                rows,
                sensitive_features=features,
                target=wanted,
                attackers=None if attackers is None else attackers.split(","),
                folds=folds,
                repeats=repeats,
                max_people=max_people,
                n_jobs=jobs,
                random_state=seed,
                on_progress=on_progress,
            )
        echo(str(result))
        if json is not None:
            write_json(json, result.to_dict())
        if picture is not None:
            result.draw(picture)


def _pair(
    found: Embedding, people: People, target: str | None
) -> tuple[NDArray[Any], SensitiveFeatures, NDArray[Any] | None]:
    """Return rows, features and the target of the people who can be audited; say who cannot."""
    table = people.read()
    if target is not None and target not in table.columns:
        raise unknown_choice("--target", target, map(str, table.columns))
    described = table if target is None else table.drop(columns=target)
    chosen = np.arange(len(found.rows)) if found.penalized is None else found.penalized
    if people.key is not None and found.labels is not None:
        labels = found.labels[chosen]
        features, places = people.features(described, labels), people.find(table, labels)
    else:
        features, places = people.features(described), chosen
        if len(features) != len(found.rows):
            raise ValueError(
                f"{people.path} has {len(features)} rows but the embedding has {len(found.rows)}; "
                "give one row per person in the same order, or match them with --key"
            )
        features = features.take(chosen)
    known = np.ones(len(chosen), bool) if features.has_features is None else features.has_features
    _say_who_is_missing(len(found.rows) - len(chosen), int((~known).sum()), len(found.rows))
    wanted = None if target is None else table[target].to_numpy()[places[known]]
    return found.rows[chosen[known]], features.with_features(), wanted


def _say_who_is_missing(not_examined: int, unknown: int, everybody: int) -> None:
    if not_examined:
        echo(
            f"left out: {not_examined} of {everybody} people, whom the run did not examine, as "
            "their features were not known or nothing was observed of them"
        )
    if unknown:
        echo(f"left out: {unknown} of {everybody} people, of whom something is not known")
