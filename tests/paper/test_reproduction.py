"""All of it at once: every figure of the quick run, from the command line and from Python."""

import builtins
import re
import subprocess
import sys

import pytest

from parafair.errors import ParafairWarning
from parafair.paper import NAMES, QUICK, Readings, Setup, draw, reproduce, write_page
from parafair.paper.table import COLUMNS, read_rows, write_rows
from tests.paper.conftest import TINY

pytestmark = pytest.mark.slow  # its fits take half a minute


@pytest.fixture(scope="module")
def made(tmp_path_factory, real_data):
    """Every figure, tiny."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("ot")
    out = tmp_path_factory.mktemp("made")
    return out, reproduce(out=out, scale=TINY, data=real_data, formats=("png",))


def test_every_output_has_its_shape(made):
    out, found = made
    figures = Setup(scale=TINY).figures
    assert [claim.where for claim in found.claims] == [*NAMES, "Theorem 1", "Theorem 2"]
    for name in NAMES:
        assert len(read_rows(out / f"{name}.csv")) == len(figures[name].items)
        assert (out / f"{name}.png").stat().st_size > 10_000
    assert len(found.pictures) == len(NAMES) + 1
    assert (out / "overview.png").stat().st_size > 20_000
    assert {row["data"] for row in read_rows(out / "limits.csv")} == {"synthetic", "contraceptive"}


def test_pictures_come_in_three_formats(made, tmp_path):
    out, _ = made
    for path in out.glob("*.csv"):
        (tmp_path / path.name).write_text(path.read_text())
    paths = draw(Setup(scale=TINY).figures["rounds"], tmp_path)
    assert [path.suffix for path in paths] == [".png", ".pdf", ".svg"]
    assert "iterations of Algorithm 1" in paths[2].read_text()


def test_runs_that_diverged_are_left_out_of_means(made, tmp_path, monkeypatch):
    blank = dict.fromkeys(("unfairness", "leakage", "normalized_khsic"))
    first = read_rows(made[0] / "rounds.csv")[0]
    rows = [{**first, **blank, "rounds": 1, "residual": value} for value in (0.2, 0.4, None)]
    write_rows(tmp_path / "rounds.csv", rows, COLUMNS)
    bands = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.fill_between", lambda panel, *band, **look: bands.append(band)
    )
    draw(Setup(scale=TINY).figures["rounds"], tmp_path, ["png"])
    (length,), (low,), (high,) = next(band for band in bands if len(band[0]))
    assert (length, low, high) == pytest.approx((1, 0.3 - 0.02**0.5, 0.3 + 0.02**0.5))
    assert sum(len(band[0]) for band in bands) == 1


def test_the_page_shows_claims_pictures_and_readings(made):
    out, found = made
    page = found.page.read_text("utf-8")
    assert found.page == out / "reproduction.md"
    assert "**This is a quick run**" in page
    for claim in found.claims:
        assert f"| **{claim.verdict}** |" in page
    assert page.count("\n| **") == len(found.claims)
    for target in re.findall(r"\]\(([^)#:]+)\)", page):
        assert (out / target).exists()
    for name, value in vars(Readings()).items():
        assert f"`{name}={value}`" in page


def test_a_page_elsewhere_links_to_the_folder(made, tmp_path):
    out, _ = made
    (tmp_path / "docs").mkdir()
    write_page(out, tmp_path / "docs" / "page.md")
    links = re.findall(r"\]\(([^)#:]+)\)", (tmp_path / "docs" / "page.md").read_text("utf-8"))
    assert links
    assert all((tmp_path / "docs" / link).exists() for link in links)


def test_a_table_that_lacks_rows_is_not_judged(made, tmp_path):
    out, _ = made
    for path in [*out.glob("*.csv"), out / "settings.json"]:
        (tmp_path / path.name).write_text(path.read_text())
    lines = (tmp_path / "fig1b.csv").read_text().splitlines(keepends=True)
    (tmp_path / "fig1b.csv").write_text("".join(lines[:-1]))
    claims = write_page(tmp_path, tmp_path / "page.md")
    assert "fig1b" not in [claim.where for claim in claims]
    assert "Not made yet: Figure 1b." in (tmp_path / "page.md").read_text("utf-8")


def test_without_matplotlib_the_tables_are_made_and_the_page_has_no_pictures(tmp_path, monkeypatch):
    original = builtins.__import__

    def refuse(name, *arguments, **settings):
        if name.startswith("matplotlib"):
            raise ImportError(f"no {name}")
        return original(name, *arguments, **settings)

    monkeypatch.setattr("parafair.paper.run._add_limits", lambda *arguments: None)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.warns(ParafairWarning, match="the pictures are left out"):
        found = reproduce(["rounds"], out=tmp_path, scale=TINY)
    assert not found.pictures
    page = found.page.read_text("utf-8")
    assert "![" not in page
    assert "Not made yet: Figure 1a, Figure 1b," in page
    assert read_rows(tmp_path / "rounds.csv")


def test_an_unknown_format_is_refused_before_any_work(tmp_path):
    with pytest.raises(ValueError, match="formats must be one of png, pdf, svg; got 'gif'"):
        reproduce(out=tmp_path / "out", formats=("gif",))
    assert not (tmp_path / "out").exists()


def test_the_quick_run_is_small():
    figures = Setup(scale=QUICK).figures.values()
    assert len({item for figure in figures for item in figure.items}) < 80


@pytest.mark.slow
def test_the_quick_run_from_the_shell(real_data, tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    command = [sys.executable, "-m", "parafair", "reproduce", "all", "--quick", "--n-jobs", "2"]
    command += ["--out", tmp_path, "--data", real_data]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.count("reproduced") + result.stdout.count("partly") >= len(NAMES)
    for name, figure in Setup(scale=QUICK).figures.items():
        assert len(read_rows(tmp_path / f"{name}.csv")) == len(figure.items)
        assert (tmp_path / f"{name}.pdf").exists()


class TestCommand:
    @pytest.fixture(autouse=True)
    def small(self, tmp_path, monkeypatch):
        pytest.importorskip("typer")
        pytest.importorskip("matplotlib")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr("parafair.cli.reproducing.QUICK", TINY)

    def run(self, *arguments, code=0):
        from typer.testing import CliRunner

        from parafair.cli import app

        result = CliRunner().invoke(app, ["reproduce", *arguments, "--quick"])
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    @pytest.mark.filterwarnings("default::parafair.errors.ParafairWarning")
    def test_prints_verdicts_and_says_where_things_are(self, tmp_path):
        text = self.run("rounds", "--out", "run", "--format", "png", "--page", "page.md")
        assert "Theorem 2" in text
        assert "not reproduced" in text
        assert "page: page.md" in text
        assert (tmp_path / "run" / "rounds.png").exists()
        assert (tmp_path / "page.md").exists()

    @pytest.mark.filterwarnings("default::parafair.errors.ParafairWarning")
    def test_without_data_says_what_was_left_out(self, no_data):
        text = self.run("rounds", "fig3a", "--format", "png", code=2)
        assert "Error: fig3a left out: cmc could not be downloaded" in text
        assert "Theorem 1" in text
        text = self.run("fig3b", "--out", "other", code=2)
        assert text.startswith("Error: cmc could not be downloaded")
        assert "Traceback" not in text

    def test_bad_input_is_one_line(self):
        assert self.run("fig9", code=2).startswith("Error: figure must be one of")
        assert "did you mean 'rounds'" in self.run("--reading", "round=2", code=2)
