"""Verdicts follow from tables by rules."""

import numpy as np
import pytest

from parafair.paper import Check, Claim, Readings, judge
from parafair.paper.table import COLUMNS
from parafair.paper.theorems import theorem_rows
from parafair.paper.verdict import lower, spread, uncovered


def row(method, strength, seed=0, **values):
    blank = dict.fromkeys(COLUMNS)
    common = {"data": "synthetic", "rounds": 1, "floor": 0.0, "balanced": 0.5, "status": "x"}
    key = {"method": method, "strength": strength, "seed": seed, "strongest": ""}
    return {**blank, **common, **key, **values}


def claim(name, rows, **readings):
    (found,) = judge({name: rows}, Readings(**readings))
    return found


def checks(*holds):
    return tuple(Check(str(i), held) for i, held in enumerate(holds))


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        ((True, True), "reproduced"),
        ((True, False), "partly"),
        ((False, False), "not reproduced"),
    ],
)
def test_a_verdict_counts_checks(held, verdict):
    assert Claim("", "", "", "", "", checks(*held)).verdict == verdict


def test_a_premise_alone_reproduces_nothing():
    premise = Check("starts", True, premise=True)
    assert Claim("", "", "", "", "", (premise, Check("ends", False))).verdict == "not reproduced"


def test_a_difference_must_exceed_margin_and_error():
    first = np.array([0.1, 0.2, 0.3])
    assert lower(first, first + 0.06, 0.05)
    assert not lower(first, first + 0.04, 0.05)
    assert not lower(first, first + np.array([-0.5, 0.1, 0.6]), 0.05)
    assert lower(np.array([0.1]), np.array([0.2]))
    assert not lower(np.array([np.nan]), np.array([0.2]))


def test_spread_is_mean_and_deviation():
    assert spread(np.array([0.1, 0.3])) == "0.200 ± 0.141"
    assert spread(np.array([1e-7, 3e-7])) == "2e-07 ± 1.4e-07"
    assert spread(np.array([0.1, np.nan])) == "0.100 (1 of 2 runs)"
    assert spread(np.array([np.nan])) == "undefined"


def test_the_uncovered_share_of_the_plane():
    rows = [row("a", 0, residual=0.2, leakage=0.5), row("a", 1, residual=0.4, leakage=0.25)]
    np.testing.assert_allclose(uncovered(rows, "a", "leakage"), 1 - 0.6 * 0.5)
    # A strength that only one run has does not count.
    rows += [row("a", 0, seed=1, residual=0.2, leakage=0.0)]
    np.testing.assert_allclose(uncovered(rows, "a", "leakage"), [1.0, 0.2])


def test_fatr_that_moves_nothing_is_reproduced():
    rows = [
        row("FATR", s, seed, orthogonality=o, unfairness=0.5, leakage=0.5)
        for s, o in ((0, 1.0), (0.1, 1e-6))
        for seed in range(3)
    ]
    found = claim("fig1a", rows)
    assert found.verdict == "reproduced"
    assert "1.000 ± 0.000 to 1e-06 ± 0" in found.measured


def test_fatr_whose_classifier_goes_blind_says_so():
    ends = ((0, 1.0, 0.5), (0.1, 1e-6, 0.0))
    rows = [
        row("FATR", s, orthogonality=o, unfairness=u, balanced=u, leakage=0.5) for s, o, u in ends
    ]
    found = claim("fig1a", rows)
    assert found.verdict == "partly"
    assert "Does not hold: unfairness changes by at most 0.05" in found.reason
    assert "misses the groups" in found.reason


def test_khsic_that_hides_from_its_own_measure_is_not_reproduced():
    rows = [
        row("KHSIC-BCD", s, normalized_khsic=k, unfairness=0.5, leakage=0.5)
        for s, k in ((0, 0.9), (0.04, 0.07))
    ]
    assert claim("fig1b", rows).verdict == "not reproduced"


