import numpy as np
import pytest

from parafair import datasets, split_by_time

pytest.importorskip("pandas")


def test_it_has_the_form_of_movielens():
    data = datasets.ratings(1, users=60, items=50)
    assert data.modes == ("user", "item")
    assert list(data.sensitive_features.columns) == ["gender", "age", "occupation"]
    assert list(data.sensitive_features.index) == data.labels[0].tolist() == list(range(1, 61))
    assert set(data.tensor.entries.tolist()) == {1, 2, 3, 4, 5}
    assert data.tensor.observed_per("user").min() >= 20
    assert data.times.shape == (data.tensor.observed,)
    split = split_by_time(data.tensor, data.times, "user", test_size=0.2, validation_size=0.1)
    assert (split.test.observed_per("user") >= 4).all()
    assert set(data.sensitive_features["gender"]) == {"F", "M"}


def test_tastes_depend_on_gender_and_age():
    data = datasets.ratings(0)
    people = data.sensitive_features
    rated = np.zeros(data.tensor.shape)
    rated[tuple(data.tensor.cells.numpy())] = data.tensor.entries.numpy() - 3.5
    men = (people["gender"] == "M").to_numpy()
    # Differences of mean ratings between groups, against those between random groups.
    for group in (men, people["age"].to_numpy() > 40):
        shuffled = np.random.default_rng(0).permutation(group)
        spread = [np.std(rated[own].mean(0) - rated[~own].mean(0)) for own in (group, shuffled)]
        assert spread[0] > 1.5 * spread[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"users": 3}, "users must be a whole number of at least 4"),
        ({"items": 39}, "items must be a whole number of at least 40"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"users": 10**7, "items": 10**6}, "ratings of 1000000 items by 10000000 users"),
    ],
)
def test_impossible_sizes_are_refused(settings, message):
    with pytest.raises((ValueError, MemoryError), match=message):
        datasets.ratings(**settings)
