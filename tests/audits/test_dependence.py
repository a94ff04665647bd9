import numpy as np
import pytest

from parafair.audits.dependence import dependence_rows, paper_rows
from parafair.audits.trials import Plan
from parafair.data.sensitive import SensitiveFeatures
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(80, seed=1).numpy().ravel()
ROWS = example_rows(80, 3, seed=0).numpy()


def measured(rows, features, seed=0):
    column = SensitiveFeatures.of(features).columns[0]
    plan = Plan(folds=2, repeats=1, n_jobs=None, precision=2.0**-52, seed=seed)
    criterion, p_value = dependence_rows(rows, column, permutations=50, plan=plan)
    assert (criterion.measure, p_value.measure) == ("criterion", "independence p-value")
    return criterion.value, criterion.chance, p_value.value


@pytest.mark.parametrize("features", [GROUPS, ROWS[:, 0]], ids=["groups", "numbers"])
def test_the_feature_itself_gives_one(features):
    value, chance, p_value = measured(features[:, None], features)
    assert value == pytest.approx(1, abs=0.02)  # the ranks of a number are not the number
    assert chance < 0.2
    assert p_value == pytest.approx(1 / 51)


def test_scale_changes_nothing():
    assert measured(1e6 * ROWS * [1e-9, 1, 1e3], GROUPS) == pytest.approx(measured(ROWS, GROUPS))


@pytest.mark.slow
def test_independent_rows_are_rarely_significant():
    p_values = [measured(example_rows(80, 3, seed=s).numpy(), GROUPS, s)[2] for s in range(40)]
    assert np.mean(np.array(p_values) <= 0.1) <= 0.2  # 4 of 40 are expected; 9 or more: 1.5 %


@pytest.mark.parametrize("value", [1e3, 1e20, 1e300])
def test_one_person_far_away_hides_nothing(value):
    revealing = np.column_stack([GROUPS, ROWS[:, 0]])
    revealing[5] = value
    assert measured(revealing, GROUPS)[2] == pytest.approx(1 / 51)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300])
def test_constant_rows_depend_on_nothing(value):
    assert measured(np.full((80, 3), value), GROUPS) == (0, 0, 1)


def test_figures_of_a_diverged_network_say_that_they_are_undefined():
    rows = np.random.default_rng(0).normal(size=(20, 2)) * 1e37
    column = SensitiveFeatures.of(np.arange(20) % 2 == 0).columns[0]
    undefined = [row for row in paper_rows(rows, column, seed=0) if np.isnan(row.value)]
    assert [row.measure for row in undefined] == ["unfairness", "network, balanced"]
    assert all(row.about.startswith("undefined: ") for row in undefined)
