"""TensorData: a tensor with missing entries, and what its modes and indices are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from parafair.algebra.observed import Observations, observe
from parafair.algebra.zero_filled import ZeroFilledObservations
from parafair.arguments import as_path, bytes_of, items, one_of
from parafair.data.arrays import RawTensor, check_count, check_finite, read_array, to_tensor
from parafair.data.devices import check_device, precision_for, resolve_dtype
from parafair.data.frames import check_memory, frame_of
from parafair.data.labels import check_positions
from parafair.data.long_table import (
    Absent,
    Duplicates,
    check_mode_columns,
    read_entries,
    read_tns,
    sorted_cells,
)
from parafair.data.modes import complete_labels, complete_modes
from parafair.data.shaped import Shaped
from parafair.data.view import tensor_parts
from parafair.data.xarrays import data_array
from parafair.display import view

if TYPE_CHECKING:
    import pandas
    import xarray

    from parafair.data.streamed import StreamedData


@dataclass(frozen=True, eq=False, repr=False)
class TensorData(Shaped):
    """A tensor of which some entries may be missing, with names and labels for its modes.

    Dense, it holds all entries, NaN where they are missing. Sparse, it holds a list of entries, and
    `absent` says what all others are: missing, or zeros that are observed like the listed entries.
    Such zeros are never stored. Made by `from_table`, `from_array`, `from_tns`.

    Attributes:
        values: Shape ``shape`` with NaN where missing, or (count,) if sparse; float32 or float64.
            If absent entries are zeros, a listed NaN is a missing entry.
        indices: None, or the places of the values, int64, shape (order, count), in ascending order.
        shape: Sizes of the modes.
        modes: What each mode is; by default mode_0, mode_1, ...
        labels: What each index of each mode is, one array per mode; by default 0, 1, ...
        absent: What entries are that a list does not have: "missing" or "zero".

    >>> data = TensorData.from_array([[1.0, float("nan")], [3.0, 4.0]], modes=("student", "test"))
    >>> data
    TensorData(2 student x 2 test, 3 observed (75 %), dense, float64)
    """

    values: Tensor
    indices: Tensor | None = None
    shape: tuple[int, ...] = ()
    modes: tuple[str, ...] = ()
    labels: tuple[NDArray[Any], ...] = ()
    absent: Absent = "missing"

    def __post_init__(self) -> None:
        one_of("absent", self.absent, get_args(Absent))
        if self.indices is None:  # and no entry is absent
            self._set("shape", self.shape or tuple(self.values.shape))
            self._set("absent", "missing")
        self._check_shape()
        self._set("modes", complete_modes(self.modes, len(self.shape)))
        self._set("labels", complete_labels(self.labels, self.shape, self.modes))
        if self.indices is not None:
            indices, order = sorted_cells(self.indices, self.shape, self.modes)
            self._set("indices", indices)
            self._set("values", self.values if order is None else self.values[order])
        self._check_values()

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        modes: Sequence[str],
        value: str,
        duplicates: Duplicates = "error",
        labels: Mapping[str, Sequence[Any]] | None = None,
        absent: Absent = "missing",
    ) -> TensorData:
        """Read a table with one row per observed entry; the result is sparse.

        Labels are sorted (numbers by size, text by character), so the order of rows does not
        matter. A row whose value is missing makes its labels known; if absent entries are zeros, it
        also says that its entry is missing.

        Args:
            table: A data frame of pandas, Polars or PyArrow, or the path of a .csv or .parquet
                file.
            modes: The columns that say where an entry belongs, one per mode.
            value: The column with the numbers.
            duplicates: What to do with several rows for one entry: "error", or take their "mean",
                "sum", "max", the "first" or the "last" in the order of the table.
            labels: Labels of a mode in the order they shall have, by its name, for data that must
                match other data; rows with others are an error.
            absent: What entries are that have no row: "missing", or "zero", as in a table of events
                or counts that lists those above zero.

        >>> import pandas
        >>> table = pandas.DataFrame({"who": ["b", "a", "b"], "what": [1, 1, 2], "x": [5, 6, 7]})
        >>> TensorData.from_table(table, modes=["who", "what"], value="x").to_table()
          who  what  value
        0   a     1    6.0
        1   b     1    5.0
        2   b     2    7.0
        """
        return data_of(read_entries(table, modes, value, duplicates, labels, absent), absent)

    @classmethod
    def from_array(
        cls,
        array: Any,
        *,
        modes: Sequence[str] = (),
        labels: Sequence[Sequence[Any] | None] = (),
        absent: Absent = "missing",
    ) -> TensorData:
        """Read an array; NaN and masked entries are missing.

        Args:
            array: NumPy (masked too), torch (dense or sparse), SciPy sparse, an xarray DataArray or
                a data frame as a matrix; the last two bring their labels.
            modes: Names of the modes, instead of those the array brings.
            labels: Labels of each mode, instead of those the array brings; None keeps them.
            absent: What entries are that a sparse array does not store: "missing" or "zero".
        """
        if isinstance(array, TensorData):
            return array
        one_of("absent", absent, get_args(Absent))
        parts = read_array(array)
        if absent == "zero" and parts.indices is None:
            raise ValueError(
                "absent='zero' is for sparse arrays, but this one is dense and states all its "
                "entries; leave absent out, and replace NaN by 0 if that is what it means"
            )
        names = tuple(items("modes", modes, "names, one per mode"))
        lists = items("labels", labels, "lists of labels, one per mode")
        if lists:
            check_count("labels", lists, len(parts.shape))
            pairs = zip(lists, parts.labels, strict=True)
            chosen = tuple(own if given is None else given for given, own in pairs)
            parts = replace(parts, labels=chosen)
        return data_of(replace(parts, modes=names) if names else parts, absent)

    @classmethod
    def from_tns(
        cls, path: str | Path, *, duplicates: Duplicates = "error", absent: Absent = "missing"
    ) -> TensorData:
        """Read a FROSTT file: one line per entry, its indices counted from 1, then its value.

        Labels are the numbers in the file. Packed files (.tns.gz) work too. `absent` says what
        entries without a line are, as in `from_table`.
        """
        return data_of(read_tns(as_path("path", path), duplicates, absent), absent)

    @classmethod
    def from_parquet(cls, folder: str | Path, *, memory: int | str | None = None) -> StreamedData:
        """Open entries that `sort_parquet` sorted by person; they stay in their files.

        A fit reads them in tiles of people, and needs memory for rows of people and for a tile.

        Args:
            folder: The sorted folder.
            memory: What a fit may use, such as "8GB"; it sets the size of a tile, and a fit that
                needs more is refused at once. None for no limit.
        """
        from parafair.data.parquet import ParquetSource
        from parafair.data.streamed import StreamedData

        limit = None if memory is None else bytes_of("memory", memory)
        return StreamedData(ParquetSource(folder), memory=limit)

    def __repr__(self) -> str:
        sizes = " x ".join(f"{n:,} {name}" for n, name in zip(self.shape, self.modes, strict=True))
        kind = "sparse" if self.is_sparse else "dense"
        kind += f" with {self.values.numel():,} listed, others zero" if self.zeros_count else ""
        dtype = str(self.dtype).removeprefix("torch.")
        share = f"{100 * self.coverage:.3g} %"
        return f"TensorData({sizes}, {self.observed:,} observed ({share}), {kind}, {dtype})"

    def _repr_html_(self) -> str:
        return view(repr(self), *tensor_parts(self))

    @property
    def is_sparse(self) -> bool:
        """Whether it holds a list of entries."""
        return self.indices is not None

    @property
    def zeros_count(self) -> bool:
        """Whether it holds a list of entries, and all others are observed zeros."""
        return self.indices is not None and self.absent == "zero"

    @cached_property
    def cells(self) -> Tensor:
        """Where the observed entries are, int64, shape (order, observed), in ascending order.

        If absent entries are zeros, these are the listed ones alone.
        """
        if self.indices is not None:
            return self.indices[:, ~self.values.isnan()] if self.zeros_count else self.indices
        return (~self.values.isnan()).nonzero().T.contiguous()

    @cached_property
    def observations(self) -> Observations:
        """The observed entries, arranged for sums over them."""
        if self.indices is not None and self.zeros_count:
            return ZeroFilledObservations(self.indices, self.values, self.shape)
        return observe(self.values, self.indices, self.shape)

    @property
    def entries(self) -> Tensor:
        """The values of the observed entries, in the order of `cells`."""
        if self.zeros_count:
            return self.values[~self.values.isnan()]
        return self.values if self.indices is not None else self.values[tuple(self.cells)]

    @cached_property
    def observed(self) -> int:
        """Number of observed entries, with zeros that are not listed."""
        if self.zeros_count:
            return prod(self.shape) - self._count_nan()
        if self.indices is not None:
            return len(self.values)
        return self.values.numel() - self._count_nan()

    @property
    def coverage(self) -> float:
        """Share of the entries that is observed."""
        return self.observed / prod(self.shape)

    def observed_per(self, mode: int | str) -> NDArray[np.int64]:
        """Return the number of observed entries of each label of a mode."""
        number = self.find_mode(mode)
        if self.zeros_count:
            counts = self.observations.counts(number)
        elif self.indices is not None:
            counts = torch.bincount(self.indices[number], minlength=self.shape[number])
        else:
            others = [other for other in range(self.order) if other != number]
            counts = (~self.values.isnan()).sum(others)
        return np.asarray(counts.cpu().numpy(), dtype=np.int64)

    def take(self, mode: int | str, positions: ArrayLike) -> TensorData:
        """Return the data of some labels of a mode, in the order given.

        Args:
            mode: The mode, by number or name.
            positions: Whole numbers from 0 on, each at most once, or one true or false per label.
        """
        number = self.find_mode(mode)
        places = check_positions("positions", positions, self.shape[number])
        labels, shape = list(self.labels), list(self.shape)
        labels[number], shape[number] = labels[number][places], len(places)
        chosen = torch.from_numpy(places).to(self.values.device)
        values, indices = self.values, self.indices
        if indices is None:
            values = values.index_select(number, chosen)
        else:
            new = torch.full((self.shape[number],), -1, dtype=torch.long, device=chosen.device)
            new[chosen] = torch.arange(len(chosen), device=chosen.device)
            along = new[indices[number]]
            kept = along >= 0
            values, indices = values[kept], indices[:, kept]
            indices[number] = along[kept]
        return TensorData(values, indices, tuple(shape), self.modes, tuple(labels), self.absent)

    def keep(self, chosen: ArrayLike) -> TensorData:
        """Return the data with some of the observed entries, all others missing.

        Zeros that are not listed are among the others.

        Args:
            chosen: Numbers of entries in the order of `cells`, or one true or false for each.
        """
        count = self.cells.shape[1] if self.zeros_count else self.observed
        places = torch.from_numpy(check_positions("chosen", chosen, count))
        places = places.sort().values.to(self.values.device)
        cells, entries = self.cells[:, places], self.entries[places]
        if self.indices is not None:
            return replace(self, values=entries, indices=cells, absent="missing")
        values = torch.full_like(self.values, torch.nan)
        values[tuple(cells)] = entries
        return replace(self, values=values)

    def with_values(self, values: Any) -> TensorData:
        """Return the same cells and labels with other values, in the same arrangement."""
        new = to_tensor(values, "values").to(self.values)
        if new.shape != self.values.shape:
            raise ValueError(
                f"values must have shape {tuple(self.values.shape)} as before, got "
                f"{tuple(new.shape)}"
            )
        return replace(self, values=new)

    def to(
        self, device: torch.device | str | None = None, dtype: str | torch.dtype | None = None
    ) -> TensorData:
        """Return the data on another device or in another precision; itself if nothing changes."""
        check_device(device)
        values = self.values.to(device=device, dtype=resolve_dtype(dtype))
        if values is self.values:
            return self
        indices = None if self.indices is None else self.indices.to(device)
        return replace(self, values=values, indices=indices)

    def to_dense(self) -> TensorData:
        """Return all entries, NaN where they are missing, if memory allows.

        Zeros that are not listed are stored.
        """
        if self.indices is None:
            return self
        needed = prod(self.shape) * self.values.element_size()
        sizes = " x ".join(map(str, self.shape))
        check_memory(needed, f"a dense tensor of {sizes} entries", "keep it sparse")
        values = self.values.new_full(self.shape, 0.0 if self.zeros_count else torch.nan)
        values[tuple(self.indices)] = self.values
        return TensorData(values, None, self.shape, self.modes, self.labels)

    def to_sparse(self) -> TensorData:
        """Return a list of the observed entries; zeros that are not listed stay so."""
        if self.zeros_count:
            return self
        return replace(self, values=self.entries, indices=self.cells)

    def to_table(self, value: str = "value") -> pandas.DataFrame:
        """Return a table with one row per observed entry, in the order of `cells`.

        Args:
            value: Name of the column with the numbers.
        """
        check_mode_columns(self.modes, value)
        rows = zip(self.modes, self.labels, self.cells.cpu().numpy(), strict=True)
        columns = {name: labels[places] for name, labels, places in rows}
        columns[value] = self.entries.cpu().numpy()
        return frame_of(columns, for_what="TensorData.to_table")

    def to_xarray(self) -> xarray.DataArray:
        """Return all entries with names and labels, NaN where missing; `from_array` reads it."""
        values = self.to_dense().values.cpu().numpy()
        return data_array(values, self.modes, self.labels, for_what="TensorData.to_xarray")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_shape(self) -> None:
        if self.indices is not None and tuple(self.indices.shape) != (
            len(self.shape),
            self.values.numel(),
        ):
            raise ValueError(
                f"indices must have shape ({len(self.shape)}, {self.values.numel()}) for shape "
                f"{self.shape} and {self.values.numel()} values, got {tuple(self.indices.shape)}"
            )
        if self.indices is None and tuple(self.values.shape) != self.shape:
            raise ValueError(f"values must have shape {self.shape}, got {tuple(self.values.shape)}")
        if len(self.shape) < 2 or 0 in self.shape:
            raise ValueError(
                f"X must have at least 2 modes and none empty, got shape {tuple(self.shape)}"
            )

    def _check_values(self) -> None:
        if self.values.dtype != (precision := precision_for(self.values.dtype)):
            self._set("values", self.values.to(precision))
        check_finite(self.values, "X", missing=True, indices=self.indices)
        if self.indices is not None and self.absent == "missing":
            known = ~self.values.isnan()
            if not known.all():
                self._set("indices", self.indices[:, known])
                self._set("values", self.values[known])
        if not self.observed:
            raise ValueError(
                "X has no observed entries: all are missing; at least one must be observed"
            )


def data_of(parts: RawTensor, absent: Absent = "missing") -> TensorData:
    """Return the data whose parts were read from an array or a table."""
    # Modes without a name, None here, get their default when the object is made.
    modes: tuple[str, ...] = parts.modes  # type: ignore[assignment]
    return TensorData(parts.values, parts.indices, parts.shape, modes, parts.labels, absent)
