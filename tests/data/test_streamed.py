"""Streamed data gives what data in memory gives, or says what to do instead."""

import numpy as np
import pytest
import torch

from parafair import TensorData, sort_parquet, split_cells
from parafair.data.centering import Offsets
from parafair.losses import Squared
from parafair.model.draws import secret_of

pytest.importorskip("pyarrow")
MODES = ("who", "what", "when")


@pytest.fixture
def both(entries, tmp_path, small):
    """The same data in memory and streamed."""
    entries.to_parquet(tmp_path / "raw.parquet", index=False)
    out = tmp_path / "s"
    sort_parquet(tmp_path / "raw.parquet", out, modes=MODES, value="x", memory="4MB")
    return TensorData.from_table(entries, modes=MODES, value="x"), TensorData.from_parquet(out)


def test_some_people_are_read_in_the_order_given(both):
    memory, streamed = both
    places = [41, 3, 59, 0, 17]
    found, expected = streamed.take("who", places), memory.take("who", places)
    assert found.labels[0].tolist() == expected.labels[0].tolist()
    assert torch.equal(found.cells, expected.cells)
    assert torch.equal(found.entries, expected.entries)
    with pytest.raises(ValueError, match="mode must be that of the people, 'who'"):
        streamed.take("what", [0])


def test_parts_have_everybody_once(both):
    memory, streamed = both
    parts = list(streamed.parts())
    assert np.concatenate([part.labels[0] for part in parts]).tolist() == memory.labels[0].tolist()
    assert sum(part.observed for part in parts) == memory.observed


def test_it_describes_itself(both):
    memory, streamed = both
    assert repr(streamed) == repr(memory).replace("sparse", "streamed")
    assert "streamed" in streamed._repr_html_()
    assert "distribution" not in streamed._repr_html_()
    assert streamed.norm == pytest.approx(memory.norm, rel=1e-14)
    for mode in MODES:
        assert streamed.observed_per(mode).tolist() == memory.observed_per(mode).tolist()


def test_tiles_have_the_precision_asked_for(both):
    assert {tile.values.dtype for tile in both[1].to(dtype="float32").stream()} == {torch.float32}


def test_offsets_equal_those_in_memory(both):
    memory, streamed = both
    own, found = (Offsets.fit(data, 0, Squared()) for data in both)
    assert found.mean == pytest.approx(own.mean, abs=1e-14)
    for mode, vector in own.by_mode.items():
        torch.testing.assert_close(found.by_mode[mode], vector, rtol=0, atol=1e-13)
    centered, expected = found.subtract(streamed), own.subtract(memory)
    assert centered.norm == pytest.approx(expected.norm, rel=1e-13)
    kept = centered.take(0, np.arange(60))
    torch.testing.assert_close(kept.entries, expected.entries, rtol=0, atol=1e-13)


def test_too_many_cells_for_offsets_are_refused(both, monkeypatch):
    monkeypatch.setattr("parafair.data.centering.MOST_CELLS", 23)
    with pytest.raises(ValueError, match="at most 23 combinations of what x when"):
        Offsets.fit(both[1], 0, Squared())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_secret_is_that_of_the_same_entries_in_memory(both, dtype):
    memory, streamed = (data.to(dtype=dtype) for data in both)
    assert secret_of(streamed) == secret_of(memory)


@pytest.mark.parametrize("name", ["values", "indices", "cells", "entries"])
def test_what_needs_all_entries_is_an_error(both, name):
    with pytest.raises(ValueError, match="go through X.parts()"):
        getattr(both[1], name)
    with pytest.raises(ValueError, match="never in memory as a whole"):
        split_cells(both[1], test_size=0.1)
