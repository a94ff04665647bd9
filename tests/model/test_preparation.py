"""Tests of the arguments of a model: what is wrong is refused, and what cannot help is said."""

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, FairTucker, ParafairWarning, SensitiveFeatures, frontier, tune

X = np.random.default_rng(0).random((6, 4, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": "a"}, "tol must be a finite number of at least 0, got 'a'"),
        ({"tol": None}, "tol must be a finite number of at least 0, got None"),
        ({"n_init": "a"}, "n_init must be a whole number from 1 to 100000, got 'a'; or use 'auto'"),
        ({"n_init": 1.5}, "n_init must be a whole number from 1 to 100000, got 1.5"),
        ({"solver": "a"}, "solver must be one of auto, block, lbfgs, gradient; got 'a'"),
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


@pytest.mark.parametrize("model", [FairTucker(iter((2, 2, 2))), FairCP(non_negative=iter([0]))])
def test_arguments_that_can_be_read_once_are_refused(model):
    with pytest.raises(TypeError, match=r"must be the same each time it is read, .* pass a list"):
        model.fit(X)


def test_numpy_booleans_center():
    model = FairCP(2, method="none", center=np.True_, tol=0.0, max_iter=2).fit(X)
    assert model.training_.offsets is not None


MATRIX = np.random.default_rng(1).standard_normal((20, 6))
RARE = np.array(["a"] * 9 + ["b"] * 8 + ["lone"] + ["two"] * 2)
FEW = {"max_iter": 3, "tol": 0.0, "n_init": 1}


def named(values):
    return SensitiveFeatures.of(pd.DataFrame({"who": values}))


@pytest.mark.parametrize(
    "method", ["invariant", "khsic", "hsic", "fatr", "moment-matching", "bhattacharyya"]
)
def test_groups_of_one_or_two_people_are_warned_of_once(method):
    with pytest.warns(
        ParafairWarning, match=r"has groups of one or two people \(lone, two\)"
    ) as warned:
        FairCP(2, method=method, **FEW).fit(MATRIX, sensitive_features=named(RARE))
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_a_frontier_warns_of_small_groups_once():
    with pytest.warns(
        ParafairWarning, match=r"has groups of one or two people \(lone, two\)"
    ) as warned:
        frontier(
            FairCP(2, **FEW),
            MATRIX,
            sensitive_features=named(RARE),
            strengths=[1.0, 2.0],
            audits=None,
            certificates=None,
            limit=False,
        )
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_a_choice_of_settings_warns_of_small_groups_once():
    with pytest.warns(
        ParafairWarning, match=r"has groups of one or two people \(lone, two\)"
    ) as warned:
        tune(
            FairCP(2, method="hsic", **FEW),
            MATRIX,
            grid={"rank": [1, 2]},
            sensitive_features=named(RARE),
        )
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ({"method": "none"}, RARE),
        ({"strength": 0.0}, RARE),
        ({}, np.repeat(["a", "b", "c"], [9, 8, 3])),
        ({}, np.arange(20.0)),
    ],
    ids=["no method", "no strength", "three people", "numbers"],
)
def test_other_groups_and_fits_are_not_warned_of(settings, features):
    FairCP(2, **settings, **FEW).fit(MATRIX, sensitive_features=named(features))


def test_people_who_are_not_penalized_do_not_count():
    table = pd.DataFrame(
        {"who": ["a"] * 9 + ["b"] * 8 + ["c"] * 3, "other": [*("xy" * 9), None, "x"]}
    )
    features = SensitiveFeatures.of(table, missing="exclude")
    with pytest.warns(ParafairWarning, match=r"'who' has groups of one or two people \(c\)"):
        FairCP(2, **FEW).fit(MATRIX, sensitive_features=features)
