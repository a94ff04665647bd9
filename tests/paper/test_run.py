"""Tables: complete, the same again, and the same after an interruption."""

import json

import pytest

from parafair.errors import ParafairWarning
from parafair.frontiers.plan import make_plan
from parafair.paper import Readings, Setup, make_tables
from parafair.paper.table import COLUMNS, key, read_rows
from tests.paper.conftest import TINY

FIGURES = Setup(scale=TINY).figures


@pytest.fixture(autouse=True)
def without_limits(monkeypatch):
    """Limits need POT, and have tests of their own."""
    monkeypatch.setattr("parafair.paper.run._add_limits", lambda *arguments: None)


def texts(folder):
    return {path.name: path.read_text() for path in sorted(folder.glob("*.csv"))}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One figure's table, made in one go."""
    out = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parafair.paper.run._add_limits", lambda *arguments: None)
        make_tables(["rounds"], out=out, scale=TINY)
    return out


def test_a_table_has_a_row_for_every_fit(made):
    rows = read_rows(made / "rounds.csv")
    assert [key(row) for row in rows] == [item.key for item in FIGURES["rounds"].items]
    for row in rows:
        assert tuple(row) == COLUMNS
        assert 0 <= row["residual"] < 1.5
        assert -0.5 <= row["unfairness"] <= 0.5
        assert row["low"] <= row["high"]
        assert 0 <= row["normalized_khsic"] <= 1


def test_readings_and_machine_are_recorded(made):
    record = json.loads((made / "settings.json").read_text())
    assert record["settings"]["readings"]["units"] == "sum"
    assert record["settings"]["scale"]["name"] == "quick"
    assert record["runs"][0]["device"] == "cpu"
    assert record["runs"][0]["rows"] == len(FIGURES["rounds"].items)


def test_running_again_gives_identical_tables(made, tmp_path):
    make_tables(["rounds"], out=tmp_path, scale=TINY)
    assert texts(tmp_path) == texts(made)


def test_nothing_is_made_twice(made, monkeypatch):
    before = texts(made)
    monkeypatch.setattr("parafair.paper.work.make_plan", None)
    make_tables(["rounds"], out=made, scale=TINY)
    assert texts(made) == before


def test_an_interrupted_run_goes_on_and_ends_the_same(made, tmp_path, monkeypatch):
    calls = []

    def interrupted(*arguments, **settings):
        calls.append(settings["name"])
        if len(calls) == 2:
            raise KeyboardInterrupt("between two batches")
        return make_plan(*arguments, **settings)

    monkeypatch.setattr("parafair.paper.work.make_plan", interrupted)
    with pytest.raises(KeyboardInterrupt, match="between two batches"):
        make_tables(["rounds"], out=tmp_path, scale=TINY)
    some = read_rows(tmp_path / "rounds.csv")
    assert 0 < len(some) < len(FIGURES["rounds"].items)
    with pytest.raises(ValueError, match="holds results with other settings"):
        make_tables(["rounds"], out=tmp_path, scale=TINY, readings=Readings(rounds=3))
    make_tables(["rounds"], out=tmp_path, scale=TINY)
    assert len(calls) == 3  # what was done is not done again
    assert texts(tmp_path) == texts(made)
    record = json.loads((tmp_path / "settings.json").read_text())
    assert [part["rows"] for part in record["runs"]] == [2, 2]


def test_figures_share_rows(made, tmp_path, monkeypatch):
    (tmp_path / "fig2b.csv").write_text((made / "rounds.csv").read_text())
    (tmp_path / "settings.json").write_text((made / "settings.json").read_text())
    monkeypatch.setattr("parafair.paper.work.make_plan", None)
    make_tables(["rounds"], out=tmp_path, scale=TINY)
    assert (tmp_path / "rounds.csv").read_text() == (made / "rounds.csv").read_text()


def test_new_data_in_every_run_is_the_other_reading(made, tmp_path):
    make_tables(["rounds"], out=tmp_path, scale=TINY, readings=Readings(runs="data"))
    old, new = (read_rows(folder / "rounds.csv") for folder in (made, tmp_path))
    for before, now in zip(old, new, strict=True):
        same = before["residual"] == pytest.approx(now["residual"], rel=1e-4)
        assert same == (before["seed"] == 0)


def test_a_fit_that_diverges_is_a_row_that_says_so(tmp_path):
    readings = Readings(steps="printed", units="mean", loss="sum")
    make_tables(["rounds"], out=tmp_path, scale=TINY, readings=readings)
    for found in read_rows(tmp_path / "rounds.csv"):
        assert found["status"] == "diverged"
        assert found["residual"] is found["leakage"] is found["unfairness"] is None


def test_a_folder_with_other_settings_is_refused(made):
    with pytest.raises(ValueError, match="readings rounds: 100 there, 3 now"):
        make_tables(["rounds"], out=made, scale=TINY, readings=Readings(rounds=3))
    with pytest.raises(ValueError, match="other settings .scale name"):
        make_tables(["rounds"], out=made)


def test_an_unknown_figure_is_refused(tmp_path):
    with pytest.raises(ValueError, match="figure must be one of .*did you mean 'fig3b'"):
        make_tables(["fig3c"], out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_data_the_other_figures_are_made(no_data, tmp_path):
    found = make_tables(["rounds", "fig3a", "fig3b"], out=tmp_path, scale=TINY)
    assert found.figures == ("rounds",)
    assert set(found.left_out) == {"fig3a", "fig3b"}
    assert "archive.ics.uci.edu" in found.left_out["fig3a"]
    with pytest.raises(OSError, match="archive.ics.uci.edu"):
        make_tables(["fig3a"], out=tmp_path / "other", scale=TINY)
    assert not (tmp_path / "other").exists()


class TestLimits:
    @pytest.fixture(autouse=True)
    def without_limits(self):
        """Here they are wanted."""

    def test_are_computed_once(self, tmp_path, monkeypatch):
        pytest.importorskip("ot")
        make_tables(["rounds"], out=tmp_path, scale=TINY)
        limits = read_rows(tmp_path / "limits.csv")
        assert limits[0]["leakage"] == 0
        assert limits[0]["residual"] > limits[-1]["residual"] == 0
        monkeypatch.setattr("parafair.paper.run.parity_limit", None)
        make_tables(["rounds"], out=tmp_path, scale=TINY)

    def test_are_left_out_with_a_warning_where_they_cannot_be_had(self, tmp_path, monkeypatch):
        def missing(*_, **__):
            raise ImportError("needs POT")

        monkeypatch.setattr("parafair.paper.run.parity_limit", missing)
        with pytest.warns(ParafairWarning, match="the limit is left out .*needs POT"):
            make_tables(["rounds"], out=tmp_path, scale=TINY)
        assert not (tmp_path / "limits.csv").exists()


def test_progress_counts_rows_and_tells_the_time_left(tmp_path):
    seen = []
    make_tables(["rounds"], out=tmp_path, scale=TINY, on_progress=lambda *what: seen.append(what))
    assert seen[0][1:] == (0, 4, None)
    assert seen[-2][1:3] == (2, 4)
    assert seen[-2][3] > 0
    assert seen[-1] == ("parity limit", 4, 4, 0)
