"""The command `parafair audit`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from parafair.audits import Audit, audit, check_max_leakage
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
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import unknown_choice
from parafair.report.figures import check_figure
from parafair.storage import check_new_file, new_file
from parafair.stored import write_record


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
    audits: AuditOptions,
    result: AuditResult,
    target: Annotated[
        str | None,
        option(PEOPLE, "Column to predict from the embedding; errors are compared by group."),
    ] = None,
    n_jobs: Jobs = AUDIT["n_jobs"],
) -> None:
    """Measure what an embedding reveals about sensitive features.

    Cross-validated attackers guess each feature from the embedding; a permutation test and the
    paper's measures follow. The last line is the verdict at --max-leakage.

    For a run, the people in its criterion are audited, with the table, sensitive columns, key and
    missing policy of the run unless others are given. Other embeddings must be in the order of the
    table, unless --key is a column of both.
    """
    check_max_leakage(result.max_leakage)
    if result.json is not None:
        check_new_file(result.json, overwrite=result.force)
    if result.picture is not None:
        check_figure(result.picture, overwrite=result.force)
    found = read_embedding(embedding, people.key)
    people = found.inputs.complete(people)
    if people.sensitive is None and found.inputs.sensitive is not None:
        people = replace(people, sensitive=Path(found.inputs.sensitive))
    rows, features, wanted = _pair(found, people, target)
    with progress("attacking") as on_progress:
        audited = audit(
            rows,
            sensitive_features=features,
            target=wanted,
            n_jobs=n_jobs,
            on_progress=on_progress,
            **audits.settings(),
        )
    _write(audited, result)
    echo(str(audited))
    verdict = audited.verdict(result.max_leakage).value
    echo(f"verdict at max_leakage {result.max_leakage:g}: {verdict}")


def _write(audited: Audit, result: AuditResult) -> None:
    """Write what was asked for; if the picture fails, nothing is written."""
    with ExitStack() as files:
        if result.picture is not None:
            audited.draw(files.enter_context(new_file(result.picture, overwrite=result.force)))
        if result.json is not None:
            write_record(result.json, audited.to_dict(), overwrite=result.force)


def _pair(
    found: Embedding, options: FeatureOptions, target: str | None
) -> tuple[NDArray[Any], SensitiveFeatures, NDArray[Any] | None]:
    """Return rows, features and the target of the people to audit; print how many are not."""
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
    return found.rows[chosen[known]], features.with_features(), wanted
