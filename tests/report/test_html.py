import json
import re
from base64 import b64encode
from copy import deepcopy
from hashlib import sha256
from math import inf, nan
from pathlib import Path

import pytest

import parafair.report
from parafair.report import render

NASTY = "</script><script>alert(1)</script><!-- & \u2028\u2029 'quoted' \"twice\" ${x} $title"


def embedded(page):
    """The data as the browser reads it."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return found[0], json.loads(found[0], parse_constant=refuse)


def test_the_numbers_on_the_page_are_those_of_the_data(frontier):
    _, read = embedded(render(frontier))
    expected = deepcopy(frontier)
    expected["points"][-1]["residual"] = None  # NaN
    assert read == expected


def test_undefined_numbers_become_null(frontier):
    changed = deepcopy(frontier)
    changed["points"][0] |= {"residual": nan, "leakage": inf, "low": -inf}
    changed["points"][0]["embedding"]["x"][3] = nan
    _, read = embedded(render(changed))
    point = read["points"][0]
    assert [point[name] for name in ("residual", "leakage", "low")] == [None] * 3
    assert point["embedding"]["x"][3] is None


def test_markup_in_the_data_stays_text(frontier):
    changed = deepcopy(frontier)
    changed |= {"title": NASTY, "lead": NASTY, "summary": {NASTY: NASTY}}
    changed |= {"settings": {NASTY: NASTY}, "limit_note": NASTY}
    changed["points"][0] |= {"id": NASTY, "method": NASTY, "status": NASTY}
    changed["points"][0]["components"][0]["labels"][0] = NASTY
    page = render(changed)
    text, read = embedded(page)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert read["points"][0]["method"] == NASTY
    assert "alert(1)</script>" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "<title>&lt;/script&gt;&lt;script&gt;alert(1)" in page


def test_the_page_asks_the_network_for_nothing(frontier):
    page = render(frontier)
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|\bsrc=|@import|url\((?!#)|<link|\bfetch\(|innerHTML", page)


def test_the_page_runs_its_own_script_and_no_other(frontier):
    page = render(frontier)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert "unsafe" not in policy
    for name in ("style", "script"):
        (text,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


def test_the_page_is_marked_up_for_readers_of_all_kinds(frontier):
    page = render(frontier)
    for part in ('lang="en"', 'name="viewport"', 'aria-live="polite"', "prefers-color-scheme"):
        assert part in page
    assert page.count("<h1>") == 1


def test_a_report_without_points_is_refused(frontier):
    with pytest.raises(ValueError, match="data\\['points'\\] is empty.*add at least one fit"):
        render({**frontier, "points": []})


def test_missing_parts_are_named(frontier):
    with pytest.raises(ValueError, match="data lacks 'limit', 'before'; a report needs title"):
        render({name: part for name, part in frontier.items() if name not in ("limit", "before")})


def brightness(color):
    """The relative luminance of WCAG 2."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first, second):
    dark, light = sorted((brightness(first), brightness(second)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_marks_have_enough_contrast(theme):
    style = (Path(parafair.report.__file__).parent / "page" / "page.css").read_text("utf-8")
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", style.split(":root")[theme + 1]))
    pairs = [(text, on) for text in ("ink", "muted") for on in ("page", "card", "soft")]
    pairs += [("accent", "card"), ("mark-ink", "mark"), ("low-ink", "low"), ("sure", "sure-soft")]
    low = {p: round(contrast(colors[p[0]], colors[p[1]]), 2) for p in pairs}
    assert {pair: value for pair, value in low.items() if value < 4.5} == {}  # text
    marks = {
        n: round(contrast(colors[n], colors["card"]), 2) for n in colors if re.match("[mg]\\d", n)
    }
    assert {name: value for name, value in marks.items() if value < 3} == {}  # shapes


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
