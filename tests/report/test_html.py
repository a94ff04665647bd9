import json
import re
from base64 import b64encode
from copy import deepcopy
from hashlib import sha256
from math import inf, nan

import pytest

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
    changed |= {"title": NASTY, "summary": [NASTY], "settings": {NASTY: NASTY}, "limit_note": NASTY}
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
