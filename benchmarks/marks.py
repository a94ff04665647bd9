"""Real marks with missing entries (OULAD): time and memory of fits."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import torch

from benchmarks.alone import alone
from parafair import FairCP, datasets, frontier
from parafair.algebra import cells
from parafair.data.tensor_data import TensorData

Row = dict[str, object]
SETTINGS = {"rank": 8, "center": True, "ridge": 10.0, "random_state": 0}
STRENGTHS = (0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 25, 50, 100, 200)


def oulad_time() -> Iterable[Row]:
    """All students of OULAD, rank 8, gender penalized: one fit, and a frontier of 12 fits.

    Needs the data, downloaded or in the folder PARAFAIR_DATA. Also runs on a GPU if available.
    """
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        yield {"what": "plain", "device": device, **alone("marks.one_fit", 0.0, device)}
        for strength in (1.0, 100.0):
            found = alone("marks.one_fit", strength, device)
            yield {"what": f"strength {strength:g}", "device": device, **found}
        yield {"what": "12 strengths", "device": device, **alone("marks.one_frontier", device)}


def oulad_auto() -> Iterable[Row]:
    """All students of OULAD, rank 8, gender, strength="auto": one row for each trial."""
    tensor, gender = students()
    begin = perf_counter()
    model = FairCP(**SETTINGS, strength="auto").fit(tensor, sensitive_features=gender)
    seconds = perf_counter() - begin
    for trial in model.selection_.trials:
        yield {**vars(trial), "seconds of the whole search": seconds}


def oulad_sums() -> Iterable[Row]:
    """A plain fit and a penalized one, with sums by segment as before and by cell, in one run."""
    try:
        students()
    except (OSError, ValueError) as error:
        yield {"sums": None, "seconds": None, "skipped": f"no data: {error}"}
        return
    most = cells.MOST_CELLS
    for strength in (0.0, 1.0):
        for name, allowed in (("by segment", 0), ("by cell", most)):
            cells.MOST_CELLS = allowed
            try:
                row = one_fit(strength, "cpu")
            finally:
                cells.MOST_CELLS = most
            yield {"strength": strength, "sums": name, **row, "skipped": None}


def one_fit(strength: float, device: str) -> Row:
    """Fit once; strength 0 means no penalty."""
    tensor, gender = students()
    method = {"strength": strength} if strength else {"method": "none"}
    begin = perf_counter()
    model = FairCP(**SETTINGS, **method, device=device).fit(tensor, sensitive_features=gender)
    return {
        "seconds": perf_counter() - begin,
        "iterations": model.n_iter_ + model.fit_.counts.get("rough iterations", 0),
        "residual": model.fit_.residual,
    }


def one_frontier(device: str) -> Row:
    """Fit 12 strengths at once, without audits and certificates."""
    tensor, gender = students()
    begin = perf_counter()
    found = frontier(
        FairCP(**SETTINGS, device=device),
        tensor,
        sensitive_features=gender,
        strengths=STRENGTHS,
        seeds=[0],
        audits=None,
        certificates=None,
        limit=False,
    )
    return {
        "seconds": perf_counter() - begin,
        "iterations": max(p.fit.n_iter + p.fit.counts["rough iterations"] for p in found.points),
        "residual": max(point.residual for point in found.points),
    }


def students() -> tuple[TensorData, object]:
    """Return the marks of all students with marks, and their gender."""
    data = datasets.oulad()
    scored = data.tensor.observed_per(0) > 0
    return data.tensor.take(0, scored), data.sensitive_features["gender"][scored].to_numpy()
