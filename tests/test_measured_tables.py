"""Tables of pages say what stored results say."""

import json
import math
import re
from pathlib import Path

import numpy as np
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


def test_losses_are_faster_than_pyttb_as_measured():
    text, rows = page("losses"), stored("losses")
    cases = {(row["loss"], row["missing"], row["method"]): row for row in rows}
    for (loss, missing, method), own in cases.items():
        if method != "parafair":
            continue
        other, ours = cases[loss, missing, "pyttb"], cases[loss, missing, "pyttb, our start"]
        share = "none" if not missing else f"{missing:.0%}".replace("%", " %")
        began = f"{ours['seconds']:.2f} s ({ours['seconds'] / own['seconds']:.1f})"
        start = f"| {share} | {own['seconds']:.2f} s |"
        assert re.search(rf"{re.escape(start)}[^|]*\|[^|]*\| {re.escape(began)} \|", text)
        if other["reached"] == "yes":
            times = f"{other['seconds'] / own['seconds']:.2g}"
            assert f"{start} {other['seconds']:.2f} s | {times} | {began} |" in text


def test_attackers_of_unseen_data_gain_as_measured():
    text, rows = page("models"), stored("unseen_data")
    cells = {}
    for plain, fair in zip(rows[::2], rows[1::2], strict=True):
        assert (plain["method"], fair["method"]) == ("none", "invariant")
        shown = f"{plain['leakage']:.2f}, {fair['leakage']:.2f} ({fair['by chance']:.2f})"
        cells.setdefault(fair["model"], []).append(shown)
    assert len(cells) == 11
    for model, shown in cells.items():
        assert f"| {model} | {' | '.join(shown)} |" in text
    means = [
        sum(row[name] for row in some) / len(some)
        for some, name in (
            (rows[::2], "leakage"),
            (rows[1::2], "leakage"),
            (rows[1::2], "by chance"),
        )
    ]
    before, after, chance = (f"{mean:.3f}" for mean in means)
    assert f"The means are {before} before, {after} after and {chance} by chance." in text


@pytest.mark.parametrize("model", ["binomial", "poisson"])
def test_other_strengths_on_unseen_data_leave_what_was_measured(model):
    text = page("models")
    rows = [row for row in stored("unseen_strengths") if row["model"] == model and row["seed"] > 40]
    for strength in ("default", 1000.0, "auto"):
        some = [row for row in rows if row["strength"] == strength]
        assert len(some) == 8
        leakage, chance, residual = (
            sum(row[name] for row in some) / 8 for name in ("leakage", "by chance", "residual")
        )
        largest = max(row["leakage"] for row in some)
        assert f"| {leakage:.3f} | {chance:.3f} | {largest:.3f} | {residual:.3f} |" in text


def test_more_noise_leaves_what_was_measured_on_unseen_data():
    text, rows = page("models"), stored("unseen_noise")
    assert [row["seed"] for row in rows] == list(range(41, 49))
    leakage, chance, residual = (
        sum(row[name] for row in rows) / 8 for name in ("leakage", "by chance", "residual")
    )
    largest = max(row["leakage"] for row in rows)
    numbers = " | ".join(f"{number:.3f}" for number in (leakage, chance, largest, residual))
    assert f"noise of 0.3 instead of 0.1 | {numbers} |" in text
    above = np.array([row["leakage"] - row["by chance"] for row in rows])
    assert f"leaves {above.mean():.2f} above chance" in text
    assert above.mean() < above.std(ddof=1) / len(rows) ** 0.5


def test_zeros_that_count_take_time_and_hide_groups_as_measured():
    text = page("losses")
    for plain, fair in zip(*([row for row in stored("zeros_time") if row["method"] == method]
                             for method in ("none", "invariant")), strict=True):  # fmt: skip
        cells = [
            f"{row[name]:.1f}" for row in (plain, fair) for name in ("seconds", "times the list")
        ]
        assert f'| `"{plain["loss"]}"` | {" | ".join(cells)} |' in text
    rows = stored("zeros_fairness")
    for plain, fair in zip(rows[::2], rows[1::2], strict=True):
        cells = [
            f"{row[name]:.3f}" for name in ("leakage", "deviance ratio") for row in (plain, fair)
        ]
        assert f"| {plain['seed']} | {' | '.join(cells)} |" in text
        assert (plain["passes 0.05"], fair["passes 0.05"]) == (False, True)


def test_the_squared_loss_takes_as_long_as_before_other_losses():
    text, rows = page("losses"), stored("squared_before")
    for row in rows:
        times = [f"{row[name]:.3g}" for name in ("CPU ms before", "CPU ms now")]
        ratio = f"{row['now / before']:.2f}"
        assert re.search(rf"\| {times[0]}0? \| {times[1]}0? \| {ratio} \|", text)
    assert f"values agree to {max(row['difference'] for row in rows):.0e}" in text


def test_lists_of_nonzeros_are_loaded_as_measured():
    text = page("scale")
    for row in stored("frostt_load"):
        cells = (
            f"{row['nonzeros']:,}",
            row["file MB"],
            f"{row['CPU seconds']:.2f}",
            row["peak MB"],
        )
        assert f"| {' | '.join(map(str, cells))} |" in text


