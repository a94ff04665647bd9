"""Tables of the figures: rows as CSV, and the settings they belong to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from parafair.paper.config import Item, Setup
from parafair.paper.readings import OPTIONS, WHOLE_NUMBERS
from parafair.storage import (
    check_new_folder,
    check_same_settings,
    read_json,
    write_json,
    write_text,
)

Row = dict[str, Any]

KEY = ("data", "method", "strength", "seed", "rounds")
MEASURES = (
    "residual",
    "orthogonality",
    "khsic",
    "normalized_khsic",
    "unfairness",
    "floor",
    "balanced",
    "leakage",
    "low",
    "high",
)
COLUMNS = (*KEY, *MEASURES, "strongest", "below_chance", "capped", "status")
LIMIT_COLUMNS = ("data", "leakage", "residual")
TEXT = {"data", "method", "strongest", "status", "theorem", "what", *OPTIONS}
WHOLE = {"seed", "below_chance", *WHOLE_NUMBERS}

SETTINGS_FILE, LIMITS_FILE, THEOREMS = "settings.json", "limits.csv", "theorems"
# Notes about the runs, written by hand; appended to the page.
NOTES_FILE = "notes.md"


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows as CSV, whole or not at all; undefined values are empty cells."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(row[name], name) for name in columns] for row in rows)
    write_text(path, stream.getvalue())


def read_rows(path: Path) -> list[Row]:
    """Read the rows that `write_rows` wrote; an empty list if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            {name: _value(text, name) for name, text in row.items()}
            for row in csv.DictReader(stream)
        ]


def complete_tables(folder: Path, setup: Setup) -> dict[str, list[Row]]:
    """Return the complete tables in a folder, and the table of the theorems."""
    found = {name: read_rows(folder / f"{name}.csv") for name in setup.figures}
    complete = {
        name: rows
        for name, rows in found.items()
        if {key(row) for row in rows} == {item.key for item in setup.figures[name].items}
    }
    return {**complete, THEOREMS: read_rows(folder / f"{THEOREMS}.csv")}


def rounded(row: Mapping[str, Any]) -> Row:
    """Return a row as it is read back from a table."""
    return {name: _value(_text(value, name), name) for name, value in row.items()}


def key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of a row, as `Item.key`."""
    return Item(**{name: row[name] for name in KEY}).key


def open_settings(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Create the record of a folder, or check that its settings are the same; return it.

    A folder with files and without such a record is refused: they are somebody else's.

    Args:
        folder: The folder of the tables.
        settings: The settings that determine the tables.
    """
    file = folder / SETTINGS_FILE
    if not file.exists():
        check_new_folder(folder, overwrite=True, ours=frozenset())
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder, {"settings": settings, "runs": []})
    record = read_json(file)
    check_same_settings(folder, record.get("settings", {}), settings)
    return record


def write_settings(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record that `open_settings` returned."""
    write_json(folder / SETTINGS_FILE, record)


def _text(value: Any, name: str) -> str:
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return ""
    if isinstance(value, str):
        return value
    if name in WHOLE:
        return str(int(value))
    # Strengths are part of the key. Measures differ between processors in later digits.
    return f"{float(value):.10g}" if name == "strength" else f"{float(value):.6g}"


def _value(text: str, name: str) -> Any:
    if name in TEXT:
        return text
    if text == "":
        return None
    return int(text) if name in WHOLE else float(text)
