"""Tables of the pages about guarantees say what stored results say."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def stored(name):
    """The rows of a stored benchmark."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text("utf-8"))["rows"]


def test_the_costs_of_a_population_are_the_measured_ones():
    page, rows = (DOCS / "guarantees.md").read_text("utf-8"), stored("population")
    assert [row["rank"] for row in rows] == [2, 4, 8]
    for row in rows:
        assert row["people"] == row["held out"] == 10_000
        values = [f"{row[name]:.3f}" for name in ("(P)", "estimate", "slack")]
        residuals = f"{row['before noise']:.3f}, {row['residual']:.3f}"
        passed = "yes" if row["passed"] else "no"
        cells = [str(row["rank"]), *values, f"{row['noise']:.2g}", residuals, passed]
        assert f"| {' | '.join(cells)} | {row['fit, CPU s']:.0f} |" in page
    assert max(row["certificate, CPU s"] for row in rows) <= 3


def test_the_costs_of_a_population_of_students_are_the_measured_ones():
    page, rows = (DOCS / "guarantees.md").read_text("utf-8"), stored("oulad_population")
    for row in rows:
        values = [f"{row[name]:.3f}" for name in ("(P)", "estimate", "slack")]
        residuals = f"{row['before noise']:.3f}, {row['residual']:.3f}"
        cells = [str(row["rank"]), f"{row['noise']:g}", *values, residuals]
        assert f"| {' | '.join(cells)} |" in page
    met = {(row["rank"], row["noise"]) for row in rows if row["(P)"] <= 0.05}
    assert met == {(2, 0.4), (2, 0.8), (4, 0.8)}


def test_what_noise_does_to_new_people_is_what_was_measured():
    page, rows = (DOCS / "guarantees.md").read_text("utf-8"), stored("population_noise")
    for begin, name in (
        ("as it is", "estimate"),
        ("shifts without noise of their own", "without noise of shifts"),
        ("permuted groups: what too few people add", "permuted"),
    ):
        assert f"| {begin} | {' | '.join(f'{row[name]:.3f}' for row in rows)} |" in page
    estimates = [row["estimate"] for row in rows]
    assert estimates != sorted(estimates, reverse=True)  # "More noise does not always help"


def test_the_costs_of_a_guarantee_are_the_measured_ones():
    page, rows = (DOCS / "guarantees.md").read_text("utf-8"), stored("certified_auto")

    def cell(some, name, join):
        found = [f"{row[name]:.3f}" for row in some if row[name] is not None]
        return f" {join.join(dict.fromkeys(found))} " if found else " "

    kinds = {
        "paper, seeds 0 to 4": [row for row in rows if row["data"].startswith("paper, seed")],
        "paper, 300 people, seed 5": rows[11:],
        "equal moments, other shape": rows[5:6],
        "three groups": rows[6:7],
        "two columns": rows[7:8],
        "a number on a circle": rows[8:9],
        "mean shift, 60 and 240 people, two seeds": rows[9:11],
    }
    assert sum(map(len, kinds.values())) == len(rows) == 12
    for name, own in kinds.items():
        join = ", "
        if len(own) == 5:
            own, join = sorted(own, key=lambda row: row["residual"])[::4], " to "
        cells = [cell(own, "residual", join), cell(own, "limit at (F)", join)]
        assert all(0.038 < row["certified (F)"] <= 0.05 + 1e-9 for row in own)
        assert (
            f"| {name} | release, 0.05 |{'|'.join(cells)}|{cell(own[:1], 'certified (F)', '')}|"
            in page
        )


def test_the_costs_of_a_guarantee_with_an_audit_are_the_measured_ones():
    page, rows = (DOCS / "guarantees.md").read_text("utf-8"), stored("certified_and_audited")
    assert len(rows) == 12
    for row in rows:
        assert row["outside audit"] == "passes"
        limit = "" if row["limit at (F)"] is None else f"{row['limit at (F)']:.3f}"
        noise = f"{row['noise']:.2g}"
        cells = [row["data"], f"{row['residual']:.3f}", limit, noise, f"{row['certified (F)']:.3f}"]
        cells += [f"{row['leakage (a)']:.3f}", row["attackers"], str(row["trials"])]
        assert f"| {' | '.join(cells)} | {row['CPU s']:.0f} |" in page


