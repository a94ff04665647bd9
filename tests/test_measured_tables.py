"""Tables of pages say what stored results say."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SCORES = {
    "plain": "plain",
    "mean matching": "mean matching",
    "Bhattacharyya": "Bhattacharyya",
    "mutual information": "mutual information",
    "invariant": '`"invariant"` (embeddings)',
}
# Columns of the table of scores, and their digits.
MEASURES = {
    "held-out RMSE": 2,
    "difference of means": 2,
    "KS": 3,
    "area": 2,
    "information, normal": 5,
    "information, histogram": 4,
    "KS, all cells": 3,
    "leakage": 3,
}


def stored(name):
    """The rows of a stored benchmark."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text("utf-8"))["rows"]


def page(name):
    """A page with single spaces instead of line breaks."""
    return " ".join((ROOT / "docs" / f"{name}.md").read_text("utf-8").split())


def ends(values, digits):
    """The smallest and the largest of some numbers, as a page shows them."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def test_kamishimas_terms_and_embeddings_are_compared_as_measured():
    text, rows = page("fair-scores"), stored("fair_scores")
    assert len(rows) == 15
    for row in rows:
        cells = [f"{row[name]:.{digits}f}" for name, digits in MEASURES.items()]
        assert f"| {SCORES[row['method']]} | {' | '.join(cells)} |" in text
    costs = {"terms": [], "embeddings": []}
    plain = {row["data"]: row["held-out RMSE"] for row in rows if row["method"] == "plain"}
    for row in rows:
        kind = "embeddings" if row["method"] == "invariant" else "terms"
        costs[kind].append(row["held-out RMSE"] / plain[row["data"]] - 1)
    assert max(costs["terms"]) < 0.01
    least, most = min(costs["embeddings"]), max(costs["embeddings"])
    assert f"costs {least:.1%} to {most:.0%}:".replace("%", " %").replace(" % to", " to") in text


@pytest.mark.parametrize("above", [0.001, 0.0001])
def test_non_negative_fits_are_faster_as_measured(above):
    rows = [
        row for row in stored("non_negative_cp") if abs(row["above the smallest"] - above) < 1e-9
    ]
    cells = [
        ends([row[f"{name} seconds"] for row in rows], 2) + " s"
        for name in ("tensorly", "parafair")
    ]
    times = ends([row["times faster"] for row in rows], 1)
    assert len(rows) == 3
    assert f"| {' | '.join(cells)} | {times} |" in page("models")


def test_tucker_decompositions_are_faster_as_measured():
    rows = stored("tucker")
    cells = [
        ends([row[f"{name} seconds"] for row in rows], 2) + " s"
        for name in ("tensorly", "parafair")
    ]
    assert f"| {' | '.join(cells)} | {ends([row['times faster'] for row in rows], 1)} |" in page(
        "models"
    )
    for row in rows:
        assert row["parafair residual"] == pytest.approx(row["tensorly residual"], rel=1e-9)


def test_processes_and_threads_take_as_long_as_measured():
    text, rows = page("many-machines"), stored("many_processes")
    assert [(row["processes"], row["threads"]) for row in rows] == 2 * [(1, 1), (1, 2), (2, 1)]
    for row in rows:
        who = f"{row['people']:,} | {row['processes']} \N{MULTIPLICATION SIGN} {row['threads']}"
        cells = [
            f"{row[name]:.2f}" for name in ("seconds an iteration", "CPU seconds an iteration")
        ]
        if row["processes"] > 1:
            sent = row["bytes an iteration"] / 1e6
            cells += [f"{row['messages an iteration']:.0f}", f"{sent:.1f}"]
        (shown,) = re.findall(rf"\| {re.escape(who)} \|[^|]*\| ([\d.| ]*\d) \|", text)
        assert shown == " | ".join(cells)
        assert row["difference"] < 1e-10
