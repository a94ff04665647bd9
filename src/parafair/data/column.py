"""Column: one sensitive feature, categorical or numeric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from decimal import Decimal
from math import exp
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import one_of
from parafair.data.labels import preview
from parafair.errors import shown, unknown_choice

Kind: TypeAlias = Literal["categorical", "numeric"]
KINDS = ("categorical", "numeric")

# What a value can be; None and NaN are missing.
SCALARS = (str, bool, int, float, Decimal, date, time, timedelta, np.generic)

# Integers with few distinct values are codes of categories more often than measurements.
MOST_INTEGER_CATEGORIES = 10

# Whole numbers that are less likely all different are taken for ids.
BY_ACCIDENT = 1e-4

# This many groups are never too many, unless everybody is a group.
FEW_GROUPS = 10


# Kinds of arrays whose values are all of one type: truth values, numbers and text.
PLAIN = "biufU"


@dataclass(frozen=True, eq=False)
class Column:
    """One sensitive feature of a number of people.

    Attributes:
        name: Its name in reports.
        kind: "categorical" or "numeric".
        values: Codes 0, 1, ... of the categories, or the numbers; shape (n,). A missing value is
            -1 or NaN.
        categories: The label of each code; empty for a numeric column.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, values: NDArray[Any], kind: Kind | None = None) -> Column:
        """Check and encode values, none of them missing.

        Args:
            name: Name of the feature.
            values: One value per person, shape (n,).
            kind: The kind; None infers it from the values, as `SensitiveFeatures.of` describes.
        """
        given, plain = values.tolist(), values.dtype.kind in PLAIN
        other = [] if plain else [value for value in given if not isinstance(value, SCALARS)]
        if other:
            raise ValueError(
                f"sensitive feature {name!r} must hold text, numbers or dates, got "
                f"{shown(other[0])}; turn it into one of them"
            )
        values = np.array(given)
        if values.dtype.kind not in PLAIN:  # objects of several types have no order
            values = np.array([category_text(value) for value in given])
        distinct = np.unique(values)
        if len(distinct) < 2:
            raise ValueError(
                f"sensitive feature {name!r} is constant (only {str(distinct[0])!r}): nothing can "
                "depend on it; drop the column"
            )
        if kind is None:
            kind = _infer_kind(values, distinct)
            _check_not_numbered(name, values, distinct)
        one_of(f"kinds of sensitive feature {name!r}", kind, KINDS)
        if kind == "numeric":
            _check_numbers(name, values, distinct)
            return cls(name, kind, values)
        # A value of a plain array has one text wherever it is.
        numbers = np.searchsorted(distinct, values) if plain else slice(None)
        text = np.array([category_text(v) for v in (distinct.tolist() if plain else given)])
        categories, codes = np.unique(text, return_inverse=True)
        codes = codes[numbers]
        _check_groups(name, np.bincount(codes))
        return cls(name, kind, codes, tuple(categories.tolist()))

    def __repr__(self) -> str:
        return f"Column({self.summary})"

    @property
    def summary(self) -> str:
        """The feature in a few words: its name and its groups, or the range of its numbers."""
        if self.kind == "categorical":
            return f"{self.name}: {len(self.categories)} groups ({preview(self.categories)})"
        known = self.values[self.has_value]
        if not known.size:
            return f"{self.name}: no values"
        return f"{self.name}: {known.min():g} to {known.max():g}"

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Column:
        """Return a column from its attributes as values of JSON; None is a missing number."""
        kind = one_of("kind", record["kind"], KINDS)
        values = np.array(record["values"], np.float64 if kind == "numeric" else np.intp)
        categories = tuple(record["categories"])
        if values.ndim != 1 or (kind == "categorical" and values.max() >= len(categories)):
            raise ValueError("values must be a list of numbers, or of codes of the categories")
        return cls(str(record["name"]), kind, values, categories)  # type: ignore[arg-type]

    @property
    def has_value(self) -> NDArray[np.bool_]:
        """Whose value is not missing, shape (n,)."""
        return np.asarray(~np.isnan(self.values) if self.kind == "numeric" else self.values >= 0)

    @property
    def labels(self) -> NDArray[Any]:
        """The value of every person: a number, or the label of a category."""
        return self.values if self.kind == "numeric" else np.array(self.categories)[self.values]

    def encode(self) -> NDArray[np.float64]:
        """Return the numbers that enter a penalty, shape (n, d).

        Two categories give one 0/1 column, more give one indicator column each, and a
        numeric feature is standardized.
        """
        if self.kind == "numeric":
            numbers = self._from_least()[:, None]
            numbers = numbers / np.abs(numbers).max()  # squares must not overflow
            return np.asarray((numbers - numbers.mean()) / numbers.std())
        if len(self.categories) == 2:
            return self.values.astype(np.float64)[:, None]
        return np.asarray(np.eye(len(self.categories))[self.values])

    def _from_least(self) -> NDArray[np.float64]:
        """Return numbers; whole ones as differences from the least, so that none are rounded."""
        values = self.values
        if values.dtype.kind in "iu" and int(values.max()) - int(values.min()) < 2**63:
            values = values - values.min()
        return values.astype(np.float64)

    def take(self, people: NDArray[np.intp]) -> Column:
        """Return the feature of some people; categories without members stay."""
        return replace(self, values=self.values[people])

    def read(self, values: NDArray[Any]) -> Column:
        """Return the same feature of other people; none of the values may be missing."""
        if self.kind == "numeric":
            values = np.array(values.tolist())  # missing values may have made the array objects
            if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
                raise ValueError(
                    f"sensitive feature {self.name!r} must hold finite numbers as in training, got "
                    f"{shown(values.tolist())}"
                )
            return replace(self, values=values)
        code = {category: number for number, category in enumerate(self.categories)}
        found = np.array(
            [code.get(category_text(value), -1) for value in values.tolist()], dtype=np.intp
        )
        if (found < 0).any():
            unseen = category_text(values[found < 0].tolist()[0])
            raise unknown_choice(f"sensitive feature {self.name!r}", unseen, self.categories)
        return replace(self, values=found)

    def scatter(self, has_value: NDArray[np.bool_]) -> Column:
        """Return the feature of all people, from that of the people who have a value.

        Args:
            has_value: True for the people of this column, in order; shape (people,).
        """
        numeric = self.kind == "numeric"
        values = np.full(len(has_value), np.nan if numeric else -1)
        values[has_value] = self.values
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


