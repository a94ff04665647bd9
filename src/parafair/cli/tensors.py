"""The tensor, as the commands read it: from a table, a FROSTT file or an array."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from parafair.arguments import bytes_of, has_ending
from parafair.cli.options import DATA, defaults, option, words
from parafair.data.frames import SUFFIXES
from parafair.data.long_table import Absent, Duplicates
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.storage import check_file, read_tensor
from parafair.stored import warn_if_changed
from parafair.temporaries import is_there
from parafair.torchrun import process_count

ARRAYS, LISTS = (".npy", ".npz"), (".tns", ".tns.gz")


@dataclass(frozen=True)
class TensorOptions:
    """Where a tensor comes from."""

    tensor: Annotated[
        Path,
        typer.Argument(
            help="The data: a table (.csv, .parquet) or list (.tns) with a row per entry, an "
            "array (.npy, or .npz with one array), or a folder that parafair sort wrote."
        ),
    ]
    modes: Annotated[
        str | None,
        option(DATA, "Columns of the table that name an entry, as student,module,test."),
    ] = None
    value: Annotated[str | None, option(DATA, "Column of the table with the numbers.")] = None
    duplicates: Annotated[
        str | None,
        option(
            DATA,
            "What to do with several rows for one entry. [default: "
            f"{defaults(TensorData.from_table)['duplicates']}]",
            choices=get_args(Duplicates),
        ),
    ] = None
    absent: Annotated[
        str | None,
        option(
            DATA,
            "What entries are that have no row: missing, or zero, as in a table of events or "
            f"counts above zero. [default: {defaults(TensorData.from_table)['absent']}]",
            choices=get_args(Absent),
        ),
    ] = None

    @property
    def is_table(self) -> bool:
        """Whether it is a table with a row per entry."""
        return has_ending(self.tensor, SUFFIXES)

    @property
    def has_labels(self) -> bool:
        """Whether the file has labels of people."""
        return not has_ending(self.tensor, ARRAYS)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the modes; empty if none were given."""
        return words(self.modes) or ()

    def read(self) -> TensorData:
        """Read the tensor; an error names the file or the option."""
        if is_there(self.tensor) and self.tensor.is_dir():
            return self._open_sorted()
        check_file(self.tensor, (*SUFFIXES, *ARRAYS, *LISTS))
        warn_if_changed(self.tensor)
        for name in self.names:
            if name.startswith("component_"):
                raise ValueError(f"--modes {name}: columns of this name hold embeddings; rename it")
        given = {"duplicates": self.duplicates, "absent": self.absent}
        merging: dict[str, Any] = {name: value for name, value in given.items() if value}
        if self.is_table:
            if self.modes is None or self.value is None:
                raise ValueError(
                    f"{self.tensor} is a table; name the columns of its entries and the one with "
                    "their values, such as --modes student,test --value score"
                )
            with error_prefix(self.tensor):
                return TensorData.from_table(
                    self.tensor, modes=self.names, value=self.value, **merging
                )
        if self.value is not None or (merging and not self.has_labels):
            raise ValueError(
                f"--value, --duplicates and --absent are for tables, but {self.tensor} is not one; "
                "leave them out"
            )
        with error_prefix(self.tensor):
            if self.has_labels:
                data = TensorData.from_tns(self.tensor, **merging)
            else:
                # Each of several processes takes the rows of its own people from the file.
                data = TensorData.from_array(read_tensor(self.tensor, mapped=process_count() > 1))
            return replace(data, modes=self.names) if self.names else data

    def _open_sorted(self) -> StreamedData:
        """Open a sorted folder, which has its own names of modes."""
        data = TensorData.from_parquet(self.tensor)
        if self.value is not None or self.duplicates is not None:
            raise ValueError(
                f"--value and --duplicates are for parafair sort, and {self.tensor} is sorted; "
                "leave them out"
            )
        if self.absent == "zero":
            raise ValueError(
                f"--absent zero is for data in memory, but {self.tensor} is streamed, and entries "
                "that it does not have are missing; leave --absent out, or read the table itself"
            )
        if self.modes is not None and self.names != data.modes:
            raise ValueError(
                f"--modes are {','.join(data.modes)} in {self.tensor}, got {self.modes}; leave "
                "them out"
            )
        return data


@dataclass(frozen=True)
class StreamOptions(TensorOptions):
    """Where a tensor comes from, and how much memory a fit may use if it is streamed."""

    memory: Annotated[
        str | None,
        option(
            DATA,
            "Memory that a fit to a sorted folder may use, such as 8GB; it sets how many entries "
            "are in memory at once. [default: no limit]",
        ),
    ] = None

    def read(self) -> TensorData:
        """Read the tensor; a limit of memory is for sorted folders."""
        if self.memory is None:
            return super().read()
        if is_there(self.tensor) and not self.tensor.is_dir():
            raise ValueError(
                f"--memory is for folders that parafair sort wrote, but {self.tensor} is a file; "
                "sort it first, or leave --memory out"
            )
        limit, data = bytes_of("--memory", self.memory), self._open_sorted()
        return data.with_memory(limit)


def people_mode(data: TensorData, mode: str | None, key: str | None) -> int:
    """Return the mode of the people: as given, the one called like the key, or the first."""
    if mode is None:
        return data.modes.index(key) if key in data.modes else 0
    return data.find_mode(int(mode) if mode.isdigit() and mode not in data.modes else mode)


@contextmanager
def error_prefix(path: Path) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error
