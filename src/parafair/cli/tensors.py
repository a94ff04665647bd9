"""The tensor, as the commands read it: from a table, a FROSTT file or an array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice
from parafair.storage import check_file, read_tensor

TABLES, ARRAYS, LISTS = (".csv", ".parquet"), (".npy", ".npz"), (".tns", ".gz")


@dataclass(frozen=True)
class Source:
    """Where a tensor comes from.

    Attributes:
        path: The file.
        modes: Names of the modes: columns of a table, or what to call them, as "a,b,c".
        value: The column of a table with the numbers.
        duplicates: What to do with several rows for one entry; None is an error.
    """

    path: Path
    modes: str | None = None
    value: str | None = None
    duplicates: str | None = None

    @property
    def is_table(self) -> bool:
        """Whether it is a table with a row per entry."""
        return self.path.suffix in TABLES

    @property
    def has_labels(self) -> bool:
        """Whether the file says who is who."""
        return self.path.suffix not in ARRAYS

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the modes; empty if none were given."""
        return () if self.modes is None else tuple(self.modes.split(","))

    def read(self) -> TensorData:
        """Read the tensor; a mistake names the file or the option."""
        check_file(self.path, (*TABLES, *ARRAYS, *LISTS))
        for name in self.names:
            if name.startswith("component_"):
                raise ValueError(f"--modes {name}: columns of this name hold embeddings; rename it")
        duplicates: Any = self.duplicates or "error"
        if self.is_table:
            if self.modes is None or self.value is None:
                raise ValueError(
                    f"{self.path} is a table; say which columns name the entries and which one "
                    "holds their values, such as --modes student,test --value score"
                )
            with error_prefix(self.path):
                return TensorData.from_table(
                    self.path, modes=self.names, value=self.value, duplicates=duplicates
                )
        if self.value is not None or (self.duplicates is not None and not self.has_labels):
            raise ValueError(f"--value and --duplicates are for tables, but {self.path} is not one")
        with error_prefix(self.path):
            if self.has_labels:
                data = TensorData.from_tns(self.path, duplicates=duplicates)
            else:
                data = TensorData.from_array(read_tensor(self.path))
            return replace(data, modes=self.names) if self.names else data

    def to_dict(self) -> dict[str, Any]:
        """Return what a run remembers of it."""
        options = {"modes": self.modes, "value": self.value, "duplicates": self.duplicates}
        return {"tensor": str(self.path), **options}


def find_mode(modes: Sequence[str], mode: str | None, key: str | None) -> int:
    """Return the mode of the people: as told, the one called like the key, or the first."""
    if mode is None:
        return modes.index(key) if key in modes else 0
    if mode in modes:
        return modes.index(mode)
    if not mode.isdigit():
        raise unknown_choice("--mode", mode, modes)
    if int(mode) >= len(modes):
        raise ValueError(
            f"--mode must be between 0 and {len(modes) - 1} or one of {', '.join(modes)}, got "
            f"{mode}"
        )
    return int(mode)


@contextmanager
def error_prefix(path: Path) -> Iterator[None]:
    """Say in errors which file they are about."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error
