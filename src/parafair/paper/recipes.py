"""Recipes: the paper's settings as settings of the library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair import datasets, penalties
from parafair.model.estimator import FairCP
from parafair.paper.config import (
    BCD,
    FATR,
    HSIC,
    KHSIC,
    OURS,
    RANKS,
    REMOVAL,
    RIDGE,
    STEP_SIZES,
    SYNTHETIC,
    Setup,
)
from parafair.paper.readings import Readings
from parafair.solvers import GradientBCD


@dataclass(frozen=True, eq=False)
class Data:
    """A data set as the experiments use it.

    Attributes:
        name: Its name.
        tensor: The data, scaled.
        sensitive: 0 or 1 for each person.
    """

    name: str
    tensor: NDArray[np.float64]
    sensitive: NDArray[np.int64]

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.sensitive)


OTHERS = {OURS: "invariant", REMOVAL: "correlation-removal"}


def load_data(name: str, seed: int, setup: Setup, folder: str | Path | None = None) -> Data:
    """Return a data set as the readings of a setup define it.

    Args:
        name: "synthetic" or "contraceptive".
        seed: Of generated data.
        setup: Readings and sizes.
        folder: Where the files are, as in `datasets.contraceptive`.
    """
    readings = setup.readings
    if name == SYNTHETIC:
        data = datasets.synthetic(seed, shape=setup.scale.shape)
        tensor, ones = np.asarray(data.tensor), np.asarray(data.sensitive_features) == "uniform"
    else:
        data = datasets.contraceptive(folder)
        # The table is sorted by its last column, so fewer women are taken evenly.
        wanted = setup.scale.women or len(data.sensitive_features)
        women = np.linspace(0, len(data.sensitive_features) - 1, wanted).astype(int)
        tensor = _scale(np.asarray(data.tensor), readings.scaling)[women]
        ones = (
            np.asarray(data.sensitive_features)[women] == "not working"
        )  # the majority, which the paper labels 1
    if readings.ones == "first":
        ones = ~ones
    return Data(name, tensor, ones.astype(np.int64))


def _scale(table: NDArray[np.float64], scaling: str) -> NDArray[np.float64]:
    if scaling == "raw":
        return table
    if scaling == "standard":
        return np.asarray((table - table.mean(0)) / table.std(0))
    return np.asarray((table - table.min(0)) / np.ptp(table, axis=0))


@dataclass(frozen=True)
class Recipe:
    """How one method of a figure is fitted.

    Attributes:
        unit: What a printed strength is multiplied by in the formula of the library.
        model: The model to fit, without its strength.
    """

    unit: float
    model: FairCP

    def strength(self, printed: float | None) -> float | None:
        """Return a printed strength in the units of the library."""
        return None if printed is None else printed * self.unit


def recipe(data: Data, method: str, rounds: int | None, readings: Readings) -> Recipe:
    """Return how a method is fitted to some data."""
    rank = RANKS[data.name]
    if method in (OURS, REMOVAL):
        return Recipe(1.0, FairCP(rank, method=OTHERS[method]))
    # The library's loss is the mean over the entries: a sum is that many times as large.
    entries = float(data.tensor.size) if readings.loss == "sum" else 1.0
    first, other = STEP_SIZES[data.name][method]
    solver = GradientBCD(
        (first * entries, other * entries),
        readings.inner_steps,
        cap=readings.steps == "capped",
    )
    assert rounds is not None
    read = readings.units if data.name == SYNTHETIC else readings.contraceptive_units
    unit = (float(data.people) ** 2 if read == "sum" else 1.0) / entries
    fatr = penalties.Orthogonality(ridge=RIDGE / entries)
    used: dict[str, tuple[float, Any]] = {
        BCD: (1.0, "none"),
        FATR: (1 / entries, fatr),
        HSIC: (unit, penalties.HSIC()),
        KHSIC: (unit, penalties.KHSIC()),
    }
    model = FairCP(
        rank,
        method=used[method][1],
        solver=solver,
        init=readings.init,
        max_iter=rounds,
        tol=0.0,
    )
    return Recipe(used[method][0], model)
