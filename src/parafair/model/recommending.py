"""Recommendations: the cells with the highest predictions that a person does not have yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.arguments import whole_number
from parafair.data.frames import check_memory, frame_of
from parafair.data.labels import as_labels, find_labels, first_repeated, locate, preview
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.display import Cell, paragraph, table, view
from parafair.errors import ParafairWarning, shown, unknown_choice, warn
from parafair.model.axes import Axes
from parafair.model.training import Training

if TYPE_CHECKING:
    import pandas

TRAINING = "training"
# Predictions that are held at a time.
MOST_SCORES = 2**22
REMEDY = "choose from the training labels, or pass unknown='offsets' to a model with center=True"
RANK, SCORE = "rank", "score"
# Rows that a notebook shows.
SHOWN = 20


@dataclass(frozen=True, eq=False)
class Recommendations:
    """Lists of recommendations, one row for each, person after person and the best first.

    Attributes:
        person: The name of the people's mode.
        modes: The names of the modes that are recommended.
        people: The label of the person, shape (rows,).
        ranks: The place in the person's list, from 1 on, shape (rows,).
        labels: What is recommended, one array of shape (rows,) for each of `modes`.
        scores: The predictions, shape (rows,).
    """

    person: str
    modes: tuple[str, ...]
    people: NDArray[Any]
    ranks: NDArray[np.int64]
    labels: tuple[NDArray[Any], ...]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        lists = int((self.ranks == 1).sum())
        what = " x ".join(self.modes)
        return f"Recommendations({what} for {lists:,} {self.person}, {len(self):,} rows)"

    def _repr_html_(self) -> str:
        first = slice(SHOWN)
        columns = [self.people[first], self.ranks[first], *(own[first] for own in self.labels)]
        rows: list[list[Cell]] = [
            [*map(str, cells), float(score)]
            for *cells, score in zip(*columns, self.scores[first], strict=True)
        ]
        header = [self.person, RANK, *self.modes, SCORE]
        rest = len(self) - len(rows)
        more = [paragraph(f"{rest:,} more rows; to_frame() has all.")] if rest else []
        return view(repr(self), table(rows, header=header), *more)

    def to_frame(self) -> pandas.DataFrame:
        """Return a data frame with the columns person, rank, the modes, and score."""
        clash = {RANK, SCORE} & {self.person, *self.modes}
        if clash:
            raise ValueError(
                f"a mode is called {min(clash)!r}, like a column of the data frame; use the "
                "attributes of the recommendations, or rename the mode"
            )
        columns = {self.person: self.people, RANK: self.ranks}
        columns |= dict(zip(self.modes, self.labels, strict=True))
        columns[SCORE] = self.scores
        return frame_of(columns, for_what="Recommendations.to_frame")


@dataclass(frozen=True, eq=False)
class Recommender:
    """Some people and the factors of a fitted model.

    Attributes:
        training: Metadata of the model.
        axes: The modes of the data. People who are not in the model follow those who are.
        factors: The factors of the model.
        places: The positions of the people along their mode, shape (n,).
    """

    training: Training
    axes: Axes
    factors: tuple[Tensor, ...]
    places: NDArray[np.intp]

    @classmethod
    def of(
        cls, training: Training, factors: Sequence[Tensor], people: Any, allow_unknown: bool
    ) -> Recommender:
        """Find people by label; None is everybody.

        Args:
            training: Metadata of the model.
            factors: The factors of the model.
            people: What the caller gave.
            allow_unknown: Whether there may be people who are not in the model.
        """
        own: Axes = training if training.unfolding is None else training.unfolding
        known, mode = own.labels[own.mode], own.mode
        wanted = known if people is None else _read_people(people)
        if allow_unknown:
            new = wanted[find_labels(wanted, known) < 0]
            if len(new):
                if known.dtype.kind != new.dtype.kind:  # 7 and "7" mean the same
                    known, new = known.astype(str), new.astype(str)
                known = np.concatenate([known, new])
        places = locate(wanted, known, own.modes[mode], remedy=REMEDY)
        labels = (*own.labels[:mode], known, *own.labels[mode + 1 :])
        axes = Axes(mode, own.modes, labels)
        return cls(training, axes, tuple(factor.cpu() for factor in factors), places)

    def best(self, k: int, *, given: Mapping[str, Any] | None, exclude: Any) -> Recommendations:
        """Return the k cells of each person with the highest predictions; see `recommend`."""
        fixed = self._fixed(given)
        free = [m for m in range(len(self.axes.modes)) if m != self.axes.mode and m not in fixed]
        sizes = [self.axes.shape[m] for m in free]
        count = prod(sizes)
        if whole_number("k", k) > count:
            what = " x ".join(self.axes.modes[m] for m in free)
            raise ValueError(f"k must be at most {count}, the number of {what}, got {k}")
        row, column = self._excluded(exclude, fixed, free, sizes)
        cells, offsets = self._candidates(fixed, free, sizes)
        found_rows, found_cells, found_scores = [], [], []
        for begin, scores in self._scores(cells, offsets):
            first, last = np.searchsorted(row, [begin, begin + len(scores)])
            scores[row[first:last] - begin, column[first:last]] = -np.inf
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            best = np.take_along_axis(scores, order, 1)
            some, place = np.nonzero(best > -np.inf)
            found_rows.append(begin + some)
            found_cells.append(order[some, place])
            found_scores.append(best[some, place])
        rows, chosen = np.concatenate(found_rows), np.concatenate(found_cells)
        self._warn_of_short_lists(rows, k)
        counts = np.bincount(rows, minlength=len(self.places))
        ranks = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        places = np.unravel_index(chosen, sizes)
        means = self.training.loss.mean(torch.from_numpy(np.concatenate(found_scores)))
        return Recommendations(
            person=self.axes.modes[self.axes.mode],
            modes=tuple(self.axes.modes[m] for m in free),
            people=self.axes.labels[self.axes.mode][self.places[rows]],
            ranks=ranks,
            labels=tuple(self.axes.labels[m][place] for m, place in zip(free, places, strict=True)),
            scores=means.numpy(),
        )

    def _fixed(self, given: Mapping[str, Any] | None) -> dict[int, int]:
        """Return the positions that are given, by the number of their mode."""
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise TypeError(
                "given must be a dictionary from names of modes to labels, such as "
                f"{{'day': 'Sunday'}}, got {shown(given)}"
            )
        others = [name for m, name in enumerate(self.axes.modes) if m != self.axes.mode]
        found = {}
        for name, label in given.items():
            if name not in others:
                raise unknown_choice("a mode of given", name, others)
            mode = self.axes.modes.index(name)
            wanted = as_labels([label], f"given[{name!r}]")
            remedy = "choose one of its labels"
            found[mode] = int(locate(wanted, self.axes.labels[mode], name, remedy=remedy)[0])
        if len(found) == len(others):
            raise ValueError(
                f"given fixes {', '.join(others)}, so nothing is left to recommend; leave one out"
            )
        return found

    def _candidates(
        self, fixed: Mapping[int, int], free: list[int], sizes: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Return a row for each candidate, shape (count, rank), and its offset, shape (count,)."""
        count, rank = prod(sizes), self.factors[0].shape[1]
        needed = 8 * count * (rank + len(self.axes.modes) + 2)
        check_memory(needed, f"{count:,} cells to choose from", "fix more modes with given")
        cells = torch.zeros(len(self.axes.modes), count, dtype=torch.long, device="cpu")
        for mode, place in fixed.items():
            cells[mode] = place
        for mode, places in zip(free, np.unravel_index(np.arange(count), sizes), strict=True):
            cells[mode] = torch.from_numpy(places.astype(np.int64))
        if self.training.unfolding is not None:
            cells = self.training.unfolding.unfold_cells(cells)
        rows = torch.ones(count, rank, dtype=torch.float64, device="cpu")
        for mode, factor in enumerate(self.factors):
            if mode != self.training.mode:
                rows *= factor.double()[cells[mode]]
        offsets = self.training.offsets
        return rows, rows.new_zeros(count) if offsets is None else offsets.at(cells)

    def _scores(self, cells: Tensor, offsets: Tensor) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the number of a person, and the predictions for the next people."""
        known = self.factors[self.training.mode].double()
        step = max(1, MOST_SCORES // len(cells))
        for begin in range(0, len(self.places), step):
            places = torch.from_numpy(self.places[begin : begin + step])
            rows = known[places.clamp_max(len(known) - 1)]
            rows[places >= len(known)] = 0.0
            yield begin, (rows @ cells.mT + offsets).numpy()

    def _excluded(
        self, exclude: Any, fixed: Mapping[int, int], free: list[int], sizes: list[int]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the number of the person and of the cell of all that is left out, by person."""
        cells = self._excluded_cells(exclude)
        for mode, place in fixed.items():
            cells = cells[:, cells[mode] == place]
        cells = cells[:, (cells >= 0).all(0)]
        number = np.full(len(self.axes.labels[self.axes.mode]), -1)
        number[self.places] = np.arange(len(self.places))
        row = number[cells[self.axes.mode]]
        column = np.ravel_multi_index(tuple(cells[m] for m in free), sizes)
        order = np.argsort(row, kind="stable")
        order = order[np.count_nonzero(row < 0) :]
        return row[order], column[order]

    def _excluded_cells(self, exclude: Any) -> NDArray[np.int64]:
        """Return positions of cells in the modes of the data, shape (order, count)."""
        rated = self.training.rated
        if isinstance(rated, StreamedData) and isinstance(exclude, str) and exclude == TRAINING:
            exclude = rated
        if isinstance(exclude, StreamedData):
            exclude = self._of_people(exclude)
        if exclude is None:
            return np.empty((len(self.axes.modes), 0), np.int64)
        if not isinstance(exclude, str):
            found = self.axes.find_cells(exclude, argument="exclude", allow_unknown=True)
            return found.numpy()
        if exclude != TRAINING:
            raise ValueError(
                f"exclude must be 'training', None, or cells as in predict, got {shown(exclude)}"
            )
        training, unfolding = self.training, self.training.unfolding
        if training.is_complete and rated is None and training.absent != "zero":
            raise ValueError(
                "every cell of the training data is observed, so nothing is left to recommend; "
                "pass exclude=None to recommend observed cells, or fit data with missing entries"
            )
        if not isinstance(rated, Tensor):
            raise ValueError(
                "a model that was loaded does not have the entries it was fitted to, nor does one "
                "that several processes have fitted; pass them as exclude (for a sorted folder, "
                "TensorData.from_parquet(folder)), or exclude=None to recommend them too"
            )
        cells = rated.cpu().numpy()
        if unfolding is None:
            return cells
        others = list(np.unravel_index(cells[1], unfolding.others))
        others.insert(unfolding.mode, cells[0])
        return np.stack(others)

    def _of_people(self, data: StreamedData) -> TensorData | None:
        """Return the entries of the people who get recommendations; takes one pass."""
        if data.modes != self.axes.modes:
            raise ValueError(
                f"exclude must have the modes {', '.join(self.axes.modes)} of the model, in this "
                f"order, got {', '.join(data.modes)}"
            )
        labels = self.axes.labels[self.axes.mode]
        places = find_labels(labels[self.places[self.places < len(labels)]], data.labels[0])
        places = np.unique(places[places >= 0])
        return data.take(0, places) if len(places) else None

    def _warn_of_short_lists(self, rows: NDArray[Any], k: int) -> None:
        """Warn of people with fewer than k recommendations."""
        lengths = np.bincount(rows, minlength=len(self.places))
        short = np.flatnonzero(lengths < k)
        if len(short):
            labels = self.axes.labels[self.axes.mode][self.places[short]]
            warn(
                f"{len(short)} of {len(lengths)} people have fewer than {k} cells left and get "
                f"shorter lists, {np.count_nonzero(lengths == 0)} of them empty ones: "
                f"{preview(labels)}; choose a smaller k, or pass exclude=None",
                ParafairWarning,
                stacklevel=4,
            )


def _read_people(people: Any) -> NDArray[Any]:
    """Return the labels of people: one, or a list of different ones."""
    order = getattr(people, "ndim", 1)
    if isinstance(order, int) and order > 1:  # of a module it is a function
        raise ValueError(f"people must be a list of labels, got {shown(people)}; pass one column")
    single = isinstance(people, (str, int, float, np.generic)) or not hasattr(people, "__iter__")
    found = as_labels([people] if single else people, "people")
    if not len(found):
        raise ValueError("people must have at least one label, got none; None is everybody")
    twice = first_repeated(np.sort(found))
    if twice is not None:
        raise ValueError(f"people has {twice} more than once; give each label once")
    return found
