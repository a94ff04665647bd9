"""RawTensor of the data for training, validation and test: of its entries, or of its people."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from parafair.data.tensor_data import TensorData

T = TypeVar("T")


class Split(NamedTuple, Generic[T]):
    """RawTensor of the data; `validation` is None if none was asked for."""

    train: T
    validation: T | None
    test: T


def split_cells(
    data: TensorData,
    *,
    test: float = 0.2,
    validation: float = 0.0,
    random_state: int | np.random.RandomState | None = 0,
) -> Split[TensorData]:
    """Hold out observed entries at random.

    Of every label of every mode that was observed, one entry drawn at random stays in the training
    part, as nothing could be predicted without: a person with one entry is never held out.

    Args:
        data: Dense or sparse data.
        test: Share of the observed entries for the test.
        validation: Share of the observed entries for validation.
        random_state: Seed.
    """
    _check_shares(test, validation)
    random = check_random_state(random_state)
    order = random.permutation(data.observed)
    needed = np.zeros(data.observed, bool)
    for cells in data.cells.cpu().numpy():
        # The first in random order of each label.
        needed[order[np.unique(cells[order], return_index=True)[1]]] = True
    free = order[~needed[order]]
    sizes = [round(share * data.observed) for share in (test, validation)]
    if sum(sizes) > len(free) or not sizes[0]:
        raise ValueError(
            f"test={test:g} and validation={validation:g} ask for {sum(sizes)} of "
            f"{data.observed} observed entries, but {len(free)} can be held out (one of every "
            "label stays, and the test needs one); choose other shares"
        )
    held, other = free[: sizes[0]], free[sizes[0] : sum(sizes)]
    rest = np.setdiff1d(order, free[: sum(sizes)])
    return Split(data.keep(rest), data.keep(other) if len(other) else None, data.keep(held))


def split_people(
    data: TensorData | int,
    mode: int | str = 0,
    *,
    groups: ArrayLike | None = None,
    test: float = 0.2,
    validation: float = 0.0,
    random_state: int | np.random.RandomState | None = 0,
) -> Split[NDArray[np.int64]]:
    """Hold out people at random; returns their positions, in ascending order.

    ``data.take(mode, split.train)`` is the data of the training part.

    Args:
        data: The data, or the number of people.
        mode: The mode whose indices are people.
        groups: A group for each person; every part gets the same share of each.
        test: Share of the people for the test.
        validation: Share of the people for validation.
        random_state: Seed.
    """
    _check_shares(test, validation)
    random = check_random_state(random_state)
    n = data if isinstance(data, int) else data.shape[data.find_mode(mode)]
    people = np.arange(n, dtype=np.int64)
    codes = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if codes is not None and len(codes) != n:
        raise ValueError(f"groups must have {n} entries, one per person, got {len(codes)}")

    def cut(some: NDArray[np.int64], share: float) -> list[NDArray[np.int64]]:
        strata = None if codes is None else codes[some]
        size = round(share * n)
        parts = train_test_split(some, test_size=size, stratify=strata, random_state=random)
        return [np.sort(part) for part in parts]

    rest, held = cut(people, test)
    if not validation:
        return Split(rest, None, held)
    train, other = cut(rest, validation)
    return Split(train, other, held)


def _check_shares(test: float, validation: float) -> None:
    if not (0 < test < 1 and 0 <= validation < 1 and test + validation < 1):
        raise ValueError(
            "test and validation must be shares that leave something for training, such as 0.2 and "
            f"0.1, got {test!r} and {validation!r}"
        )
