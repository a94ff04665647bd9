"""The record of a fit: requested and resolved settings, enough to repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from parafair.algebra.cp_tensor import CPTensor
from parafair.data.arrays import to_tensor
from parafair.model.strength import Trial
from parafair.penalties.registry import stored_classes as stored_methods
from parafair.records import plain, rebuild
from parafair.solvers.problem import Problem
from parafair.solvers.registry import stored_classes as stored_solvers
from parafair.storage import read_json, write_json

RECORD_FILE, INIT_FILE = "model.json", "init.safetensors"
FORMAT = 3


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

    @classmethod
    def of(cls, params: Mapping[str, Any], problem: Problem, *, seed: int) -> Record:
        """Return the record of a fit that has not run yet."""
        return cls(
            params=params,
            strength=None if problem.penalty is None else float(problem.penalty.strength),
            noise=0.0,
            ridge=problem.ridge,
            seed=seed,
            shape=problem.shape,
            dtype=str(problem.prototype.dtype).removeprefix("torch."),
            device=str(problem.prototype.device),
            versions=current_versions(),
        )

    def write(self, folder: Path) -> None:
        """Write the record into an existing folder."""
        values = {**vars(self), "params": plain_params(self.params)}
        values["trials"] = [asdict(trial) for trial in self.trials]
        write_json(folder / RECORD_FILE, {"format": FORMAT, **plain(values)})
        init = self.params["init"]
        if not isinstance(init, str):
            factors = _factors_of(init)
            arrays = {f"factor_{mode}": factor for mode, factor in enumerate(factors)}
            save_file(arrays, folder / INIT_FILE)

    @classmethod
    def read(cls, folder: Path, *, penalties: Iterable[type] = ()) -> Record:
        """Read a record that `write` wrote.

        Args:
            folder: The folder of the model.
            penalties: Additional classes that its method may use.
        """
        file = folder / RECORD_FILE
        record = read_json(file)
        if record.pop("format", None) != FORMAT:
            raise ValueError(
                f"{file} was written by another version of parafair; this version reads "
                f"format {FORMAT}: fit again, or install the version that wrote it"
            )
        try:
            found = cls(**record)
            params = rebuild_params(record["params"], penalties=penalties)
            if params["init"] is None:
                arrays = load_file(folder / INIT_FILE)
                factors = [arrays[f"factor_{mode}"] for mode in range(len(arrays))]
                params["init"] = CPTensor.from_factors(factors)
            trials = tuple(Trial(**trial) for trial in record["trials"])
            return replace(found, params=params, shape=tuple(record["shape"]), trials=trials)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{file} does not hold a complete record ({error}); fit again"
            ) from error


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model as values for JSON.

    Given initial factors become None; they are stored in a separate file.
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


def rebuild_params(params: Mapping[str, Any], *, penalties: Iterable[type] = ()) -> dict[str, Any]:
    """Return the arguments of a model from the result of `plain_params`."""
    found = dict(params)
    classes = {"method": stored_methods(penalties), "solver": stored_solvers()}
    for name, known in classes.items():
        if isinstance(found[name], Mapping):
            found[name] = rebuild(found[name], known)
    return found


def _factors_of(init: Any) -> list[torch.Tensor]:
    """Return given initial factors, with the weights multiplied in."""
    parts = list(init)
    weights = None
    if len(parts) == 2 and (parts[0] is None or np.ndim(parts[0]) == 1):
        weights, parts = parts
    factors = [to_tensor(factor, "init").cpu().clone().contiguous() for factor in parts]
    if weights is not None:
        factors[0] = factors[0] * to_tensor(weights, "init").to(factors[0])
    return factors
