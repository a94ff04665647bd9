"""Tables of entries in many Parquet files, read in batches: their labels, positions and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import as_path, has_ending, items
from parafair.data.frames import TEXT_SUFFIXES
from parafair.data.labels import as_labels
from parafair.data.parquet import RECORD_FILE
from parafair.errors import missing_column

if TYPE_CHECKING:
    import pyarrow

# Rows that are read at once.
BATCH = 2**17

OnProgress = Callable[[int, int], None]


def find_files(source: Any) -> list[Path]:
    """Return the .parquet files of a folder in the order of their names, or the files given."""
    single = isinstance(source, (str, Path))
    given = [source] if single else items("source", source, "files")
    found: list[Path] = []
    for path in (as_path("source", each) for each in given):
        if path.is_dir():
            inside = sorted(path.rglob("*.parquet"))
            if not inside:
                raise FileNotFoundError(f"{path} has no .parquet files; give a folder with some")
            if (path / RECORD_FILE).exists():
                raise ValueError(
                    f"{path} is sorted already; use TensorData.from_parquet, or parafair fit"
                )
            found += inside
        elif path.is_file():
            if has_ending(path, TEXT_SUFFIXES):
                raise ValueError(
                    f"{path} is a table of text, but only .parquet files can be sorted; convert "
                    "it first, for example with pandas.read_csv(file).to_parquet(other)"
                )
            found.append(path)
        else:
            raise FileNotFoundError(
                f"source {path} does not exist; give a folder or .parquet files"
            )
    if not found:
        raise ValueError("source is an empty list; give a folder or .parquet files")
    return found


@dataclass
class Progress:
    """Counts rows for a callback.

    Attributes:
        report: Called with the work done and the work in all.
        total: The work in all.
        done: The work done.
    """

    report: OnProgress | None
    total: int
    done: int = 0

    def add(self, rows: int) -> None:
        """Count rows."""
        self.done += rows
        if self.report is not None:
            self.report(self.done, self.total)

    def finish(self) -> None:
        """Tell that all work is done; rows without a value need less."""
        self.add(self.total - self.done)


@dataclass(frozen=True)
class Table:
    """Files with a row per entry.

    Attributes:
        files: The files, in order.
        modes: The columns of labels.
        value: The column of numbers.
    """

    files: list[Path]
    modes: tuple[str, ...]
    value: str

    @cached_property
    def rows(self) -> int:
        """Number of rows; files without the columns are an error."""
        from pyarrow.parquet import ParquetFile

        total = 0
        for path in self.files:
            with _readable(path), ParquetFile(path) as file:
                names = file.schema_arrow.names
                for name in (*self.modes, self.value):
                    if name not in names:
                        raise missing_column(f"source file {path}", name, names)
                total += file.metadata.num_rows
        if not total:
            raise ValueError(
                f"source has no rows: {self.files[0]} and the other files hold none; give files "
                "with entries"
            )
        return total

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[Path, int, pyarrow.RecordBatch]]:
        """Yield batches of rows, each with its file and the number of its first row there."""
        from pyarrow.parquet import ParquetFile

        for path in self.files:
            # Pages have checksums if their writer made some.
            with _readable(path), ParquetFile(path, page_checksum_verification=True) as file:
                first = 0
                for batch in file.iter_batches(BATCH, columns=list(columns), use_threads=False):
                    yield path, first, batch
                    first += batch.num_rows

    def labels(self, progress: Progress) -> list[NDArray[Any]]:
        """Return the distinct labels of every mode, sorted."""
        found = {name: _Distinct(name) for name in self.modes}
        for path, first, batch in self._batches(self.modes):
            for name, own in found.items():
                own.add(path, _distinct(path, name, batch.column(name), first)[0])
            progress.add(batch.num_rows)
        return [own.all() for own in found.values()]

    def entries(
        self, labels: Sequence[NDArray[Any]], progress: Progress
    ) -> Iterator[tuple[list[NDArray[np.int64]], NDArray[np.float64]]]:
        """Yield positions in every mode and values, of the rows that have a value."""
        for path, first, batch in self._batches((*self.modes, self.value)):
            values = _numbers(path, self.value, batch.column(self.value))
            present = ~np.isnan(values)
            positions = []
            for name, own in zip(self.modes, labels, strict=True):
                distinct, code = _distinct(path, name, batch.column(name), first)
                places = _find(distinct, own)
                positions.append((places if code is None else places[code])[present])
            progress.add(batch.num_rows)
            yield positions, values[present]


class _Distinct:
    """Labels of a mode that are collected from many batches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known: NDArray[Any] | None = None
        self.pending: list[NDArray[Any]] = []
        self.waiting = 0

    def add(self, path: Path, labels: NDArray[Any]) -> None:
        """Add labels of a batch; text and numbers must not mix."""
        if self.known is not None and (self.known.dtype.kind == "U") != (labels.dtype.kind == "U"):
            raise ValueError(
                f"column {self.name!r} of {path} has labels of another type than the files before "
                "it; make them all text or all numbers"
            )
        if self.known is None:
            self.known = _unique(labels)
            return
        self.pending.append(labels)
        self.waiting += len(labels)
        # Sorting when as many wait as are known makes the work proportional to the rows.
        if self.waiting > max(len(self.known), BATCH):
            self.all()

    def all(self) -> NDArray[Any]:
        """Return all labels so far, sorted."""
        assert self.known is not None
        if self.pending:
            self.known = _unique(np.concatenate([self.known, *self.pending]))
            self.pending, self.waiting = [], 0
        return self.known


def _unique(labels: NDArray[Any]) -> NDArray[Any]:
    """Return different labels, sorted; for whole numbers several times as fast as NumPy's own."""
    if labels.dtype.kind != "i" or not len(labels):
        return np.unique(labels)
    ordered = np.sort(labels)
    kept: NDArray[Any] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return kept


def _distinct(
    path: Path, name: str, column: pyarrow.Array, first: int
) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Return labels of a column, and the label of each row; None if there is one for each row."""
    import pyarrow as pa

    if column.null_count:
        row = first + int(np.asarray(column.is_null()).argmax())
        raise ValueError(
            f"column {name!r} of {path} has rows without a label, the first is row {row}, counted "
            "from 0; fill them or drop these rows"
        )
    if pa.types.is_signed_integer(column.type):
        return np.asarray(column.to_numpy(), dtype=np.int64), None
    coded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    labels = as_labels(coded.dictionary.to_pylist(), f"column {name!r} of {path}")
    return labels, np.asarray(coded.indices.to_numpy(), dtype=np.int64)


def _find(wanted: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the positions of labels, all of which are there."""
    if labels.dtype.kind == "i" and labels[-1] - labels[0] == len(labels) - 1:
        return np.asarray(wanted - labels[0], dtype=np.int64)  # numbered without gaps
    return np.searchsorted(labels, wanted.astype(labels.dtype)).astype(np.int64)


def _numbers(path: Path, name: str, column: pyarrow.Array) -> NDArray[np.float64]:
    """Return a column of numbers, NaN where they are missing."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise ValueError(f"column {name!r} of {path} must hold numbers, got {kind}")
    found = np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64)
    if np.isinf(found).any():
        raise ValueError(
            f"column {name!r} of {path} has infinite values; remove them, or leave them empty to "
            "mark them missing"
        )
    return found


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file in errors about its content."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(
            f"{path} could not be read as Parquet ({error}); it seems damaged or truncated: write "
            "or copy it again"
        ) from error
