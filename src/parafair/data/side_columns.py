"""Side information: a table of numbers, one row per person, as a fit sees it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.data.checks import check_values
from parafair.data.labels import as_labels, find_labels, preview
from parafair.data.modes import is_labeled
from parafair.data.raw_features import index_of, paired_indexes
from parafair.data.tensor_data import TensorData
from parafair.errors import ParafairWarning, shown, warn
from parafair.losses import Loss, Squared, has_link
from parafair.losses.registry import read_loss, stored_loss

# A column whose values differ by less, relative to their size, is constant.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class SideColumns:
    """The columns of a table of side information, standardized over the training people.

    Losses that are for certain values alone, such as counts, have them as they are.

    Attributes:
        labels: What each column is, shape (columns,).
        mean: Their means over the observed entries, shape (columns,); 0 if they stay as they are.
        scale: Their standard deviations; 1 for a column with the same value everywhere, and if
            they stay as they are.
        loss: The loss of the table.
    """

    labels: NDArray[Any]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    loss: Loss = field(default_factory=Squared)

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, table: TensorData, loss: Loss) -> SideColumns:
        """Return the columns of a table of people x columns; warn about constant ones."""
        check_values(table, loss, name="side", argument="side_loss")
        entries, places = table.entries.double().cpu().numpy(), table.cells[1].cpu().numpy()
        columns = table.shape[1]
        counts = np.bincount(places, minlength=columns)
        if not counts.all():
            raise ValueError(
                f"side has no entries in the columns {preview(table.labels[1][counts == 0])}; "
                "leave these columns out"
            )
        units = _powers_of_two(entries, places, columns)
        entries = entries / units[places]
        mean = np.bincount(places, entries, columns) / counts
        left = entries - mean[places]
        spread = np.sqrt(np.bincount(places, left**2, columns) / counts)
        constant = spread <= ROUNDING * np.abs(mean)
        if constant.all():
            raise ValueError(
                "side has the same value for everybody in every column, so it tells nothing about "
                "people; leave side out"
            )
        if constant.any():
            warn(
                f"the columns {preview(table.labels[1][constant])} of side have the same value for "
                "everybody and no effect; leave them out",
                ParafairWarning,
                stacklevel=4,
            )
        # A loss without a link may still be one of positive entries alone.
        standard = torch.from_numpy(left / np.where(constant, 1.0, spread)[places])
        if not has_link(loss) and bool(loss.accepts(standard).all()):
            scale = np.where(constant, 1.0, spread * units)
            return cls(table.labels[1], mean * units, scale, loss)
        return cls(table.labels[1], np.zeros_like(mean), np.ones_like(mean), loss)

    def standardize(self, table: TensorData) -> TensorData:
        """Return a table with these columns in double precision, as the fit sees it."""
        exact = table.to(dtype=torch.float64)
        mean, scale = (torch.from_numpy(part).to(exact.values) for part in (self.mean, self.scale))
        if exact.indices is not None:
            mean, scale = mean[exact.indices[1]], scale[exact.indices[1]]
        return exact.with_values((exact.values - mean) / scale)

    def restore(self, model: NDArray[Any]) -> NDArray[Any]:
        """Return expected values of these columns, shape (people, columns), in their own units.

        Args:
            model: The model, as a fit has it, with intercepts.
        """
        linked = torch.from_numpy(np.asarray(model * self.scale + self.mean))
        found: NDArray[Any] = self.loss.mean(linked).numpy()
        return found

    def align(self, table: TensorData) -> TensorData:
        """Return a table of other people with these columns, matched by label if it has any."""
        if table.shape[1] == len(self) and not _named(table.labels[1], self.labels):
            return table
        places = find_labels(self.labels, table.labels[1])
        if (places < 0).any() or table.shape[1] > len(self):
            raise ValueError(
                f"side must have the columns of the fit ({preview(self.labels, 5)}), got "
                f"{table.shape[1]} columns ({preview(table.labels[1], 5)}); pass the same "
                "columns, NaN where nothing is known"
            )
        return table.take(1, places)

    def to_record(self) -> dict[str, Any]:
        """Return values for JSON."""
        lists = {name: getattr(self, name).tolist() for name in ("labels", "mean", "scale")}
        return {**lists, "loss": stored_loss(self.loss)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, classes: Iterable[type] = ()) -> SideColumns:
        """Return columns from the result of `to_record`.

        Args:
            record: The values.
            classes: Additional classes that the loss may have.
        """
        mean, scale = (np.asarray(record[name], np.float64) for name in ("mean", "scale"))
        labels = np.asarray(record["labels"])
        if not labels.shape == mean.shape == scale.shape or labels.ndim != 1:
            raise ValueError("its side information has different numbers of labels and means")
        # Models were saved before tables had losses.
        return cls(labels, mean, scale, read_loss(record.get("loss", "squared"), classes=classes))


def _powers_of_two(
    entries: NDArray[np.float64], columns: NDArray[np.intp], count: int
) -> NDArray[np.float64]:
    """Return a power of two for each column, so that no square of its entries overflows."""
    largest = np.zeros(count)
    np.maximum.at(largest, columns, np.abs(entries))
    # The smallest and the largest numbers have no power of two of their own.
    powers: NDArray[np.float64] = np.ldexp(1.0, np.clip(np.frexp(largest)[1], -1021, 1023))
    return powers


def read_side(side: Any, data: TensorData, mode: int) -> TensorData:
    """Return side information with one row per person of the data, in their order.

    If both have labels of people, rows are matched by label: people without a row have no side
    information. Otherwise rows are matched by position.

    Args:
        side: A matrix of people x columns as a data frame, an array or a `TensorData`.
        data: The data of the people.
        mode: Their mode.
    """
    table, people = _read(side), data.labels[mode]
    table = table.to(device=data.values.device)
    own = index_of(side) if not isinstance(side, TensorData) else _own(table.labels[0])
    if own is not None and is_labeled(data.modes, data.labels):
        return _by_label(table, people, data.modes[mode])
    if table.shape[0] != len(people):
        raise ValueError(
            f"side has {table.shape[0]} rows but X has {len(people)} people; pass one row per "
            "person in the same order, or data frames with the labels of people as their index"
        )
    return TensorData(
        table.values, table.indices, table.shape, table.modes, (people, table.labels[1])
    )


def match_index(side: Any, X: Any) -> Any:
    """Return side information in the order of a data frame, if both have an index.

    A matrix loses its index on the way to a fit, so this comes first.

    Args:
        side: As in `read_side`, or None.
        X: The data, as it was given.
    """
    both = paired_indexes(side, X)
    if both is None:
        return side
    return _by_label(_read(side), as_labels(both[1], "the index of X"), "index")


def _check_table(side: Any) -> None:
    """Raise for a file, a table without numbers, and columns of the same name."""
    if isinstance(side, (str, os.PathLike)):
        raise TypeError(
            f"side must be a table of numbers, got {shown(side)}; read the file first, for example "
            "with pandas.read_csv"
        )
    shape = getattr(side, "shape", ())
    if isinstance(shape, tuple) and 0 in shape:
        raise ValueError(
            f"side must have at least one row and one column, got shape {tuple(shape)}; pass "
            "people x columns, or leave it out"
        )
    names = list(getattr(side, "columns", ()))
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ValueError(
            f"side has the column {shown(twice[0])} more than once; rename or remove one of them"
        )


def _read(side: Any) -> TensorData:
    """Read a matrix of numbers."""
    _check_table(side)
    if getattr(side, "ndim", None) == 1:
        side = side.to_frame() if hasattr(side, "to_frame") else np.asarray(side)[:, None]
    try:
        table = TensorData.from_array(side)
    except TypeError as error:
        raise TypeError(
            f"side, read like X: {error}. It must be numbers with one row per person; encode text "
            "as numbers, for example with pandas.get_dummies"
        ) from error
    except ValueError as error:
        raise ValueError(f"side, read like X: {error}") from error
    if table.order != 2:
        raise ValueError(
            f"side must be a matrix with one row per person, got the shape {table.shape}; pass "
            "people x columns"
        )
    return table


def _by_label(table: TensorData, people: NDArray[Any], mode: str) -> TensorData:
    """Return the rows of these people; those that have none are missing."""
    places = find_labels(table.labels[0], people)
    unknown = table.labels[0][places < 0]
    if len(unknown):
        raise ValueError(
            f"side has {len(unknown)} of {len(places)} people whom X does not have, such as "
            f"{preview(unknown)}; X has {mode} {preview(people)}. Leave them out of side, or add "
            "them to X with missing entries, to get rows from side alone"
        )
    sparse = table.to_sparse()
    moved = torch.from_numpy(places).to(sparse.cells.device)
    indices = torch.stack([moved[sparse.cells[0]], sparse.cells[1]])
    shape, labels = (len(people), table.shape[1]), (people, table.labels[1])
    found = TensorData(sparse.entries, indices, shape, table.modes, labels)
    return found if table.is_sparse else found.to_dense()


def _own(labels: NDArray[Any]) -> NDArray[Any] | None:
    """Return labels of people; None if they are only numbered."""
    return None if np.array_equal(labels, np.arange(len(labels))) else labels


def _named(labels: NDArray[Any], known: NDArray[Any]) -> bool:
    """Whether labels of columns say which columns they are, and these are not the known ones."""
    return not np.array_equal(labels, known) and _own(labels) is not None
