"""The page in a real browser; skipped where there is none."""

import itertools
import re
from copy import deepcopy
from math import nan

import pytest

from tests.report.conftest import certify_point, put_off_chance

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def heading(page):
    return page.locator("#panel h2").inner_text()


def focused(page):
    return page.evaluate("document.activeElement.dataset.id")


def in_order(data):
    known = [point for point in data["points"] if point["leakage"] is not None]
    return [point["id"] for point in sorted(known, key=lambda point: point["residual"])]


def test_all_audited_points_are_shown_and_the_picked_one_is_selected(visit, frontier):
    page = visit(frontier)
    assert page.locator(".point").count() == 40  # the failed one is in the table only
    assert page.locator("#points tbody tr").count() == 41
    assert "infinite or undefined" in page.locator("#points").inner_text()
    assert heading(page) == "invariant, strength 300, seed 0"
    assert page.locator('.point[aria-pressed="true"]').get_attribute("data-id") == "invariant-7"
    assert page.locator("svg .ring").count() == 2  # in the plot and in its key


def test_a_point_says_its_numbers(visit, frontier):
    label = visit(frontier).locator('[data-id="khsic-9"]').get_attribute("aria-label")
    point = next(p for p in frontier["points"] if p["id"] == "khsic-9")
    numbers = [float(number) for number in re.findall(r"\d+\.\d+", label)]
    expected = [point[name] for name in ("residual", "leakage", "low", "high")]
    assert numbers == pytest.approx(expected, rel=1e-3)  # four digits


def test_clicking_a_point_shows_it(visit, frontier):
    page = visit(frontier)
    before = page.locator("#details").inner_html()
    page.locator('[data-id="fatr-9"]').click()
    assert heading(page) == "fatr, strength 3000, seed 0"
    assert page.locator("#details").inner_html() != before
    assert page.locator("#points tr.selected").inner_text().startswith("fatr-9")


def test_hovering_a_point_tells_its_numbers(visit, frontier):
    page = visit(frontier)
    assert page.locator("#tooltip").is_hidden()
    page.locator('[data-id="fatr-9"]').hover()
    assert "fatr, strength 3000" in page.locator("#tooltip").inner_text()


def test_points_can_be_reached_and_selected_by_keyboard(visit, frontier):
    page = visit(frontier)
    order = in_order(frontier)
    for _ in range(20):
        page.keyboard.press("Tab")
        if focused(page):
            break
    assert focused(page) == order[0]
    assert page.locator("#tooltip").is_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert focused(page) == order[1]
    page.keyboard.press("Enter")
    assert page.locator('.point[aria-pressed="true"]').get_attribute("data-id") == order[1]
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")  # there is none
    assert focused(page) == order[-1]
    page.keyboard.press("Space")
    assert page.locator('.point[aria-pressed="true"]').get_attribute("data-id") == order[-1]


def test_the_legend_hides_a_method_from_sight_and_keyboard(visit, frontier):
    page = visit(frontier)
    button = page.locator("#legend button", has_text="fatr")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert not page.locator('.point[data-method="fatr"]').first.is_visible()
    assert page.locator('.point[data-method="khsic"]').first.is_visible()
    shown = [name for name in in_order(frontier) if not name.startswith("fatr")]
    page.locator(f'[data-id="{shown[-1]}"]').focus()
    page.keyboard.press("ArrowRight")
    assert focused(page) == shown[-1]
    button.click()
    assert page.locator('.point[data-method="fatr"]').first.is_visible()


def test_markup_in_names_and_labels_stays_text(visit, frontier):
    changed = deepcopy(frontier)
    changed |= {"title": SCRIPT, "lead": SCRIPT, "summary": {SCRIPT: SCRIPT}}
    changed |= {"groups": [SCRIPT, "men"]}
    changed |= {"settings": {SCRIPT: SCRIPT}, "limit_note": SCRIPT}
    for point in changed["points"][:10]:
        point |= {"method": SCRIPT, "status": SCRIPT}
        point["components"][1] |= {"mode": SCRIPT, "labels": [SCRIPT] * 8}
        point["attackers"][0] |= {"feature": SCRIPT, "model": SCRIPT}
    page = visit(changed)
    assert heading(page).startswith(SCRIPT)
    page.locator(f".mode:has(h3:text-is({SCRIPT!r})) svg").first.hover()
    assert SCRIPT in page.locator("#tooltip").inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


