"""Fair scores and fair embeddings: Kamishima's terms beside the criterion on embeddings."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

import numpy as np

from parafair import FairCP, TensorData, audit, compare_scores, datasets, split_cells
from parafair.audits import STAGES, panel

Row = dict[str, object]

# Marks are from 0 to 100. At this strength, what a term compares is equal to a few thousandths.
STRENGTH = 1e5
METHODS: dict[str, dict[str, Any]] = {
    "plain": {"method": "none"},
    "mean matching": {"method": "mean-matching", "strength": STRENGTH},
    "Bhattacharyya": {"method": "bhattacharyya", "strength": STRENGTH},
    "mutual information": {"method": "mutual-information", "strength": STRENGTH},
    "invariant": {},
}
STUDENTS, GENERATED = 1500, 500


def fair_scores() -> Iterable[Row]:
    """Scores and embeddings of five methods on generated marks and on marks of OULAD.

    A tenth of the marks is held out for the error. Scores are those predicted at all observed
    marks, unless all cells are stated. Leakage is that of the embedding. OULAD needs the data,
    downloaded or in the folder PARAFAIR_DATA.
    """
    generated = datasets.marks(0, students=GENERATED)
    yield from _rows("generated", generated.tensor, generated.sensitive_features, rank=2)
    try:
        tensor, people = students()
    except (OSError, ValueError) as error:
        yield {"data": "OULAD", "method": None, "skipped": f"no data: {error}"}
        return
    for feature in ("gender", "age_band"):
        yield from _rows(f"OULAD, {feature}", tensor, people[feature], rank=5)


def students() -> tuple[TensorData, Any]:
    """Return the marks of some students with at least five marks, and their features."""
    data = datasets.oulad()
    scored = np.flatnonzero(np.asarray(data.tensor.observed_per(0)) >= 5)
    chosen = np.sort(np.random.default_rng(0).permutation(scored)[:STUDENTS])
    return data.tensor.take(0, chosen), data.sensitive_features.iloc[chosen]


def _rows(name: str, tensor: TensorData, features: Any, *, rank: int) -> Iterable[Row]:
    split = split_cells(tensor, test_size=0.1, random_state=0)
    for method, settings in METHODS.items():
        begin = perf_counter()
        model = FairCP(rank, center=True, ridge=3.0, random_state=0, **settings)
        model.fit(split.train, sensitive_features=features)
        seconds = perf_counter() - begin
        scores = model.inverse_transform(model.embedding_)
        (everywhere,) = compare_scores(scores, sensitive_features=features)
        seen = np.full(tensor.shape, np.nan)
        seen[tuple(tensor.cells.numpy())] = model.predict(tensor)
        (found,) = compare_scores(seen, sensitive_features=features)
        errors = model.predict(split.test) - split.test.entries.numpy()
        leakage = audit(
            model.embedding_,
            sensitive_features=features,
            attackers=panel(STAGES[0]),
            permutations=1,
        ).leakage
        yield {
            "data": name,
            "method": method,
            "held-out RMSE": float(np.sqrt(np.mean(errors**2))),
            "difference of means": found.mean_difference,
            "KS": found.ks,
            "KS, all cells": everywhere.ks,
            "area": found.area,
            "Bhattacharyya": found.bhattacharyya,
            "information, normal": found.normal_information,
            "information, histogram": found.histogram_information,
            "leakage": leakage,
            "seconds": seconds,
            "skipped": None,
        }
