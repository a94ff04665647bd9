from math import log, sqrt

import numpy as np
import pytest
import torch

from parafair.guarantees.bounds import FOR_PEOPLE, people_needed, population_slack, upper_mean


def test_the_smaller_of_two_bounds_is_taken():
    n, delta = 1000, 0.05
    constant = torch.zeros(n, dtype=torch.float64)
    assert upper_mean(constant, delta) == pytest.approx(7 * log(4 / delta) / (3 * (n - 1)))
    half = torch.arange(n).double() % 2
    assert upper_mean(half, delta) == pytest.approx(0.5 + sqrt(log(2 / delta) / (2 * n)))


@pytest.mark.parametrize("probability", [0.01, 0.3])
def test_the_bound_is_rarely_too_low(probability):
    random = np.random.default_rng(0)
    values = torch.from_numpy((random.random((400, 500)) < probability).astype(float))
    wrong = sum(upper_mean(row, 0.1) < probability for row in values)
    assert wrong <= 40


def test_slack_is_that_of_two_groups():
    # methods: half of the total variation's slack.
    expected = sqrt((1 / 100 + 1 / 100) * log(1 / 0.05) / 2) / 2
    assert population_slack([100, 100], 0.05) == pytest.approx(expected)
    assert population_slack([100, 100], 0.05) == pytest.approx(0.087, abs=1e-3)
    assert population_slack([500, 500], 0.05) == pytest.approx(0.039, abs=1e-3)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_as_many_people_as_needed_suffice(groups):
    needed = people_needed(0.05, groups=groups, plug_in=0.01)
    delta = FOR_PEOPLE * 0.05
    assert population_slack([needed] * groups, delta) <= 0.04
    assert population_slack([needed - 1] * groups, delta) > 0.04


def test_an_unreachable_level_is_refused():
    with pytest.raises(ValueError, match=r"plug_in=0.1 is not below leakage=0.05, so no number"):
        people_needed(0.05, plug_in=0.1)
    with pytest.raises(ValueError, match="leakage must be a finite number of at least 1e-06"):
        people_needed(0)
    with pytest.raises(ValueError, match="groups must be a whole number of at least 2"):
        people_needed(0.05, groups=1)
    assert people_needed(0.1, groups=1000) == 2  # fewer are refused
