"""The page on paper, in a real browser; skipped where there is none."""

from parafair.report.content import LIMIT_NOTE


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
    words = {"Certificate": 80, "Cost": 45, "Evidence": 40, "About these numbers": 70}
    texts = {heading: "people " * count for heading, count in words.items()}
    long = {"lead": "people " * 20, "summary": texts, "limit_note": LIMIT_NOTE}
    page = visit({**frontier, **long})
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    page.emulate_media(media="print")
    places = "document.querySelector('.explore .card').getBoundingClientRect().bottom"
    assert page.evaluate(places) < 1016  # 269 mm
