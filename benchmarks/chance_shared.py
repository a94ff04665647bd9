"""Whether fits that are streamed, and shared between processes, end at chance.

Run with ``python -m benchmarks.run chance_shared``. The attackers are those of the library and
"strangers", which no search ever uses. People who follow each other in the data are alike, and some
groups are rarer at its end: each process has people of another kind.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from tests.processes import together

from benchmarks.chance import OUTSIDE, STRANGERS
from parafair import FairCP, TensorData, audit, sort_parquet
from parafair.penalties import Invariant

Row = dict[str, object]

PEOPLE, OTHERS, RANK, REGIONS = 900, (10, 8), 3, 5
# 18 chunks are two parts, one for each of two processes.
CHUNK, STRENGTH, MOST_ITERATIONS = 50, 100.0, 200
PATIENCE = 3600

# A Gaussian process takes minutes for so many people.
QUICK = {name: own for name, own in STRANGERS.items() if name != "Gaussian process"}


def chance_shared() -> Iterable[Row]:
    """Two seeds: in memory, streamed, and streamed by two processes; and without a penalty."""
    for seed in (0, 1):
        table, groups = _draw(seed)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            table.to_parquet(folder / "raw.parquet", index=False)
            columns: dict[str, Any] = {"modes": list(table.columns[:-1]), "value": "x"}
            streamed = sort_parquet(folder / "raw.parquet", folder / "sorted", **columns)
            streamed = streamed.with_tile(8000)
            memory = TensorData.from_table(table, **columns)
            fits: dict[str, Callable[[], tuple[Any, float]]] = {
                "plain": partial(_fit, memory, groups, "none"),
                "in memory": partial(_fit, memory, groups),
                "streamed": partial(_fit, streamed, groups),
                "streamed, 2 processes": partial(_by_two, streamed, groups),
            }
            for kind, fit in fits.items():
                rows, residual = fit()
                yield {"seed": seed, "fit": kind, "residual": residual, **_audited(rows, groups)}


def _draw(seed: int) -> tuple[pandas.DataFrame, np.ndarray[Any, Any]]:
    """Return entries, half of them missing, and groups; both change from region to region."""
    random = np.random.default_rng(seed)
    region = np.arange(PEOPLE) * REGIONS // PEOPLE
    groups = (random.random(PEOPLE) < 0.6 - 0.08 * region).astype(int)
    rows = random.standard_normal((PEOPLE, RANK)) + random.standard_normal((REGIONS, RANK))[region]
    rows = rows + groups[:, None] * random.standard_normal(RANK)
    others = [random.standard_normal((size, RANK)) for size in OTHERS]
    full = np.einsum("ir,jr,kr->ijk", rows, *others) + 0.5 * random.standard_normal(
        (PEOPLE, *OTHERS)
    )
    cells = np.argwhere(random.random(full.shape) < 0.5)
    names = dict(zip(("person", "item", "time"), cells.T, strict=True))
    return pandas.DataFrame({**names, "x": full[tuple(cells.T)]}), np.array(["a", "b"])[groups]


def _fit(data: Any, groups: Any, method: Any = None, group: Any = None) -> tuple[Any, float]:
    """Return the embedding and the residual."""
    method = Invariant(STRENGTH, chunk_size=CHUNK) if method is None else method
    model = FairCP(RANK, method=method, ridge=1.0, max_iter=MOST_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data, sensitive_features=groups, process_group=group)
    return model.embedding_, model.fit_.residual


def _by_two(data: Any, groups: Any) -> tuple[Any, float]:
    """Return the fit of two processes."""

    def work(group: Any) -> tuple[Any, float]:
        return _fit(data, groups, group=group)

    with tempfile.TemporaryDirectory() as folder:
        first, second = together(Path(folder), 2, work, PATIENCE)
    for each in (first, second):
        if isinstance(each, BaseException):
            raise each
    np.testing.assert_array_equal(first[0], second[0])
    found: tuple[Any, float] = first
    return found


def _audited(rows: Any, groups: Any) -> Row:
    """Return what attackers learn from rows."""
    usual = audit(rows, sensitive_features=groups, permutations=20, random_state=OUTSIDE)
    others = audit(
        rows, sensitive_features=groups, attackers=QUICK, permutations=1, random_state=OUTSIDE
    )
    return {"leakage": usual.leakage, "strangers": others.leakage}
