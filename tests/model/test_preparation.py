"""Tests of the arguments of a model: what is wrong for any data is refused with a reason."""

import numpy as np
import pytest

from parafair import FairCP

X = np.random.default_rng(0).random((6, 4, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": "a"}, "tol must be a finite number of at least 0, got 'a'"),
        ({"tol": None}, "tol must be a finite number of at least 0, got None"),
        ({"n_init": "a"}, "n_init must be a whole number from 1 to 100000, got 'a'"),
        ({"n_init": 1.5}, "n_init must be a whole number from 1 to 100000, got 1.5"),
        ({"mode": None}, "mode must be between 0 and 2 or one of mode_0.*got None"),
        ({"mode": 1.5}, "mode must be between 0 and 2 or one of mode_0.*got 1.5"),
        ({"center": "no"}, "center must be True or False, got 'no'"),
        ({"center": None}, "center must be True or False, got None"),
        ({"init": 3}, "init must be one of uniform, normal, svd, or factors"),
        ({"init": None}, "init must be one of uniform, normal, svd, or factors"),
        ({"loss": ["a"]}, "loss must be one of squared"),
        ({"device": [1]}, r"device=\[1\] cannot be used here"),
        ({"verbose": "x"}, "verbose must be a whole number from 0 to 2, got 'x'"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FairCP(2, method="none", **options).fit(X)


def test_numpy_booleans_center():
    model = FairCP(2, method="none", center=np.True_, tol=0.0, max_iter=2).fit(X)
    assert model.training_.offsets is not None
