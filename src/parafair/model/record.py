"""The record of a fit: requested and resolved settings, enough to repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.data.devices import resolve_dtype
from parafair.encoders.learned import Learned
from parafair.errors import shown
from parafair.losses.registry import stored_classes as stored_losses
from parafair.model.methods import stored_classes as stored_methods
from parafair.model.trials import Trial
from parafair.records import plain, rebuild
from parafair.solvers.init import read_factors
from parafair.solvers.problem import Problem
from parafair.solvers.registry import stored_classes as stored_solvers
from parafair.stored import read_arrays, read_record, reading, write_arrays, write_record

RECORD_FILE, INIT_FILE = "model.json", "init.safetensors"
FORMAT = 4


def current_versions() -> dict[str, str]:
    """Return the versions of the libraries that affect a fit."""
    return {"parafair": version("parafair"), "torch": torch.__version__}


@dataclass(frozen=True)
class Record:
    """The requested and the resolved settings of a fit.

    Attributes:
        params: The arguments of the model, as `get_params` returns them.
        strength: The strength of the penalty, given or selected; None without a penalty.
        noise: Noise added to the embedding, relative to its standard deviation.
        ridge: The ridge.
        seed: Seed of the initial factors.
        shape: Shape of the data.
        dtype: Dtype of the fit.
        device: Device of the fit.
        versions: Versions of the libraries.
        trials: With ``strength="auto"``: the strengths tried.
    """

    params: Mapping[str, Any]
    strength: float | None
    noise: float
    ridge: float
    seed: int
    shape: tuple[int, ...]
    dtype: str
    device: str
    versions: Mapping[str, str]
    trials: tuple[Trial, ...] = ()

    def __repr__(self) -> str:
        names = ("strength", "noise", "ridge", "seed", "shape", "dtype", "device")
        return f"Record({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @classmethod
    def of(cls, params: Mapping[str, Any], problem: Problem, *, seed: int, noise: float) -> Record:
        """Return the record of a fit that has not run yet."""
        return cls(
            params=params,
            strength=None if problem.penalty is None else float(problem.penalty.strength),
            noise=noise,
            ridge=problem.ridge,
            seed=seed,
            shape=problem.shape,
            dtype=str(problem.prototype.dtype).removeprefix("torch."),
            device=str(problem.prototype.device),
            versions=current_versions(),
        )

    def write(self, folder: Path) -> None:
        """Write the record into an existing folder."""
        params = plain_params(self.params)
        if params["random_state"] is None:
            # A generator, or none: the seed that it gave repeats the fit.
            params["random_state"] = self.seed
        values = {**vars(self), "params": params}
        values["trials"] = [asdict(trial) for trial in self.trials]
        write_record(folder / RECORD_FILE, {"format": FORMAT, **plain(values)})
        init = self.params["init"]
        if not isinstance(init, str):
            weights, factors = read_factors(init)
            arrays = {f"factor_{mode}": factor for mode, factor in enumerate(factors)}
            arrays["weights"] = torch.ones_like(factors[0][0]) if weights is None else weights
            write_arrays(folder / INIT_FILE, arrays)

    @classmethod
    def read(cls, folder: Path, *, classes: Iterable[type] = ()) -> Record:
        """Read a record that `write` wrote.

        Args:
            folder: The folder of the model.
            classes: Additional classes that its method or solver may use.
        """
        file = folder / RECORD_FILE
        record = read_record(file, file_format=FORMAT)
        with reading(file):
            trials = tuple(Trial(**trial) for trial in record["trials"])
            found = replace(cls(**record), shape=tuple(map(int, record["shape"])), trials=trials)
            _check_numbers(found)
            missing = {"init", "method", "solver"} - set(found.params)
            if missing:
                raise ValueError(f"it has no {', '.join(sorted(missing))}")
            given = found.params["init"] is None
        try:
            params = rebuild_params(found.params, classes=classes)
        except ValueError as error:  # not damage: the class may be the caller's own
            raise ValueError(f"{file}: {error}") from error
        if given:
            arrays = read_arrays(folder / INIT_FILE)
            with reading(folder / INIT_FILE):
                stored = [arrays[f"factor_{mode}"] for mode in range(len(arrays) - 1)]
                params["init"] = CPTensor(arrays["weights"], tuple(stored))
        return replace(found, params=params)


def _check_numbers(record: Record) -> None:
    """Raise unless the resolved settings are numbers."""
    for name in ("strength", "noise", "ridge", "seed"):
        value = getattr(record, name)
        if not (isinstance(value, Real) or (name == "strength" and value is None)):
            raise ValueError(f"{name} must be a number, got {value!r}")


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model as values for JSON.

    Given initial factors become None; they are stored in a separate file. A device or precision
    becomes its name, and a random generator None.
    """
    found = dict(params)
    if not isinstance(found["init"], str):
        found["init"] = None
    if isinstance(found["random_state"], (np.random.RandomState, np.random.Generator)):
        found["random_state"] = None
    for name in ("device", "dtype"):
        if found[name] is not None:
            found[name] = str(found[name]).removeprefix("torch.")
    described: dict[str, Any] = plain(found)
    return described


def rebuild_params(params: Mapping[str, Any], *, classes: Iterable[type] = ()) -> dict[str, Any]:
    """Return the arguments of a model from the result of `plain_params`."""
    found, own = dict(params), tuple(classes)
    resolve_dtype(found.get("dtype"))
    device = found.get("device")
    if not isinstance(device, (str, type(None))):
        raise ValueError(f"device must be the name of a device or null, got {shown(device)}")
    families: dict[str, Mapping[str, type]] = {
        "method": stored_methods(own),
        "solver": stored_solvers(own),
        "loss": stored_losses(own),
        "side_loss": stored_losses(own),
        "encoder": {Learned.__name__: Learned},
    }
    for name, known in families.items():
        if isinstance(found.get(name), Mapping):
            found[name] = rebuild(found[name], known)
    for name in ("guarantee", "non_negative", "ranks"):
        if isinstance(found.get(name), list):
            found[name] = tuple(found[name])
    return found
