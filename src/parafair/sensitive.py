"""Sensitive features: one row per person, columns categorical or numeric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.errors import unknown_choice

Kind: TypeAlias = Literal["categorical", "numeric"]
KINDS = ("categorical", "numeric")

# Integers with few distinct values are codes of categories more often than measurements.
MOST_INTEGER_CATEGORIES = 10

# Members of every group in a sample of a large population, if there are as many.
LEAST_MEMBERS = 10


@dataclass(frozen=True, eq=False)
class Column:
    """One sensitive feature.

    Attributes:
        name: What reports call it.
        kind: "categorical" or "numeric".
        values: Codes 0, 1, ... of the categories, or the numbers; shape (n,).
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
            return self.standardize(self.values)[:, None]
        if len(self.categories) == 2:
            return self.values.astype(np.float64)[:, None]
        return np.asarray(np.eye(len(self.categories))[self.values])

    def standardize(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers in units in which those of this column have mean 0 and variance 1."""
        own, size = self.values.astype(np.float64), np.abs(self.values).max()
        own = own / size  # squares must not overflow
        return np.asarray((numbers.astype(np.float64) / size - own.mean()) / own.std())

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
            if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
                raise ValueError(f"sensitive feature {self.name!r} must hold finite numbers")
            return replace(self, values=values)
        code = {category: number for number, category in enumerate(self.categories)}
        found = np.array([code.get(str(value), -1) for value in values.tolist()], dtype=np.intp)
        if (found < 0).any():
            unseen = str(values[found < 0][0])
            raise unknown_choice(f"sensitive feature {self.name!r}", unseen, self.categories)
        return replace(self, values=found)

    def cut(self, parts: int) -> Column:
        """Return a categorical feature: itself, or numbers cut into parts of about equal size.

        >>> Column("age", "numeric", np.array([20, 30, 40, 50])).cut(2).categories
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
    """Sensitive features of the people along one mode, checked and encoded once."""

    columns: tuple[Column, ...]

    @classmethod
    def of(
        cls,
        features: Any,
        *,
        kinds: Kind | Mapping[str, Kind] | None = None,
        names: Sequence[str] | None = None,
    ) -> SensitiveFeatures:
        """Read an array, list, Series or DataFrame.

        Text, booleans, pandas categories, anything with two distinct values and integers
        with at most 10 are categorical; other numbers are numeric. State it with `kinds`.

        Args:
            features: One row per person: shape (n,) or (n, columns).
            kinds: One kind for all columns, or a dictionary from column name to kind.
            names: Names of the columns, if `features` has none of its own.

        >>> SensitiveFeatures.of(["f", "m", "f"]).columns[0].categories
        ('f', 'm')
        """
        if isinstance(features, SensitiveFeatures):
            return features
        raw = _split_columns(features, names)
        if isinstance(kinds, Mapping):
            for name in kinds:
                if name not in raw:
                    raise unknown_choice("a key of kinds", name, raw)
            chosen = dict(kinds)
        else:
            chosen = {} if kinds is None else dict.fromkeys(raw, kinds)
        return cls(
            tuple(_read_column(name, values, chosen.get(name)) for name, values in raw.items())
        )

    def read(self, features: Any) -> SensitiveFeatures:
        """Read the features of other people in terms of these: the same columns and categories.

        Args:
            features: As in `of`; with a column for each of these, by name if it has names.
        """
        if isinstance(features, SensitiveFeatures):
            raw = {c.name: c.labels for c in features.columns}
        else:
            raw = _split_columns(features, None)
        if len(raw) == len(self.columns) and not set(raw) & {c.name for c in self.columns}:
            raw = dict(zip([c.name for c in self.columns], raw.values(), strict=True))
        for column in self.columns:
            if column.name not in raw:
                raise unknown_choice("a sensitive feature of the model", column.name, raw)
        return SensitiveFeatures(tuple(column.read(raw[column.name]) for column in self.columns))

    def __post_init__(self) -> None:
        lengths = {len(column.values) for column in self.columns}
        if len(lengths) > 1:
            raise ValueError(f"sensitive columns must have equal lengths; got {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def encode(self, *, like: Tensor | None = None) -> Tensor:
        """Return all encoded columns side by side, shape (n, d), as the paper's ``S``.

        Args:
            like: A tensor whose dtype and device to use; float64 on the CPU without it.
        """
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
        columns = [column.cut(parts) for column in self.columns]
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
            lambda value: value if _is_missing(value) else str(value)
        )
    return np.asarray(values)


def _is_missing(value: object) -> bool:
    """Tell None, NaN, NaT and pandas' NA, of which the last refuses to be true or false."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _read_column(name: str, values: NDArray[Any], kind: Kind | None) -> Column:
    """Check one column, decide its kind and encode it."""
    missing = np.array([_is_missing(value) for value in values.tolist()])
    if missing.any():
        rows = ", ".join(map(str, np.flatnonzero(missing)[:5]))
        raise ValueError(
            f"sensitive feature {name!r} has {missing.sum()} missing values (rows {rows}); "
            "fill them, drop these people, or make 'unknown' a category of its own"
        )
    values = np.array(values.tolist())
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
        categories, codes = np.unique(values.astype(str), return_inverse=True)
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
