"""Entries in Parquet files, in no order."""

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")

MODES = ("who", "what", "when")


@pytest.fixture
def entries():
    """A table with a row per entry; people are text, and one has no value."""
    random = np.random.default_rng(0)
    cells = np.argwhere(random.random((60, 6, 4)) < 0.4)
    table = pandas.DataFrame(
        {
            "who": [f"p{i:03}" for i in cells[:, 0]],
            "what": 10 * cells[:, 1],
            "when": np.array(["mo", "tu", "we", "th"])[cells[:, 2]],
            "x": random.standard_normal(len(cells)),
        }
    )
    table.loc[table["who"] == "p005", "x"] = np.nan
    return table.sample(frac=1, random_state=0)


@pytest.fixture
def small(monkeypatch):
    """Make batches, row groups and tiles small, so that little data has several of them."""
    pytest.importorskip("pyarrow")
    for name, value in {
        "sorting.BATCH": 100,
        "raw_table.BATCH": 100,
        "sorting.GROUP": 60,
        "sorting.GROUPS": 3,
        "sorting.BYTES_PER_ENTRY": 10_000,
        "streamed.TILE": 150,
    }.items():
        monkeypatch.setattr(f"parafair.data.{name}", value)