def test_selected_strengths_end_at_chance_as_measured():
    text, rows = page("measured"), stored("chance_auto")
    assert len(rows) == 13
    for row in rows:
        limit = "" if math.isnan(row["limit"]) else f"{row['limit']:.4f} "
        off = sorted({row["off chance"], row["strangers off chance"]} - {"none"}) or ["none"]
        assert (
            f"| {row['data']} | {row['strength']:,.0f} | {row['residual']:.4f} | {limit}"
            f"| {row['leakage']:.3f} | {row['attackers']} | {row['strangers']:.3f} "
            f"| {', '.join(off)} |"
        ) in text
    assert all(row["passed"] for row in rows)
    assert {row["status"] for row in rows} == {"CONVERGED"}


def test_groups_at_random_stay_unrecognizable_as_measured():
    text, rows = page("measured"), stored("chance_random")
    cells = {}
    for row in rows:
        shown = f"{row['leakage']:.3f} ({row['attackers']})"
        cells.setdefault(row["data"].replace("_", " "), []).append(shown)
    assert (len(rows), len(cells)) == (30, 10)
    for data, shown in cells.items():
        assert f"| {data} | {' | '.join(shown)} |" in text
    off = sum(row["off chance"] != "none" for row in rows)
    strangers = sum(row["strangers off chance"] != "none" for row in rows)
    without = sum(
        not float(row["interval"].split(" to ")[0]) <= 0 <= float(row["interval"].split(" to ")[1])
        for row in rows
    )
    assert f"off chance in {off} of the 30 fits" in text
    assert f"Strangers are in {strangers} of them" in text
    assert f"without 0 in {without} of them" in text


def test_ten_seeds_end_as_measured():
    text, rows = page("measured"), stored("chance_seeds")
    assert len(rows) == 5
    for row in rows:
        ratio = f"{row['largest / smallest objective']:.4f}"
        assert f"| {row['data'].replace('_', ' ')} | {ratio} | {row['residuals']} |" in text
        assert row["status"] == "CONVERGED"


def test_times_of_fits_before_and_after_are_those_measured():
    text, rows = page("measured"), stored("fair_time")
    assert len(rows) == 4
    for row in rows:
        digits = 0 if row["seconds"] > 10 else 1
        times = [f"{row[name]:.{digits}f}" for name in ("seconds before", "seconds")]
        residuals = [f"{row[name]:.3f}" for name in ("residual before", "residual")]
        assert f"| {' | '.join(times + residuals)} |" in text


def test_times_of_students_are_those_measured():
    text, profile = page("oulad"), page("profile")
    plain, one, strong, many = stored("oulad_time")
    for row in (plain, one, strong, many):
        digits = 1 if row["seconds"] < 10 else 0
        assert f"| {row['seconds']:.{digits}f} s, {row['peak MB'] / 1000:.2f} GB |" in text
    *_, last = stored("oulad_auto")
    seconds = f"{last['seconds of the whole search']:.0f} s"
    chosen = f"strength {last['strength']:.0f} with a residual of {last['residual']:.4f}"
    assert f'`strength="auto"` takes {seconds}' in text
    assert f"{chosen} and a leakage of {last['leakage']:.3f}" in text
    for aim, measured in (("12 s", one), ("240 s", many)):
        assert f"| {aim} | {measured['seconds']:.0f} s |" in profile
    assert f"| 180 s | {seconds} |" in profile


def power(rows, name):
    """The power with which a time grows with the people."""
    people, seconds = (np.log([row[key] for row in rows]) for key in ("people", name))
    return np.polyfit(people, seconds, 1)[0]


def test_streamed_fits_take_time_and_memory_as_measured():
    text, rows = page("scale"), stored("scale_parquet")
    busy, quiet, one_core = rows[:2], rows[2:5], rows[5:]
    for row in busy:
        cells = [f"{1e9 * row[f'{what}, CPU s'] / row['entries']:.0f}" for what in ("read", "pass")]
        cells += [f"{row[f'{what} MB'] / 1000:.2f}" for what in ("peak", "bound")]
        shown = f"{row['people']:,} | {row['entries']:,} | 4 | none | {' | '.join(cells)} |"
        assert shown in text
    for row in one_core:
        cells = [
            *(f"{row[f'{what}, CPU s']:.3f}" for what in ("read", "pass")),
            f"{row['fit, CPU s']:.2f}",
            f"{row['pass, s']:.{1 if row['pass, s'] > 10 else 2}f}",
            f"{row['fit, s']:.1f}",
            *(f"{row[f'{what} MB'] / 1000:.2f}" for what in ("peak", "bound")),
        ]
        assert f"| {row['people']:,} | {row['entries']:,} | {' | '.join(cells)} |" in text
    for row in quiet:
        cells = [
            f"{row['sort, s']:.1f}",
            *(f"{row[f'{what}, s']:.2f}" for what in ("read", "pass")),
            f"{row['fit, s']:.{1 if row['fit, s'] < 10 else 0}f} ({row['iterations']})",
            *(f"{row[f'{what} MB'] / 1000:.2f}" for what in ("peak", "bound")),
        ]
        assert f"| {row['people']:,} | {row['entries']:,} | {' | '.join(cells)} |" in text
    powers = {name: f"{power(one_core, name):.2f}" for name in one_core[0] if name.endswith(" s")}
    assert f"the power {powers['pass, CPU s']} of the people" in text
    assert f"with the power {powers['fit, CPU s']}:" in text
    assert f"the powers are {powers['pass, s']} and {powers['fit, s']}:" in text
    assert f"10,000,000 people it is {power(one_core[1:], 'fit, s'):.2f}." in text
    largest = [row for row in rows if row["people"] == 10**7]
    rates = {
        row["threads"]: [
            f"{row['entries'] / row[f'{what}, s'] / 1e6:.0f}" for what in ("pass", "read")
        ]
        for row in largest
    }
    assert f"{rates[1][0]} and {rates[1][1]} million on one core" in text
    assert f"{rates[4][0]} and {rates[4][1]} million with 4 threads" in text


