from pathlib import Path
from types import SimpleNamespace

import pytest

from parafair.paper import PAPER_FIGURES, QUICK, Amount, Check, Claim, Readings, Verdict
from tests.cli.conftest import run


def test_what_is_left_out_is_shown_as_it_is(working, monkeypatch):
    left = SimpleNamespace(claims=(), page="page.md", left_out={"figure-2": "no file [/b] here"})
    monkeypatch.setattr("parafair.cli.reproducing.reproduce_paper", lambda *_, **__: left)
    assert "figure-2 left out: no file [/b] here" in run("reproduce", "--quick", code=2)


def test_options_reach_the_reproduction(working, monkeypatch):
    seen = {}
    made = SimpleNamespace(claims=(), page="page.md", left_out={})

    def reproduce(names, **options):
        seen.update(options, names=names)
        return made

    monkeypatch.setattr("parafair.cli.reproducing.reproduce_paper", reproduce)
    run("reproduce", "figure-2", "--quick", "--n-jobs", 2, "--format", "png,pdf")
    assert (seen["names"], seen["scale"], seen["n_jobs"]) == (("figure-2",), QUICK, 2)
    assert seen["formats"] == ["png", "pdf"]


def test_options_reach_the_comparison_of_readings(working, monkeypatch):
    seen = {}

    def compare(names, **options):
        seen.update(options, names=names)
        options["on_start"](Amount(combinations=12, rows=34, seconds=200))
        claim = Claim("fig1b", "Unfairness falls.", "", "", "", (Check("x", holds=True),))
        return {"fig1b": [Verdict(Readings(), claim)]}

    monkeypatch.setattr("parafair.cli.reproducing.compare_readings", compare)
    monkeypatch.setattr("parafair.cli.reproducing.write_comparison", lambda *_: None)
    text = run("reproduce", "readings", "fig1b", "--reading", "rounds=100,300", "--device", "cpu")
    assert seen["names"] == ("fig1b",)
    assert seen["readings"] == {"rounds": (100, 300)}
    assert str(seen["out"]) == "readings"
    assert "12 combinations of readings and figures, 34 rows to make, about 3 min" in text
    assert "page: readings/readings.md" in text
    run("reproduce", "readings", "all", "--quick")
    assert (seen["names"], seen["scale"]) == (PAPER_FIGURES, QUICK)


def test_several_values_of_a_reading_are_for_comparisons(working):
    text = run("reproduce", "fig1b", "--reading", "rounds=100,300", code=2)
    assert "`parafair reproduce readings` compares several" in text


@pytest.mark.parametrize("words", [(), ("readings",)])
def test_what_another_program_wrote_is_not_replaced(working, words):
    Path("notes").mkdir()
    for name in ("notes/fig1b.csv", "page.md"):
        Path(name).write_text("precious")
    command = ("reproduce", *words, "fig1b", "--quick", "--device", "cpu")
    text = run(*command, "--out", "notes", code=2)
    assert "notes holds other files (fig1b.csv), which would be lost; choose another" in text
    text = run(*command, "--out", "new", "--page", "page.md", code=2)
    assert "page.md already exists; choose another file" in text
    assert not Path("new").exists()
    assert {Path(name).read_text() for name in ("notes/fig1b.csv", "page.md")} == {"precious"}


def test_force_replaces_the_page(working, monkeypatch):
    seen = {}
    made = SimpleNamespace(claims=(), page="page.md", left_out={})
    monkeypatch.setattr(
        "parafair.cli.reproducing.reproduce_paper", lambda *_, **given: seen.update(given) or made
    )
    run("reproduce", "--page", "page.md", "--force")
    assert seen["overwrite"] is True
