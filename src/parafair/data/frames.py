"""Reading tables: files and data frames of any library, as columns of labels and of numbers."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import as_path, has_ending
from parafair.data.labels import (
    NUMBERS,
    as_float,
    as_labels,
    find_labels,
    first_repeated,
    is_missing,
)
from parafair.errors import unknown_choice
from parafair.storage import check_file

if TYPE_CHECKING:
    import narwhals as nw
    import pandas

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet")
SEPARATORS = ",\t;|"

# Upper bound of the memory for a text file of numbers and short labels, as a multiple of its size.
# Measured: 11 for columns of labels, 4 for numbers only.
MEMORY_PER_BYTE_OF_TEXT = 12
BYTES_PER_VALUE = 8


def open_table(table: Any, *, labels: Sequence[str] = ()) -> nw.DataFrame[Any]:
    """Return a table of pandas, Polars or PyArrow, or of a file, as a narwhals data frame.

    Args:
        table: A data frame, or the path of a .csv or .parquet file.
        labels: Columns of a text file that hold labels; see `read_table`.
    """
    try:
        import narwhals as nw
    except ImportError as error:
        raise ImportError(
            "reading tables needs narwhals; install it with: pip install 'parafair[tables]'"
        ) from error

    if isinstance(table, (str, Path)):
        table = read_table(as_path("table", table), labels=labels)
    try:
        frame: nw.DataFrame[Any] = nw.from_native(table, eager_only=True)
    except TypeError as error:
        raise TypeError(
            "table must be a data frame (pandas, Polars, PyArrow; a lazy one collected first) or "
            f"the path of a {' or '.join(SUFFIXES)} file, got {type(table).__name__}"
        ) from error
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"table has columns of the same name: {list(map(str, table.columns))}; give every "
            "column its own name"
        ) from error
    if not len(frame):
        raise ValueError("table holds no rows; expected at least one")
    return frame


def frame_of(rows: Any, *, for_what: str) -> pandas.DataFrame:
    """Return rows or columns as a data frame of pandas, which the core install does not have."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            f"{for_what} needs pandas; install it with: pip install 'parafair[tables]'"
        ) from error
    return pandas.DataFrame(rows)


def read_table(path: Path, *, labels: Sequence[str] = ()) -> pandas.DataFrame:
    """Read a table from a text file (.csv, .tsv, .tab, .txt) or a .parquet file.

    The columns of text are separated by commas, tabs, semicolons or bars: by the one that is most
    frequent in the header. Only empty cells are missing, because NA may be a group.

    Args:
        path: The file.
        labels: Columns of a text file that hold labels. They become numbers only if Python would
            write all of them in the same way, so 007 stays text.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "reading files of tables needs pandas; install it with: pip install 'parafair[tables]'"
        ) from error

    check_file(path, SUFFIXES)
    try:
        if has_ending(path, (".parquet",)):
            check_parquet(path)
            needed, remedy = _size_of_parquet(path), "write only the columns that are needed"
            check_memory(needed, f"reading {path}", remedy)
            table = pandas.read_parquet(path)
        else:
            size = path.stat().st_size
            check_memory(MEMORY_PER_BYTE_OF_TEXT * size, f"reading {path}", "use Parquet")
            table = _read_csv(path, labels)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not encoded as UTF-8 ({error.reason} at byte {error.start}); save it as "
            "UTF-8"
        ) from error
    except (ValueError, OSError, csv.Error) as error:
        raise ValueError(
            f"{path} could not be read as a table ({error}); check that it is whole and begins "
            "with a header"
        ) from error
    if table.empty:
        raise ValueError(f"{path} holds no rows; expected a header and at least one row")
    return table


def _read_csv(path: Path, labels: Sequence[str]) -> pandas.DataFrame:
    """Read a text file with a header; see `read_table`."""
    import pandas

    separator = _separator(path)
    _check_fields(path, separator, rows=1)
    text = dict.fromkeys(labels, str)
    try:
        # Read in parts, a column may hold 1 in one of them and '1' in another.
        table = pandas.read_csv(
            path,
            sep=separator,
            dtype=text,
            keep_default_na=False,
            na_values=[""],
            low_memory=False,
        )
    except pandas.errors.ParserError:
        _check_fields(path, separator)
        raise
    for name in set(labels) & set(table.columns):
        table[name] = _as_written(table[name])
    return table


def _check_fields(path: Path, separator: str, rows: int | None = None) -> None:
    """Raise if a row of a text file has more fields than the header.

    If this is the first row, pandas takes the first field for an index and shifts the others.

    Args:
        path: The file.
        separator: The separator of its fields.
        rows: Number of rows to read; None reads all.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        records = filter(None, reader)
        header = next(records, [])
        for row in islice(records, rows):
            if len(row) > len(header):
                raise ValueError(
                    f"line {reader.line_num} has {len(row)} fields, but the header has "
                    f"{len(header)}; remove separators at the end of lines, and quote text that "
                    "contains a separator"
                )