def test_tables_sort_with_unknown_values_last(visit, frontier):
    page = visit(frontier)
    button = page.locator("#points thead button", has_text="residual")
    column = "[...document.querySelectorAll('#points tbody tr')].map(r => r.cells[4].innerText)"
    for direction, sign in (("ascending", 1), ("descending", -1)):
        button.click()
        assert page.locator(f'#points th[aria-sort="{direction}"]').count() == 1
        *numbers, last = page.evaluate(column)
        assert last == "\N{EN DASH}"
        assert sorted(numbers, key=lambda text: sign * float(text)) == numbers


def test_methods_are_compared(visit, frontier):
    page = visit(frontier)
    cells = page.locator("#methods tbody tr").first.locator("td").all_inner_texts()
    own = [point for point in frontier["points"] if point["method"] == "invariant"]
    best = min(point["residual"] for point in own if point["verdict"] == "passes")
    passing = sum(point["verdict"] == "passes" for point in own)
    assert cells[:3] == ["invariant", "10", str(passing)]
    assert float(cells[5]) == pytest.approx(best, rel=1e-3)
    page.locator('[data-id="fatr-9"]').click()
    page.locator("#methods tbody button").first.click()
    assert heading(page).startswith("invariant")


def test_a_dark_scheme_is_dark(visit, frontier):
    color = "getComputedStyle(document.body).backgroundColor"
    shades = {}
    for scheme in ("light", "dark"):
        text = visit(frontier, color_scheme=scheme).evaluate(color)
        shades[scheme] = sum(map(int, re.findall(r"\d+", text)))
    assert shades["dark"] < 100 < 600 < shades["light"]


