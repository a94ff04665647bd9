"""RawFeatures: sensitive features as they were given, one row per person, some values missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parafair.arguments import instance_of, items, one_of, to_numpy
from parafair.data.arrays import to_tensor
from parafair.data.column import PLAIN, category_text
from parafair.data.frames import check_columns, find_rows, open_table, read_labels
from parafair.data.labels import as_labels, is_missing, preview
from parafair.errors import missing_column, shown

Missing: TypeAlias = Literal["error", "exclude"]

# The remedy for missing features, in messages.
EXCLUDE = "missing='exclude' in SensitiveFeatures"


@dataclass(frozen=True, eq=False)
class RawFeatures:
    """Columns of sensitive features before they are encoded.

    Attributes:
        columns: Values by name of the column, shape (n,) each.
        key: The column that labels people; None if they are numbered.
        labels: A label for each person, shape (n,); None if they are numbered.
        has_row: False for people whom the table does not list, shape (n,); None if it lists all.
    """

    columns: dict[str, NDArray[Any]]
    key: str | None = None
    labels: NDArray[Any] | None = None
    has_row: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, features: Any, names: Sequence[str] | None = None) -> RawFeatures:
        """Read an array, list, Series or DataFrame.

        Args:
            features: One row per person: shape (n,) or (n, columns).
            names: Names of the columns, if `features` has none of its own.
        """
        if hasattr(features, "columns") and hasattr(features, "__getitem__"):
            # `columns` of a PyArrow table are the values.
            own = list(getattr(features, "column_names", features.columns))
            if len(set(map(str, own))) < len(own):
                raise ValueError(
                    f"sensitive_features has columns of the same name: {own}; give every column "
                    "its own name"
                )
            found = {str(name): _to_array(features[name]) for name in own}
        else:
            found = _split_array(features, names)
        if not found or not len(next(iter(found.values()))):
            raise ValueError(
                "sensitive_features is empty; pass one row per person and at least one column"
            )
        return cls({name: _restore_integers(values) for name, values in found.items()})

    @classmethod
    def from_table(
        cls, table: Any, columns: Sequence[str] | None, *, key: str | None, labels: Any
    ) -> RawFeatures:
        """Read a table of people; see `SensitiveFeatures.from_table`."""
        if key is not None:
            instance_of("key", key, str, "pass the name of a column")
        if columns is not None:
            columns = items("columns", columns, "names of columns")
        if labels is not None and key is None:
            raise ValueError(
                "labels are given, but no key: it needs the column of the table that holds them"
            )
        frame = open_table(table, labels=[] if key is None else [key])
        check_columns(frame, [] if key is None else [key], "key")
        wanted = [name for name in frame.columns if name != key] if columns is None else columns
        check_columns(frame, wanted, "a column")
        if not wanted or len(set(wanted)) < len(wanted):
            raise ValueError(f"columns must be one or more different names, got {list(wanted)}")
        raw = {name: _restore_integers(_to_array(frame[name].to_native())) for name in wanted}
        if key is None:
            return cls(raw)
        people = read_labels(frame, key) if labels is None else as_labels(labels, "labels")
        rows = find_rows(frame, key, people)
        # A person without a row has row -1, which is the None after the last.
        extended = {name: np.array([*raw[name].tolist(), None], object) for name in wanted}
        found = {name: values[rows] for name, values in extended.items()}
        return cls(found, key, people, rows >= 0)

    def rename(self, names: Sequence[str]) -> RawFeatures:
        """Return the same columns under other names."""
        return replace(self, columns=dict(zip(names, self.columns.values(), strict=True)))

    def select(self, names: Sequence[str]) -> RawFeatures:
        """Return some of the columns; raise if one is not there."""
        for name in names:
            if name not in self.columns:
                raise missing_column("sensitive_features", name, self.columns)
        return replace(self, columns={name: self.columns[name] for name in names})

    def complete(self, missing: Missing) -> NDArray[np.bool_]:
        """Return who has a value in every column, shape (n,).

        This is the only place that decides about people without features.

        Args:
            missing: "error" raises unless everybody is complete; "exclude" does not.
        """
        one_of("missing", missing, get_args(Missing))
        if missing == "error" and self.has_row is not None and not self.has_row.all():
            raise ValueError(
                f"table has no row for {(~self.has_row).sum()} of {len(self.has_row)} people, such "
                f"as {self._whom(~self.has_row)}; add them, or leave them out of the criterion "
                f"({EXCLUDE})"
            )
        present = []
        for name, values in self.columns.items():
            gone = _missing(values)
            if missing == "error" and gone.any():
                raise ValueError(
                    f"sensitive feature {name!r} has {gone.sum()} missing values "
                    f"({self._whom(gone)}); fill them, drop these people, make 'unknown' a "
                    f"category of its own, or leave these people out of the criterion ({EXCLUDE})"
                )
            present.append(~gone)
        return np.asarray(np.logical_and.reduce(present))

    def _whom(self, people: NDArray[np.bool_]) -> str:
        """Return a few people by label or by number, for a message."""
        if self.labels is None:
            return f"rows {preview(np.flatnonzero(people), 5)}"
        return f"{self.key} {preview(self.labels[people])}"


def _split_array(features: Any, names: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    """Return the columns of an array by name."""
    if isinstance(features, Tensor):
        # float32 and float64 hold the numbers of all other types.
        features = to_tensor(features, "sensitive_features").cpu().numpy()
    array = _to_array(features)
    if array.ndim not in (1, 2):
        raise ValueError(
            f"sensitive_features must have 1 or 2 dimensions, got shape {array.shape}; "
            "pass one row per person and one column per feature"
        )
    stacked = array[:, None] if array.ndim == 1 else array
    own = getattr(features, "name", None) if array.ndim == 1 else None
    if names is None and own is not None:
        names = [str(own)]
    if names is None:
        names = ["sensitive"] if array.ndim == 1 else [f"s{i}" for i in range(stacked.shape[1])]
    names = items("names", names, "names of columns")
    if len(names) != stacked.shape[1] or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"names must be {stacked.shape[1]} names, one per column, got {shown(names)}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"names must differ from each other, got {shown(names)}")
    return {name: stacked[:, i] for i, name in enumerate(names)}


def _to_array(values: Any) -> NDArray[Any]:
    """Return an array, None where it is masked.

    Categories of pandas become text, so that numbers among them stay codes.
    """
    if isinstance(values, np.ma.MaskedArray):
        found: NDArray[Any] = values.data.astype(object)
        found[np.ma.getmaskarray(values)] = None
        return found
    if getattr(getattr(values, "dtype", None), "name", "") == "category":
        given = values.astype(object)
        return np.array([v if is_missing(v) else category_text(v) for v in given], object)
    return to_numpy(values, "sensitive_features")


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values are missing, shape (n,)."""
    if values.dtype.kind in PLAIN:
        return np.asarray(values != values)  # NaN
    return np.array([is_missing(value) for value in values.tolist()])


