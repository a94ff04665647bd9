"""Tests of `random_state`, in every function that takes one."""

import numpy as np
import pandas
import pytest

from parafair import FairCP, audit, parity_limit, split_cells, split_people, tune
from parafair.audits.measures import unfairness
from parafair.data.randomness import as_random, as_seed
from parafair.data.tensor_data import TensorData

GROUPS = np.array(["a", "b"])[np.arange(12) % 2]
AGES = np.arange(12) % 5 + 0.5
ROWS = np.random.default_rng(0).normal(size=(12, 2))
DATA = TensorData.from_array(np.random.default_rng(1).random((12, 4, 3)))


def run_audit(random_state):
    found = audit(
        ROWS,
        sensitive_features=pandas.DataFrame({"group": GROUPS, "age": AGES}),
        attackers=["linear", "svm"],
        folds=2,
        repeats=1,
        permutations=3,
        random_state=random_state,
    )
    return [row.value for row in found.rows]


def run_fit(random_state):
    model = FairCP(2, method="none", max_iter=2, tol=0.0, random_state=random_state)
    return model.fit(DATA).embedding_


def run_tune(random_state):
    model = FairCP(2, method="none", max_iter=2, tol=0.0)
    return tune(model, DATA, grid={"rank": [1, 2]}, random_state=random_state).best.rmse


def run_limit(random_state):
    values = DATA.values.numpy()
    return parity_limit(values, sensitive_features=GROUPS, random_state=random_state).residuals


RUNS = {
    "audit": run_audit,
    "fit": run_fit,
    "tune": run_tune,
    "parity_limit": run_limit,
    "split_cells": lambda r: split_cells(DATA, random_state=r).test.entries.numpy(),
    "split_people": lambda r: split_people(DATA, random_state=r).test,
    "unfairness": lambda r: (
        unfairness(ROWS, sensitive_features=GROUPS, epochs=1, hidden=5, random_state=r).accuracy
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_generator_is_a_random_state(name):
    first, second = (RUNS[name](np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("bad", ["seed", -1, 2**63, 0.5, True, np.random.PCG64(0)])
def test_other_random_states_are_refused(name, bad):
    with pytest.raises(ValueError, match="random_state must be a whole number between 0 and"):
        RUNS[name](bad)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("random_state", [None, 0, 2**40])
def test_the_global_random_state_is_not_used(name, random_state):
    before = np.random.get_state()[1].tolist(), np.random.get_state()[2]
    RUNS[name](random_state)
    assert (np.random.get_state()[1].tolist(), np.random.get_state()[2]) == before


def test_a_generator_is_advanced():
    generator = np.random.default_rng(0)
    assert as_seed(generator) != as_seed(generator)


def test_seeds_give_the_numbers_of_numpy():
    assert as_random(3).randint(2**31) == np.random.RandomState(3).randint(2**31)
    assert as_seed(2**62) == 2**62
