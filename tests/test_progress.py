import io
import sys
from types import SimpleNamespace

import pytest

from parafair import Interrupted, audit, progress
from parafair.progress import Bar, tracked


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook shows: every bundle, and how often the last one was replaced."""
    shown = []
    handle = SimpleNamespace(update=lambda bundle, raw: shown.append(bundle))

    def display(bundle, raw, display_id):
        shown.append(bundle)
        return handle

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    return shown


def run(verbose, steps=20, what="fits"):
    with tracked(what, verbose) as bar:
        for step in range(steps):
            bar(step + 1, steps)
            bar.note(f"step {step + 1}")


def test_nothing_is_shown_by_default(capsys):
    run(0)
    assert capsys.readouterr() == ("", "")


def test_a_log_has_a_line_for_every_tenth(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    run(1, steps=100)
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 11
    assert err.splitlines()[-1].startswith("fits: 100 of 100, ")


def test_a_terminal_has_one_bar_that_moves_and_a_line_that_stays(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    run(1)
    shown = terminal.getvalue()
    assert shown.count("\r█") == 20
    assert shown.endswith(" s\n")
    assert "█" not in shown.rpartition("\x1b[2K")[2]


def test_lines_of_verbose_2_go_above_the_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(2)
    assert capsys.readouterr().out.splitlines() == [f"step {k + 1}" for k in range(20)]


def test_a_notebook_replaces_its_bar_and_escapes_its_name(notebook):
    run(1, steps=3, what="<script>")
    assert [bundle["text/html"].count("<progress") for bundle in notebook] == [1, 1, 1, 0]
    assert all("<script>" not in bundle["text/html"] for bundle in notebook)
    assert 'value="2" max="3"' in notebook[1]["text/html"]


def test_stages_have_a_line_each(capsys):
    with tracked("fits", 1) as bar:
        for what in ("fits", "audits"):
            bar.stage(what)
            bar(2, 2)
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        "fits: 2 of 2", "audits: 2 of 2",
    ]  # fmt: skip


def test_an_interruption_says_how_far_the_work_was():
    text = "^fits: interrupted after 3 of 7; nothing is kept"
    with pytest.raises(KeyboardInterrupt, match=text), tracked("fits", 0) as bar:
        bar(3, 7)
        raise KeyboardInterrupt


def test_an_interrupted_fit_keeps_its_type_and_gets_a_note():
    fit = SimpleNamespace(n_iter=5)
    with (
        pytest.raises(Interrupted, match="interrupted after 5 iterations") as caught,
        tracked("fits", 0, "see out"),
    ):
        raise Interrupted(fit)
    assert caught.value.fit is fit
    assert caught.value.__notes__ == ["fits: interrupted before the first; see out"]


def test_an_audit_shows_its_progress_and_can_be_interrupted(capsys):
    rows, groups = [[k % 3, k % 2] for k in range(20)], ["a", "b"] * 10
    settings = {"sensitive_features": groups, "attackers": ["linear"], "permutations": 1}
    audit(rows, **settings, verbose=2)
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith("audit: 3 of 3")
    assert out.startswith("sensitive: leakage ")

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="audit: interrupted after 1 of 3; nothing is kept"):
        audit(rows, **settings, on_progress=stop)


@pytest.mark.parametrize("verbose", [-1, 3, 0.5, "1", None])
def test_other_verbosities_are_refused(verbose):
    with pytest.raises((ValueError, TypeError), match="verbose must be a whole number from 0 to 2"):
        audit([[0.0]] * 8, sensitive_features=["a", "b"] * 4, verbose=verbose)


def test_a_failure_ends_the_bar(capsys):
    with pytest.raises(ValueError, match="for a good reason"), tracked("fits", 1) as bar:
        bar(1, 3)
        raise ValueError("for a good reason")
    assert "(failed)" in capsys.readouterr().err
    assert str(Bar("fits", 1)).startswith("fits: 0 of 0")
