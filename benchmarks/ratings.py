"""Generated ratings, few per person: the ridge selected by default against fixed ones."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import numpy as np

from parafair import FairCP, TensorData, split_cells
from parafair.data.centering import Offsets
from parafair.data.splits import Split
from parafair.model.ridge import select_ridge

Row = dict[str, object]
PEOPLE, ITEMS, COMPONENTS, NOISE = 200, 150, 3, 0.8
FIXED = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


def ridge() -> Iterable[Row]:
    """200 people rate 10 to 20 of 150 items: held-out RMSE with the default and with fixed ridges.

    Ratings are offsets of items, three components whose deviation is the signal, and noise of 0.8.
    A fifth of the ratings is held out; means over three data sets.
    """
    for signal in (0.0, 0.5, 1.0):
        for rank in (2, 5, 10, 20):
            found = [_errors(signal, rank, seed) for seed in range(3)]
            means = {name: float(np.mean([row[name] for row in found])) for name in found[0]}
            yield {"signal": signal, "rank": rank, **means}


def _errors(signal: float, rank: int, seed: int) -> dict[str, float]:
    split = split_cells(_ratings(signal, seed), test_size=0.2, random_state=seed)
    errors = {ridge: _error(split, rank, ridge) for ridge in FIXED}
    begin = perf_counter()
    select_ridge(split.train, rank, 0, center=True, loss="squared", seed=0)
    selection = perf_counter() - begin
    begin = perf_counter()
    _error(split, rank, 100.0)
    return {
        "offsets": _rmse(split, Offsets.of(split.train, 0).at(split.test.cells).numpy()),
        "default": _error(split, rank, "auto"),
        "best of fixed": min(errors.values()),
        "ridge 3": errors[3.0],
        "selection / plain fit": selection / (perf_counter() - begin),
    }


def _error(split: Split[TensorData], rank: int, ridge: object) -> float:
    model = FairCP(rank, method="none", center=True, ridge=ridge, random_state=0).fit(split.train)
    return _rmse(split, model.predict(split.test))


def _rmse(split: Split[TensorData], predicted: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predicted - split.test.entries.numpy()) ** 2)))


def _ratings(signal: float, seed: int) -> TensorData:
    random = np.random.default_rng(seed)
    factors = [random.normal(size=(size, COMPONENTS)) for size in (PEOPLE, ITEMS)]
    full = 3.5 + 0.4 * random.normal(size=ITEMS) + NOISE * random.normal(size=(PEOPLE, ITEMS))
    full += signal * factors[0] @ factors[1].T / COMPONENTS**0.5
    rated = random.random(full.shape).argsort(1) < random.integers(10, 21, size=(PEOPLE, 1))
    return TensorData.from_array(np.where(rated, full, np.nan))
