"""A folder of Parquet files sorted by person: what `sort_parquet` writes and streamed data reads.

Each part is an ordinary table: a column of positions for each mode, then the values. Row groups
have whole people. The labels and the numbers of entries of each mode are in tables of their own,
and a record has the sizes of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import as_path
from parafair.data.frames import check_parquet
from parafair.data.labels import as_labels
from parafair.stored import check_digest, read_record, reading
from parafair.temporaries import MANIFEST_FILE, is_there

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

RECORD_FILE, FORMAT = "tensor.json", 1
# The files of a sorted folder, which may be overwritten.
SORTED_FILES = frozenset({MANIFEST_FILE, RECORD_FILE, "part-*.parquet", "labels-*.parquet"})

SORT_AGAIN = "sort the data again, or use a copy of the folder"


def part_name(number: int) -> str:
    """Return the name of a file of entries."""
    return f"part-{number:05}.parquet"


def labels_name(mode: int) -> str:
    """Return the name of the file with the labels of a mode."""
    return f"labels-{mode}.parquet"


@dataclass(frozen=True, eq=False)
class Part:
    """A file of entries.

    Attributes:
        path: The file.
        bytes: Its size.
        changed: When it was changed last, in nanoseconds.
        metadata: What Parquet says about it.
    """

    path: Path
    bytes: int
    changed: int
    metadata: FileMetaData

    @classmethod
    def open(cls, path: Path, size: int, rows: Sequence[int]) -> Part:
        """Return a file; raise unless it is what was written.

        Args:
            path: The file.
            size: Its size in bytes.
            rows: Number of entries of each of its row groups.
        """
        from pyarrow.parquet import read_metadata

        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; {SORT_AGAIN}")
        found = path.stat()
        with reading(path, SORT_AGAIN), _damage_as_error():
            metadata = read_metadata(path)
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            if found.st_size != size or sizes != list(rows):
                raise ValueError("it was changed after it was written")
        return cls(path, size, found.st_mtime_ns, metadata)

    def check(self) -> None:
        """Raise if the file was changed since it was opened."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise ValueError(f"{self.path} was removed during the fit; {SORT_AGAIN}") from error
        if (found.st_size, found.st_mtime_ns) != (self.bytes, self.changed):
            raise ValueError(
                f"{self.path} was changed between two passes over the data; {SORT_AGAIN}, and do "
                "not write to it during a fit"
            )

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> list[NDArray[Any]]:
        """Return columns of some row groups."""
        from pyarrow.parquet import ParquetFile

        with (
            reading(self.path, SORT_AGAIN),
            _damage_as_error(),
            ParquetFile(self.path, metadata=self.metadata, page_checksum_verification=True) as file,
        ):
            table = file.read_row_groups(list(groups), columns=list(columns), use_threads=False)
            return [np.asarray(table.column(name).to_numpy()) for name in columns]


@contextmanager
def _damage_as_error() -> Iterator[None]:
    """Turn errors of the system while a damaged file is read into those of its content."""
    from pyarrow import ArrowException

    try:
        yield
    except (OSError, ArrowException) as error:
        raise ValueError(str(error)) from error