def test_attackers_of_simulated_releases_stay_below_certificates():
    page = " ".join((DOCS / "guarantees.md").read_text("utf-8").split())
    rows = stored("simulated_releases")
    above = max(row["above the certified value beyond the interval"] for row in rows)
    sets, allowed = rows[0]["data sets"], rows[0]["allowed"]
    assert f"on {above} of {sets} data sets; the confidence of 0.95 allows {allowed:.0f}" in page
    assert f"difference was {max(row['largest difference'] for row in rows):.3f}" in page
    (strongest,) = (row for row in rows if row["attacker"] == "strongest")
    assert f"attacker was {strongest['mean advantage']:.3f}" in page
    assert f"certified value {strongest['mean certified']:.3f}" in page


def test_the_limits_of_groups_of_different_sizes_are_the_measured_ones():
    page = " ".join((DOCS / "guarantees.md").read_text("utf-8").split())
    rows = [row for row in stored("certified_auto") if row["data"].startswith("mean shift")]
    limits = [f"{row['limit at (F)']:.3f}" for row in rows]
    above = [f"{row['residual'] - row['limit at (F)']:.3f}" for row in rows]
    assert f"below {limits[0]} with seed 0, and none is below {limits[1]} with seed 7" in page
    assert f"The search ends {above[0]} and {above[1]} above them." in page


def test_what_trades_of_places_gain_is_what_was_measured():
    page, rows = (DOCS / "decisions" / "places.md").read_text("utf-8"), stored("place_restarts")
    limits = {row["data"]: row["limit at (F)"] for row in stored("certified_auto")}
    for row in rows:
        name = row["data"].replace("shift 60/240", "shift, 60 and 240 people")
        found = [row["residual of the search"], *(row[f"after {k} changes"] for k in (10, 30, 100))]
        found += [row["people split"], limits[row["data"]]]
        cells = [name, *(f"{value:.3f}" for value in found)]
        seconds = f"{row['CPU s of the search']:.1f}, {row['CPU s']:.1f}"
        assert f"| {' | '.join(cells)} | {seconds} |" in page
    gains = [row["residual of the search"] - row["after 100 changes"] for row in rows]
    text = " ".join((DOCS / "guarantees.md").read_text("utf-8").split())
    assert f"come nearer by {gains[0]:.3f} and {gains[1]:.3f}" in text
    split = [f"{row['people split']:.3f}" for row in rows]
    assert f"leakage would cost {split[0]} and {split[1]}." in text


def test_a_descent_on_the_criterion_gains_what_was_measured():
    page = (DOCS / "decisions" / "places.md").read_text("utf-8")
    for row in stored("criterion_descent"):
        numbers = [f"{row[f'residual {when}']:.4f}" for when in ("before", "after")]
        numbers += [f"{row[f'deviation {when}']:.2f}" for when in ("before", "after")]
        numbers += [f"{row[f'leakage {when}']:.3f}" for when in ("before", "after")]
        assert f"| {' | '.join([row['data'], *numbers])} |" in page
        assert row["deviation before"] < 1
        assert abs(row["residual after"] - row["residual before"]) < 0.002


def test_a_descent_on_released_rows_gains_what_was_measured():
    page, rows = (DOCS / "decisions" / "places.md").read_text("utf-8"), stored("release_descent")
    assert all(row["certified"] <= 0.05 + 1e-9 for row in rows)
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        before, after = (min(row[when] for row in own) for when in ("before", "after"))
        shown = name.replace("shift 60/240", "shift, 60 and 240 people")
        assert f"| {shown} | {before:.3f} | {after:.3f} |" in page
        assert after > 1.04  # so places without a descent are better
