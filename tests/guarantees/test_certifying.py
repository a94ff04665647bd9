from math import erf, sqrt

import numpy as np
import pandas as pd
import pytest
import torch

from parafair import FairCP, certify, certify_rows, datasets
from parafair.guarantees.statements import MATRIX, POPULATION, RELEASE
from tests.guarantees.conftest import people
from tests.reference import mixtures

ROWS, LABELS = people(40, 30, columns=2)
FEW = {"draws": 2000}


def rows_of(certificate, kind):
    return [statement for statement in certificate.statements if statement.kind == kind]


def test_noise_may_be_any_matrix():
    noise = np.array([[1.0, 0.4], [0.0, 0.7]])
    found = certify_rows(ROWS, LABELS, noise=noise)
    codes = np.unique(LABELS, return_inverse=True)[1]
    expected = mixtures.advantage(ROWS, codes, noise, 0.1)
    (release,), (matrix,) = rows_of(found, RELEASE), rows_of(found, MATRIX)
    assert release.estimate == pytest.approx(expected, abs=0.01)
    assert expected <= release.upper <= matrix.upper
    assert release.confidence == 0.95
    assert matrix.confidence == 1


@pytest.mark.parametrize("sizes", [(30, 30), (40, 9), (15, 20, 25)])
@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0])
def test_the_closed_form_is_never_below_the_exact_value(sizes, noise):
    rows, labels = people(*sizes, seed=5)
    found = certify_rows(rows, labels, noise=noise, **FEW)
    assert found.leakage(MATRIX) >= found.leakage(RELEASE) >= rows_of(found, RELEASE)[0].estimate


def test_units_rotations_and_the_order_of_people_do_not_matter():
    first = certify_rows(ROWS, LABELS, noise=1.0)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    order = np.random.default_rng(1).permutation(70)
    for other in (
        certify_rows(1000 * ROWS, LABELS, noise=1000.0),
        certify_rows(ROWS @ turn + 3, LABELS, noise=1.0),
        certify_rows(ROWS[order], LABELS[order], noise=1.0),
    ):
        assert other.leakage(RELEASE) == pytest.approx(first.leakage(RELEASE), abs=0.01)
        assert other.leakage(MATRIX) == pytest.approx(first.leakage(MATRIX))


def test_single_precision_gives_the_same():
    one, other = (certify_rows(ROWS.astype(t), LABELS, noise=1.0) for t in (np.float64, np.float32))
    assert one.leakage(RELEASE) == pytest.approx(other.leakage(RELEASE), abs=1e-5)


def test_repeated_releases_are_one_with_less_noise():
    often = certify_rows(ROWS, LABELS, noise=2.0, releases=4)
    less = certify_rows(ROWS, LABELS, noise=1.0)
    assert often.leakage(RELEASE) == pytest.approx(less.leakage(RELEASE))
    assert "drawn 4 times per person" in often.sentences()[0]


def test_the_same_seed_gives_the_same_certificate():
    one, two, other = (
        certify_rows(ROWS, LABELS, noise=1.0, random_state=seed, **FEW) for seed in (0, 0, 1)
    )
    assert str(one) == str(two)
    assert str(one) != str(other)


def test_several_columns_are_certified_each_and_jointly():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"sex": LABELS, "age": ROWS[:, 0] + random.standard_normal(70)})
    found = certify_rows(ROWS, table, noise=1.0, **FEW)
    assert [(s.kind, s.column, s.measure) for s in found.statements] == [
        (RELEASE, "sex", "balanced accuracy"),
        (RELEASE, "age", "share of variance"),
        (RELEASE, "sex and age in 4 parts", "balanced accuracy"),
        (MATRIX, "sex", "balanced accuracy"),
        (MATRIX, "age in 4 parts", "balanced accuracy"),
        (MATRIX, "sex and age in 4 parts", "balanced accuracy"),
    ]
    assert [e.column for e in found.exposures] == ["sex", "age in 4 parts"]
    assert found.exposure.shape == (70,)
    assert "% of the variance of age or of its ranks" in found.sentences()[1]


def test_bounds_for_a_population_have_their_slack():
    (found,) = certify_rows(ROWS, LABELS, noise=1.0, held_out=True).statements
    assert found.kind == POPULATION
    assert found.slack == pytest.approx(sqrt((1 / 40 + 1 / 30) * np.log(1 / 0.045) / 2) / 2)
    assert found.estimate + found.slack < found.upper < found.estimate + found.slack + 0.02


