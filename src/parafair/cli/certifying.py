"""The command `parafair certify`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas

from parafair.cli.command import command
from parafair.cli.inputs import Inputs
from parafair.cli.new_people import read_new, read_new_features
from parafair.cli.options import (
    COMPUTE,
    PEOPLE,
    RESULT,
    Device,
    Force,
    RawLabels,
    TableOptions,
    defaults,
    option,
)
from parafair.cli.people import PeopleOptions
from parafair.cli.predicting import Run
from parafair.cli.runs import check_table_format, rows_as_table, write_table_file
from parafair.cli.shell import echo
from parafair.cli.side import SideOptions, read_new_side
from parafair.cli.tensors import TensorOptions
from parafair.guarantees.certificate import Certificate
from parafair.guarantees.certifying import certify
from parafair.model.estimator import FairCP
from parafair.model.tucker import FairTucker, load_model
from parafair.storage import check_new_file

CERTIFY = defaults(certify)


@dataclass(frozen=True)
class HeldOutPeople:
    """People who were not in the fit, for a statement about their population."""

    new_tensor: Annotated[
        Path | None,
        option(PEOPLE, "Entries of held-out people, read like the data of the run."),
    ] = None
    new_sensitive: Annotated[
        Path | None, option(PEOPLE, "The table of the held-out people's sensitive features.")
    ] = None
    new_side: Annotated[
        Path | None,
        option(PEOPLE, "Their side information, read like that of the run, if it has any."),
    ] = None
    key: Annotated[
        str | None, option(PEOPLE, "Column of their table with the labels of the people.")
    ] = None

    def read(self, model: FairCP | FairTucker, inputs: Inputs) -> dict[str, Any]:
        """Return the arguments of `certify` for held-out people; none if there are none."""
        if (self.new_tensor is None) != (self.new_sensitive is None):
            missing = "--new-tensor" if self.new_tensor is None else "--new-sensitive"
            raise ValueError(f"{missing} is missing; new people need entries and features")
        if self.new_tensor is None:
            for name, given in (("--key", self.key), ("--new-side", self.new_side)):
                if given is not None:
                    raise ValueError(
                        f"{name} is for --new-sensitive, which was not given; leave it out"
                    )
            return {}
        tensor, training = TensorOptions(self.new_tensor), model.training_
        data = read_new(tensor, training, inputs)
        people = PeopleOptions(sensitive=self.new_sensitive, key=self.key)
        features = read_new_features(tensor, people, data, training, inputs)
        side = read_new_side(
            SideOptions(self.new_side),
            data,
            training.axes,
            inputs.side_options,
            key=self.key or inputs.key,
            labeled=tensor.has_labels,
        )
        return {"X_new": data, "sensitive_features": features, "side": side}


@dataclass(frozen=True)
class CertifyOptions:
    """How to certify."""

    confidence: Annotated[float, option(COMPUTE, "Probability with which all statements hold.")] = (
        CERTIFY["confidence"]
    )
    releases: Annotated[
        int, option(COMPUTE, "How many times the same rows are released with new noise.")
    ] = CERTIFY["releases"]
    draws: Annotated[int, option(COMPUTE, "Random draws for each statement.")] = CERTIFY["draws"]
    random_state: Annotated[int, option(COMPUTE, "Seed of the draws.")] = CERTIFY["random_state"]
    device: Device = CERTIFY["device"]


@command("certify")
def certify_command(
    run: Run,
    people: HeldOutPeople,
    settings: CertifyOptions,
    out: Annotated[Path | None, option(RESULT, "Also write the certificate to this file.")] = None,
    exposure: Annotated[
        Path | None,
        option(
            RESULT,
            "Also write the embedding with the exposure of each person, as .csv or .parquet; this "
            "table is as confidential as the sensitive features.",
        ),
    ] = None,
    raw_labels: RawLabels = False,
    force: Force = False,
) -> None:
    """Bound what every attacker learns from an embedding with noise.

    Without new people, the statements are about the people of the run. If the run has no rows
    without noise, which is the default of `parafair fit`, this is the certificate that was stored
    with it. With held-out people, the statement is about the population that they are a sample of.
    """
    if out is not None:
        check_new_file(out, overwrite=force)
    if exposure is not None:
        check_new_file(exposure, overwrite=force)
        check_table_format("--exposure", exposure.suffix.removeprefix("."))
        if people.new_tensor is not None:
            raise ValueError(
                "--exposure is of the people of the run, but --new-tensor has others; leave one out"
            )
    model = load_model(run)
    new = people.read(model, Inputs.read(run))
    found = None if new else _stored(model, settings)
    if found is None:
        found = certify(model, **new, **vars(settings))
    else:
        echo("The run has no rows without noise; this is the certificate stored with it.")
    if out is not None:
        found.write(out, overwrite=force)
    if exposure is not None:
        table = _with_exposures(model, found)
        write_table_file(table, TableOptions(out=exposure, raw_labels=raw_labels, force=force))
    echo(str(found))


def _stored(model: FairCP | FairTucker, settings: CertifyOptions) -> Certificate | None:
    """Return the stored certificate of a run without exact rows; None if it has no other part."""
    found: Certificate | None = getattr(model, "certificate_", None)
    if found is None or model.has_exact_rows:
        return None
    for name in ("confidence", "releases", "draws", "random_state"):
        given = getattr(settings, name)
        if given not in (CERTIFY[name], getattr(found, name, CERTIFY[name])):
            raise ValueError(
                f"--{name.replace('_', '-')} is {given}, but the run has no rows without noise, "
                "so nothing new can be certified about its people; leave it out to see the stored "
                "certificate, or fit again with --keep-exact"
            )
    return found


def _with_exposures(model: FairCP | FairTucker, certificate: Certificate) -> pandas.DataFrame:
    """Return the embedding table with the exposure of each person."""
    columns = certificate.exposure_columns()
    if not columns:
        raise ValueError(
            "--exposure needs the rows of the run without noise, but the run has only its stored "
            "certificate, which has no numbers of single people; fit again with --keep-exact"
        )
    axes = model.training_.axes
    table = rows_as_table(model.embedding_, axes.labels[axes.mode], axes.modes[axes.mode])
    return table.assign(**columns)
