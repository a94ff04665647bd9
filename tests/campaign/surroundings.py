"""What a call must leave as it was: the state of the process, and the caller's own objects."""

from __future__ import annotations

import contextlib
import hashlib
import locale
import os
import random
import signal
import sys
import warnings
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn import get_config
from threadpoolctl import ThreadpoolController

from parafair.data.streamed import StreamedData

CONTROLLER = ThreadpoolController()
PANDAS = ("display.max_rows", "display.precision")
# Variables that other libraries set when they are first used, and who.
FOREIGN = {"TORCHINDUCTOR_CACHE_DIR": "torch, when the first optimizer is made"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


def state() -> dict[str, Any]:
    """Everything global that a library can change for its caller, by name."""
    return {
        "warning filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "random state of NumPy": _digest(np.random.get_state()[1].tobytes()),
        "random state of torch": _digest(torch.get_rng_state().numpy().tobytes()),
        "random state of Python": hash(random.getstate()),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "determinism": torch.are_deterministic_algorithms_enabled(),
        "threads of torch": torch.get_num_threads(),
        "threads of BLAS": [library.num_threads for library in CONTROLLER.lib_controllers],
        "signal handlers": [signal.getsignal(each) for each in SIGNALS],
        "floating point errors": np.geterr(),
        "print options": repr(np.get_printoptions()),
        "options of pandas": [pd.get_option(each) for each in PANDAS],
        "configuration of scikit-learn": get_config(),
        "environment": {k: v for k, v in os.environ.items() if k not in FOREIGN},
        "folder": os.getcwd(),  # noqa: PTH109
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion limit": sys.getrecursionlimit(),
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of what differs."""
    return [name for name, value in before.items() if value != after[name]]


def restore(before: dict[str, Any]) -> None:
    """Put back what would disturb the calls that follow."""
    torch.set_default_dtype(before["default dtype"])
    torch.set_num_threads(before["threads of torch"])
    np.seterr(**before["floating point errors"])
    warnings.filters[:] = before["warning filters"]
    os.chdir(before["folder"])


def fingerprint(value: Any) -> object:
    """Something that changes with the content of an object; None for what cannot be read."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_meta:
            return None
        data = (
            value.detach()
            .cpu()
            .clone(memory_format=torch.contiguous_format)
            .view(-1)
            .view(torch.uint8)
        )
        return tuple(value.shape), str(value.dtype), _digest(data.numpy().tobytes())
    if isinstance(value, np.ma.MaskedArray):
        return fingerprint(np.ma.getdata(value)), fingerprint(np.ma.getmaskarray(value))
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.shape, value.dtype.str, _digest(value.tobytes())
    if isinstance(value, StreamedData):
        return fingerprint(value.labels)  # its values are in files
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(fingerprint(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, (list, tuple)):
        return tuple(map(fingerprint, value))
    if isinstance(value, dict):
        return tuple((str(key), fingerprint(each)) for key, each in value.items())
    for method in ("to_dict", "to_pydict", "to_pylist", "to_list"):
        if not isinstance(value, type) and hasattr(value, method):
            with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                return _digest(repr(getattr(value, method)()).encode(errors="replace"))
    return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).digest()
