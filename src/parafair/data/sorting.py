"""Sorting entries by person, with files where memory is too small: an external merge sort.

The input is read twice: for the labels, and for runs of entries that fit into memory. Each run is
sorted by person and written to a temporary file. Then the runs are merged, for some people at a
time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.algebra.streamed import counting_order
from parafair.arguments import as_path, bytes_of, callback, one_of, size_text
from parafair.data.frames import check_parquet
from parafair.data.long_table import Duplicates, check_mode_columns, merge_cells
from parafair.data.parquet import (
    FORMAT,
    RECORD_FILE,
    SORTED_FILES,
    ParquetSource,
    labels_name,
    part_name,
)
from parafair.data.raw_table import BATCH, OnProgress, Progress, Table, find_files
from parafair.data.streamed import StreamedData
from parafair.disk import full_disk_named
from parafair.storage import check_new_folder, new_folder
from parafair.stored import write_record

# Entries of a row group, and row groups of a file.
GROUP, GROUPS = 2**17, 64

# Memory for an entry of a run while it is sorted: its columns, and copies of them.
BYTES_PER_ENTRY = 80


def sort_parquet(
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    modes: Sequence[str],
    value: str,
    duplicates: Duplicates = "error",
    memory: int | str = "1GB",
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> StreamedData:
    """Sort a table with one row per observed entry by person, for fits that stream it.

    The rows may be in any order and in any files. Labels are sorted as in `TensorData.from_table`,
    so the result is the same tensor. Memory grows with the number of labels, not of rows.

    Args:
        source: A folder of .parquet files, also in folders below it; a file; or a list of files.
        out: The folder to create.
        modes: The columns that say where an entry belongs; that of the people is the first.
        value: The column with the numbers.
        duplicates: What to do with several rows for one entry; see `TensorData.from_table`.
        memory: Memory for the entries that are sorted at once, such as "1GB" or a number of bytes.
        overwrite: Whether to replace an earlier result.
        on_progress: Called with the work done and the work in all, in rows.
    """
    names = check_mode_columns(modes, value)
    one_of("duplicates", duplicates, get_args(Duplicates))
    limit = bytes_of("memory", memory)
    callback("on_progress", on_progress)
    out = as_path("out", out)
    check_parquet(out)
    check_new_folder(out, overwrite=overwrite, ours=SORTED_FILES)
    table = Table(find_files(source), names, value)
    run = limit // BYTES_PER_ENTRY
    if run < BATCH:
        raise ValueError(
            f"memory must be at least {BATCH * BYTES_PER_ENTRY / 1e6:.0f} MB to sort, got "
            f"{limit / 1e6:g} MB"
        )
    _check_disk(out, table)
    progress = Progress(on_progress, 3 * table.rows)
    with _full_disk(out, table), new_folder(out, overwrite=overwrite, ours=SORTED_FILES) as folder:
        labels = table.labels(progress)
        runs = Runs(folder / "runs", [len(own) for own in labels])
        for positions, values in table.entries(labels, progress):
            runs.add(positions, values, run)
        runs.close()
        if not runs.counts.any():
            raise ValueError(
                f"column {value!r} has no values: all are missing; at least one must be there"
            )
        Merge(folder, names, value, labels, duplicates).write(runs, progress)
        shutil.rmtree(folder / "runs")
        progress.finish()
    return StreamedData(ParquetSource(out))


class Runs:
    """Entries in temporary files, each sorted by person.

    Args:
        folder: A new folder for the files.
        sizes: Sizes of the modes.
    """

    def __init__(self, folder: Path, sizes: Sequence[int]) -> None:
        folder.mkdir()
        self.folder = folder
        self.kinds = [np.int32 if size < 2**31 else np.int64 for size in sizes]
        self.counts = np.zeros(sizes[0], np.int64)
        self.waiting: list[list[NDArray[Any]]] = []
        self.size, self.number = 0, 0

    def add(self, positions: list[NDArray[np.int64]], values: NDArray[Any], most: int) -> None:
        """Add entries; write a run when there are more than `most`."""
        pairs = zip(positions, self.kinds, strict=True)
        self.waiting.append([*(own.astype(kind) for own, kind in pairs), values])
        self.size += len(values)
        if self.size + BATCH > most:
            self.close()

    def close(self) -> None:
        """Write the entries that wait as one run."""
        if not self.size:
            return
        columns = [np.concatenate(own) for own in zip(*self.waiting, strict=True)]
        self.waiting, self.size = [], 0
        people = columns[0]
        self.counts += np.bincount(people, minlength=len(self.counts))
        # A stable order keeps rows of the same entry in the order of the table.
        order = counting_order(torch.from_numpy(people), len(self.counts)).numpy()
        for number, column in enumerate(columns):
            self._file(self.number, number).write_bytes(column[order].data)
        self.number += 1

    def open(self) -> list[list[NDArray[Any]]]:
        """Return the columns of every run, mapped from their files."""
        kinds = [*self.kinds, np.float64]
        return [
            [np.memmap(self._file(run, i), kind, "r") for i, kind in enumerate(kinds)]
            for run in range(self.number)
        ]

    def _file(self, run: int, column: int) -> Path:
        return self.folder / f"{run}-{column}"


@dataclass
class Merge:
    """Writes the sorted folder.

    Attributes:
        folder: The folder.
        modes: Names of the modes.
        value: Name of the values.
        labels: Labels of the modes.
        duplicates: What to do with several rows for one entry.
    """

    folder: Path
    modes: tuple[str, ...]
    value: str
    labels: list[NDArray[Any]]
    duplicates: Duplicates
    parts: list[dict[str, Any]] = field(default_factory=list)

    def write(self, runs: Runs, progress: Progress) -> None:
        """Merge the runs and write parts, labels and the record."""
        columns, begins = runs.open(), [0] * runs.number
        counts = [np.zeros(len(own), np.int64) for own in self.labels]
        total, squares = 0, 0.0
        bounds = _cut(runs.counts)
        for first in range(0, len(bounds) - 1, GROUPS):
            own = bounds[first : first + GROUPS + 1]
            with self._part(runs.kinds) as add:
                for begin, end in pairwise(own):
                    # A number of another type would make a copy of the whole column.
                    ends = [int(run[0].searchsorted(run[0].dtype.type(end))) for run in columns]
                    pieces = zip(columns, begins, ends, strict=True)
                    read = [[c[a:b] for c in run] for run, a, b in pieces if b > a]
                    *positions, values = (np.concatenate(c) for c in zip(*read, strict=True))
                    progress.add(len(values))
                    cells, merged = merge_cells(
                        np.stack(positions).astype(np.int64),
                        values,
                        self.duplicates,
                        self.modes,
                        self.labels,
                    )
                    for count, places in zip(counts, cells, strict=True):
                        np.add.at(count, places, 1)
                    total, squares = total + len(merged), squares + float(merged @ merged)
                    add(begin, cells, merged)
                    begins = ends
        self._write_labels(counts)
        record = {
            "format": FORMAT,
            "modes": self.modes,
            "value": self.value,
            "shape": [len(own) for own in self.labels],
            "count": total,
            "norm_squared": squares,
            "parts": self.parts,
        }
        write_record(self.folder / RECORD_FILE, record)

    @contextmanager
    def _part(self, kinds: Sequence[Any]) -> Iterator[Callable[..., None]]:
        """Yield a function that writes a row group into a new file."""
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        path = self.folder / part_name(len(self.parts))
        names, groups = (*self.modes, self.value), []
        types = [*(pa.from_numpy_dtype(kind) for kind in kinds), pa.float64()]
        schema = pa.schema(zip(names, types, strict=True))
        with ParquetWriter(path, schema, compression="lz4", write_page_checksum=True) as writer:

            def add(begin: int, cells: NDArray[np.int64], values: NDArray[np.float64]) -> None:
                pairs = zip(cells, kinds, strict=True)
                arrays = [*(own.astype(kind) for own, kind in pairs), values]
                table = pa.table(dict(zip(names, arrays, strict=True)), schema=schema)
                writer.write_table(table, row_group_size=max(len(values), 1))
                groups.append([int(begin), len(values)])

            yield add
        self.parts.append({"name": path.name, "bytes": path.stat().st_size, "groups": groups})

    def _write_labels(self, counts: Sequence[NDArray[np.int64]]) -> None:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        for mode, (labels, entries) in enumerate(zip(self.labels, counts, strict=True)):
            table = pa.table({"label": labels, "entries": entries})
            write_table(table, self.folder / labels_name(mode), write_page_checksum=True)


def _cut(counts: NDArray[np.int64]) -> list[int]:
    """Return the first person of each row group, then the number of people.

    A row group has whole people, at least one with entries, and about `GROUP` entries.
    """
    ends, bounds, before = np.cumsum(counts), [0], 0
    while bounds[-1] < len(counts):
        # Up to the last person with whom the group is not too large; at least one with entries.
        full = int(np.searchsorted(ends, before + GROUP, side="right"))
        some = int(np.searchsorted(ends, before, side="right")) + 1
        after = max(full, some)
        if after >= len(counts) or ends[after - 1] == ends[-1]:
            after = len(counts)
        bounds.append(after)
        before = int(ends[after - 1])
    return bounds


def _check_disk(out: Path, table: Table) -> None:
    """Raise unless the disk has room for the runs and the result."""
    above = next(path for path in out.absolute().parents if path.exists())
    free = shutil.disk_usage(above).free
    if free < _disk(table):
        raise OSError(
            f"the disk of {out} has {size_text(free)} free, but sorting {table.rows:,} rows "
            f"needs about {size_text(_disk(table))}; free some space, or choose another folder"
        )


def _disk(table: Table) -> int:
    """Return the space that the runs and the result may take, in bytes."""
    return 2 * table.rows * (4 * len(table.modes) + 8)


def _full_disk(out: Path, table: Table) -> AbstractContextManager[None]:
    """Say what to do if the disk is full; what was written is removed."""
    return full_disk_named(
        out,
        f"became full while {table.rows:,} rows were sorted, which needs about "
        f"{size_text(_disk(table))}; nothing was written. Free some space, or choose another "
        "folder",
    )
