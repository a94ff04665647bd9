from pathlib import Path

import pytest

from parafair.paper import Scale

TINY = Scale(
    name="quick",
    shape=(24, 6, 5),
    women=40,
    points=2,
    runs=2,
    rounds=2,
    lengths=(1, 2),
    ours=(1,),
    bars=(1,),
    audits={"attackers": ("linear",), "folds": 2, "repeats": 1, "permutations": 1},
    hidden=20,
)


@pytest.fixture
def no_data(monkeypatch):
    """No data and no network."""
    pooch = pytest.importorskip("pooch")

    def refuse(*arguments, **settings):
        raise OSError("no network")

    monkeypatch.delenv("PARAFAIR_DATA", raising=False)
    monkeypatch.setattr(pooch, "retrieve", refuse)
    monkeypatch.setattr(pooch, "os_cache", lambda name: Path("/nonexistent") / name)