class ParquetSource:
    """The entries of a sorted folder; see `parafair.data.streamed.Source`.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str | Path) -> None:
        folder = as_path("folder", folder)
        check_parquet(folder)
        file = folder / RECORD_FILE
        if not is_there(folder) or not file.is_file():
            raise FileNotFoundError(
                f"{file} is missing, so {folder} is not a folder of sorted entries; make one with "
                "parafair.sort_parquet"
            )
        record = read_record(file, file_format=FORMAT)
        with reading(file, SORT_AGAIN):
            self.folder = folder
            self.modes = tuple(map(str, record["modes"]))
            self.value = str(record["value"])
            self.shape = tuple(map(int, record["shape"]))
            self.count = int(record["count"])
            self.norm_squared = float(record["norm_squared"])
            groups = [group for part in record["parts"] for group in part["groups"]]
            first, sizes = np.array(groups, dtype=np.int64).reshape(-1, 2).T
            self.bounds = np.append(first, self.shape[0])
            self.sizes = np.ascontiguousarray(sizes)
            if not len(groups) or self.bounds[0] or (np.diff(self.bounds) <= 0).any():
                raise ValueError("its row groups are not in order")
            if self.sizes.sum() != self.count:
                raise ValueError(f"its row groups do not have {self.count} entries")
            if len(self.modes) != len(self.shape):
                raise ValueError(f"it has {len(self.modes)} modes, but the shape {self.shape}")
            listed = [
                (folder / str(part["name"]), int(part["bytes"]), [n for _, n in part["groups"]])
                for part in record["parts"]
            ]
        self.parts = [Part.open(path, size, rows) for path, size, rows in listed]
        # Files that were compared with their checksums; that reads them once more.
        self._known: set[int] = set()
        # The part of each row group, and its number there.
        self._where = [
            (number, group)
            for number, (_, _, rows) in enumerate(listed)
            for group in range(len(rows))
        ]
        tables = [self._labels(mode) for mode in range(len(self.shape))]
        self.labels = tuple(labels for labels, _ in tables)
        self._counts = [counts for _, counts in tables]

    def check(self) -> None:
        """Raise if a file was changed since the folder was opened."""
        for part in self.parts:
            part.check()

    def counts(self, mode: int) -> NDArray[np.int64]:
        """Return the number of entries at each index of a mode."""
        return self._counts[mode]

    def read(self, first: int, last: int, columns: Sequence[int]) -> list[NDArray[Any]]:
        """Return columns of the entries of some row groups; raise if they are not in order."""
        names = [*self.modes, self.value]
        found: list[list[NDArray[Any]]] = []
        for number in sorted({part for part, _ in self._where[first:last]}):
            own = [g for g in range(first, last) if self._where[g][0] == number]
            groups = [self._where[g][1] for g in own]
            part = self.parts[number]
            if number not in self._known:
                check_digest(part.path, SORT_AGAIN)
                self._known.add(number)
            arrays = part.read(groups, [names[column] for column in columns])
            for column, array in zip(columns, arrays, strict=True):
                self._check(part.path, own, column, array)
            found.append(arrays)
        return [np.concatenate(each) for each in zip(*found, strict=True)]

    def _check(self, path: Path, groups: Sequence[int], column: int, array: NDArray[Any]) -> None:
        """Raise unless a column of some row groups of a file has what it must have."""
        if column == len(self.modes):
            if array.dtype.kind != "f" or not np.isfinite(array).all():
                raise self._wrong(path, groups, "values that are not finite numbers")
            return
        least, most = 0, self.shape[column]
        if column == 0:
            least, most = int(self.bounds[groups[0]]), int(self.bounds[groups[-1] + 1])
        if array.dtype.kind != "i":
            raise self._wrong(path, groups, f"positions of type {array.dtype}")
        if array.min() < least or array.max() >= most:
            raise self._wrong(
                path, groups, f"positions in {self.modes[column]!r} outside of {least}-{most - 1}"
            )
        if column == 0 and (array[1:] < array[:-1]).any():
            raise self._wrong(path, groups, f"entries that are not sorted by {self.modes[0]!r}")

    def _wrong(self, path: Path, groups: Sequence[int], what: str) -> ValueError:
        first, last = (self._where[group][1] for group in (groups[0], groups[-1]))
        return ValueError(f"{path} has {what} in its row groups {first} to {last}; {SORT_AGAIN}")

    def _labels(self, mode: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the labels of a mode and their numbers of entries."""
        from pyarrow.parquet import read_table

        path = self.folder / labels_name(mode)
        check_digest(path, SORT_AGAIN)
        with reading(path, SORT_AGAIN), _damage_as_error():
            table = read_table(path)
            column = table.column("label")
            whole = column.type in ("int64", "bool")
            labels = column.to_numpy() if whole else as_labels(column.to_pylist(), "label")
            counts = np.asarray(table.column("entries").to_numpy(), dtype=np.int64)
            if len(labels) != self.shape[mode] or counts.sum() != self.count:
                raise ValueError(f"it has {len(labels)} labels for {counts.sum()} entries")
            return labels, counts
