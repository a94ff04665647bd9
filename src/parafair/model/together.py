"""Fits by several processes: what can be fitted so, and that all of them fit the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from parafair.data.devices import resolve_dtype
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.side_columns import read_side
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.errors import TeamError
from parafair.model.draws import secret_of
from parafair.model.record import current_versions
from parafair.penalties.base import moves_scale
from parafair.records import plain
from parafair.solvers import LBFGS, BlockDescent
from parafair.storage import changes
from parafair.team import Team

if TYPE_CHECKING:
    from parafair.model.preparation import Settings


def check_together(settings: Settings) -> None:
    """Raise unless several processes can fit a model with these settings together."""
    model, solver = settings.model, settings.solver
    reasons = {
        "strength='auto', whose audits need all rows": settings.automatic,
        f"encoder={model.encoder!r}, which is learned from all entries": settings.encoder,
        f"method={model.method!r}, which needs all rows": settings.postprocessing
        or settings.reduction,
        f"{type(model).__name__}; use FairCP": model.structured,
        "init='svd', which needs all entries": isinstance(model.init, str) and model.init == "svd",
        f"solver={model.solver!r} with method={model.method!r}; leave solver out": not (
            isinstance(solver, LBFGS)
            or (isinstance(solver, BlockDescent) and not moves_scale(settings.penalty))
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            joint = ", or" if "; " in reason else ";"
            raise ValueError(
                f"process_group does not support {reason}{joint} leave process_group out, or see "
                "docs/many-machines.md for what several processes can fit"
            )


def identity_of(
    settings: Settings, data: TensorData, features: Any, side: Any = None
) -> dict[str, Any]:
    """Return what a fit follows from, as plain values: settings, data and versions.

    Args:
        settings: The settings.
        data: All data.
        features: The sensitive features as they were given.
        side: The side information as it was given.
    """
    table = None if side is None else read_side(side, data, data.find_mode(settings.model.mode))
    params = {
        name: _short(plain(value))
        for name, value in settings.model.get_params(deep=False).items()
        if name not in ("verbose", "device", "random_state")
    }
    return {
        **params,
        "seed": settings.seed,
        "shape": list(data.shape),
        "data": _listed(data)
        if isinstance(data, StreamedData)
        else secret_of(data, dtype=resolve_dtype(settings.model.dtype)),
        "sensitive_features": "none" if features is None else _digest(features),
        "side": "none" if table is None else secret_of(table),
        "versions": current_versions(),
    }


def check_same(team: Team, identity: Mapping[str, Any]) -> None:
    """Raise, in every process, unless all of them fit the same model to the same data."""
    if team.is_alone:
        return
    machine = {
        "number of threads": torch.get_num_threads(),
        "instructions of the CPU": torch.backends.cpu.get_cpu_capability(),
    }
    told = [json.loads(text) for text in team.tell(json.dumps({**plain(identity), **machine}))]
    for rank, other in enumerate(told):
        found = list(changes(told[0], other))
        if found:
            raise TeamError(
                f"processes 0 and {rank} differ ({'; '.join(found[:3])}, with process 0 first); "
                "give all of them the same data and settings, and the same versions"
            )


def _listed(data: StreamedData) -> str:
    """Return a hash of what the files say about their entries, which are not read for it."""
    source = data.source
    found = hashlib.sha256(repr((data.shape, data.observed, source.norm_squared)).encode())
    for numbers in (source.bounds, source.sizes, *map(source.counts, range(data.order))):
        found.update(np.ascontiguousarray(numbers, "<i8").data)
    return found.hexdigest()


def _short(value: Any) -> Any:
    """Return a value, or the hash of a long one such as initial factors."""
    text = json.dumps(value)
    return value if len(text) < 200 else hashlib.sha256(text.encode()).hexdigest()


def _digest(features: Any) -> str:
    """Return a hash of sensitive features, by mode or of the people alone."""
    by_mode = features if isinstance(features, Mapping) else {"people": features}
    records = {str(m): plain(SensitiveFeatures.of(f).to_list()) for m, f in by_mode.items()}
    return hashlib.sha256(json.dumps(records).encode()).hexdigest()
