"""The command `parafair audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parafair.audits import ATTACKERS, audit
from parafair.cli.people import align, pick_features, read_embedding
from parafair.cli.shell import (
    ATTACK,
    PEOPLE,
    RESULT,
    Columns,
    Kinds,
    app,
    check_new_file,
    option,
    output,
    progress,
    readable_errors,
)
from parafair.errors import unknown_choice
from parafair.tables import read_table


@app.command(name="audit")
def audit_command(
    embedding: Annotated[
        Path, typer.Argument(help="A run folder, or a table (.csv, .parquet) or .npy of rows.")
    ],
    sensitive: Annotated[Path, option(PEOPLE, "Table (.csv, .parquet), a row per person.")],
    columns: Columns = None,
    kind: Kinds = None,
    key: Annotated[
        str | None, option(PEOPLE, "Column of both tables that identifies people.")
    ] = None,
    target: Annotated[
        str | None,
        option(PEOPLE, "Column of the table that someone would predict; compares groups."),
    ] = None,
    attackers: Annotated[
        str | None, option(ATTACK, f"Some of {', '.join(ATTACKERS)}, as a,b; by default all.")
    ] = None,
    folds: Annotated[int, option(ATTACK, "Parts of the cross-validation.")] = 5,
    repeats: Annotated[int, option(ATTACK, "Times it is repeated with other parts.")] = 2,
    max_people: Annotated[int, option(ATTACK, "Larger tables are sampled down.")] = 5000,
    jobs: Annotated[int, option(ATTACK, "Processes to use; -1 is all processors.")] = 1,
    seed: Annotated[int, option(ATTACK, "Seed of the audit.")] = 0,
    json: Annotated[Path | None, option(RESULT, "Also write the audit to this file.")] = None,
    picture: Annotated[Path | None, option(RESULT, "Also draw it, as .png, .svg or .pdf.")] = None,
) -> None:
    """Measure what an embedding reveals about sensitive features.

    Cross-validated attackers guess each feature from the embedding; a permutation test and the
    paper's measures stand beside them. Without --key, rows must be in the same order.
    """
    with readable_errors():
        for option, path in (("--json", json), ("--picture", picture)):
            check_new_file(option, path)
        rows, labels = read_embedding(embedding, key)
        people = read_table(sensitive, labels=[] if key is None else [key])
        if key is not None and labels is not None:
            people = align(people, labels, key, sensitive)
        wanted = None
        if target is not None:
            if target not in people.columns:
                raise unknown_choice("--target", target, map(str, people.columns))
            wanted = people[target].to_numpy()
            people = people.drop(columns=target)
        with progress("attacking") as on_progress:
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