def share_below(repeats, people_each, confidence, groups):
    """How often the bound for a population is below the truth, for normal groups in a row."""
    random, wrong = np.random.default_rng(0), 0
    # Neighbors of variance 2 at a distance of 0.8; the best attacker confuses neighbors only.
    truth = (groups - 1) / groups * erf(0.8 / (2 * sqrt(2) * sqrt(2)))
    codes = np.repeat(np.arange(groups), people_each)
    for seed in range(repeats):
        rows = random.standard_normal((len(codes), 1)) + 0.8 * codes[:, None]
        found = certify_rows(
            rows,
            codes,
            noise=1.0,
            held_out=True,
            draws=500,
            confidence=confidence,
            random_state=seed,
        )
        wrong += found.leakage(POPULATION) < truth
    return wrong / repeats


@pytest.mark.parametrize("groups", [2, 3])
def test_a_population_is_covered(groups):
    assert share_below(40, 60, 0.95, groups) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("people_each", [30, 300])
@pytest.mark.parametrize("confidence", [0.6, 0.95])
def test_a_population_is_covered_at_every_confidence(people_each, confidence, groups):
    assert share_below(1000, people_each, confidence, groups) <= 1 - confidence


@pytest.mark.slow
def test_the_exact_value_is_covered_by_its_draws():
    codes = np.unique(LABELS, return_inverse=True)[1]
    truth = mixtures.advantage(ROWS, codes, np.eye(2), 0.05)
    wrong = [
        certify_rows(ROWS, LABELS, noise=1.0, draws=300, confidence=0.8, random_state=seed).leakage(
            RELEASE
        )
        < truth
        for seed in range(100)
    ]
    assert np.mean(wrong) <= 0.2


@pytest.fixture(scope="module")
def model():
    data = datasets.synthetic(0, shape=(60, 10, 8), rank=3)
    model = FairCP(3, method="transport", noise=0.5)
    return model.fit(data.tensor, sensitive_features=data.sensitive_features)


def test_a_model_is_its_rows(model):
    release = model.exact_release()
    found = certify(model, **FEW)
    expected = certify_rows(
        release.rows, release.features, noise=release.noise, released=model.embedding_, **FEW
    )
    assert found.to_dict() == expected.to_dict()
    assert found.leakage(RELEASE) < 0.05
    assert {exposure.threat for exposure in found.exposures} == {"a", "b"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 99}, "draws must be a whole number from 100 to 10000000, got 99"),
        ({"releases": 0}, "releases must be a whole number of at least 1"),
        ({"confidence": 0.2}, "confidence must be a finite number of at least 0.5"),
        ({"confidence": 1}, "confidence must be below 1, got 1"),
        ({"noise": 0}, "noise is 0, so whoever holds the exact rows recognizes everybody"),
        ({"noise": np.diag([1, 0])}, "noise is zero in column 1, in which the rows differ"),
        ({"noise": 1e-18}, "noise underflows: in some direction"),
        ({"noise": np.ones(3)}, "noise must be a number, 2 numbers, or a matrix of shape"),
        ({"noise": [1.0, -2.0]}, "standard deviations of at least 0, got -2 in column 1"),
        ({"released": ROWS[:5]}, "released must be finite rows of shape"),
        ({"device": "nowhere"}, "device='nowhere' cannot be used here"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"held_out": 2}, "held_out must be True or False, got 2"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        certify_rows(ROWS, LABELS, **{"noise": 1.0} | settings)


@pytest.mark.parametrize(
    ("rows", "features", "message"),
    [
        (ROWS[:50], LABELS, "sensitive_features has 70 rows but there are 50 people"),
        (ROWS[:, 0], LABELS, "rows must have shape .people, columns., got"),
        (ROWS * np.nan, LABELS, "rows has 140 NaN or infinite entries"),
        (ROWS, np.arange(70).astype(str), "so it almost labels them; leave it out"),
        (ROWS, ["f"] * 69 + ["m"], "has one person in the group 'm', at least 2 people"),
    ],
)
def test_wrong_people_are_refused(rows, features, message):
    with pytest.raises(ValueError, match=message):
        certify_rows(rows, features, noise=1.0)


def test_numbers_of_a_population_must_be_groups():
    with pytest.raises(ValueError, match="is numeric, but held_out=True needs groups that were"):
        certify_rows(ROWS, ROWS[:, 0], noise=1.0, held_out=True)


def test_only_models_are_certified():
    for wrong in (ROWS, FairCP):
        with pytest.raises(TypeError, match="model must be a fitted FairCP, got"):
            certify(wrong)


def test_rows_on_any_device_are_taken():
    found = certify_rows(torch.from_numpy(ROWS), LABELS, noise=1.0, device="cpu", **FEW)
    assert found.leakage(RELEASE) == certify_rows(ROWS, LABELS, noise=1.0, **FEW).leakage(RELEASE)