def _restore_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers as integers if missing values among them had turned them into floats."""
    if values.dtype.kind in PLAIN and not _missing(values).any():
        return values
    found = [None if is_missing(value) else value for value in values.tolist()]
    present = [value for value in found if value is not None]
    if len(present) < len(found) and all(isinstance(v, float) and v % 1 == 0 for v in present):
        return np.array([value if value is None else int(value) for value in found], object)
    return values


def check_order(
    features: Any, labels: NDArray[Any] | None, *, name: str = "sensitive_features"
) -> None:
    """Raise if the pandas index of features names other people, or another order, than the data.

    Rows are matched by position. An index that is only numbered from 0 says nothing.

    Args:
        features: Sensitive features as a caller gives them.
        labels: Labels of the people of the data, shape (n,); None if they have none.
        name: What messages call the features.
    """
    own = index_of(features)
    if own is not None and labels is not None and len(own) == len(labels):
        _compare(own, labels, name)


def check_index(features: Any, X: Any, *, name: str = "sensitive_features") -> None:
    """Raise if two pandas objects have other people in their rows, or another order.

    Args:
        features: One row per person, as a caller gives them.
        X: The data, as a caller gives it, with one row per person.
        name: What messages call the features.
    """
    both = paired_indexes(features, X)
    if both is not None and len(both[0]) == len(both[1]):
        _compare(*both, name)


def paired_indexes(first: Any, second: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the indexes of two pandas objects; None if they do not say who is who.

    Rows of an array are matched by position. So are those of an index that is only numbered from
    0, unless the other index has the same numbers in another order: then one was shuffled.
    """
    if not (hasattr(first, "iloc") and hasattr(second, "iloc")):
        return None
    both = np.asarray(first.index), np.asarray(second.index)
    if not any(map(_is_numbered, both)):
        return both
    numbers = all(one.dtype.kind in "iu" for one in both)
    shuffled = numbers and np.array_equal(np.sort(both[0]), np.sort(both[1]))
    return both if shuffled else None


def _compare(own: NDArray[Any], labels: NDArray[Any], name: str) -> None:
    """Raise unless an index has the labels of the data; see `check_order`."""
    given, wanted = own.astype(str), labels.astype(str)
    other = np.flatnonzero(given != wanted)
    if len(other):
        first = int(other[0])
        # Only an index of the same people has all labels.
        same = np.array_equal(np.sort(given), np.sort(wanted))
        remedy = f"reorder it with {name}.loc[...], by the labels of the data"
        raise ValueError(
            f"the index of {name} does not match the people of the data: row "
            f"{first} is {str(own[first])!r} there and {str(labels[first])!r} in the data; "
            f"{remedy if same else 'pass the features of these people'}, or pass "
            f"{name}.to_numpy() to match rows by position"
        )


def index_of(table: Any) -> NDArray[Any] | None:
    """Return the index of a pandas object; None if it has none or is only numbered."""
    if not hasattr(table, "iloc"):
        return None
    index = np.asarray(table.index)
    return None if _is_numbered(index) else index


def _is_numbered(index: NDArray[Any]) -> bool:
    return index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))
