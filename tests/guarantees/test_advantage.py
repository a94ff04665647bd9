from math import erf, sqrt

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier

from parafair.guarantees.advantage import (
    advantage_without_noise,
    best_advantage,
    best_explained,
    explained_without_noise,
)
from tests.guarantees.conftest import people
from tests.reference import mixtures


def of(rows, labels, *, draws=20_000, seed=0):
    codes = np.unique(labels, return_inverse=True)[1]
    found = best_advantage(
        torch.from_numpy(np.asarray(rows)),
        torch.from_numpy(codes),
        draws=draws,
        delta=0.01,
        generator=torch.Generator().manual_seed(seed),
    )
    return found, codes


@pytest.mark.parametrize("distance", [0.0, 0.1, 1.0, 5.0])
def test_two_points_have_a_closed_form(distance):
    found, _ = of([[0.0]] * 4 + [[distance]] * 3, [0] * 4 + [1] * 3)
    expected = erf(distance / sqrt(8)) / 2
    assert found.estimate == pytest.approx(expected, abs=0.005)
    assert expected <= found.upper + 1e-12 <= expected + 0.02


@pytest.mark.parametrize("sizes", [(12, 12), (20, 5), (6, 9, 12)])
@pytest.mark.parametrize("columns", [1, 2])
def test_it_is_that_of_numerical_integration(sizes, columns):
    rows, labels = people(*sizes, columns=columns, seed=3)
    found, codes = of(1.5 * rows, labels)
    step = 0.01 if columns == 1 else 0.1
    expected = mixtures.advantage(1.5 * rows, codes, np.eye(columns), step)
    assert found.estimate == pytest.approx(expected, abs=0.01)
    assert expected <= found.upper <= expected + 0.03


@pytest.mark.slow
def test_attackers_trained_on_as_many_releases_as_they_like_stay_below():
    rows, labels = people(30, 20, columns=2, seed=1)
    found, codes = of(rows, labels)
    random = np.random.default_rng(0)
    members = [np.flatnonzero(codes == code) for code in (0, 1)]

    def release(count):
        drawn = np.concatenate([random.choice(part, count) for part in members])
        return rows[drawn] + random.standard_normal((2 * count, 2)), codes[drawn]

    train, test = release(5000), release(20_000)
    attackers = (
        LogisticRegression(),
        RandomForestClassifier(50, min_samples_leaf=30, random_state=0),
        KNeighborsClassifier(101),
    )
    reached = [balanced_accuracy_score(test[1], a.fit(*train).predict(test[0])) for a in attackers]
    # Four standard errors of the test.
    assert max(reached) - 0.5 <= found.upper + 4 * 0.5 / sqrt(20_000)
    assert max(reached) - 0.5 >= found.estimate - 0.05  # the bound is not far off


def test_more_noise_and_repeated_people_do_as_expected():
    rows, labels = people(40, 30, seed=2)
    values = [of(rows / noise, labels)[0].estimate for noise in (0.3, 1.0, 3.0)]
    assert values == sorted(values, reverse=True)
    twice, _ = of(np.concatenate([rows, rows]), np.concatenate([labels, labels]))
    assert twice.estimate == pytest.approx(values[1], abs=0.01)


def test_equal_groups_reveal_nothing():
    rows, _ = people(20, 20)
    found, _ = of(np.concatenate([rows, rows, rows]), np.repeat([0, 1, 2], 40))
    assert found.estimate == pytest.approx(0, abs=1e-12)
    assert found.upper < 0.002


def explained(rows, numbers, **settings):
    given = {"draws": 20_000, "delta": 0.01, "generator": torch.Generator().manual_seed(0)}
    return best_explained(torch.from_numpy(rows), numbers, **given | settings)


@pytest.mark.parametrize("columns", [1, 2])
def test_explained_variance_is_that_of_numerical_integration(columns):
    rows, _ = people(25, columns=columns, seed=4)
    numbers = rows[:, 0] + np.random.default_rng(0).standard_normal(25)
    found = explained(rows, numbers)
    step = 0.01 if columns == 1 else 0.1
    ranks = np.argsort(np.argsort(numbers)).astype(float)
    expected = max(mixtures.explained(rows, n, np.eye(columns), step) for n in (numbers, ranks))
    assert found.estimate == pytest.approx(expected, abs=0.02)
    assert expected <= found.upper <= expected + 0.06


def test_explained_variance_is_between_nothing_and_everything():
    rows = np.linspace(0, 1, 30)[:, None]
    assert explained(rows * 1e-3, rows[:, 0]).estimate < 1e-4
    assert explained(rows * 1e4, rows[:, 0]).estimate == pytest.approx(1, abs=0.02)
    # Numbers of any unit.
    one, other = (explained(rows, 5 + factor * rows[:, 0]) for factor in (1.0, 1e6))
    assert one == pytest.approx(other)


def test_shared_rows_reveal_what_their_counts_do():
    # Rows a, b of three and two people of group 0, and of one and three of group 1.
    rows = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [0.0], [1.0], [1.0], [1.0]])
    codes = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
    assert advantage_without_noise(rows, codes) == pytest.approx((3 / 5 + 3 / 4) / 2 - 1 / 2)


def test_rows_of_their_own_reveal_everything():
    rows = torch.arange(6.0)[:, None]
    assert advantage_without_noise(rows, torch.arange(6) % 3) == pytest.approx(2 / 3)
    assert explained_without_noise(rows, np.arange(6.0)) == pytest.approx(1)


def test_pairs_of_opposite_numbers_explain_nothing():
    rows = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    assert explained_without_noise(rows, np.array([-3.0, 3, -1, 1])) == pytest.approx(0)
    # Means of -2 and 2 explain 4 of a variance of 5.
    assert explained_without_noise(rows, np.array([-3.0, -1, 1, 3])) == pytest.approx(0.8)


def test_noise_only_takes_away():
    random = np.random.default_rng(0)
    rows = np.repeat(random.standard_normal((8, 2)), 5, axis=0)
    labels, numbers = random.integers(0, 3, 40), random.standard_normal(40)
    found, codes = of(20 * rows, labels)
    exact = torch.from_numpy(rows)
    assert found.estimate <= advantage_without_noise(exact, torch.from_numpy(codes)) + 0.005
    explained = best_explained(
        20 * exact, numbers, draws=5000, delta=0.01, generator=torch.Generator().manual_seed(0)
    )
    assert explained.estimate <= explained_without_noise(exact, numbers) + 0.02
