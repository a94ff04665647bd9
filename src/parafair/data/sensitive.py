"""SensitiveFeatures: a table of sensitive features, one row per person of a mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.arguments import instance_of, whole_number
from parafair.data.column import Column, Kind
from parafair.data.labels import check_positions
from parafair.data.raw_features import Missing, RawFeatures
from parafair.data.view import feature_parts
from parafair.display import view
from parafair.errors import shown, unknown_choice

Kinds: TypeAlias = Kind | Mapping[str, Kind] | None

# A sample of a large population has at least this many members of every group, if they exist.
LEAST_MEMBERS = 10

# More groups of a numeric column are a mistake.
MOST_PARTS = 1_000_000


@dataclass(frozen=True, eq=False)
class SensitiveFeatures:
    """Sensitive features of the people along one mode, checked and encoded once.

    Attributes:
        columns: The features.
        has_features: True for people without missing features, shape (n,); None if that is
            everybody.
    """

    columns: tuple[Column, ...]
    has_features: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        lengths = {len(column.values) for column in self.columns}
        if len(lengths) > 1:
            raise ValueError(f"sensitive columns must have equal lengths; got {sorted(lengths)}")

    def __repr__(self) -> str:
        parts = [f"{len(self):,} people", *(column.summary for column in self.columns)]
        if self.has_features is not None:
            parts.append(f"{(~self.has_features).sum():,} without features")
        return f"SensitiveFeatures({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        return view(repr(self), *feature_parts(self))

    def __len__(self) -> int:
        return len(self.columns[0].values)

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
        with at most 10 are categorical; other numbers are numeric. State it with `kinds`. Whole
        numbers of which none occurs twice, although there are many, are refused unless it is
        stated: they seem to be ids.

        Args:
            features: One row per person: shape (n,) or (n, columns).
            kinds: One kind for all columns, or a dictionary from column name to kind.
            names: Names of the columns, if `features` has none of its own.
            missing: What to do with people with missing features: "error", or "exclude", which
                sets `has_features` to False.

        >>> SensitiveFeatures.of(["f", "m", "f"]).columns[0].categories
        ('f', 'm')
        """
        if isinstance(features, SensitiveFeatures):
            return features
        return _encode(RawFeatures.of(features, names), kinds, missing)

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
            key: The column with the labels of the people; not needed if rows are in order.
            labels: The people of the mode, such as ``data.labels[0]``; by default the rows as they
                are. Other people of the table are ignored.
            kinds: As in `of`.
            missing: What to do with people without a row or with missing features: "error", or
                "exclude": they are fitted, but not part of the criterion.

        >>> import pandas
        >>> people = pandas.DataFrame({"who": ["a", "b", "c"], "group": ["x", "y", "x"]})
        >>> SensitiveFeatures.from_table(people, key="who", labels=["c", "b"]).columns[0].values
        array([0, 1])
        """
        raw = RawFeatures.from_table(table, columns, key=key, labels=labels)
        return _encode(raw, kinds, missing)

    def read(self, features: Any, *, missing: Missing = "error") -> SensitiveFeatures:
        """Read the features of other people, with the columns and categories of these.

        Args:
            features: As in `of`; with a column for each of these, by name if it has names.
            missing: What to do with people with missing features, as in `of`.
        """
        if isinstance(features, SensitiveFeatures):
            if features._meaning == self._meaning:
                return features
            # These features were read before, so the decision about missing ones was made.
            return self._read(features._raw(), "exclude")
        raw = RawFeatures.of(features)
        if not hasattr(features, "columns") and len(raw.columns) == len(self.columns):
            raw = raw.rename(self._names)
        return self._read(raw, missing)

    def read_table(
        self, table: Any, *, key: str | None = None, labels: Any = None, missing: Missing = "error"
    ) -> SensitiveFeatures:
        """Read a table of other people, with the columns and categories of these.

        Args:
            table: As in `from_table`; with a column for each of these.
            key: As in `from_table`.
            labels: As in `from_table`.
            missing: As in `from_table`.
        """
        return self._read(
            RawFeatures.from_table(table, self._names, key=key, labels=labels), missing
        )

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
        """Return the features from the result of `to_list`."""
        try:
            columns = tuple(map(Column.from_dict, records))
        except Exception as error:  # records may be anything
            raise ValueError(
                f"records must be what to_list returns, got {shown(records)} "
                f"({type(error).__name__}: {error})"
            ) from error
        if not columns:
            raise ValueError("records must have one dictionary per column, got none")
        complete = np.logical_and.reduce([column.has_value for column in columns])
        return cls(columns, None if complete.all() else complete)

    def take(self, people: NDArray[np.intp]) -> SensitiveFeatures:
        """Return the features of some people."""
        people = check_positions("people", people, len(self))
        complete = None if self.has_features is None else self.has_features[people]
        columns = tuple(column.take(people) for column in self.columns)
        return SensitiveFeatures(columns, None if complete is None or complete.all() else complete)

    def with_features(self) -> SensitiveFeatures:
        """Return the features of the people without missing ones: where `has_features` is True."""
        return self if self.has_features is None else self.take(np.flatnonzero(self.has_features))

    def encode(self, *, prototype: Tensor | None = None) -> Tensor:
        """Return all encoded columns side by side, shape (n, d), as the paper's ``S``.

        Args:
            prototype: A tensor with the dtype and device to use; None is float64 on the CPU.
        """
        self._check_complete()
        if prototype is not None:
            instance_of("prototype", prototype, Tensor, "pass a tensor of PyTorch, or None")
        matrix = torch.from_numpy(np.hstack([column.encode() for column in self.columns]))
        if prototype is None:
            return matrix
        return matrix.to(dtype=prototype.dtype, device=prototype.device)

    @property
    def joint_name(self) -> str:
        """The name in reports of all features taken together."""
        return " x ".join(self._names)

    def joint(self, parts: int) -> Column:
        """Return all features as one, whose groups are the combinations that occur.

        Args:
            parts: Number of groups for a numeric column.
        """
        parts = whole_number("parts", parts, most=MOST_PARTS)
        self._check_complete()
        columns = [column.bin(parts) for column in self.columns]
        table = np.stack([column.values for column in columns], 1)
        cells, codes = np.unique(table, axis=0, return_inverse=True)
        labels = [
            ", ".join(column.categories[code] for column, code in zip(columns, cell, strict=True))
            for cell in cells
        ]
        return Column(self.joint_name, "categorical", codes.reshape(-1), tuple(labels))

    def sample(self, size: int, random: np.random.RandomState) -> NDArray[np.intp]:
        """Draw people at random, some of every group, and return their positions in order.

        This is everybody if there are at most `size`, and more than `size` if the groups need it.
        """
        size = whole_number("size", size, least=0)
        remedy = "pass numpy.random.RandomState(seed)"
        instance_of("random", random, np.random.RandomState, remedy)
        self._check_complete()
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

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.columns]

    def _read(self, raw: RawFeatures, missing: Missing) -> SensitiveFeatures:
        raw = raw.select(self._names)
        complete = raw.complete(missing)
        return _assemble((c.read(raw.columns[c.name][complete]) for c in self.columns), complete)

    @property
    def _meaning(self) -> list[tuple[str, Kind, tuple[str, ...]]]:
        """What the values of each column mean: its name, kind and categories."""
        return [(column.name, column.kind, column.categories) for column in self.columns]

    def _raw(self) -> RawFeatures:
        """Return labels and numbers, None where they are missing."""
        columns = {column.name: column.labels.astype(object) for column in self.columns}
        if self.has_features is not None:
            for values in columns.values():
                values[~self.has_features] = None
        return RawFeatures(columns)

    def _check_complete(self) -> None:
        if self.has_features is not None:
            raise ValueError(
                f"{(~self.has_features).sum()} of {len(self)} people have missing sensitive "
                "features; use with_features(), and the rows where has_features is True"
            )


def _encode(raw: RawFeatures, kinds: Kinds, missing: Missing) -> SensitiveFeatures:
    """Check and encode columns, from the people without missing features."""
    if kinds is not None and not isinstance(kinds, (str, Mapping)):
        raise TypeError(
            "kinds must be 'categorical', 'numeric', or a dictionary from columns to these, got "
            f"{shown(kinds)}"
        )
    if isinstance(kinds, Mapping):
        for name in kinds:
            if name not in raw.columns:
                raise unknown_choice("a key of kinds", name, raw.columns)
        stated = dict(kinds)
    else:
        stated = {} if kinds is None else dict.fromkeys(raw.columns, kinds)
    complete = raw.complete(missing)
    if not complete.any():
        raise ValueError(
            "sensitive_features has no complete row: everybody has a missing value; check the "
            "columns and the key"
        )
    columns = (
        Column.of(name, values[complete], stated.get(name)) for name, values in raw.columns.items()
    )
    return _assemble(columns, complete)


def _assemble(columns: Iterable[Column], complete: NDArray[np.bool_]) -> SensitiveFeatures:
    """Return the features of everybody, from columns of the people who are complete."""
    if complete.all():
        return SensitiveFeatures(tuple(columns))
    return SensitiveFeatures(tuple(column.scatter(complete) for column in columns), complete)
