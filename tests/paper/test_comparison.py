"""Claims under many readings: the same rows as one reading at a time, resumed, judged twice."""

import csv
import json
from dataclasses import asdict, replace

import pytest

from parafair.frontiers.plan import make_plan
from parafair.paper import Readings, compare_readings, make_tables
from parafair.paper.comparison import read_fits, read_verdicts
from parafair.paper.product import Product
from parafair.paper.table import read_rows
from parafair.paper.verdict import MEASURES
from tests.paper.conftest import TINY

VALUES = {
    "init": ("uniform", "normal"),
    "inner_steps": (200,),
    "batch_size": (32, 8),
    "rounds": (2,),
    "largest": ("range",),
    "ones": ("second",),
}
PRODUCT = Product(VALUES, TINY)


def texts(folder):
    return {path.name: path.read_text() for path in sorted(folder.glob("*.csv"))}


def compare(out, **settings):
    return compare_readings(["fig1b"], out=out, scale=TINY, readings=VALUES, **settings)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("made")
    seen = []
    found = compare(out, on_progress=lambda *what: seen.append(what))
    assert seen[0][1:] == (0, 16, None)
    assert seen[-1][1:3] == (8, 16)
    return out, found


def test_each_figure_has_a_verdict_for_each_combination(made):
    out, found = made
    assert list(found) == ["fig1b"]
    assert [verdict.readings for verdict in found["fig1b"]] == PRODUCT.combinations("fig1b")
    with (out / "verdicts.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(found["fig1b"]) == 4
    for row, verdict in zip(rows, found["fig1b"], strict=True):
        assert (row["figure"], row["init"]) == ("fig1b", verdict.readings.init)
        assert row["ones"] == ""  # on which the figure does not depend
        assert row["verdict by leakage"] == verdict.claim.by("leakage").verdict
    assert found == read_verdicts(out)


@pytest.mark.parametrize("changes", [{}, {"init": "normal", "batch_size": 8}])
def test_rows_and_claims_are_those_of_one_reading(made, tmp_path, monkeypatch, changes):
    monkeypatch.setattr("parafair.paper.run._add_limits", lambda *arguments: None)
    out, _ = made
    readings = Readings(**{"largest": "range", "rounds": 2, **changes})
    make_tables(["fig1b"], out=tmp_path, scale=replace(TINY, ours=()), readings=readings)
    store = read_fits(out, PRODUCT)
    alone = {
        (row["method"], row["strength"], row["seed"]): row
        for row in read_rows(tmp_path / "fig1b.csv")
    }
    for item in PRODUCT.items("fig1b", readings):
        expected = alone[item.method, item.strength, item.seed]
        together = store[PRODUCT.key(item)]
        for name, value in expected.items():
            if isinstance(value, float):  # sums of a batch round differently
                assert together[name] == pytest.approx(value, rel=1e-3, abs=1e-6), name
            else:
                assert together[name] == value, name


def test_the_start_and_the_classifier_change_the_rows(made):
    store = read_fits(made[0], PRODUCT)

    def values(name, **changes):
        items = PRODUCT.items("fig1b", Readings(**{"largest": "range", "rounds": 2, **changes}))
        return [store[PRODUCT.key(item)][name] for item in items]

    assert values("residual") != values("residual", init="normal")
    assert values("residual") == values("residual", batch_size=8)
    assert values("leakage") == values("leakage", batch_size=8)
    assert values("unfairness") != values("unfairness", batch_size=8)


def test_claims_are_judged_with_each_measure(made):
    for verdict in made[1]["fig1b"]:
        claim = verdict.claim
        for measure in MEASURES:
            own = claim.by(measure).checks
            assert {check.measure for check in own} == {"", measure}
            assert all(measure in check.text for check in own if check.measure)
        both = {check for measure in MEASURES for check in claim.by(measure).checks}
        assert both == set(claim.checks)


def test_an_interrupted_comparison_continues_and_ends_the_same(made, tmp_path, monkeypatch):
    calls = []

    def interrupted(*arguments, **settings):
        calls.append(settings["name"])
        if len(calls) == 2:
            raise KeyboardInterrupt("between two batches")
        return make_plan(*arguments, **settings)

    monkeypatch.setattr("parafair.paper.work.make_plan", interrupted)
    with pytest.raises(KeyboardInterrupt, match="between two batches"):
        compare(tmp_path)
    assert 0 < len(read_rows(tmp_path / "fits.csv")) < len(read_rows(made[0] / "fits.csv"))
    amounts = []
    found = compare(tmp_path, on_start=amounts.append)
    assert found == made[1]
    assert texts(tmp_path) == texts(made[0])
    (amount,) = amounts
    record = json.loads((tmp_path / "settings.json").read_text())
    assert [run["rows"] for run in record["runs"]] == [8, amount.rows]


def test_the_amount_of_work_is_known_before_it_begins(tmp_path):
    def stop(amount):
        assert (amount.combinations, amount.rows) == (4, 16)
        assert amount.seconds > 0
        raise KeyboardInterrupt("before any fit")

    with pytest.raises(KeyboardInterrupt, match="before any fit"):
        compare(tmp_path, on_start=stop)
    assert not (tmp_path / "fits.csv").exists()


def test_a_folder_with_other_readings_is_refused(made):
    with pytest.raises(ValueError, match="holds results with other settings"):
        compare_readings(["fig1b"], out=made[0], scale=TINY, readings={**VALUES, "rounds": (1,)})


def test_an_unknown_figure_is_refused(tmp_path):
    with pytest.raises(ValueError, match="figure must be one of fig1a"):
        compare_readings(["rounds"], out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_data_nothing_is_made(no_data, tmp_path):
    with pytest.raises(OSError, match="archive.ics.uci.edu"):
        compare_readings(["fig3a"], out=tmp_path / "out", scale=TINY)
    assert not (tmp_path / "out").exists()


def test_the_settings_are_those_of_the_product(made):
    settings = json.loads((made[0] / "settings.json").read_text())["settings"]
    assert settings["readings"]["init"] == ["uniform", "normal"]
    assert set(settings["scale"]) == set(asdict(TINY))
