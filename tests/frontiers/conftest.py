import numpy as np
import pytest

from parafair import FairCP, frontier

RANDOM = np.random.default_rng(0)
GROUPS = np.repeat(["a", "b"], 30)
PEOPLE = RANDOM.standard_normal((60, 3)) + np.outer(GROUPS == "b", [2.0, 0.0, 0.0])
MATRIX = PEOPLE @ RANDOM.standard_normal((3, 8))

QUICK = {"attackers": ["linear"], "folds": 2, "repeats": 1, "permutations": 9}
CAREFUL = QUICK | {"folds": 5}  # for numbers that are compared


def small(rank=3, *, model=None, **settings):
    """A frontier that takes a second; `model` has arguments of the model."""
    model = {"tol": 1e-2, "n_init": 1} | (model or {})
    settings = {"strengths": (0.1, 10.0), "limit": False, "audits": QUICK} | settings
    return frontier(FairCP(rank, **model), MATRIX, sensitive_features=GROUPS, **settings)


@pytest.fixture(scope="package")
def curve():
    return small(strengths=(0.01, 0.3, 3.0, 300.0), seeds=2, audits=CAREFUL)
