from types import SimpleNamespace

from parafair.paper import QUICK
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
