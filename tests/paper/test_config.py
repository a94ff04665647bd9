"""The settings are those of the paper's appendix."""

from dataclasses import fields

import numpy as np
import pytest

from parafair.frontiers.plan import make_plan
from parafair.frontiers.point import Member
from parafair.paper import EXPLAINED, NAMES, OPTIONS, Readings, Setup, read_readings
from parafair.paper.config import (
    BCD,
    CONTRACEPTIVE,
    FATR,
    HSIC,
    KHSIC,
    OURS,
    RANKS,
    REMOVAL,
    RIDGE,
    STEP_SIZES,
    SYNTHETIC,
    TEST_SIZES,
)
from parafair.paper.recipes import load_data, recipe
from parafair.penalties import Orthogonality
from parafair.solvers.result import Status

FIGURES = Setup().figures


def grid(name, method, seed=0):
    return [i.strength for i in FIGURES[name].items if (i.method, i.seed) == (method, seed)]


def test_all_figures_of_the_paper_and_one_more():
    assert NAMES == ("fig1a", "fig1b", "fig2a", "fig2b", "fig3a", "fig3b", "rounds")


@pytest.mark.parametrize(
    ("name", "method", "points", "highest"),
    [
        ("fig1a", FATR, 20, 0.1),
        ("fig1b", KHSIC, 100, 0.04),
        ("fig2a", KHSIC, 50, 0.4),
        ("fig2a", HSIC, 50, 0.01),
    ],
)
def test_grids_are_those_of_the_paper(name, method, points, highest):
    np.testing.assert_array_equal(grid(name, method), np.linspace(0, highest, points))


@pytest.mark.parametrize("method", [HSIC, KHSIC])
def test_the_contraceptive_grid_has_two_halves_that_share_a_point(method):
    both = np.concatenate([np.linspace(0, 0.66, 15), np.linspace(0.66, 4.8, 15)])
    np.testing.assert_array_equal(grid("fig3a", method), np.unique(both))


def test_five_runs_of_the_bar_charts():
    for name, strengths in (
        ("fig2b", {BCD: [None], FATR: [0.1], HSIC: [0.01], KHSIC: [0.04, 0.4]}),
        ("fig3b", {BCD: [None], FATR: [0.00002], HSIC: [4.8], KHSIC: [4.8]}),
    ):
        for method, wanted in strengths.items():
            for seed in range(5):
                assert grid(name, method, seed) == wanted


def test_other_runs_have_both_ends_of_every_grid():
    figures = (("fig1a", FATR, 2), ("fig1b", KHSIC, 2), ("fig2a", HSIC, 5), ("fig3a", KHSIC, 2))
    for name, method, points in figures:
        first = grid(name, method)
        for seed in range(1, 5):
            some = grid(name, method, seed)
            assert (some[0], some[-1], len(some)) == (first[0], first[-1], points)
            assert set(some) < set(first)


def test_ours_and_the_usual_remedy_are_in_every_figure_of_the_paper():
    for name in NAMES[:-1]:
        assert {OURS, REMOVAL} < {item.method for item in FIGURES[name].items}


def test_sizes_steps_and_splits():
    assert RANKS == {SYNTHETIC: 8, CONTRACEPTIVE: 6}
    assert TEST_SIZES == {SYNTHETIC: 0.25, CONTRACEPTIVE: 0.1}
    assert (Readings().inner_steps, RIDGE) == (200, 1.0)
    assert STEP_SIZES[SYNTHETIC][BCD] == STEP_SIZES[SYNTHETIC][FATR] == (3, 1)
    assert STEP_SIZES[SYNTHETIC][HSIC] == STEP_SIZES[SYNTHETIC][KHSIC] == (0.5, 1)
    assert set(STEP_SIZES[CONTRACEPTIVE].values()) == {(100, 10)}
    assert Setup().scale.shape == (200, 100, 100)
    assert Setup().scale.hidden == 1500


def test_every_reading_is_explained_and_has_another():
    names = [entry.name for entry in fields(Readings)]
    assert list(EXPLAINED) == names
    for name, options in OPTIONS.items():
        assert len(options) > 1
        assert getattr(Readings(), name) in options


def test_readings_from_text():
    read = read_readings(["rounds=7", "scaling=raw"])
    assert (read.rounds, read.scaling, read.units) == (7, "raw", "sum")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("round=7", "did you mean 'rounds'"),
        ("rounds", "NAME=VALUE, got 'rounds'"),
        ("rounds=many", "'rounds' must be a whole number, got 'many'"),
        ("rounds=0", "'rounds' must be a whole number of at least 1"),
        ("units=summ", "did you mean 'sum'"),
    ],
)
def test_bad_readings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        read_readings([change])


def test_units_and_loss_change_the_strengths_of_the_formula():
    data = load_data(SYNTHETIC, 0, Setup())
    n, entries = 200, 200 * 100 * 100
    assert recipe(data, KHSIC, 100, Readings()).unit == n**2
    assert recipe(data, KHSIC, 100, Readings(units="mean")).unit == 1
    assert recipe(data, FATR, 100, Readings()).unit == 1
    summed = recipe(data, FATR, 100, Readings(loss="sum"))
    assert summed.unit == 1 / entries
    assert summed.model.method == Orthogonality(ridge=1 / entries)
    assert summed.model.solver.step_sizes == (3 * entries, entries)


def test_steps_are_capped_or_as_printed():
    data = load_data(SYNTHETIC, 0, Setup())
    assert recipe(data, HSIC, 100, Readings()).model.solver.cap
    assert not recipe(data, HSIC, 100, Readings(steps="printed")).model.solver.cap


@pytest.mark.parametrize(
    ("scaling", "sound"), [("range", {BCD, HSIC}), ("raw", set()), ("standard", set())]
)
def test_which_printed_steps_overflow_on_the_contraceptive_data(real_data, scaling, sound):
    readings = Readings(scaling=scaling, steps="printed")
    table = load_data(CONTRACEPTIVE, 0, Setup(readings), real_data)
    for method, strength in ((BCD, None), (FATR, 0.00002), (HSIC, 4.8)):
        made = recipe(table, method, 3, readings)
        plan = make_plan(made.model, table.tensor, sensitive_features=table.sensitive, name=method)
        member = Member(method, made.strength(strength), seed=0)
        (fit,) = plan.fit([member], lambda position, fit: None)
        assert (fit.status is not Status.DIVERGED) == (method in sound)


def test_the_contraceptive_table_is_scaled_and_its_majority_is_one(real_data):
    found = load_data(CONTRACEPTIVE, 0, Setup(), real_data)
    assert found.tensor.shape == (1473, 9)
    assert found.sensitive.mean() == pytest.approx(0.7495, abs=1e-4)
    np.testing.assert_array_equal(found.tensor.min(0), 0)
    np.testing.assert_array_equal(found.tensor.max(0), 1)
    raw = load_data(CONTRACEPTIVE, 0, Setup(Readings(scaling="raw")), real_data)
    assert raw.tensor.max() == 49
    standard = load_data(
        CONTRACEPTIVE, 0, Setup(Readings(scaling="standard", ones="first")), real_data
    )
    np.testing.assert_allclose(standard.tensor.std(0), 1)
    assert standard.sensitive.mean() < 0.5
