"""People and embeddings, as the commands read and write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from parafair.errors import unknown_choice
from parafair.fit import Fit
from parafair.labels import as_labels
from parafair.sensitive import SensitiveFeatures
from parafair.storage import new_folder, read_tensor
from parafair.tables import find_rows, open_table, read_table


def pick_features(
    table: pandas.DataFrame, columns: str | None, kinds: list[str] | None, key: str | None
) -> SensitiveFeatures:
    """Pick the sensitive columns of a table."""
    names = [str(name) for name in table.columns if name != key]
    wanted = names if columns is None else columns.split(",")
    for name in wanted if columns is None else ():
        if pandas.api.types.is_integer_dtype(table[name]) and table[name].is_unique:
            raise ValueError(
                f"column {name!r} has another whole number for every person, so it seems to label "
                "them; name it with --key, or list the sensitive columns with --columns"
            )
    for name in [*wanted, *([] if key is None else [key])]:
        if name not in table.columns:
            raise unknown_choice("a column", name, map(str, table.columns))
    stated: dict[str, Any] = {}
    for entry in kinds or []:
        name, separator, value = entry.partition("=")
        if not separator:
            raise ValueError(f"--kind must look like column=numeric, got {entry!r}")
        stated[name] = value
    return SensitiveFeatures.from_table(table, wanted, kinds=stated)


def labels_of(table: pandas.DataFrame | None, key: str | None, n: int) -> pandas.Series:
    """Return the labels of n people: the key column, or their row numbers."""
    if table is None or key is None:
        return pandas.Series(range(n), name="row")
    return table[key]


def write_run(
    out: Path, fit: Fit, embedding: Any, labels: pandas.Series, table_format: str, force: bool
) -> None:
    """Write a run, whole or not at all."""
    names = [f"component_{r}" for r in range(embedding.shape[1])]
    table = pandas.DataFrame(embedding, columns=names)
    table.insert(0, str(labels.name), labels.to_numpy())
    with new_folder(out, overwrite=force) as folder:
        fit.write(folder)
        if table_format == "parquet":
            table.to_parquet(folder / "embedding.parquet", index=False)
        else:
            table.to_csv(folder / "embedding.csv", index=False)


def read_embedding(path: Path, key: str | None) -> tuple[Any, pandas.Series | None]:
    """Return the rows of an embedding and, with a key, whose they are."""
    if path.is_dir():
        found = [path / name for name in ("embedding.csv", "embedding.parquet")]
        path = next((file for file in found if file.exists()), found[0])
    if path.suffix in (".npy", ".npz"):
        if key is not None:
            raise ValueError(f"--key {key} needs a table with that column, but {path} is an array")
        return read_tensor(path), None
    table = read_table(path, labels=[] if key is None else [key])
    if key is not None and key not in table.columns:
        raise unknown_choice("--key", key, map(str, table.columns))
    components = [name for name in table.columns if str(name).startswith("component_")]
    rows = table[components] if components else table.drop(columns=key or [])
    text = [str(name) for name in rows.columns if not pandas.api.types.is_numeric_dtype(rows[name])]
    if text:
        raise ValueError(
            f"{path} has columns that are not numbers: {', '.join(text[:5])}; name the column of "
            "labels with --key, or call the columns of the embedding component_0, component_1, ..."
        )
    return rows.to_numpy(), None if key is None else table[key]


def check_key(people: pandas.DataFrame, key: str, path: Path | None) -> None:
    """Raise unless the key has one value for each person."""
    if key.startswith("component_"):
        raise ValueError(f"--key {key}: columns of this name hold the embedding; rename it")
    _find(people, key, people[key], path)


def align(
    people: pandas.DataFrame, labels: pandas.Series, key: str, path: Path
) -> pandas.DataFrame:
    """Return the people in the order of the embedding's labels."""
    if key not in people.columns:
        raise unknown_choice("--key", key, map(str, people.columns))
    check_key(people, key, path)
    rows = _find(people, key, labels, path)
    if (rows < 0).any():
        missing = labels[rows < 0]
        raise ValueError(
            f"{path} has no row for {len(missing)} people of the embedding, such as {key} "
            f"{missing.iloc[0]}; add them"
        )
    return people.iloc[rows].reset_index(drop=True)


def _find(
    people: pandas.DataFrame, key: str, labels: pandas.Series, path: Path | None
) -> NDArray[np.intp]:
    """Return the row of each person, or say which file has which fault."""
    try:
        return find_rows(open_table(people), key, as_labels(labels.tolist(), f"column {key!r}"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
