"""Sensitive features: one row per person, columns categorical or numeric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.data.frames import check_columns, find_rows, open_table, read_labels
from parafair.data.labels import as_labels, is_missing, preview
from parafair.errors import unknown_choice

Kind: TypeAlias = Literal["categorical", "numeric"]
KINDS = ("categorical", "numeric")
Kinds: TypeAlias = Kind | Mapping[str, Kind] | None
Missing: TypeAlias = Literal["error", "exclude"]

# Integers with few distinct values are codes of categories more often than measurements.
MOST_INTEGER_CATEGORIES = 10

# How to say it, in messages.
EXCLUDE = "--missing exclude on the command line, missing='exclude' in SensitiveFeatures"

# Members of every group in a sample of a large population, if there are as many.
LEAST_MEMBERS = 10


@dataclass(frozen=True, eq=False)
class Column:
    """One sensitive feature.

    Attributes:
        name: What reports call it.
        kind: "categorical" or "numeric".
        values: Codes 0, 1, ... of the categories, or the numbers; shape (n,). Where a value is not
            known, -1 or NaN.
        categories: The label behind each code; empty for a numeric column.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    categories: tuple[str, ...] = ()

    def encode(self) -> NDArray[np.float64]:
        """Return the numbers that enter a penalty, shape (n, d).

        Two categories give one 0/1 column, more give one indicator column each, and a
        numeric feature is standardized.
        """
        if self.kind == "numeric":
            numbers = self.values.astype(np.float64)[:, None]
            numbers = numbers / np.abs(numbers).max()  # squares must not overflow
            return np.asarray((numbers - numbers.mean()) / numbers.std())
        if len(self.categories) == 2:
            return self.values.astype(np.float64)[:, None]
        return np.asarray(np.eye(len(self.categories))[self.values])

    def take(self, people: NDArray[np.intp]) -> Column:
        """Return the feature of some people; all categories stay, even if they have nobody."""
        return replace(self, values=self.values[people])

    @property
    def labels(self) -> NDArray[Any]:
        """The value of every person, as it was given."""
        return self.values if self.kind == "numeric" else np.array(self.categories)[self.values]

    def read(self, values: NDArray[Any]) -> Column:
        """Return the same feature of other people."""
        if self.kind == "numeric":
            values = np.array(values.tolist())  # what was missing may have made them objects
            if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
                raise ValueError(f"sensitive feature {self.name!r} must hold finite numbers")
            return replace(self, values=values)
        code = {category: number for number, category in enumerate(self.categories)}
        found = np.array(
            [code.get(_category(value), -1) for value in values.tolist()], dtype=np.intp
        )
        if (found < 0).any():
            unseen = _category(values[found < 0].tolist()[0])
            raise unknown_choice(f"sensitive feature {self.name!r}", unseen, self.categories)
        return replace(self, values=found)

    def scatter(self, known: NDArray[np.bool_]) -> Column:
        """Return the feature of all people, from that of the people who are known."""
        numeric = self.kind == "numeric"
        values = np.full(len(known), np.nan if numeric else -1)
        values[known] = self.values
        return replace(self, values=values)

    def bin(self, parts: int) -> Column:
        """Return a categorical feature: itself, or numbers cut into parts of about equal size.

        >>> Column("age", "numeric", np.array([20, 30, 40, 50])).bin(2).categories
        ('20 to 30', '40 to 50')
        """
        if self.kind == "categorical":
            return self
        # By the middle rank of equal numbers, so that two distinct numbers make two parts.
        ordered = np.sort(self.values)
        ranks = sum(np.searchsorted(ordered, self.values, side) for side in ("left", "right"))
        found, codes = np.unique(ranks * parts // (2 * len(ordered)), return_inverse=True)
        members = [self.values[codes == code] for code in range(len(found))]
        labels = tuple(f"{part.min():.4g} to {part.max():.4g}" for part in members)
        return Column(self.name, "categorical", codes, labels)


@dataclass(frozen=True, eq=False)
class SensitiveFeatures:
    """Sensitive features of the people along one mode, checked and encoded once.

    Attributes:
        columns: The features.
        has_features: True for people whose features are all known, shape (n,); None if that is everybody.
    """

    columns: tuple[Column, ...]
    has_features: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        features: Any,
        *,
        kinds: Kinds = None,
        names: Sequence[str] | None = None,
        missing: Missing = "error",
    ) -> SensitiveFeatures:
        """Read an array, list, Series or DataFrame.

        Text, booleans, pandas categories, anything with two distinct values and integers
        with at most 10 are categorical; other numbers are numeric. State it with `kinds`.

        Args:
            features: One row per person: shape (n,) or (n, columns).
            kinds: One kind for all columns, or a dictionary from column name to kind.
            names: Names of the columns, if `features` has none of its own.
            missing: What to do with people of whom something is missing: "error", or "exclude":
                they are not `known`.

        >>> SensitiveFeatures.of(["f", "m", "f"]).columns[0].categories
        ('f', 'm')
        """
        if isinstance(features, SensitiveFeatures):
            return features
        raw = _split_columns(features, names)
        return _read_features({name: _whole_again(raw[name]) for name in raw}, kinds, missing)

    @classmethod
    def from_table(
        cls,
        table: Any,
        columns: Sequence[str] | None = None,
        *,
        key: str | None = None,
        labels: Any = None,
        kinds: Kinds = None,
        missing: Missing = "error",
    ) -> SensitiveFeatures:
        """Read a table of people, in the order of the labels of a mode.

        Args:
            table: A data frame of pandas, Polars or PyArrow, or the path of a .csv or .parquet
                file; one row per person.
            columns: The sensitive columns; by default all but the key.
            key: The column that says who it is; not needed if rows are in order.
            labels: The people of the mode, such as ``data.labels[0]``; by default the rows as they
                are. People of the table who are not among them are left out.
            kinds: As in `of`.
            missing: What to do with people who have no row or of whom something is missing:
                "error", or "exclude": they are not `known`, so the fit has them and the criterion
                does not.

        >>> import pandas
        >>> people = pandas.DataFrame({"who": ["a", "b", "c"], "group": ["x", "y", "x"]})
        >>> SensitiveFeatures.from_table(people, key="who", labels=["c", "b"]).columns[0].values
        array([0, 1])
        """
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of column names, got {columns!r}")
        if labels is not None and key is None:
            raise ValueError("labels need a key: the column of the table that holds them")
        frame = open_table(table, labels=[] if key is None else [key])
        wanted = [name for name in frame.columns if name != key] if columns is None else columns
        check_columns(frame, wanted, "a column")
        if not wanted or len(set(wanted)) < len(wanted):
            raise ValueError(f"columns must be one or more different names, got {list(wanted)}")
        rows = np.arange(len(frame))
        if key is not None:
            people = read_labels(frame, key) if labels is None else as_labels(labels, "labels")
            rows = find_rows(frame, key, people)
            if missing == "error" and (rows < 0).any():
                absent = people[rows < 0]
                raise ValueError(
                    f"table has no row for {len(absent)} of {len(people)} people, such as {key} "
                    f"{preview(absent)}; add them, or leave them out of the criterion ({EXCLUDE})"
                )
        raw = {name: _whole_again(_to_array(frame[name].to_native())) for name in wanted}
        # A person without a row gets the last entry.
        with_none = {name: np.array([*raw[name].tolist(), None], object) for name in wanted}
        found = {name: values[rows] for name, values in with_none.items()}
        return _read_features(found, kinds, missing)

    def read(self, features: Any, *, missing: Missing = "error") -> SensitiveFeatures:
        """Read the features of other people in terms of these: the same columns and categories.

        Args:
            features: As in `of`; with a column for each of these, by name if it has names.
            missing: What to do with people of whom something is missing, as in `from_table`.
        """
        if missing not in get_args(Missing):
            raise unknown_choice("missing", missing, get_args(Missing))
        known = None
        if isinstance(features, SensitiveFeatures):
            known = features.has_features
            raw = {column.name: column.labels for column in features.columns}
        else:
            raw = _split_columns(features, None)
            if not hasattr(features, "columns") and len(raw) == len(self.columns):
                raw = dict(zip([c.name for c in self.columns], raw.values(), strict=True))
        for column in self.columns:
            if column.name not in raw:
                raise unknown_choice("a sensitive feature of the model", column.name, raw)
        if known is None:
            known = np.logical_and.reduce(
                [_known(c.name, raw[c.name], missing) for c in self.columns]
            )
        if known.all():
            return SensitiveFeatures(tuple(c.read(raw[c.name]) for c in self.columns))
        there = np.flatnonzero(known)
        columns = (c.read(raw[c.name][there]).scatter(known) for c in self.columns)
        return SensitiveFeatures(tuple(columns), known)

    def to_list(self) -> list[dict[str, Any]]:
        """Return all columns as plain values that can be written as JSON."""
        return [
            {
                "name": column.name,
                "kind": column.kind,
                "categories": list(column.categories),
                "values": [None if value != value else value for value in column.values.tolist()],
            }
            for column in self.columns
        ]

    @classmethod
    def from_list(cls, records: Sequence[Mapping[str, Any]]) -> SensitiveFeatures:
        """Return what `to_list` was called on."""
        columns, known = [], np.array(True)
        for record in records:
            numeric = record["kind"] == "numeric"
            values = np.array(record["values"], dtype=np.float64 if numeric else np.intp)
            known = known & (~np.isnan(values) if numeric else values >= 0)
            columns.append(
                Column(record["name"], record["kind"], values, tuple(record["categories"]))
            )
        return cls(tuple(columns), None if known.all() else known)

    def __post_init__(self) -> None:
        lengths = {len(column.values) for column in self.columns}
        if len(lengths) > 1:
            raise ValueError(f"sensitive columns must have equal lengths; got {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def take(self, people: NDArray[np.intp]) -> SensitiveFeatures:
        """Return the features of some people."""
        known = (
            None
            if self.has_features is None or self.has_features[people].all()
            else self.has_features[people]
        )
        return SensitiveFeatures(tuple(column.take(people) for column in self.columns), known)

    def with_features(self) -> SensitiveFeatures:
        """Return the features of the people who are known: the rows where `known` is true."""
        return self if self.has_features is None else self.take(np.flatnonzero(self.has_features))

    def _check_known(self) -> None:
        if self.has_features is not None:
            raise ValueError(
                f"sensitive features of {(~self.has_features).sum()} of {len(self)} people are not known; "
                "use with_features(), and the rows of the people where known is true"
            )

    def encode(self, *, like: Tensor | None = None) -> Tensor:
        """Return all encoded columns side by side, shape (n, d), as the paper's ``S``.

        Args:
            like: A tensor whose dtype and device to use; float64 on the CPU without it.
        """
        self._check_known()
        matrix = torch.from_numpy(np.hstack([column.encode() for column in self.columns]))
        return matrix if like is None else matrix.to(dtype=like.dtype, device=like.device)

    @property
    def joint_name(self) -> str:
        """What reports call all features taken together."""
        return " x ".join(column.name for column in self.columns)

    def joint(self, parts: int) -> Column:
        """Return all features as one, whose groups are the combinations that occur.

        Args:
            parts: Groups that a numeric column is cut into.
        """
        self._check_known()
        columns = [column.bin(parts) for column in self.columns]
        table = np.stack([column.values for column in columns], 1)
        cells, codes = np.unique(table, axis=0, return_inverse=True)
        labels = [
            ", ".join(column.categories[code] for column, code in zip(columns, cell, strict=True))
            for cell in cells
        ]
        return Column(self.joint_name, "categorical", codes.reshape(-1), tuple(labels))

    def sample(self, size: int, random: np.random.RandomState) -> NDArray[np.intp]:
        """Draw people at random, but some of every group, and return their places in order.

        Everybody if there are at most `size`, and more than `size` if the groups need it.
        """
        self._check_known()
        order = random.permutation(len(self))
        if len(order) <= size:
            return np.arange(len(order))
        first = [
            order[column.values[order] == code][:LEAST_MEMBERS]
            for column in self.columns
            for code in range(len(column.categories))
        ]
        needed = len(np.unique(np.concatenate(first))) if first else 0
        # Unique in the order of first appearance: some of each group, then the others.
        everybody = np.concatenate([*first, order])
        places = np.sort(np.unique(everybody, return_index=True)[1])
        return np.sort(everybody[places[: max(size, needed)]])


def _read_features(
    raw: Mapping[str, NDArray[Any]], kinds: Kinds, missing: Missing
) -> SensitiveFeatures:
    """Check and encode columns, of the people of whom nothing is missing."""
    if missing not in get_args(Missing):
        raise unknown_choice("missing", missing, get_args(Missing))
    if isinstance(kinds, Mapping):
        for name in kinds:
            if name not in raw:
                raise unknown_choice("a key of kinds", name, raw)
        chosen = dict(kinds)
    else:
        chosen = {} if kinds is None else dict.fromkeys(raw, kinds)
    known = np.logical_and.reduce([_known(name, values, missing) for name, values in raw.items()])
    if not known.any():
        raise ValueError("sensitive_features has a missing value for everybody; nobody is left")
    columns = [_read_column(name, raw[name][known], chosen.get(name)) for name in raw]
    if known.all():
        return SensitiveFeatures(tuple(columns))
    return SensitiveFeatures(tuple(column.scatter(known) for column in columns), known)


def _whole_again(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers that missing values among them had turned into floats."""
    found = [None if is_missing(value) else value for value in values.tolist()]
    there = [value for value in found if value is not None]
    if len(there) < len(found) and all(isinstance(v, float) and v % 1 == 0 for v in there):
        return np.array([value if value is None else int(value) for value in found], object)
    return values


def _known(name: str, values: NDArray[Any], missing: Missing) -> NDArray[np.bool_]:
    """Tell whose value is there; raise if that must be everybody's."""
    gone = np.array([is_missing(value) for value in values.tolist()])
    if gone.any() and missing == "error":
        rows = ", ".join(map(str, np.flatnonzero(gone)[:5]))
        raise ValueError(
            f"sensitive feature {name!r} has {gone.sum()} missing values (rows {rows}); fill them, "
            "drop these people, make 'unknown' a category of its own, or leave these people out of "
            f"the criterion ({EXCLUDE})"
        )
    return ~gone


def _split_columns(features: Any, names: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    """Return the columns by name, each as a one-dimensional array."""
    if hasattr(features, "columns") and hasattr(features, "__getitem__"):
        found = {str(name): _to_array(features[name]) for name in features.columns}
        if len(found) < len(features.columns):
            raise ValueError(
                f"sensitive_features has columns of the same name: {list(features.columns)}; give "
                "every column its own name"
            )
    else:
        if isinstance(features, Tensor):
            features = features.detach().cpu().numpy()
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
        if len(names) != stacked.shape[1]:
            raise ValueError(f"names must have {stacked.shape[1]} entries, got {len(names)}")
        if len(set(names)) < len(names):
            raise ValueError(f"names must differ from each other, got {list(names)}")
        found = {name: stacked[:, i] for i, name in enumerate(names)}
    if not found or not len(next(iter(found.values()))):
        raise ValueError(
            "sensitive_features is empty; pass one row per person and at least one column"
        )
    return found


def _to_array(values: Any) -> NDArray[Any]:
    """Return an array; pandas categories become text, so that numbers among them stay codes."""
    if getattr(getattr(values, "dtype", None), "name", "") == "category":
        values = values.astype(object).map(
            lambda value: value if is_missing(value) else _category(value)
        )
    return np.asarray(values)


def _category(value: Any) -> str:
    """Return the text of a category; 1.0 and 1 are the same one."""
    return str(
        int(value) if isinstance(value, (float, np.floating)) and value.is_integer() else value
    )


def _read_column(name: str, values: NDArray[Any], kind: Kind | None) -> Column:
    """Check one column, decide its kind and encode it."""
    given = values.tolist()
    values = np.array(given)
    is_number = values.dtype.kind in "iuf"
    distinct = np.unique(values)
    if len(distinct) < 2:
        raise ValueError(
            f"sensitive feature {name!r} is constant (only {str(distinct[0])!r}): nothing can "
            "depend on it; drop the column"
        )
    if kind is None:
        few = values.dtype.kind in "iu" and len(distinct) <= MOST_INTEGER_CATEGORIES
        kind = "numeric" if is_number and not few and len(distinct) > 2 else "categorical"
    if kind not in KINDS:
        raise unknown_choice(f"the kind of sensitive feature {name!r}", kind, KINDS)
    if kind == "categorical" and len(distinct) == len(values) > 2:
        raise ValueError(
            f"sensitive feature {name!r} has a different value for each of the {len(values)} "
            "people, so it seems to label them; leave it out, or state it numeric"
        )
    if kind == "categorical":
        text = np.array([_category(value) for value in given])
        categories, codes = np.unique(text, return_inverse=True)
        return Column(name, kind, codes, tuple(categories.tolist()))
    if not is_number:
        raise ValueError(
            f"sensitive feature {name!r} is stated to be numeric but holds "
            f"{str(distinct[0])!r}; make it numbers or state it categorical"
        )
    if not np.isfinite(values).all():
        raise ValueError(
            f"sensitive feature {name!r} holds infinite values; numeric features must be finite"
        )
    return Column(name, kind, values)
