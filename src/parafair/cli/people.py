"""People and their sensitive features, as the commands read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas
from numpy.typing import NDArray

from parafair.cli.tensors import Source, error_prefix, find_mode
from parafair.data.frames import find_rows, open_table, read_table
from parafair.data.labels import as_labels, preview
from parafair.data.raw_features import Missing
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice


@dataclass(frozen=True)
class People:
    """A table of people, and which of its columns are what.

    Attributes:
        path: The file.
        columns: The sensitive columns, as "a,b"; None is all but the key.
        kinds: Stated kinds, each as "column=kind".
        key: The column that says who it is; None if rows are in order.
        missing: What to do with people of whom something is not known.
    """

    path: Path
    columns: str | None = None
    kinds: tuple[str, ...] = ()
    key: str | None = None
    missing: str = "error"

    @classmethod
    def of(
        cls,
        path: Path | None,
        columns: str | None,
        kinds: list[str] | None,
        key: str | None,
        missing: str,
    ) -> People | None:
        """Return the people, or None if no table of them was given."""
        if path is not None:
            return cls(path, columns, tuple(kinds or ()), key, missing)
        if key or columns or kinds:
            raise ValueError(
                "--key, --sensitive-columns and --kind need the table of people: --sensitive"
            )
        return None

    def matched_by(self, names: Iterable[str | None], mode: str) -> People:
        """Return the same people with a key: as given, or the first of these that is a column.

        Args:
            names: What the column may be called; None among them counts for nothing.
            mode: The mode whose labels it must have, for the error if there is no such column.
        """
        if self.key is not None:
            return self
        columns = read_table(self.path).columns
        for name in names:
            if name is not None and name in columns:
                return replace(self, key=name)
        raise self.without_key(mode)

    def without_key(self, mode: str) -> ValueError:
        """Return the error that nothing says whose row is whose."""
        return ValueError(
            f"--key is missing: the column of {self.path} that has the labels of mode {mode!r}"
        )

    def read(self) -> pandas.DataFrame:
        """Read the table."""
        table = read_table(self.path, labels=[] if self.key is None else [self.key])
        if self.key is None:
            return table
        if self.key not in table.columns:
            raise unknown_choice("--key", self.key, map(str, table.columns))
        if self.key.startswith("component_"):
            raise ValueError(
                f"--key {self.key}: columns of this name hold the embedding; rename it"
            )
        self.find(table, table[self.key].tolist())  # raises if a person has two rows
        return table

    def find(self, table: pandas.DataFrame, labels: Any) -> NDArray[np.intp]:
        """Return the row of each person, -1 where there is none."""
        assert self.key is not None
        with error_prefix(self.path):
            return find_rows(open_table(table), self.key, as_labels(labels, f"column {self.key!r}"))

    def features(self, table: pandas.DataFrame, labels: Any = None) -> SensitiveFeatures:
        """Return the sensitive columns of a table, in the order of labels if these are given."""
        wanted = self._wanted(table)
        stated: dict[str, Any] = {}
        for entry in self.kinds:
            name, separator, value = entry.partition("=")
            if not separator:
                raise ValueError(f"--kind must look like column=numeric, got {entry!r}")
            stated[name] = value
        key = None if labels is None else self.key
        missing = cast(Missing, self.missing)
        with error_prefix(self.path):
            return SensitiveFeatures.from_table(
                table, wanted, key=key, labels=labels, kinds=stated, missing=missing
            )

    def _wanted(self, table: pandas.DataFrame) -> list[str]:
        """Return the sensitive columns; raise if one only labels people."""
        if self.columns is not None:
            wanted = self.columns.split(",")
            for name in wanted:
                if name not in table.columns:
                    raise unknown_choice("--sensitive-columns", name, map(str, table.columns))
            return wanted
        wanted = [str(name) for name in table.columns if name != self.key]
        for name in wanted:
            if pandas.api.types.is_integer_dtype(table[name]) and table[name].is_unique:
                raise ValueError(
                    f"column {name!r} has another whole number for every person, so it seems to "
                    "label them; name it with --key, or list the sensitive columns with "
                    "--sensitive-columns"
                )
        return wanted


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a command decomposes.

    Attributes:
        data: The tensor, with the labels of its people.
        mode: The mode of the people.
        features: Their sensitive features; None without a table of people.
    """

    data: TensorData
    mode: int
    features: SensitiveFeatures | None

    @property
    def left_out(self) -> str:
        """How many people are not known, in words; empty if nobody is."""
        known = None if self.features is None else self.features.has_features
        if known is None:
            return ""
        names = self.data.labels[self.mode][~known]
        return (
            f"{len(names)} of {len(known)} people are not known ({preview(names)}): they are fitted, "
            "and left out of the criterion and of audits"
        )


def read_inputs(source: Source, people: People | None, mode: str | None) -> Inputs:
    """Read a tensor and its people, matched by label where the tensor has labels."""
    table = None if people is None else people.read()
    data = source.read()
    number = find_mode(data.modes, mode, None if people is None else people.key)
    if people is None or table is None:
        return Inputs(data, number, None)
    if source.has_labels:
        if people.key is None:
            raise people.without_key(data.modes[number])
        return Inputs(data, number, people.features(table, data.labels[number]))
    features = people.features(table)
    if len(table) != data.shape[number]:
        raise ValueError(
            f"{people.path} has {len(table)} rows but mode {number} of the tensor has "
            f"{data.shape[number]}; give one row per index, in the same order"
        )
    if people.key is not None:
        data = _name_people(data, number, people.key, table, named=source.modes is not None)
    return Inputs(data, number, features)


def _name_people(
    data: TensorData, mode: int, key: str, table: pandas.DataFrame, *, named: bool
) -> TensorData:
    """Give the people of an array the labels of their table, and the mode its name."""
    labels, modes = list(data.labels), list(data.modes)
    labels[mode] = as_labels(table[key].tolist(), f"column {key!r}")
    if not named:
        modes[mode] = key
    return replace(data, modes=tuple(modes), labels=tuple(labels))
