"""Options of a learned encoder, and the settings they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from parafair.cli.options import MODEL, defaults, option
from parafair.encoders.learned import LEARNED, Learned
from parafair.model.estimator import FairCP

DEFAULT = Learned()
# Their names begin with this.
OWN = "encoder_"


@dataclass(frozen=True)
class EncoderOptions:
    """The encoder that a model learns, if any."""

    encoder: Annotated[
        str | None,
        option(
            MODEL,
            "Learn a map from entries to rows that needs no group, for everybody: parafair "
            "transform then needs no --sensitive. With --method invariant.",
            choices=LEARNED,
        ),
    ] = defaults(FairCP)["encoder"]
    encoder_steps: Annotated[
        int | None,
        option(MODEL, f"With --encoder: steps of the optimizer. [default: {DEFAULT.steps}]"),
    ] = None
    encoder_hidden: Annotated[
        int | None,
        option(MODEL, f"With --encoder network: hidden units. [default: {DEFAULT.hidden}]"),
    ] = None
    encoder_batch_size: Annotated[
        int | None,
        option(MODEL, f"With --encoder: people in a batch. [default: {DEFAULT.batch_size}]"),
    ] = None
    encoder_learning_rate: Annotated[
        float | None,
        option(
            MODEL,
            "With --encoder: size of the first steps, relative to the spread of the rows. "
            f"[default: {DEFAULT.learning_rate:g}]",
        ),
    ] = None


def with_encoder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `FairCP` from options: those of the encoder become its settings."""
    found = {name: value for name, value in values.items() if not name.startswith(OWN)}
    given = {
        name.removeprefix(OWN): value
        for name, value in values.items()
        if name.startswith(OWN) and value is not None
    }
    if not given:
        return found
    option, name = f"--{(OWN + next(iter(given))).replace('_', '-')}", values["encoder"]
    if name is None:
        raise ValueError(f"{option} is for --encoder, but there is none; add --encoder network")
    if "hidden" in given and name == "linear":
        raise ValueError(
            "--encoder-hidden is for --encoder network, but --encoder is linear; leave it out"
        )
    if name in LEARNED:  # others are refused later
        found["encoder"] = replace(LEARNED[name], **given)
    return found
