"""The command `parafair audit`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas
import typer
from numpy.typing import NDArray

from parafair.arguments import has_ending
from parafair.audits import Audit, OutputAudit, audit, audit_outputs, check_max_leakage
from parafair.cli.command import command
from parafair.cli.embeddings import Embedding, read_embedding
from parafair.cli.options import (
    AUDIT,
    MAX_LEAKAGE,
    PEOPLE,
    RESULT,
    AuditOptions,
    Force,
    Jobs,
    MaxLeakage,
    option,
)
from parafair.cli.people import FeatureOptions, People
from parafair.cli.shell import echo, progress
from parafair.cli.tensors import ARRAYS
from parafair.data.frames import read_table
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import unknown_choice
from parafair.model.tucker import load_model
from parafair.pictures import check_figure
from parafair.storage import check_new_file, new_file
from parafair.stored import write_record


@dataclass(frozen=True)
class AuditedPeople:
    """Whom to attack, and what of them."""

    new_embedding: Annotated[
        Path | None,
        option(
            PEOPLE,
            "Rows of new people, such as parafair transform writes: attackers are trained on the "
            "first embedding and tested on these.",
        ),
    ] = None
    new_sensitive: Annotated[
        Path | None, option(PEOPLE, "The table of the new people's sensitive features.")
    ] = None
    top: Annotated[
        int | None,
        option(
            PEOPLE,
            "Also audit a run's predicted scores, and each person's list of this many highest.",
        ),
    ] = None
    target: Annotated[
        str | None,
        option(PEOPLE, "Column to predict from the embedding; errors are compared by group."),
    ] = None


@dataclass(frozen=True)
class AuditResult:
    """What to write besides the table."""

    max_leakage: MaxLeakage = MAX_LEAKAGE
    json: Annotated[Path | None, option(RESULT, "Also write the audit to this file.")] = None
    picture: Annotated[Path | None, option(RESULT, "Also draw it, as .png, .svg or .pdf.")] = None
    force: Force = False


@command("audit")
def audit_command(
    embedding: Annotated[
        Path, typer.Argument(help="A run folder, or a table (.csv, .parquet) or .npy of rows.")
    ],
    people: FeatureOptions,
    which: AuditedPeople,
    audits: AuditOptions,
    result: AuditResult,
    n_jobs: Jobs = AUDIT["n_jobs"],
) -> None:
    """Measure what an embedding reveals about sensitive features.

    Cross-validated attackers guess each feature from the embedding; a permutation test and the
    paper's measures follow. The last line is the verdict at --max-leakage.

    For a run, the people in its criterion are audited, with the table, sensitive columns, key and
    missing policy of the run unless others are given, and new people are matched by the labels of
    the run. Other embeddings must be in the order of the table, unless --key is a column of both.
    """
    _check(embedding, which, result)
    found = read_embedding(embedding, people.key)
    people = found.inputs.complete(people)
    if people.sensitive is None and found.inputs.sensitive is not None:
        people = replace(people, sensitive=Path(found.inputs.sensitive))
    rows, features, wanted = _pair(found, people, which.target)
    new = _new_people(which, people, found)
    settings = {"n_jobs": n_jobs, **audits.settings()}
    with progress("attacking") as on_progress:
        audited = audit(
            rows,
            sensitive_features=features,
            target=wanted,
            on_progress=on_progress,
            **new,
            **settings,
        )
    outputs = None
    if which.top is not None:
        with progress("attacking outputs") as on_progress:
            outputs = audit_outputs(
                _predict(embedding, rows),
                sensitive_features=features,
                k=which.top,
                on_progress=on_progress,
                **settings,
            )
    _write(audited, outputs, result)
    level = result.max_leakage
    echo(str(audited))
    echo(f"verdict at --max-leakage {level:g}: {audited.verdict(level).value}")
    if outputs is not None:
        echo(f"\n{outputs}")
        echo(f"verdict of the outputs at --max-leakage {level:g}: {outputs.verdict(level).value}")


def _check(embedding: Path, which: AuditedPeople, result: AuditResult) -> None:
    """Raise if options do not fit together or results cannot be written."""
    check_max_leakage(result.max_leakage)
    if (which.new_embedding is None) != (which.new_sensitive is None):
        missing = "--new-embedding" if which.new_embedding is None else "--new-sensitive"
        raise ValueError(f"{missing} is missing; new people need rows and sensitive features")
    if which.top is not None and embedding.is_file():
        raise ValueError(
            f"--top needs a run, whose model predicts scores, but {embedding} is a file of rows; "
            "give the folder that parafair fit wrote, or leave --top out"
        )
    if result.json is not None:
        check_new_file(result.json, overwrite=result.force)
    if result.picture is not None:
        check_figure(result.picture, overwrite=result.force, name="--picture")


def _new_people(which: AuditedPeople, people: FeatureOptions, known: Embedding) -> dict[str, Any]:
    """Return the arguments of `audit` for new people; none if there are none.

    Args:
        which: Their tables.
        people: The options.
        known: The embedding of the others. The tables are matched by the labels of a run, if both
            have them.
    """
    if which.new_embedding is None or which.new_sensitive is None:
        return {}
    key = people.key
    given = which.new_embedding
    if key is None and given.is_file() and not has_ending(given, ARRAYS):
        tables = [read_table(path) for path in (given, which.new_sensitive)]
        names = (known.inputs.key, known.mode)
        key = next((n for n in names if n and all(n in own.columns for own in tables)), None)
    found = read_embedding(given, key)
    options = replace(people, sensitive=which.new_sensitive, key=key)
    rows, features, _ = _pair(found, options, None)
    return {"new_embedding": rows, "new_sensitive_features": features}


def _predict(run: Path, rows: Any) -> NDArray[Any]:
    """Return the scores that a run predicts from these rows, people along the first axis."""
    model = load_model(run)
    return np.moveaxis(model.inverse_transform(np.asarray(rows)), model.training_.axes.mode, 0)


def _write(audited: Audit, outputs: OutputAudit | None, result: AuditResult) -> None:
    """Write what was asked for; if the picture fails, nothing is written."""
    record = audited.to_dict() | ({} if outputs is None else {"outputs": outputs.to_dict()})
    with ExitStack() as files:
        if result.picture is not None:
            beside = files.enter_context(new_file(result.picture, overwrite=result.force))
            audited.draw(beside, overwrite=True)
        if result.json is not None:
            write_record(result.json, record, overwrite=result.force)


def _pair(
    found: Embedding, options: FeatureOptions, target: str | None
) -> tuple[Any, SensitiveFeatures, NDArray[Any] | None]:
    """Return rows, features and the target of the people to audit; print how many are not.

    The rows are a data frame with the labels of the people, if they have any.
    """
    names = [] if found.mode is None else [found.inputs.key, found.mode]
    people = People.read(options, names=[name for name in names if name is not None])
    if target is not None and target not in people.table.columns:
        raise unknown_choice("--target", target, map(str, people.table.columns))
    if found.mode is not None:
        people.require_key(found.mode)
    chosen = found.chosen
    if people.key is not None and found.labels is not None:
        labels = found.labels[chosen]
        features, places = people.features(options, labels, without=target), people.find(labels)
    else:
        features, places = people.features(options, without=target), chosen
        if len(features) != len(found.rows):
            raise ValueError(
                f"{people.path} has {len(features)} rows but the embedding has {len(found.rows)}; "
                "give one row per person in the same order, or match them with --key"
            )
        features = features.take(chosen)
    known = np.ones(len(chosen), bool) if features.has_features is None else features.has_features
    everybody = len(found.rows)
    if len(chosen) < everybody:
        echo(
            f"left out: {everybody - len(chosen)} of {everybody} people, who were not in the "
            "criterion of the run: they had no sensitive features or no entries"
        )
    if not known.all():
        echo(f"left out: {(~known).sum()} of {everybody} people, who lack sensitive features")
    wanted = None if target is None else people.table[target].to_numpy()[places[known]]
    rows = found.rows[chosen[known]]
    if found.labels is not None:
        rows = pandas.DataFrame(rows, index=found.labels[chosen[known]])
    return rows, features.with_features(), wanted