def category_text(value: Any) -> str:
    """Return the label of a category; 1.0 and 1 are the same category."""
    return str(
        int(value) if isinstance(value, (float, np.floating)) and value.is_integer() else value
    )


def _infer_kind(values: NDArray[Any], distinct: NDArray[Any]) -> Kind:
    codes = values.dtype.kind in "iu" and len(distinct) <= MOST_INTEGER_CATEGORIES
    is_number = values.dtype.kind in "iuf"
    return "numeric" if is_number and not codes and len(distinct) > 2 else "categorical"


def _check_not_numbered(name: str, values: NDArray[Any], distinct: NDArray[Any]) -> None:
    """Raise if whole numbers never repeat, as those of ids, and nobody said that they measure.

    Of n numbers spread evenly over a range of r, none are equal with probability exp(-n**2 / 2r);
    measurements, which are less even, have equal ones more often.
    """
    if values.dtype.kind not in "iu" or not len(distinct) == len(values) > MOST_INTEGER_CATEGORIES:
        return
    size = int(distinct[-1]) - int(distinct[0]) + 1
    if size == len(values) or exp(-(len(values) ** 2) / (2 * size)) < BY_ACCIDENT:
        raise ValueError(
            f"sensitive feature {name!r} has another whole number for each of the {len(values)} "
            f"people, from {distinct[0]} to {distinct[-1]}, so it seems to be their id; leave it "
            f"out, or state it numeric with kinds={{{name!r}: 'numeric'}}"
        )


def _check_groups(name: str, members: NDArray[np.intp]) -> None:
    """Raise if a categorical feature has so many groups that it almost labels the people."""
    people, groups, alone = int(members.sum()), len(members), int((members == 1).sum())
    if groups == people > 2 or (groups > FEW_GROUPS and groups > people / 2):
        raise ValueError(
            f"sensitive feature {name!r} has {groups} groups for {people} people, {alone} of them "
            "with one member, so it almost labels them; leave it out, bin it, merge rare groups, "
            "or state it numeric if it holds numbers"
        )


def _check_numbers(name: str, values: NDArray[Any], distinct: NDArray[Any]) -> None:
    """Raise unless the values are finite numbers."""
    if values.dtype.kind not in "iuf":
        raise ValueError(
            f"sensitive feature {name!r} is stated to be numeric but holds "
            f"{str(distinct[0])!r}; make it numbers or state it categorical"
        )
    if not np.isfinite(values).all():
        raise ValueError(
            f"sensitive feature {name!r} holds infinite values; numeric features must be finite"
        )
