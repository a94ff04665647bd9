"""Side information, as the commands read it: a table of numbers with a row per person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas

from parafair.cli.options import PEOPLE, option, words
from parafair.cli.tensors import error_prefix
from parafair.data.frames import find_rows, open_table, read_table
from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice
from parafair.model.axes import Axes
from parafair.stored import warn_if_changed


@dataclass(frozen=True)
class SideOptions:
    """A table of side information."""

    side: Annotated[
        Path | None,
        option(
            PEOPLE,
            "Table (.csv, .parquet) of numbers with a row per person, that the embedding shall "
            "explain too; for an array, in its order.",
        ),
    ] = None
    side_columns: Annotated[
        str | None, option(PEOPLE, "Its columns of numbers, as a,b; by default all but the key.")
    ] = None
    side_key: Annotated[
        str | None,
        option(
            PEOPLE,
            "Its column with the labels of the people; by default the one called like --key or "
            "the mode of the people.",
        ),
    ] = None

    def record(self) -> dict[str, Any]:
        """Return the options as values for JSON."""
        return {
            "side": None if self.side is None else str(self.side),
            "side_columns": words(self.side_columns),
            "side_key": self.side_key,
        }

    def read(self, data: TensorData, mode: int, *, key: str | None, labeled: bool) -> Any:
        """Return the table with the people of the data; None if there is none.

        Other people of the table are ignored, as in the table of sensitive features.

        Args:
            data: The data.
            mode: The mode of the people.
            key: What the key may be called, if it is not given.
            labeled: Whether the people of the data have labels.
        """
        if self.side is None:
            if self.side_columns or self.side_key:
                raise ValueError(
                    "--side-columns and --side-key need the table of side information, but it was "
                    "not given; add --side"
                )
            return None
        warn_if_changed(self.side)
        names = [name for name in (key, data.modes[mode]) if name is not None]
        if self.side_key is not None:
            names = [self.side_key]
        table = read_table(self.side, labels=names)
        found = next((name for name in names if name in table.columns), None)
        if self.side_key is not None and found is None:
            raise unknown_choice("--side-key", self.side_key, map(str, table.columns))
        if labeled and found is None:
            raise ValueError(
                f"--side-key is missing; give the column of {self.side} that has the labels of "
                f"mode {data.modes[mode]!r}"
            )
        numbers = self._numbers(table, words(self.side_columns), found)
        if not labeled or found is None:
            return numbers
        with error_prefix(self.side):
            rows = find_rows(open_table(table), found, data.labels[mode])
        if (rows < 0).all():
            raise ValueError(
                f"{self.side} has none of the people of the data in its column {found!r}; check "
                "--side and --side-key"
            )
        known = np.flatnonzero(rows >= 0)
        return numbers.iloc[rows[known]].set_axis(data.labels[mode][known])

    def _numbers(
        self, table: pandas.DataFrame, columns: Sequence[str] | None, key: str | None
    ) -> pandas.DataFrame:
        """Return the columns of numbers; raise if one has text."""
        for name in columns or ():
            if name not in table.columns:
                raise unknown_choice("--side-columns", name, map(str, table.columns))
        wanted = columns or [str(name) for name in table.columns if name != key]
        text = [name for name in wanted if not pandas.api.types.is_numeric_dtype(table[name])]
        if text:
            raise ValueError(
                f"{self.side} has columns that are not numbers: {', '.join(text[:5])}; choose "
                "others with --side-columns, or write them as columns of 0 and 1"
            )
        return table[list(wanted)]


def read_new_side(
    options: SideOptions,
    data: TensorData,
    axes: Axes,
    known: SideOptions,
    *,
    key: str | None,
    labeled: bool,
) -> Any:
    """Return side information of new people, with the columns of a run unless others are given."""
    if options.side is None:
        return options.read(data, axes.mode, key=key, labeled=labeled)
    completed = replace(
        options,
        side_columns=options.side_columns or known.side_columns,
        side_key=options.side_key or known.side_key,
    )
    return completed.read(data, axes.mode, key=key, labeled=labeled)
