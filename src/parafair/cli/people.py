"""People and their sensitive features, as the commands read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import numpy as np
import pandas
from numpy.typing import NDArray

from parafair.cli.options import PEOPLE, defaults, option, words
from parafair.cli.side import SideOptions
from parafair.cli.tensors import TensorOptions, error_prefix, people_mode
from parafair.data.checks import check_scale
from parafair.data.column import Kind
from parafair.data.frames import find_rows, open_table, read_table
from parafair.data.labels import as_labels, preview
from parafair.data.raw_features import Missing
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice
from parafair.stored import warn_if_changed

# What to do with people without features, if nothing else is said.
MISSING = defaults(SensitiveFeatures.from_table)["missing"]


@dataclass(frozen=True)
class PeopleOptions:
    """A table of people."""

    sensitive: Annotated[
        Path | None,
        option(
            PEOPLE,
            "Table (.csv, .parquet) with a row per person; for an array, in its order.",
        ),
    ] = None
    key: Annotated[
        str | None, option(PEOPLE, "Column of this table with the labels of the people.")
    ] = None
    missing: Annotated[
        str | None,
        option(
            PEOPLE,
            "People without sensitive features: an error, or exclude them from the criterion. "
            f"[default: {MISSING}]",
            choices=get_args(Missing),
        ),
    ] = None


@dataclass(frozen=True)
class FeatureOptions(PeopleOptions):
    """A table of people, and which of its columns are sensitive."""

    columns: Annotated[
        str | None,
        option(
            PEOPLE,
            "Sensitive columns, as a,b; by default all but the key.",
            "--sensitive-columns",
        ),
    ] = None
    kind: Annotated[
        list[str] | None,
        option(
            PEOPLE,
            f"State that a column is {' or '.join(get_args(Kind))}, as age=numeric; "
            "can be repeated.",
            metavar="<column=kind>",
        ),
    ] = None

    def kinds(self) -> dict[str, Kind]:
        """Return the stated kinds by column."""
        stated: dict[str, Any] = {}
        for entry in self.kind or ():
            name, separator, value = entry.partition("=")
            if not separator:
                raise ValueError(f"--kind must look like column=numeric, got {entry!r}")
            stated[name] = value
        return stated


@dataclass(frozen=True)
class ModeOptions(FeatureOptions):
    """A table of people, and their mode of the tensor."""

    mode: Annotated[
        str | None,
        option(
            PEOPLE,
            "The mode of the people, by name or number; by default the one called like the key, "
            "or 0.",
        ),
    ] = None


@dataclass(frozen=True, eq=False)
class People:
    """A table of people that was read.

    Attributes:
        path: The file.
        table: Its content.
        key: The column with the labels of the people; None if rows are in order.
        missing: What to do with people without features.
    """

    path: Path
    table: pandas.DataFrame
    key: str | None
    missing: Missing

    @classmethod
    def read(cls, options: PeopleOptions, *, names: Sequence[str] = ()) -> People:
        """Read the table, once.

        Args:
            options: The file and its key.
            names: What the key may be called if it is not given: the first that is a column.
        """
        path, key = options.sensitive, options.key
        if path is None:
            raise ValueError("--sensitive is missing; give the table of people")
        table = read_table(path, labels=[*names] if key is None else [key])
        warn_if_changed(path)
        if key is None:
            key = next((name for name in names if name in table.columns), None)
        elif key not in table.columns:
            raise unknown_choice("--key", key, map(str, table.columns))
        if key is not None and key.startswith("component_"):
            raise ValueError(f"--key {key}: columns of this name hold the embedding; rename it")
        return cls(path, table, key, cast(Missing, options.missing or MISSING))

    def require_key(self, mode: str) -> str:
        """Return the key; raise if there is none.

        Args:
            mode: The mode whose labels it must have.
        """
        if self.key is None:
            raise ValueError(
                f"--key is missing; give the column of {self.path} that has the labels of mode "
                f"{mode!r}"
            )
        return self.key

    def find(self, labels: Any) -> NDArray[np.intp]:
        """Return the row of each person, -1 where there is none."""
        assert self.key is not None
        with error_prefix(self.path):
            return find_rows(open_table(self.table), self.key, as_labels(labels, "labels"))

    def features(
        self, options: FeatureOptions, labels: Any = None, *, without: str | None = None
    ) -> SensitiveFeatures:
        """Return the sensitive columns, in the order of labels if these are given.

        Args:
            options: Which columns they are.
            labels: The people; None is everybody in the order of the table.
            without: A column that is not sensitive unless it is listed.
        """
        wanted = self._wanted(words(options.columns), without)
        with error_prefix(self.path):
            return SensitiveFeatures.from_table(
                self.table,
                wanted,
                key=self.key,
                labels=labels,
                kinds=options.kinds(),
                missing=self.missing,
            )

    def _wanted(self, columns: Sequence[str] | None, without: str | None) -> Sequence[str]:
        """Return the sensitive columns; raise if one only labels people."""
        if columns is not None:
            for name in columns:
                if name not in self.table.columns:
                    raise unknown_choice("--sensitive-columns", name, map(str, self.table.columns))
            return columns
        wanted = [str(name) for name in self.table.columns if name not in (self.key, without)]
        for name in wanted:
            # A different number with decimals for each person is common, such as an income.
            own = self.table[name]
            if len(own) > 2 and own.is_unique and not pandas.api.types.is_float_dtype(own):
                raise ValueError(
                    f"column {name!r} has a different value for each person, so it seems to label "
                    "them; name it with --key, or list the sensitive columns with "
                    "--sensitive-columns"
                )
        return wanted


@dataclass(frozen=True, eq=False)
class Loaded:
    """What the files of a command hold.

    Attributes:
        data: The tensor, with the labels of its people.
        mode: The mode of the people.
        features: Their sensitive features; None without a table of people.
        side: Their side information; None without any.
    """

    data: TensorData
    mode: int
    features: SensitiveFeatures | None
    side: pandas.DataFrame | None = None

    def __str__(self) -> str:
        lines = []
        if self.data.coverage < 1:
            lines.append(str(self.data).removeprefix("TensorData(").removesuffix(")"))
        known = None if self.features is None else self.features.has_features
        if known is not None:
            names = self.data.labels[self.mode][~known]
            lines.append(
                f"{len(names)} of {len(known)} people lack sensitive features ({preview(names)}): "
                "they are fitted, but left out of the criterion and of audits"
            )
        return "\n".join(lines)


def _read(tensor: TensorOptions) -> TensorData:
    """Read a tensor that can be decomposed."""
    data = tensor.read()
    with error_prefix(tensor.tensor):
        check_scale(data)
    return data


def load(tensor: TensorOptions, people: ModeOptions, side: SideOptions | None = None) -> Loaded:
    """Read a tensor and its people, matched by label where the tensor has labels."""
    found = _load(tensor, people)
    labeled = tensor.has_labels or people.key is not None
    if side is None:
        return found
    return replace(found, side=side.read(found.data, found.mode, key=people.key, labeled=labeled))


def _load(tensor: TensorOptions, people: ModeOptions) -> Loaded:
    """Read a tensor and the sensitive features of its people."""
    if people.sensitive is None:
        if people.key or people.columns or people.kind or people.missing:
            raise ValueError(
                "--key, --sensitive-columns, --kind and --missing need the table of people, but it "
                "was not given; add --sensitive"
            )
        data = _read(tensor)
        return Loaded(data, people_mode(data, people.mode, None), None)
    found, data = People.read(people), _read(tensor)
    mode = people_mode(data, people.mode, people.key)
    if tensor.has_labels:
        found.require_key(data.modes[mode])
        return Loaded(data, mode, found.features(people, data.labels[mode]))
    features = found.features(people)
    if len(features) != data.shape[mode]:
        raise ValueError(
            f"{found.path} has {len(features)} rows but mode {mode} of the tensor has "
            f"{data.shape[mode]}; give one row per index, in the same order"
        )
    if found.key is not None:
        labels, modes = list(data.labels), list(data.modes)
        labels[mode] = as_labels(found.table[found.key].tolist(), f"column {found.key!r}")
        if tensor.modes is None:
            modes[mode] = found.key
        data = replace(data, modes=tuple(modes), labels=tuple(labels))
    return Loaded(data, mode, features)