def test_a_phone_shows_one_column_without_scrolling_sideways(visit, frontier):
    page = visit(frontier, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    lefts = "[...document.querySelectorAll('.card')].map(c => c.getBoundingClientRect().left)"
    assert len(set(page.evaluate(lefts))) == 1


def test_long_settings_have_room_on_a_phone(visit, frontier):
    settings = {"model (CP + correlation removal)": "center=False, dtype=none, " * 12}
    page = visit({**frontier, "settings": settings}, viewport={"width": 390, "height": 844})
    name, value = page.locator("table.listing", has_text="dtype").locator("th, td").all()
    assert value.bounding_box()["width"] > name.bounding_box()["width"] > 80


def test_numbers_color_people_where_there_are_no_groups(visit, frontier):
    changed = deepcopy(frontier) | {"groups": [], "before": None}
    page = visit(changed)
    fills = "[...document.querySelectorAll('#details .person')].map(p => p.style.fill)"
    assert len(set(page.evaluate(fills))) == 2  # the two values there are


def test_people_of_no_listed_group_are_drawn(visit, frontier):
    changed = deepcopy(frontier)
    for point in changed["points"]:
        point["embedding"]["group"][:3] = [-1, None, 7.0]
    page = visit(changed)
    pictures = page.locator("#details figure:has(.person)")
    assert [pictures.nth(i).locator(".person").count() for i in range(2)] == [40, 40]
    assert pictures.nth(1).locator(".unknown").count() == 3
    assert "no value (3)" in page.locator("#details .legend").inner_text()


def test_people_without_a_number_are_drawn_too(visit, frontier):
    changed = deepcopy(frontier) | {"groups": [], "before": None}
    for point in changed["points"]:
        point["embedding"]["group"][:4] = [None] * 4
    page = visit(changed)
    assert page.locator("#details figure .unknown").count() == 4
    assert "no value (4)" in page.locator("#details .legend").inner_text()


def test_held_out_errors_of_each_group_are_shown(visit, frontier):
    page = visit(frontier)
    shown = page.locator("#details section", has_text="Held-out entries")
    cells = shown.locator("tbody tr").nth(1).locator("td").all_inner_texts()
    errors = next(p for p in frontier["points"] if p["picked"])["errors"][1]
    assert cells[:2] == ["gender: women", "300"]
    assert float(cells[2]) == pytest.approx(errors["rmse"], rel=1e-3)
    assert "held-out RMSE" in page.locator("#panel").inner_text()
    assert "RMSE gap between groups" in page.locator("#points thead").inner_text()


def test_without_held_out_entries_the_page_has_no_errors(visit, frontier):
    changed = deepcopy(frontier) | {"coverage": {}}
    for point in changed["points"]:
        point |= {"rmse": None, "mae": None, "rmse_gap": None, "ks": None, "errors": []}
    page = visit(changed)
    assert "RMSE" not in page.locator("body").inner_text()
    assert page.locator("#coverage-heading").is_hidden()


def test_a_deviance_ratio_is_a_share_of_the_loss_and_a_ratio_of_norms_its_root(visit, frontier):
    changed = deepcopy(frontier)
    for point in changed["points"]:
        point |= {"residual": 0.3, "leakage": -0.00046}
    assert "leaves 9 % of squares" in visit(changed).locator("#panel").inner_text()
    page = visit(changed | {"measure": "a deviance ratio, relative to the best constant"})
    words = page.locator("#panel").inner_text()
    assert "leaves 30 % of the loss" in words
    assert "e-" not in words  # -0.00046 is 0
    assert "residual: a deviance ratio" in page.locator("body").text_content()


def test_attackers_off_chance_show_in_both_directions(visit, frontier):
    changed = deepcopy(frontier)
    first, second = changed["points"][3], changed["points"][7]
    put_off_chance(first, above=0.25)
    put_off_chance(second, below=0.125)
    page = visit(changed)
    mark = '[data-id="{}"] .side.{}'
    assert page.locator("#plot .side").count() == 2
    assert page.locator(mark.format(first["id"], "above")).count() == 1
    assert page.locator(mark.format(second["id"], "below")).count() == 1
    key = page.locator("#key").inner_text()
    assert "an attacker is significantly above chance" in key
    assert "an attacker is significantly below chance" in key
    label = page.locator(f'[data-id="{second["id"]}"]').get_attribute("aria-label")
    assert "attacker significantly below chance, by 0.125" in label
    assert "significantly below chance, by 0.125" in page.locator("#panel").inner_text()
    row = page.locator("#points tbody tr", has_text="\N{BLACK DOWN-POINTING TRIANGLE} 0.125")
    assert row.count() == 1
    attacker = page.locator("#details tbody tr").first.locator("td").all_inner_texts()
    assert attacker[2] == "\N{BLACK DOWN-POINTING TRIANGLE} -0.125"


def test_without_attackers_off_chance_nothing_is_marked(visit, frontier):
    page = visit(frontier)
    assert page.locator(".side").count() == 0
    assert "significantly" not in page.locator("#key").inner_text()


def test_every_attacker_has_its_auc(visit, frontier):
    page = visit(frontier)
    table = page.locator("#details table").first
    assert "AUC" in table.locator("thead").inner_text()
    picked = next(p for p in frontier["points"] if p["picked"])
    shown = [float(text) for text in table.locator("tbody td:last-child").all_inner_texts()]
    values = (row["ranking"]["value"] for row in picked["attackers"])
    expected = sorted(values, key=lambda value: -abs(value - 0.5))  # the strongest first
    assert shown == pytest.approx(expected, rel=1e-3)
    assert f"{expected[0]:.4g}" in page.locator("#panel dl").inner_text()


def test_the_horizontal_axis_can_be_the_held_out_error(visit, frontier):
    page = visit(frontier)
    residual, error = page.locator("#axes button").all()
    assert page.locator("#plot .baseline").count() == 0
    assert page.locator("#plot .limit").count() == 1
    error.click()
    assert error.get_attribute("aria-pressed") == "true"
    assert "RMSE of held-out entries" in page.locator("#plot").text_content()
    assert page.locator("#plot .baseline").count() == 1  # a small cost looks small beside it
    assert page.locator("#plot .limit").count() == 0  # it is a limit of the residual
    assert "baseline without people, 2" in page.locator("#key").inner_text()
    assert page.locator('.point[aria-pressed="true"]').get_attribute("data-id") == "invariant-7"
    residual.click()
    assert page.locator("#plot .limit").count() == 1


def test_sorted_components_tell_places_and_not_labels(visit, frontier):
    changed = deepcopy(frontier)
    for point in changed["points"]:
        people = point["components"][0] | {"drawn": "sorted", "labels": [], "largest": []}
        point["components"][0] = people | {"values": [sorted(v) for v in people["values"]]}
    page = visit(changed)
    mode = page.locator("#details .mode").first
    assert "200 people, sorted by value" in mode.inner_text()
    assert mode.locator(".area").count() == 3
    mode.locator("svg").first.hover()
    assert re.search(r"larger than [45]\d % of 200", page.locator("#tooltip").inner_text())


def test_labels_that_do_not_fit_are_named_below(visit, frontier):
    modes = visit(frontier).locator("#details .mode")
    movies, weeks = modes.nth(1), modes.nth(2)
    assert movies.locator(".largest").count() == 0  # eight labels fit below the axis
    assert "movies 8" in movies.inner_text()
    largest = weeks.locator(".largest").first.inner_text()
    assert re.match(r"largest: weeks 0 \([\d.]+\), weeks 1", largest)
    assert "30 of 150 labels, evenly spaced" in weeks.inner_text()


def test_the_data_is_described(visit, frontier):
    page = visit(frontier)
    assert "1,000,000 of 2,000,000 (50 %)" in page.locator(".coverage").inner_text()


def test_a_page_with_little_to_show_still_works(visit, frontier):
    failed = {"id": "a", "method": "khsic", "strength": None, "seed": 0, "status": "it diverged"}
    failed |= {"residual": nan, "leakage": None, "iterations": 0, "seconds": 0.0}
    failed |= {"efficient": False, "picked": False, "attackers": [], "components": []}
    failed |= {"embedding": {"x": [], "y": [], "group": []}}
    failed |= {"history": {"iteration": [], "objective": [], "residual": []}}
    page = visit({**frontier, "points": [failed], "limit": None, "before": None})
    assert "No fit was audited" in page.locator("#plot").text_content()
    assert heading(page) == "khsic, seed 0"
    assert "it diverged" in page.locator("#panel").inner_text()


def test_a_long_mode_shows_its_largest_labels_by_name(visit, frontier):
    changed = deepcopy(frontier)
    for point in changed["points"]:
        weeks = point["components"][2] | {
            "drawn": "largest",
            "labels": [],
            "values": [[-1.0, 2.0]] * 3,
        }
        weeks["largest"] = [[["a very long label of a week", 2.0], ["week 7", -1.0]]] * 3
        point["components"][2] = weeks
    mode = visit(changed).locator("#details .mode").nth(2)
    assert "the largest of 150 labels" in mode.inner_text()
    assert mode.locator("svg").count() == 3
    assert mode.locator(".bars").count() == 6
    titles = mode.locator("svg").first.locator("title").all_text_contents()
    assert titles[:2] == ["a very long label of a week", "a very long label of a week: 2"]


def test_the_cost_is_drawn_from_zero(visit, frontier):
    page = visit(frontier)
    headings = page.locator("#details h2").all_text_contents()
    assert headings.index("Cost") < headings.index("Attackers")
    figure = page.locator("#details section", has_text="Bars begin at zero").locator("figure").first
    label = figure.locator("svg").get_attribute("aria-label")
    own, best = map(float, re.findall(r"fits? (\d[\d.]*)", label))
    axis, first, second = (figure.locator("svg > *").nth(k).bounding_box() for k in (0, 2, 5))
    assert second["width"] / first["width"] == pytest.approx(best / own, rel=0.02)
    assert first["x"] == pytest.approx(axis["x"], abs=1)


def test_a_small_difference_does_not_fill_the_plot(visit, frontier):
    changed = deepcopy(frontier)
    for place, point in enumerate(changed["points"]):
        point["residual"] = 0.5 + 0.0001 * place
    changed["limit"] = None
    places = [
        box["x"] for box in (m.bounding_box() for m in visit(changed).locator(".point").all())
    ]
    assert max(places) - min(places) < 60


# The beginnings of elements that a screen reader could not name.
UNNAMED = """
[...document.querySelectorAll('button, [role=button], [role=img], [role=region], section')]
    .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim()
        || document.getElementById(e.getAttribute('aria-labelledby') ?? '')))
    .map((e) => e.outerHTML.slice(0, 80))
"""


# Names of the parts that a screen reader lists.
PARTS = """
[...document.querySelectorAll('section, [role=region]')].filter((e) => e.offsetParent)
    .map((e) => e.getAttribute('aria-label')
        || document.getElementById(e.getAttribute('aria-labelledby') ?? '')?.textContent)
    .filter((name) => name)
"""


def test_no_two_parts_have_one_name(visit, frontier):
    changed = deepcopy(frontier)
    for point in changed["points"]:
        certify_point(point)
    names = visit(changed).evaluate(PARTS)
    assert "Attackers" in names
    assert len(names) == len(set(names))


def test_everything_has_a_name_for_screen_readers_and_can_be_reached(visit, frontier):
    page = visit(frontier)
    assert page.evaluate(UNNAMED) == []
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((e) => +e.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    # What scrolls can be scrolled with the keyboard; the order is that of the page.
    assert page.locator(".scroll:not([tabindex='0'])").count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#legend') !== null")
