"""TensorData: a tensor with missing entries, and what its modes and indices are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from parafair.algebra.observed import Observations, observe
from parafair.arguments import as_path, bytes_of, items
from parafair.data.arrays import RawTensor, check_count, check_finite, read_array, to_tensor
from parafair.data.devices import check_device, resolve_dtype
from parafair.data.frames import check_memory, frame_of
from parafair.data.labels import as_labels, check_positions, locate
from parafair.data.long_table import (
    Duplicates,
    cell_keys,
    check_mode_columns,
    read_entries,
    read_tns,
)
from parafair.data.modes import complete_labels, complete_modes
from parafair.data.view import tensor_parts
from parafair.display import view
from parafair.errors import unknown_choice

if TYPE_CHECKING:
    import pandas

    from parafair.data.streamed import StreamedData


@dataclass(frozen=True, eq=False, repr=False)
class TensorData:
    """A tensor of which some entries may be missing, with names and labels for its modes.

    Dense, it holds all entries, NaN where they are missing. Sparse, it holds a list of the observed
    entries, and all others are missing (not zero). Made by `from_table`, `from_array`, `from_tns`.

    Attributes:
        values: Shape ``shape`` with NaN where missing, or (count,) if sparse; float32 or float64.
        indices: None, or the places of the values, int64, shape (order, count), in ascending order.
        shape: Sizes of the modes.
        modes: What each mode is; by default mode_0, mode_1, ...
        labels: What each index of each mode is, one array per mode; by default 0, 1, ...

    >>> data = TensorData.from_array([[1.0, float("nan")], [3.0, 4.0]], modes=("student", "test"))
    >>> data
    TensorData(2 student x 2 test, 3 observed (75 %), dense, float64)
    """

    values: Tensor
    indices: Tensor | None = None
    shape: tuple[int, ...] = ()
    modes: tuple[str, ...] = ()
    labels: tuple[NDArray[Any], ...] = ()

    def __post_init__(self) -> None:
        if self.indices is None:
            self._set("shape", self.shape or tuple(self.values.shape))
        self._check_shape()
        self._set("modes", complete_modes(self.modes, len(self.shape)))
        self._set("labels", complete_labels(self.labels, self.shape, self.modes))
        if self.indices is not None:
            self._sort_cells(self.indices)
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
    ) -> TensorData:
        """Read a table with one row per observed entry; the result is sparse.

        Labels are sorted (numbers by size, text by character), so the order of rows does not
        matter. A row whose value is missing makes its labels known, and nothing else.

        Args:
            table: A data frame of pandas, Polars or PyArrow, or the path of a .csv or .parquet
                file.
            modes: The columns that say where an entry belongs, one per mode.
            value: The column with the numbers.
            duplicates: What to do with several rows for one entry: "error", or take their "mean",
                "sum", "max", the "first" or the "last" in the order of the table.
            labels: Labels of a mode in the order they shall have, by its name, for data that must
                match other data; rows with others are an error.

        >>> import pandas
        >>> table = pandas.DataFrame({"who": ["b", "a", "b"], "what": [1, 1, 2], "x": [5, 6, 7]})
        >>> TensorData.from_table(table, modes=["who", "what"], value="x").to_table()
          who  what  value
        0   a     1    6.0
        1   b     1    5.0
        2   b     2    7.0
        """
        return cls._of(read_entries(table, modes, value, duplicates, labels))

    @classmethod
    def from_array(
        cls,
        array: Any,
        *,
        modes: Sequence[str] = (),
        labels: Sequence[Sequence[Any] | None] = (),
    ) -> TensorData:
        """Read an array; NaN and masked entries are missing, and what a sparse one does not store.

        Args:
            array: NumPy (masked too), torch (dense or sparse), SciPy sparse, an xarray DataArray or
                a data frame as a matrix; the last two bring their labels.
            modes: Names of the modes, instead of those the array brings.
            labels: Labels of each mode, instead of those the array brings; None keeps them.
        """
        if isinstance(array, TensorData):
            return array
        parts = read_array(array)
        names = tuple(items("modes", modes, "names, one per mode"))
        lists = items("labels", labels, "lists of labels, one per mode")
        if lists:
            check_count("labels", lists, len(parts.shape))
            pairs = zip(lists, parts.labels, strict=True)
            chosen = tuple(own if given is None else given for given, own in pairs)
            parts = replace(parts, labels=chosen)
        return cls._of(replace(parts, modes=names) if names else parts)

    @classmethod
    def from_tns(cls, path: str | Path, *, duplicates: Duplicates = "error") -> TensorData:
        """Read a FROSTT file: one line per entry, its indices counted from 1, then its value.

        Labels are the numbers in the file. Packed files (.tns.gz) work too.
        """
        return cls._of(read_tns(as_path("path", path), duplicates))

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

    @classmethod
    def _of(cls, parts: RawTensor) -> TensorData:
        # Modes without a name, None here, get their default when the object is made.
        return cls(parts.values, parts.indices, parts.shape, parts.modes, parts.labels)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        sizes = " x ".join(f"{n:,} {name}" for n, name in zip(self.shape, self.modes, strict=True))
        kind = "sparse" if self.is_sparse else "dense"
        dtype = str(self.dtype).removeprefix("torch.")
        share = f"{100 * self.coverage:.3g} %"
        return f"TensorData({sizes}, {self.observed:,} observed ({share}), {kind}, {dtype})"

    def _repr_html_(self) -> str:
        return view(repr(self), *tensor_parts(self))

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def is_sparse(self) -> bool:
        """Whether it holds a list of entries."""
        return self.indices is not None

    @property
    def is_streamed(self) -> bool:
        """Whether entries are read from files in every pass."""
        return False

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the entries."""
        return self.values.dtype

    @property
    def norm(self) -> float:
        """The root of the sum of squares of the observed entries."""
        return check_finite(self.values, "X", missing=True)

    @cached_property
    def cells(self) -> Tensor:
        """Where the observed entries are, int64, shape (order, observed), in ascending order."""
        if self.indices is not None:
            return self.indices
        return (~self.values.isnan()).nonzero().T.contiguous()

    @cached_property
    def observations(self) -> Observations:
        """The observed entries, arranged for sums over them."""
        return observe(self.values, self.indices, self.shape)

    @property
    def entries(self) -> Tensor:
        """The values of the observed entries, in the order of `cells`, shape (observed,)."""
        return self.values if self.indices is not None else self.values[tuple(self.cells)]

    @cached_property
    def observed(self) -> int:
        """Number of observed entries."""
        if self.indices is not None:
            return len(self.values)
        return self.values.numel() - int(self.values.isnan().sum())

    @property
    def coverage(self) -> float:
        """Share of the entries that is observed."""
        return self.observed / prod(self.shape)

    def observed_per(self, mode: int | str) -> NDArray[np.int64]:
        """Return the number of observed entries of each label of a mode."""
        number = self.find_mode(mode)
        if self.indices is not None:
            counts = torch.bincount(self.indices[number], minlength=self.shape[number])
        else:
            others = [other for other in range(self.order) if other != number]
            counts = (~self.values.isnan()).sum(others)
        return np.asarray(counts.cpu().numpy(), dtype=np.int64)

    def find_mode(self, mode: int | str) -> int:
        """Return the number of a mode, given by number or name."""
        if isinstance(mode, str):
            if mode not in self.modes:
                raise unknown_choice("mode", mode, self.modes)
            return self.modes.index(mode)
        whole = isinstance(mode, Integral) and not isinstance(mode, bool)
        if not whole or not 0 <= mode < self.order:
            raise ValueError(
                f"mode must be between 0 and {self.order - 1} or one of {', '.join(self.modes)}, "
                f"got {mode!r}"
            )
        return int(mode)

    def locate(self, mode: int | str, labels: Any) -> NDArray[np.intp]:
        """Return the positions of labels along a mode; labels it does not have are an error."""
        number = self.find_mode(mode)
        wanted = as_labels(labels, "labels")
        remedy = f"choose from labels[{number}]"
        return locate(wanted, self.labels[number], self.modes[number], remedy=remedy)

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
        return TensorData(values, indices, tuple(shape), self.modes, tuple(labels))

    def keep(self, chosen: ArrayLike) -> TensorData:
        """Return the data with some of the observed entries, all others missing.

        Args:
            chosen: Numbers of entries in the order of `cells`, or one true or false for each.
        """
        places = torch.from_numpy(check_positions("chosen", chosen, self.observed))
        places = places.sort().values.to(self.values.device)
        cells, entries = self.cells[:, places], self.entries[places]
        if self.indices is not None:
            return replace(self, values=entries, indices=cells)
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
        """Return all entries, NaN where they are missing, if memory allows."""
        if self.indices is None:
            return self
        needed = prod(self.shape) * self.values.element_size()
        sizes = " x ".join(map(str, self.shape))
        check_memory(needed, f"a dense tensor of {sizes} entries", "keep it sparse")
        values = self.values.new_full(self.shape, torch.nan)
        values[tuple(self.indices)] = self.values
        return TensorData(values, None, self.shape, self.modes, self.labels)

    def to_sparse(self) -> TensorData:
        """Return a list of the observed entries."""
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

    def _sort_cells(self, indices: Tensor) -> None:
        """Put the entries in order; raise if a place does not exist or occurs twice."""
        sizes = torch.tensor(self.shape, dtype=torch.long, device=indices.device)[:, None]
        wrong = (indices < 0) | (indices >= sizes)
        if wrong.any():
            mode, cell = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"indices must be 0 to {self.shape[mode] - 1} in mode {self.modes[mode]!r}, got "
                f"{int(indices[mode, cell])} for entry {cell}"
            )
        keys = cell_keys(indices, self.shape)
        if (keys[1:] <= keys[:-1]).any():
            keys, order = keys.sort()
            if (keys[1:] == keys[:-1]).any():
                raise ValueError("indices has an entry more than once; merge their values first")
            self._set("indices", indices[:, order])
            self._set("values", self.values[order])

    def _check_values(self) -> None:
        if self.values.dtype not in (torch.float32, torch.float64):
            self._set("values", self.values.double())
        check_finite(self.values, "X", missing=True)
        missing = self.values.isnan()
        if missing.all():
            raise ValueError(
                "X has no observed entries: all are missing; at least one must be observed"
            )
        if self.indices is not None and missing.any():
            self._set("indices", self.indices[:, ~missing])
            self._set("values", self.values[~missing])
