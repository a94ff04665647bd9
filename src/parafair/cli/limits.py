"""The command `parafair parity-limit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from parafair.cli.command import command
from parafair.cli.options import RESULT, Force, defaults, option
from parafair.cli.people import ModeOptions, load
from parafair.cli.shell import echo
from parafair.cli.tensors import TensorOptions
from parafair.guarantees.limits import parity_limit
from parafair.storage import check_new_file, write_json

LIMIT = "Limit"
LIMITS = defaults(parity_limit)


@dataclass(frozen=True)
class LimitOptions:
    """How to compute the limit."""

    bins: Annotated[int, option(LIMIT, "Groups made of a numeric column.")] = LIMITS["bins"]
    max_people: Annotated[
        int, option(LIMIT, "At most this many people are transported exactly.")
    ] = LIMITS["max_people"]
    random_state: Annotated[int, option(LIMIT, "Seed of samples and random groups.")] = LIMITS[
        "random_state"
    ]


@command("parity-limit")
def parity_limit_command(
    tensor: TensorOptions,
    people: ModeOptions,
    limit: LimitOptions,
    json: Annotated[Path | None, option(RESULT, "Also write the limit to this file.")] = None,
    force: Force = False,
) -> None:
    """Compute the least residual that parity allows to any model.

    It holds for every model of every rank. The table has the least residual at each advantage of
    the best attacker. The tensor must be complete.
    """
    if json is not None:
        check_new_file(json, overwrite=force)
    if people.sensitive is None:
        raise ValueError("--sensitive is missing; give the table of people")
    loaded = load(tensor, people)
    found = parity_limit(
        loaded.data, sensitive_features=loaded.features, mode=loaded.mode, **vars(limit)
    )
    if json is not None:
        write_json(json, found.to_dict(), overwrite=force)
    echo(str(found))