def _separator(path: Path) -> str:
    """Return the separator that occurs most often in the header, outside quotes."""
    with path.open(encoding="utf-8-sig") as stream:
        header = re.sub('"[^"]*"', "", stream.readline())
    return max(SEPARATORS, key=header.count)


def check_parquet(path: str | Path) -> None:
    """Raise unless Parquet can be read and written here."""
    if find_spec("pyarrow") is None:
        raise ImportError(
            f"{path} needs the package 'pyarrow'; install it with: pip install "
            "'parafair[parquet]', or use .csv"
        )


def _size_of_parquet(path: Path) -> int:
    """Return a lower bound of the memory for the table of a file, from its metadata."""
    from pyarrow.parquet import read_metadata

    found = read_metadata(path)
    stored: int = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
    # Repeated values are stored once in the file, but not in memory.
    held: int = BYTES_PER_VALUE * found.num_rows * found.num_columns
    return max(stored, held)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise if an operation needs more memory than the machine has."""
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # this system does not report it
        return
    if needed > present:
        raise MemoryError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory, but this machine has "
            f"{present / 1e9:,.1f} GB; {remedy}"
        )


def check_columns(frame: nw.DataFrame[Any], names: Iterable[str], argument: str) -> None:
    """Raise unless the table has these columns."""
    for name in names:
        if not isinstance(name, str) or name not in frame.columns:
            raise unknown_choice(argument, name, frame.columns)


def read_labels(frame: nw.DataFrame[Any], name: str) -> NDArray[Any]:
    """Return a column of labels: whole numbers, numbers or text, none missing."""
    series = frame[name]
    if series.dtype.is_integer() and not series.is_null().any():
        numbers = series.to_numpy()
        if numbers.dtype.kind == "i":
            return np.asarray(numbers, dtype=np.int64)
    values = series.to_list()
    missing = np.array([is_missing(value) for value in values])
    if missing.any():
        raise ValueError(
            f"column {name!r} has {missing.sum()} rows without a label, the first is row "
            f"{int(missing.argmax())}; fill them or drop these rows"
        )
    return as_labels(values, f"column {name!r}")


def _is_numeral(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def read_numbers(frame: nw.DataFrame[Any], name: str) -> NDArray[np.float64]:
    """Return a column of numbers, NaN where they are missing."""
    import narwhals as nw

    series = frame[name]
    if series.dtype.is_float() or series.dtype.is_integer():
        found = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    else:
        values = series.to_list()
        wrong = [
            (row, value)
            for row, value in enumerate(values)
            if not is_missing(value) and not isinstance(value, NUMBERS)
        ]
        if wrong:
            # One word turns a whole column into text: report the word, not the numbers around it.
            row, value = next((pair for pair in wrong if not _is_numeral(pair[1])), wrong[0])
            raise ValueError(
                f"column {name!r} must hold numbers, got {value!r} in row {row}; leave missing "
                "values empty and turn text into numbers first"
            )
        found = np.array([np.nan if is_missing(value) else as_float(value) for value in values])
    infinite = np.isinf(found)
    if infinite.any():
        raise ValueError(
            f"column {name!r} has {infinite.sum()} infinite values, the first in row "
            f"{int(infinite.argmax())}; remove them, or leave them empty to mark them missing"
        )
    return found


def find_rows(frame: nw.DataFrame[Any], key: str, labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the row of each label in a table with one row per label; -1 without a row."""
    check_columns(frame, [key], "key")
    keys = read_labels(frame, key)
    twice = first_repeated(keys)
    if twice is not None:
        raise ValueError(f"table has more than one row for {key} {twice}; keep one per person")
    return find_labels(labels, keys)


def _as_written(column: pandas.Series[str]) -> Any:
    """Return a column of text as numbers if they are written as Python writes them."""
    distinct = column.dropna().unique()
    for kind in (int, float):
        try:
            numbers = {text: kind(text) for text in distinct}
        except ValueError:
            continue
        if all(str(number) == text and abs(number) < 2**63 for text, number in numbers.items()):
            return column.map(numbers)
    return column
