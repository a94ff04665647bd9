"""The page about KHSIC quotes its table, and the table can be made again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "03_what_khsic_guarantees.py"
PAGE = (ROOT / "docs" / "what-khsic-guarantees.md").read_text("utf-8")
TABLE = json.loads((ROOT / "docs" / "data" / "khsic_guarantees.json").read_text("utf-8"))


def lines_of_escapes():
    for row in TABLE["escapes"]:
        escape, factor, seen = row["escape"], row["factor"], f"{100 * row['strongest']:.1f} %"
        if escape == "squeeze":
            ratios = f"{row['one_width_over_null']:.2f} | {row['over_null']:.2f}"
            yield f"| {factor} | {ratios} | {seen} |"
        else:
            khsic = f"{row['khsic']:.3f} ({row['khsic_null']:.3f})"
            yield (
                f"| {escape} | {factor} | {row['rho']:.1e} | {khsic} | "
                f"{row['criterion']:.3f} ({row['null']:.3f}) | {seen} |"
            )


def lines_of_fits():
    for name, method in (("khsic", "KHSIC-BCD"), ("invariant", "invariant")):
        for row in TABLE["fits"][name]:
            ratios = f"{row['khsic_over_null']:.2f} | {row['over_null']:.2f}"
            strength = f"{row['at']:g}".replace("e-0", "e-")
            seen = f"{100 * row['strongest']:.1f} %"
            yield f"| {method} | {strength} | {row['residual']:.3f} | {ratios} | {seen} |"


def lines_of_bounds():
    for name, embedding in (("same", "S"), ("tenth", "S / 10")):
        row, gaps = TABLE["theorems"][name], TABLE["theorems"]
        numbers = [row["rho"], row["covariance"], gaps["set_gap"], row["paper"], gaps["parity_gap"]]
        cells = " | ".join(f"{number:.4f}" for number in [*numbers, row["group_gap"]])
        yield f"| {embedding} | {cells} |"


def phrases():
    theorems, fits = TABLE["theorems"], TABLE["fits"]
    yield f"normalized KHSIC of {theorems['khsic']:.3f}"
    yield f"by 100 it is {theorems['khsic_shrunk']:.5f}"
    floor = (200 - 1) ** -0.5
    yield f"1/√199 = {floor:.4f}"
    early, middle, late = (f"{row['khsic']:.4f}" for row in fits["rounds"])
    assert [row["at"] for row in fits["rounds"]] == [5, 20, 100]
    yield f"{early} after 5 iterations, {middle} after 20, {late} after 100"
    first, last = fits["invariant"][0], fits["invariant"][-1]
    yield f"from {first['median_over_mean']:.2f} to {last['median_over_mean']:.2f}"
    weakest = min(row["weakest"] for row in fits["invariant"])
    yield f"{100 * weakest:.1f} % for the weakest attacker"
    yield f"again {100 * fits['transform']['strongest']:.1f} %"


@pytest.mark.parametrize(
    "quoted", [*lines_of_escapes(), *lines_of_fits(), *lines_of_bounds(), *phrases()]
)
def test_the_page_quotes_the_table(quoted):
    assert quoted in (PAGE.splitlines() if quoted.startswith("|") else " ".join(PAGE.split()))


def test_what_the_page_says_in_words_is_true_of_the_table():
    khsic, ours = TABLE["fits"]["khsic"], TABLE["fits"]["invariant"]
    assert all(row["strongest"] > 0.98 for row in khsic)
    assert [row["khsic_over_null"] for row in khsic] == sorted(
        (row["khsic_over_null"] for row in khsic), reverse=True
    )
    assert khsic[-2]["khsic_over_null"] == pytest.approx(1, abs=0.01)
    assert all(row["over_null"] > 10 for row in khsic)
    assert min(row["strongest"] for row in ours if row["over_null"] > 10) > 0.9
    assert max(row["strongest"] for row in ours if row["over_null"] < 0.3) < 0.6
    at_null = min(ours, key=lambda row: abs(row["over_null"] - 1))
    assert 0.55 < at_null["strongest"] < 0.85
    assert ours[-1]["over_null"] == pytest.approx(0.25, abs=0.05)
    squeezed = [row for row in TABLE["escapes"] if row["escape"] == "squeeze"]
    assert all(row["over_null"] > 5 and row["strongest"] > 0.9 for row in squeezed)
    assert all((row["one_width_over_null"] < 1) == (row["factor"] >= 30) for row in squeezed)


@pytest.mark.slow
def test_quick_mode_makes_the_table_and_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    command = [sys.executable, SCRIPT, tmp_path, "--quick"]
    subprocess.run(command, check=True, capture_output=True)
    made = json.loads((tmp_path / "khsic_guarantees.json").read_text("utf-8"))
    assert made["theorems"] == TABLE["theorems"]  # the same people in both modes
    assert made.keys() == TABLE.keys()
    assert made["escapes"][0].keys() == TABLE["escapes"][0].keys()
    assert (tmp_path / "khsic_guarantees.png").stat().st_size > 10_000
