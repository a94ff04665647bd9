import re
import sys
from copy import deepcopy
from importlib.resources import files
from math import nan

import pytest

from parafair.frontiers.pictures import SIDES
from parafair.pictures import GROUP_COLORS, METHOD_COLORS
from parafair.report import draw_embeddings, draw_frontier
from tests.report.conftest import certify_point, put_off_chance

DRAWINGS = [draw_frontier, draw_embeddings]
BEGINNINGS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.mark.parametrize("draw", DRAWINGS)
@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_figures_are_written_in_the_format_of_the_suffix(draw, suffix, frontier, tmp_path):
    pytest.importorskip("matplotlib")
    draw(frontier, tmp_path / f"figure.{suffix}")
    written = (tmp_path / f"figure.{suffix}").read_bytes()
    assert written.startswith(BEGINNINGS[suffix])
    assert len(written) > 5000


@pytest.mark.parametrize("draw", DRAWINGS)
def test_no_figure_stays_open(draw, frontier, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    draw(frontier, tmp_path / "figure.png")
    assert not pyplot.get_fignums()


@pytest.mark.parametrize("draw", DRAWINGS)
def test_other_suffixes_are_refused(draw, frontier, tmp_path):
    with pytest.raises(ValueError, match="path must end in .png, .pdf, .svg, got .*figure.docx"):
        draw(frontier, tmp_path / "figure.docx")


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_missing_matplotlib_is_named(draw, frontier, tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'parafair\[plot\]'"):
        draw(frontier, tmp_path / "figure.png")


def test_the_frontier_shows_methods_the_picked_fit_and_the_limit(frontier, tmp_path):
    pytest.importorskip("matplotlib")
    figure = draw_frontier(frontier, tmp_path / "figure.png")
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["invariant", "khsic", "hsic", "fatr", "picked", "limit"]
    drawn = {place for line in figure.axes[0].lines for place in zip(*line.get_data(), strict=True)}
    for point in frontier["points"][:-1]:  # the last one failed
        assert (point["residual"], point["leakage"]) in drawn


def test_the_frontier_shows_certified_values(frontier, tmp_path):
    pytest.importorskip("matplotlib")
    changed = deepcopy(frontier)
    certify_point(changed["points"][7], bound=0.48)
    figure = draw_frontier(changed, tmp_path / "figure.png")
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "certified (F),\nthreat (b)" in names
    places = [tuple(p) for marks in figure.axes[0].collections for p in marks.get_offsets()]
    assert (changed["points"][7]["residual"], 0.48) in places
    assert figure.axes[0].get_ylim()[1] > 0.48


def test_the_frontier_marks_attackers_off_chance_in_both_directions(frontier, tmp_path):
    pytest.importorskip("matplotlib")
    changed = deepcopy(frontier)
    put_off_chance(changed["points"][0], above=0.3)
    put_off_chance(changed["points"][1], above=0.2, below=0.1)
    figure = draw_frontier(changed, tmp_path / "figure.png")
    marks = {line.get_label(): line for line in figure.axes[0].lines}
    above, below = marks["an attacker is\nabove chance"], marks["an attacker is\nbelow chance"]
    assert (above.get_marker(), len(above.get_xdata())) == ("^", 2)
    assert (below.get_marker(), len(below.get_xdata())) == ("v", 1)


def test_names_are_taken_as_they_are(frontier, tmp_path):
    pytest.importorskip("matplotlib")
    changed = deepcopy(frontier)
    for point in changed["points"][:10]:
        point["method"] = r"cost in $ \frac{"  # not valid as a formula
    figure = draw_frontier(changed, tmp_path / "figure.png")
    assert figure.legends[0].get_texts()[0].get_text() == r"cost in $ \frac{"


def test_without_limit_intervals_or_groups_the_rest_is_drawn(frontier, tmp_path):
    pytest.importorskip("matplotlib")
    bare = {**frontier["points"][0], "low": None, "high": None}
    changed = {**frontier, "limit": None, "groups": [], "before": None, "points": [bare]}
    assert len(draw_frontier(changed, tmp_path / "frontier.png").axes) == 1
    assert len(draw_embeddings(changed, tmp_path / "people.png").axes) == 2  # and a color bar


@pytest.mark.parametrize("numeric", [False, True])
def test_people_without_a_value_are_drawn_and_named(frontier, tmp_path, numeric):
    pytest.importorskip("matplotlib")
    changed = deepcopy(frontier) | {"before": None}
    if numeric:
        changed["groups"] = []
    for point in changed["points"]:
        point["embedding"]["group"][:3] = [None, None, nan]
    figure = draw_embeddings(changed, tmp_path / "figure.png")
    assert "no value" in [text.get_text() for text in figure.legends[0].get_texts()]
    marks = figure.axes[0].collections[0]
    assert len(marks.get_offsets()) == 3


def test_nothing_to_draw_is_said(frontier, tmp_path):
    failed = {
        **frontier["points"][0],
        "residual": nan,
        "embedding": {"x": [], "y": [], "group": []},
    }
    with pytest.raises(ValueError, match="none of the 1 points has both a residual and a leakage"):
        draw_frontier({**frontier, "points": [failed]}, tmp_path / "figure.png")
    with pytest.raises(ValueError, match="no point has an embedding"):
        draw_embeddings({**frontier, "points": [failed]}, tmp_path / "figure.png")


def test_figures_and_page_use_the_same_colors():
    style = (files("parafair.report") / "page" / "page.css").read_text(encoding="utf-8")
    light = style.split("@media")[0]
    for family, colors in (("m", METHOD_COLORS), ("g", GROUP_COLORS)):
        assert tuple(re.findall(rf"--{family}\d: (#\w+);", light)) == colors
    inks = dict(re.findall(r"--(mark|low)-ink: (#\w+);", light))
    assert [inks["mark"], inks["low"]] == [color for color, *_ in SIDES.values()]
