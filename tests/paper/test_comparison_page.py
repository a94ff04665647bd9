"""The page counts verdicts, says what the reproducing combinations share, and shows numbers."""

import re

import pytest

from parafair.paper import write_comparison
from parafair.paper.comparison_page import render_comparison
from parafair.paper.product import Product
from parafair.paper.table import COLUMNS, KEY, open_settings, write_rows, write_settings
from tests.paper.conftest import TINY

VALUES = {
    "init": ("uniform", "normal"),
    "batch_size": (32, 8),
    "rounds": (2,),
    "largest": ("printed",),
    "ones": ("second",),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Numbers under which Figure 1b holds with the classifier, from a normal start."""
    out = tmp_path_factory.mktemp("made")
    product = Product(VALUES, TINY)
    record = open_settings(out, product.settings)
    write_settings(out, {**record, "runs": [{"rows": 16, "device": "cpu"}]})
    rows = []
    for readings in product.combinations("fig1b"):
        for item in product.items("fig1b", readings):
            own = {name: getattr(item.readings, name) for name in product.columns}
            row = {**own, **dict.fromkeys(COLUMNS), **{name: getattr(item, name) for name in KEY}}
            row |= {"status": "out_of_iterations", "strongest": "", "leakage": 0.5, "balanced": 0.5}
            row["unfairness"] = 0.0 if item.strength and readings.init == "normal" else 0.5
            row["normalized_khsic"] = 0.01 if item.strength else 0.9
            rows.append(row)
    write_rows(out / "fits.csv", rows, tuple(rows[0]))
    return out


@pytest.fixture
def page(folder, tmp_path):
    return render_comparison(folder, tmp_path / "page.md")


def test_verdicts_are_counted_with_each_measure(page):
    (row,) = re.findall(r"^\| \*\*Figure 1b\..*$", page, re.M)
    assert row.endswith("| 4 | 2 / 0 / 2 | 0 / 0 / 4 | 0 / 2 / 2 |")


def test_the_readings_that_a_verdict_needs_are_named(page):
    assert (
        "- With the paper's classifier: reproduced under 2 of 4 combinations. "
        "All of them have `init=normal`." in page
    )
    assert "- With the attackers: reproduced under none of 4 combinations." in page


def test_each_check_has_its_count(page):
    assert "| unfairness falls | 2 |" in page
    assert "| leakage falls | 0 |" in page
    assert "| normalized KHSIC falls below 0.1 of its first value | 4 |" in page


def test_each_value_of_a_reading_has_its_count(page):
    assert "| `init=uniform` | 2 | 0 | 0 |" in page
    assert "| `init=normal` | 2 | 2 | 0 |" in page
    assert "| `batch_size=8` | 2 | 1 | 0 |" in page


def test_the_numbers_of_reproducing_combinations_are_shown(page):
    assert "| `init=normal` `rounds=2` |" in page
    assert "| `init=normal` `rounds=2` `batch_size=8` |" in page
    assert "**reproduced**" in page
    assert "**This is a quick run**" in page


def test_the_command_names_what_differs_from_the_usual_product(page):
    (command,) = re.findall(r"^parafair reproduce readings.*$", page, re.M)
    assert "fig1b" in command
    assert "--reading batch_size=32,8" in command
    assert "--reading init" not in command
    assert "--device" not in command


def test_notes_are_part_of_the_page_and_links_lead_to_the_table(folder, tmp_path):
    (folder / "notes.md").write_text("A remark.\n", encoding="utf-8")
    target = tmp_path / "page.md"
    write_comparison(folder, target)
    (folder / "notes.md").unlink()
    text = target.read_text("utf-8")
    assert "A remark." in text
    (link,) = re.findall(r"\[All combinations\]\((.*)\)", text)
    assert (tmp_path / link).resolve() == (folder / "verdicts.csv").resolve()
