"""Hashes of data: a folder is resumed only with the same data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.data.tensor_data import TensorData
from parafair.solvers.problem import Problem


def fingerprint_of_people(problem: Problem, secret: str) -> str:
    """Return a hash of all entries, their labels and the sensitive features.

    It does not depend on the number of processes that share the entries.

    Args:
        problem: The problem.
        secret: The hash of all entries that noise follows from. It cannot be found from this one.
    """
    found = hashlib.sha256(f"frontier {secret}".encode())
    found.update(_text(problem.data.modes, problem.labels))
    sensitive = problem.sensitive_of_all
    for column in sensitive.columns if sensitive else ():
        found.update(repr((column.name, column.kind, column.categories)).encode())
        found.update(np.ascontiguousarray(column.values).tobytes())
    return found.hexdigest()[:16]


def fingerprint(data: TensorData) -> str:
    """Return a hash of other data, such as held-out entries, and of its labels."""
    found = hashlib.sha256()
    for part in (data.values, data.indices):
        if part is not None:
            found.update(np.ascontiguousarray(part.cpu().numpy()).tobytes())
    if data.zeros_count:
        found.update(data.absent.encode())
    found.update(_text(data.modes, data.labels))
    return found.hexdigest()[:16]


def _text(modes: Sequence[str], labels: Sequence[NDArray[Any]]) -> bytes:
    """Return names and labels of modes as text."""
    return repr((modes, [own.tolist() for own in labels])).encode()
