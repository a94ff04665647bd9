"""Splits into training, validation and test data: of the entries, or of the people."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from parafair.arguments import instance_of, real_number, to_numpy, whole_number
from parafair.data.frames import check_memory
from parafair.data.labels import locate
from parafair.data.long_table import cell_keys
from parafair.data.randomness import RandomState, as_random
from parafair.data.tensor_data import TensorData
from parafair.errors import shown

T = TypeVar("T")

# One of so many zeros that are not listed stays in the training part.
KEPT_ZEROS = 10

# Memory for positions, and copies of them.
BYTES_PER_PERSON = 64
# A share of 0.1 of 30 entries is 3, not the 2.9999 that rounding errors make of it.
ROUNDING = 1e-9


class Split(NamedTuple, Generic[T]):
    """The parts of a split; `validation` is None if `validation_size` is 0."""

    train: T
    validation: T | None
    test: T


def split_cells(
    data: TensorData,
    *,
    test_size: float = 0.2,
    validation_size: float = 0.0,
    random_state: RandomState = 0,
) -> Split[TensorData]:
    """Hold out observed entries at random.

    One random entry of every observed label stays in the training part, because the label could
    not be predicted otherwise. So a person with a single entry is never held out.

    If absent entries are zeros, shares are those of the listed entries, and as many zeros are held
    out with them, drawn at random. Held-out entries are missing in the training part. The others
    are lists of entries, zeros among them.

    Args:
        data: Dense or sparse data.
        test_size: Share of the observed entries for the test.
        validation_size: Share of the observed entries for validation.
        random_state: Seed.
    """
    instance_of("data", data, TensorData, "use TensorData.from_array")
    _check_shares(test_size, validation_size)
    random = as_random(random_state)
    if data.zeros_count:
        return _split_with_zeros(data, test_size, validation_size, random)
    order = random.permutation(data.observed)
    free = _not_needed(data, order)
    sizes = [round(share * data.observed) for share in (test_size, validation_size)]
    if sum(sizes) > len(free) or not sizes[0]:
        raise ValueError(
            f"test_size={test_size:g} and validation_size={validation_size:g} ask for {sum(sizes)} "
            f"of {data.observed} observed entries, but {len(free)} can be held out (one of every "
            "label stays in training, and the test needs at least one); choose other shares"
        )
    test, validation = free[: sizes[0]], free[sizes[0] : sum(sizes)]
    train = np.setdiff1d(order, free[: sum(sizes)])
    return Split(
        data.keep(train), data.keep(validation) if len(validation) else None, data.keep(test)
    )


def _not_needed(data: TensorData, order: NDArray[Any]) -> NDArray[np.int64]:
    """Return the entries that can be held out: all but the first of each label, in this order."""
    needed = np.zeros(data.observed, bool)
    for cells in data.cells.cpu().numpy():
        needed[order[np.unique(cells[order], return_index=True)[1]]] = True
    found: NDArray[np.int64] = order[~needed[order]]
    return found


def fold_cells(
    data: TensorData, folds: int, *, random_state: RandomState = 0, name: str = "folds"
) -> list[Split[TensorData]]:
    """Return K splits of the observed entries, which hold out different entries.

    As in `split_cells`, one random entry of every observed label is never held out. All others are
    held out in one of the splits.

    Args:
        data: Dense or sparse data.
        folds: Number of splits.
        random_state: Seed.
        name: What users call the number of splits.
    """
    instance_of("data", data, TensorData, "use TensorData.from_array")
    folds = whole_number(name, folds, least=2)
    _refuse_zeros(data, "cross-validation")
    order = as_random(random_state).permutation(data.observed)
    free = _not_needed(data, order)
    if folds > len(free):
        raise ValueError(
            f"{name} must be at most {len(free)}, the number of entries that can be held out (one "
            f"of every label stays in training), got {folds}; choose fewer folds"
        )
    return [
        Split(data.keep(np.setdiff1d(order, part)), None, data.keep(part))
        for part in np.array_split(free, folds)
    ]


def _check_times(when: NDArray[Any], count: int) -> None:
    """Raise unless there is a time for each entry."""
    wanted = f"times must be {count} numbers or dates, one for each of data.cells"
    if when.shape != (count,):
        raise ValueError(f"{wanted}, got the shape {when.shape}")
    if when.dtype.kind not in "iufM":
        raise ValueError(
            f"{wanted}, got an array of {when.dtype}, the first {shown(when.tolist()[0])}; convert "
            "text first, for example with pandas.to_datetime(times)"
        )
    missing = np.flatnonzero(when != when)
    if len(missing):
        raise ValueError(
            f"{wanted}, got {len(missing)} missing among them, the first at position "
            f"{missing[0]}; fill them in, or leave these entries out of data"
        )


def split_by_time(
    data: TensorData,
    times: ArrayLike,
    mode: int | str = 0,
    *,
    test_size: float = 0.2,
    validation_size: float = 0.0,
) -> Split[TensorData]:
    """Hold out the latest entries of every person, and before them those for validation.

    Of n entries of a person, ``floor(test_size * n)`` are in the test and
    ``floor(validation_size * n)`` in the validation, so people with few entries may have none
    there. Items that appear late may have no training entries. Entries of a person at the same
    time are in the order of ``data.cells``.

    Args:
        data: Dense or sparse data.
        times: When each entry was made, in the order of ``data.cells``, shape (observed,).
        mode: The mode whose indices are people.
        test_size: Share of a person's entries for the test.
        validation_size: Share of a person's entries for validation.
    """
    instance_of("data", data, TensorData, "use TensorData.from_array")
    _check_shares(test_size, validation_size)
    _refuse_zeros(data, "a split by time")
    when = to_numpy(times, "times")
    _check_times(when, data.observed)
    person = data.cells[data.find_mode(mode)].cpu().numpy()
    order = np.lexsort((when, person))
    counts = np.bincount(person)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    left = np.repeat(counts, counts) - place  # 1 for the latest entry
    tested = np.repeat(np.floor(test_size * counts + ROUNDING), counts)
    validated = np.repeat(np.floor(validation_size * counts + ROUNDING), counts)
    is_test = left <= tested
    is_validation = ~is_test & (left <= tested + validated)
    if not is_test.any() or (validation_size and not is_validation.any()):
        raise ValueError(
            f"test_size={test_size:g} and validation_size={validation_size:g} leave a part empty: "
            f"people have at most {counts.max()} entries; choose larger shares"
        )
    train = data.keep(np.sort(order[~is_test & ~is_validation]))
    validation = data.keep(np.sort(order[is_validation])) if validation_size else None
    return Split(train, validation, data.keep(np.sort(order[is_test])))


def _refuse_zeros(data: TensorData, what: str) -> None:
    if data.zeros_count:
        raise ValueError(
            f"{what} is not possible for data whose absent entries are zeros; use split_cells, "
            "which holds out zeros too"
        )


def align_entries(test: TensorData, train: TensorData, *, labeled: bool = True) -> TensorData:
    """Return held-out entries of another source, at the positions of their labels in the data.

    Entries that the data has too are an error, and so are labels that it does not have.

    Args:
        test: The held-out entries.
        train: The data.
        labeled: Whether labels are compared; otherwise positions are.
    """
    if test.order != train.order or (not labeled and test.shape != train.shape):
        raise ValueError(f"must have the shape {train.shape} of the data, got {test.shape}")
    test = test.to_sparse()
    cells = test.cells.cpu().clone()
    if labeled:
        remedy = "a label without entries in the data cannot be predicted; drop these entries"
        for mode, (labels, own) in enumerate(zip(test.labels, train.labels, strict=True)):
            places = locate(labels, own, train.modes[mode], remedy=remedy)
            cells[mode] = torch.from_numpy(places)[cells[mode]]
    known = np.ravel_multi_index(tuple(train.cells.cpu().numpy()), train.shape)
    both = np.isin(np.ravel_multi_index(tuple(cells.numpy()), train.shape), known).sum()
    if both:
        raise ValueError(
            f"{both} of {test.observed} entries are in the data too, so predicting them tests "
            "nothing; remove them from one of the two"
        )
    cells = cells.to(test.entries.device)
    return TensorData(test.entries, cells, train.shape, train.modes, train.labels)


def _split_with_zeros(
    data: TensorData, test_size: float, validation_size: float, random: np.random.RandomState
) -> Split[TensorData]:
    """Hold out listed entries, and as many of the zeros that are not listed."""
    assert data.indices is not None
    count = data.cells.shape[1]
    sizes = [round(share * count) for share in (test_size, validation_size)]
    if sum(sizes) >= count or not sizes[0]:
        raise ValueError(
            f"test_size={test_size:g} and validation_size={validation_size:g} ask for {sum(sizes)} "
            f"of {count} listed entries, but the test needs at least one, and training too; choose "
            "other shares"
        )
    order = torch.from_numpy(random.permutation(count)).to(data.indices.device)
    zeros = _draw_zeros(data, sum(sizes), random)
    ends = np.cumsum([0, *sizes])

    def part(first: int, last: int) -> TensorData:
        own = order[first:last].sort().values
        absent = zeros[:, first:last]
        return replace(
            data,
            values=torch.cat([data.entries[own], data.values.new_zeros(absent.shape[1])]),
            indices=torch.cat([data.cells[:, own], absent], 1),
            absent="missing",
        )

    train = hold_out(data, torch.cat([data.cells[:, order[: sum(sizes)]], zeros], 1))
    validation = part(ends[1], ends[2]) if sizes[1] else None
    return Split(train, validation, part(ends[0], ends[1]))


def hold_out(data: TensorData, cells: Tensor) -> TensorData:
    """Return data whose absent entries are zeros, with some entries missing.

    Args:
        data: The data; other data is returned as it is.
        cells: Positions, each once, listed or not, shape (order, count).
    """
    if data.indices is None or not data.zeros_count:
        return data
    count = cells.shape[1]
    both = torch.cat([cells.to(data.indices), data.indices], 1)
    values = torch.cat([data.values.new_full((count,), torch.nan), data.values])
    first = np.unique(cell_keys(both, data.shape).cpu().numpy(), return_index=True)[1]
    kept = torch.from_numpy(first).to(both.device)
    return replace(data, values=values[kept], indices=both[:, kept])


def _draw_zeros(data: TensorData, count: int, random: np.random.RandomState) -> Tensor:
    """Return places that a list does not have, each once, in random order, (order, count).

    If there are fewer, all of them but one of ten are drawn at most.
    """
    assert data.indices is not None
    listed = data.indices.shape[1]
    left = prod(data.shape) - listed
    count = min(count, left - left // KEPT_ZEROS)
    found = data.indices
    while found.shape[1] < listed + count:
        drawn = np.stack([random.randint(0, size, 2 * count + 1) for size in data.shape])
        both = torch.cat([found, torch.from_numpy(drawn).to(found)], 1)
        first = np.unique(cell_keys(both, data.shape).cpu().numpy(), return_index=True)[1]
        first.sort()
        found = both[:, torch.from_numpy(first[: listed + count]).to(found.device)]
    return found[:, listed:]


def split_people(
    data: TensorData | int,
    mode: int | str = 0,
    *,
    groups: ArrayLike | None = None,
    test_size: float = 0.2,
    validation_size: float = 0.0,
    random_state: RandomState = 0,
) -> Split[NDArray[np.int64]]:
    """Hold out people at random; returns their positions, in ascending order.

    ``data.take(mode, split.train)`` is the data of the training part.

    Args:
        data: The data, or the number of people.
        mode: The mode whose indices are people.
        groups: A group for each person; every part gets the same share of each group.
        test_size: Share of the people for the test.
        validation_size: Share of the people for validation.
        random_state: Seed.
    """
    from sklearn.model_selection import train_test_split  # here, because it takes long to import

    _check_shares(test_size, validation_size)
    random = as_random(random_state)
    n = _count_people(data, mode)
    everybody = np.arange(n, dtype=np.int64)
    codes = None if groups is None else _read_groups(groups, n)
    _check_parts(n, test_size, validation_size, codes)

    def cut(people: NDArray[np.int64], share: float) -> list[NDArray[np.int64]]:
        strata = None if codes is None else codes[people]
        size = round(share * n)
        parts = train_test_split(people, test_size=size, stratify=strata, random_state=random)
        return [np.sort(part) for part in parts]

    rest, test = cut(everybody, test_size)
    if not validation_size:
        return Split(rest, None, test)
    train, validation = cut(rest, validation_size)
    return Split(train, validation, test)


def _count_people(data: TensorData | int, mode: int | str) -> int:
    if isinstance(data, TensorData):
        return data.shape[data.find_mode(mode)]
    if not isinstance(data, (int, np.integer)):
        raise TypeError(
            f"data must be a TensorData or the number of people, got {shown(data)}; use "
            "TensorData.from_array"
        )
    people = whole_number("data", data, least=2)
    check_memory(BYTES_PER_PERSON * people, f"a split of data={people} people", "pass fewer")
    return people


def _read_groups(groups: ArrayLike, people: int) -> NDArray[np.intp]:
    """Return the group of each person as a number from 0 on."""
    given = to_numpy(groups, "groups")
    if given.shape != (people,):
        raise ValueError(
            f"groups must have {people} entries, one per person, got shape {given.shape}"
        )
    text = [shown(value) for value in given.tolist()]  # values of different types have no order
    return np.asarray(np.unique(text, return_inverse=True)[1])


def _check_parts(
    people: int, test_size: float, validation_size: float, codes: NDArray[np.intp] | None
) -> None:
    """Raise if a part would be empty, or could not have members of every group."""
    shares = [test_size, validation_size] if validation_size else [test_size]
    sizes = [round(share * people) for share in shares]
    sizes.append(people - sum(sizes))
    if min(sizes) < 1:
        raise ValueError(
            f"test_size={test_size:g} and validation_size={validation_size:g} of {people} people "
            f"make parts of {', '.join(map(str, sizes))}; choose other shares, so that each part "
            "has somebody"
        )
    if codes is None:
        return
    counts = np.bincount(codes)
    if counts.min() < len(sizes) or min(sizes) < len(counts):
        raise ValueError(
            f"groups has {len(counts)} groups, the smallest with {counts.min()} members, but each "
            f"of {len(sizes)} parts of {', '.join(map(str, sizes))} people needs somebody of every "
            "group; merge small groups, or choose other shares"
        )


def _check_shares(test_size: float, validation_size: float) -> None:
    shares = [real_number("test_size", test_size), real_number("validation_size", validation_size)]
    if not 0 < shares[0] < 1:
        raise ValueError(
            f"test_size must be a share above 0 and below 1, such as 0.2, got {test_size!r}"
        )
    if shares[1] < 0 or sum(shares) >= 1:
        raise ValueError(
            "test_size and validation_size must be shares that leave something for training, such "
            f"as 0.2 and 0.1; got {test_size!r} and {validation_size!r}"
        )