def test_the_better_frontier_wins():
    rows = [
        row(method, s, residual=r, unfairness=u, leakage=u)
        for method, points in (
            ("KHSIC-BCD", ((0, 0.1, 0.5), (0.4, 0.3, 0.1))),
            ("HSIC-BCD", ((0, 0.1, 0.5), (0.01, 0.6, 0.1))),
        )
        for s, r, u in points
    ]
    assert claim("fig2a", rows).verdict == "reproduced"


BARS = (("BCD", None, 0.03, 0.5), ("FATR", 0.1, 0.2, 0.5), ("HSIC-BCD", 0.01, 0.4, 0.3))


@pytest.mark.parametrize(("largest", "verdict"), [("printed", "reproduced"), ("range", "partly")])
def test_figure_2b_is_judged_at_the_strength_of_the_reading(largest, verdict):
    bars = (*BARS, ("KHSIC-BCD", 0.04, 0.1, 0.1), ("KHSIC-BCD", 0.4, 0.7, 0.1))
    rows = [row(m, s, residual=r, unfairness=u, leakage=u) for m, s, r, u in bars]
    assert claim("fig2b", rows, largest=largest).verdict == verdict


def test_figures_3_say_when_there_was_nothing_to_find():
    rows = [
        row(m, s, residual=0.1, unfairness=0.25, floor=0.25, balanced=0.0, leakage=0.0)
        for m in ("HSIC-BCD", "KHSIC-BCD")
        for s in (0, 4.8)
    ]
    found = claim("fig3a", rows)
    assert found.verdict == "not reproduced"
    assert "already no better than always answering the majority" in found.reason
    rows = [
        row(m, s, residual=r, unfairness=0.25, floor=0.25, balanced=0.0, leakage=0.0)
        for m, s, r in (
            ("BCD", None, 0.1),
            ("FATR", 0.00002, 0.4),
            ("HSIC-BCD", 4.8, 0.1),
            ("KHSIC-BCD", 4.8, 0.1),
        )
    ]
    found = claim("fig3b", rows)
    assert found.verdict == "partly"
    assert "Leakage rises" not in found.reason


def test_figures_3_say_which_penalties_raise_leakage():
    rows = [
        row(m, s, residual=0.1, unfairness=0.25, floor=0.25, balanced=0.0, leakage=leakage)
        for m, s, leakage in (
            ("BCD", None, 0.02),
            ("FATR", 0.00002, 0.06),
            ("HSIC-BCD", 0, 0.02),
            ("HSIC-BCD", 4.8, 0.2),
            ("KHSIC-BCD", 0, 0.02),
            ("KHSIC-BCD", 4.8, 0.15),
        )
    ]
    said = "Leakage rises with the penalty of HSIC-BCD (by 0.180) and KHSIC-BCD (by 0.130)"
    assert said in claim("fig3a", [r for r in rows if "-" in r["method"]]).reason
    assert said in claim("fig3b", rows).reason


def test_longer_and_less_fair():
    rows = [
        {
            **row("KHSIC-BCD", 0.4, residual=r, unfairness=u, leakage=u, normalized_khsic=0.1),
            "rounds": n,
        }
        for n, r, u in ((5, 0.4, 0.3), (50, 0.2, 0.4), (200, 0.07, 0.5))
    ]
    found = claim("rounds", rows)
    assert found.verdict == "reproduced"
    assert found.measured.startswith("5 to 200 iterations")


def test_theorem_1_holds_and_theorem_2_does_not():
    first, second = judge({"theorems": theorem_rows()}, Readings())
    assert (first.where, first.verdict) == ("Theorem 1", "reproduced")
    assert (second.where, second.verdict) == ("Theorem 2", "not reproduced")
    assert "rho 0.0999, the difference 0.2500" in second.measured


def test_what_diverged_proves_nothing():
    bars = (*BARS, ("KHSIC-BCD", 0.04, 0.1, 0.1))
    rows = [{**row(method, s), "status": "diverged"} for method, s, _, _ in bars]
    found = claim("fig2b", rows)
    assert found.verdict == "not reproduced"
    assert "4 of 4 fits diverged" in found.reason
    assert "BCD undefined" in found.leakage
