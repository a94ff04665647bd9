"""What a real browser shows of certificates; skipped where there is none."""

import re
from copy import deepcopy

import pytest

from tests.report.conftest import certify_point
from tests.report.test_browser import SCRIPT


@pytest.fixture
def certified(frontier):
    """A frontier in which two fits of the first method have a certificate."""
    changed = deepcopy(frontier)
    for place, bound in ((6, 0.00001), (7, 0.29795)):
        certify_point(changed["points"][place], bound=bound)
    return changed


def test_certified_and_measured_numbers_are_told_apart(visit, certified):
    page = visit(certified)
    figures = page.locator("#panel .figures").inner_text()
    assert re.search(r"certified \(F\), at most\s+0\.298\s+threat \(b\) only", figures)
    assert re.search(r"measured vote\s+0\.41\s+threat \(a\), advantage", figures)
    assert "measured leakage" in figures
    heads = page.locator("#points thead").inner_text()
    for name in ("noise", "measured leakage", "certified (F)", "certified (C)", "measured vote"):
        assert name in heads
    # A bound is rounded up.
    assert "0.2980" in page.locator("#points tr.selected").inner_text()
    assert "0.0001" in page.locator("#points tbody tr").nth(6).inner_text()
    assert page.locator("#plot .certified-mark").count() == 2
    label = page.locator('[data-id="invariant-7"]').get_attribute("aria-label")
    assert "certified leakage (F), threat (b): at most 0.2980" in label


def test_each_statement_is_a_sentence_and_both_threats_have_a_picture(visit, certified):
    page = visit(certified)
    details = page.locator("#details")
    said = details.locator(".statements").first.inner_text()
    for letter in "FC":
        assert f"No attacker knows gender ({letter})." in said
    assert details.locator(".badge.certified").count() == 2
    pictures = details.locator("figure.exposure")
    assert pictures.count() == 2
    for picture, threat, kind in (
        (pictures.nth(0), "b", "estimated"),
        (pictures.nth(1), "a", "measured"),
    ):
        text = picture.text_content()
        assert f"Threat ({threat})" in text
        assert kind in text
        assert "95 % of 40 people up to 0.75" in text
        assert "largest 0.987" in text
        assert f"How sure ({threat}) is about gender." in text
    assert "A note." in details.inner_text()


def test_a_fit_without_noise_has_no_guarantees(visit, certified):
    page = visit(certified)
    page.locator('[data-id="fatr-9"]').click()
    assert page.locator("#details figure.exposure").count() == 0
    assert "certified" not in page.locator("#panel").inner_text()


def test_a_page_without_certificates_has_no_columns_for_them(visit, frontier):
    page = visit(frontier)
    assert "certified" not in page.locator("#points thead").inner_text()
    assert page.locator("#plot .certified-mark").count() == 0


def test_names_of_features_in_statements_are_no_markup(visit, frontier):
    changed = deepcopy(frontier)
    certify_point(changed["points"][7], column=SCRIPT)
    page = visit(changed)
    assert SCRIPT in page.locator("#details .statements").first.inner_text()
    assert SCRIPT in page.locator("#details figure.exposure").first.text_content()
