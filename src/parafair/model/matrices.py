"""Matrices as scikit-learn's estimators take them: the columns are those of the fit."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from parafair.data.labels import preview
from parafair.errors import shown

# Our own checks report the position of the first bad entry.
FLOATS = (np.float64, np.float32)


def validate_matrix(model: BaseEstimator, X: Any, *, reset: bool) -> NDArray[Any]:
    """Return a matrix; scikit-learn compares the number and the names of its columns.

    Args:
        model: The model that keeps them.
        X: The matrix.
        reset: Whether this is a fit, which keeps them; otherwise they are compared.
    """
    # Numbers of other types become those of the first one.
    floats = FLOATS[::-1] if getattr(X, "dtype", None) == np.float16 else FLOATS
    try:
        return np.asarray(
            validate_data(model, X, reset=reset, dtype=floats, ensure_all_finite=False)
        )
    except Exception as error:  # whatever a library makes of what is no matrix
        kind = TypeError if isinstance(error, TypeError) else ValueError
        remedy = _remedy_for_tables(X) if reset else _remedy_for_columns(model, X)
        if remedy is None:
            remedy = "convert it first, for example with numpy.asarray(X, dtype=float)"
        expected = "numbers with one row per person" + ("" if reset else ", columns as in training")
        raise kind(
            f"X must be a matrix of {expected}, got {shown(X)} "
            f"({' '.join(str(error).split())}); {remedy}"
        ) from error


def _remedy_for_tables(X: Any) -> str | None:
    """Return how to read what may be a file or a table of entries; None if it is neither."""
    if isinstance(X, (str, PathLike)):
        return "read the file first: TensorData.from_table(path, modes=[...], value=...)"
    if hasattr(X, "columns"):
        return (
            "a table with one row per entry is TensorData.from_table(X, modes=[...], value=...), "
            "one with a row per person has columns of numbers alone"
        )
    return None


def _remedy_for_columns(model: BaseEstimator, X: Any) -> str | None:
    """Return what to do about columns that are not those of the fit; None if they are."""
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2:
        return None
    count = getattr(model, "n_features_in_", None)
    if count is None:
        return "the model was fitted to a tensor; pass one with the modes of the training data"
    names = getattr(model, "feature_names_in_", None)
    given = getattr(X, "columns", None)
    if names is None or given is None:
        if shape[1] == count:
            return None
        return f"pass the {count} columns of the training data, in the same order"
    given = [str(name) for name in given]
    if given == list(names):
        return None
    if sorted(given) == sorted(names):
        return "its columns are in another order; pass X[model.feature_names_in_]"
    new = [name for name in given if name not in set(names)]
    missing = [name for name in names if name not in set(given)]
    parts = []
    if new:
        parts.append(f"leave out the columns that the model does not have ({preview(new)})")
    if missing:
        parts.append(f"add those that it had in training, NaN if not known ({preview(missing)})")
    return "; ".join(parts) or "give every column one name"


def as_frame(
    model: Any, rows: NDArray[Any], index: Any, columns: Any, name: str | None = None
) -> Any:
    """Return rows as a data frame if `set_output` of the model asks for it, else as they are.

    scikit-learn takes over the index of a data frame, but knows nothing of other labels.

    Args:
        model: The model.
        rows: Shape (people, columns).
        index: Labels of the people; None to number them.
        columns: Names of the columns.
        name: What people are called; None for no name.
    """
    if not wants_frames(model):
        return rows
    import pandas

    index = None if index is None else pandas.Index(index, name=name)
    return pandas.DataFrame(rows, index=index, columns=columns)


def wants_frames(model: Any) -> bool:
    """Tell whether `set_output`, of this model or of scikit-learn, asks for data frames."""
    own = getattr(model, "_sklearn_output_config", {}).get("transform")
    wanted = sklearn.get_config()["transform_output"] if own is None else own
    return bool(wanted == "pandas")
