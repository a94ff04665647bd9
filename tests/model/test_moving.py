import numpy as np
import pytest
import torch

from parafair import SensitiveFeatures
from parafair.dependence.neighbors import NEAR_ROWS
from parafair.model.moving import move
from parafair.testing import example_rows

PEOPLE = 200


@pytest.fixture(scope="module")
def training():
    """Rows of people with four different entries, who moved by more than their noise."""
    plain = example_rows(4, 2, seed=0)[torch.arange(PEOPLE) % 4]
    shifts = 0.5 * example_rows(PEOPLE, 2, seed=1)
    features = SensitiveFeatures.of(np.arange(PEOPLE) // 4 % 2)
    return {"trained": plain + shifts, "shifts": shifts, "trained_features": features}


def moved(training, rows, groups, **settings):
    drawn = np.random.default_rng(0).random((len(rows), 2))
    features = training["trained_features"].read(groups)
    return move(rows, features, drawn=drawn, **training, **settings)


def test_copies_of_training_people_get_different_rows_near_theirs(training):
    plain = training["trained"] - training["shifts"]
    rows = plain[:1].expand(40, -1)
    found = moved(training, rows, np.arange(40) % 2, noise=0.1)
    released = {tuple(row) for row in training["trained"].tolist()}
    assert {tuple(row) for row in found.tolist()} <= released
    assert len(torch.unique(found, dim=0)) > NEAR_ROWS


def test_others_move_like_a_near_person_with_the_same_features(training):
    rows = 3 * example_rows(40, 2, seed=3)
    groups = np.arange(40) % 2
    found = moved(training, rows, groups, noise=1e-6) - rows
    same = torch.isclose(found[:, None], training["shifts"], rtol=0, atol=1e-12).all(-1)
    assert (same.sum(1) == 1).all()
    np.testing.assert_array_equal(same.long().argmax(1) // 4 % 2, groups)


def test_without_noise_training_people_get_their_own_rows(training):
    distinct = training | {"trained": training["shifts"] + example_rows(PEOPLE, 2, seed=4)}
    plain = distinct["trained"] - distinct["shifts"]
    found = moved(distinct, plain, np.arange(PEOPLE) // 4 % 2, noise=0.0)
    np.testing.assert_allclose(found, distinct["trained"], rtol=1e-12)
