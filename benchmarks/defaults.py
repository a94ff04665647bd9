"""The default call: does it converge on the shipped data, whatever the number of threads?

Run with ``python -m benchmarks.run chance_threads default_calls``. Data that has to be downloaded
is skipped, with the reason, where there is neither a network nor the folder PARAFAIR_DATA.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from tests.reference.kinds import KINDS, draw

from benchmarks.marks import students
from parafair import FairCP, datasets
from parafair.datasets import Dataset

Row = dict[str, object]
SEEDS = 10
RANK = 8


def chance_threads() -> Iterable[Row]:
    """Ten seeds of the start on five kinds of data and the paper's, with 1 and with 2 threads."""
    paper = datasets.synthetic(0)
    jobs = {kind.__name__: draw(kind, 0, 200) for kind in KINDS}
    jobs["paper"] = (paper.tensor, paper.sensitive_features, RANK)
    before = torch.get_num_threads()
    try:
        for name, (tensor, groups, rank) in jobs.items():
            pairs = [
                tuple(_residual(tensor, groups, rank, seed, threads) for threads in (1, 2))
                for seed in range(SEEDS)
            ]
            apart = [abs(one - two) / one for one, two in pairs]
            both = [residual for pair in pairs for residual in pair]
            yield {
                "data": name,
                "largest relative difference": max(apart),
                "residuals": f"{min(both):.4f} to {max(both):.4f}",
            }
    finally:
        torch.set_num_threads(before)


def _residual(tensor: Any, groups: Any, rank: int, seed: int, threads: int) -> float:
    torch.set_num_threads(threads)
    model = FairCP(rank, random_state=seed).fit(tensor, sensitive_features=groups)
    return model.fit_.before_noise.residual


def default_calls() -> Iterable[Row]:
    """FairCP(8).fit(data, sensitive_features=...) on all shipped data: status, rounds, warnings."""
    for name, (load, loss) in SHIPPED.items():
        try:
            tensor, sensitive = load()
        except (OSError, ValueError) as error:
            yield {"data": name, **dict.fromkeys(COLUMNS), "skipped": f"no data: {error}"}
            continue
        begin = perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = FairCP(RANK, random_state=0, loss=loss)
            model.fit(tensor, sensitive_features=sensitive)
        measured = (
            model.fit_.status.name,
            model.n_iter_,
            model.fit_.residual,
            perf_counter() - begin,
            "; ".join(str(warning.message) for warning in said) or "none",
        )
        yield {"data": name, **dict(zip(COLUMNS, measured, strict=True)), "skipped": None}


COLUMNS = ("status", "rounds", "residual", "seconds", "warnings")


def _whole(load: Callable[[], Dataset]) -> tuple[Any, Any]:
    data = load()
    return data.tensor, data.sensitive_features


def _column(load: Callable[[], Dataset], column: str) -> tuple[Any, Any]:
    """Return a tensor and one of several sensitive features."""
    data = load()
    return data.tensor, np.asarray(data.sensitive_features[column])


# What is fitted, and the loss its kind of data asks for.
SHIPPED: dict[str, tuple[Callable[[], tuple[Any, Any]], str]] = {
    "synthetic": (partial(_whole, datasets.synthetic), "squared"),
    "marks": (partial(_whole, datasets.marks), "squared"),
    "ratings, gender": (partial(_column, datasets.ratings, "gender"), "squared"),
    "counts": (partial(_whole, datasets.counts), "poisson"),
    "events": (partial(_whole, datasets.events), "bernoulli"),
    "contraceptive": (partial(_whole, datasets.contraceptive), "squared"),
    "oulad, gender": (students, "squared"),
    "adult, sex": (partial(_column, datasets.adult, "sex"), "squared"),
}