def test_generated_people_take_the_memory_that_was_measured():
    (row,) = stored("scale_generated")
    assert (row["people"], row["iterations"], row["rank"]) == (10**6, 3, 4)
    sizes = [f"{row[f'{what} MB'] / 1000:.2f} GB" for what in ("peak", "bound")]
    assert f"fitted in {sizes[0]}, with a bound of {sizes[1]}; more" in page("scale")


def test_steps_and_sums_on_a_gpu_take_as_long_as_measured():
    text = page("scale")
    (step,) = (row for row in stored("gpu_iteration") if row["people"] == 10**6)
    seconds = step["step, ms"] / 1000
    for people, gpus in ((10**6, 1), (10**7, 8), (10**8, 8)):
        each = people // gpus
        shown = f"| {people:,} | {gpus} | {each:,} | {seconds * each / 1e6:.2f} ("
        assert shown in text
    (fit,) = (row for row in stored("gpu_fit") if row["shape"].startswith("1000000 "))
    assert f"(`gpu_fit`) | 120 s | {fit['seconds']:.0f} s |" in text
    kernels, plain = stored("frostt_sweep")
    for row, name in ((kernels, "in one pass"), (plain, "plain PyTorch")):
        times = [1000 * row[what] for what in ("sweep, s", "gradients, s")]
        cells = [f"{time:.{1 if time < 10 else 0}f} ms" for time in times]
        assert f"{name} | {' | '.join(cells)} |" in text


def test_paths_of_strengths_end_where_measured():
    text, rows = page("decisions/starts"), stored("strength_paths")
    shown, others = rows[:9], rows[9:]
    ends = ("random", "upwards", "downwards", "default")
    for row in shown:
        cells = [f"{row[f'{end}, residual']:.4f}" for end in ends]
        ratios = [f"{row[f'{what} / lower path']:.4f}" for what in ("residual", "objective")]
        first = f"| {row['data']} | {row['strength']:,.0f} | {' | '.join(cells)} |"
        assert f"{first} {' | '.join(ratios)} |" in text
    assert max(row["residual / lower path"] for row in shown) < 1.006
    near = [row for row in others if row["objective / lower path"] <= 1.01]
    assert f"in {len(near)} of {len(others)} cases" in text
    objective, residual = (
        f"{100 * max(row[f'{what} / lower path'] for row in others) - 100:.1f} %"
        for what in ("objective", "residual")
    )
    assert f"up to {objective} higher, and the residual up to {residual}" in text
    poor = sum(row["random, objective"] > 1.01 * row["default, objective"] for row in rows)
    assert f"{poor} of the {len(rows)} objectives are more than 1 % above" in text
    assert {row["status"] for row in rows} == {"CONVERGED"}


def test_plain_decompositions_are_as_fast_beside_others_as_measured():
    text, rows = page("measured"), stored("plain_cp")
    readme = (ROOT / "README.md").read_text("utf-8")
    ratios = []
    for shape in ("200x100x100", "400x300x200"):
        for busy in (False, True):
            own = [row for row in rows if (row["shape"], row["busy machine"]) == (shape, busy)]
            seconds = {row["contender"]: row["seconds"] for row in own if row["seconds"]}
            peers = {name: s for name, s in seconds.items() if "parafair" not in name}
            assert min(peers, key=peers.get) == "pyttb"
            ratios.append(f"{peers['pyttb'] / seconds['parafair']:.1f}")
            times = f"{peers['pyttb']:.3f} s | {seconds['parafair']:.3f} s"
            assert f"{times} | {ratios[-1]} |" in text
    assert f"1.59 s | 0.19 s | {ratios[2]} |" in readme
    small, small_busy, large, large_busy = (f"{ratio}\N{MULTIPLICATION SIGN}" for ratio in ratios)
    shown = f"{small}, {large}; beside a busy process {small_busy}, {large_busy}"
    assert shown in page("profile")
