"""The page on paper, in a real browser; skipped where there is none."""

from copy import deepcopy

from parafair.report.content import LIMIT_NOTE
from tests.report.conftest import certify_point, put_off_chance


def test_nothing_is_cut_on_paper(visit, frontier):
    page = visit(frontier)
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    page.emulate_media(media="print")
    tables = "[...document.querySelectorAll('.scroll')].map((e) => e.firstChild.scrollWidth)"
    assert max(page.evaluate(tables)) <= 703
    assert not page.locator("#axes").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 703


def test_three_modes_are_side_by_side_and_in_one_piece_on_paper(visit, frontier):
    page = visit(frontier)
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    page.emulate_media(media="print")
    modes = page.locator(".mode")
    assert modes.count() == 3
    assert len({box["y"] for box in (mode.bounding_box() for mode in modes.all())}) == 1
    assert modes.first.evaluate("(e) => getComputedStyle(e).breakInside") == "avoid"


def test_summary_and_plot_are_the_first_page_on_paper(visit, frontier):
    # As many words and methods as in the report of `make demo`.
    words = {"Certificate": 95, "Cost": 25, "Evidence": 45, "About these numbers": 90}
    texts = {heading: "people " * count for heading, count in words.items()}
    names = ["BCD", "FATR", "HSIC-BCD", "KHSIC-BCD", "CP + correlation removal", "CP + transport"]
    changed = deepcopy(frontier) | {"lead": "people " * 30, "summary": texts}
    for name, point in zip(names, changed["points"], strict=False):
        put_off_chance(point, above=0.1, below=0.1)
        point["method"] = name
    for point in changed["points"][10:]:
        certify_point(point)
    page = visit({**changed, "limit_note": LIMIT_NOTE})
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    page.emulate_media(media="print")
    assert page.locator("#legend button").count() == 10
    places = "document.querySelector('.explore .card').getBoundingClientRect().bottom"
    assert page.evaluate(places) < 1016  # 269 mm
