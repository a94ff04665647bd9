import numpy as np
import pytest
import torch

from parafair import TensorData, split_by_time, split_cells, split_people
from parafair.data.splits import fold_cells


@pytest.fixture(params=["dense", "sparse"])
def data(request):
    random = np.random.default_rng(0)
    values = random.normal(size=(30, 8, 5))
    values[random.uniform(size=values.shape) < 0.6] = np.nan
    values[3] = np.nan
    values[3, 2, 1] = 1.0  # a person with one entry
    values[4] = np.nan  # and one with none
    found = TensorData.from_array(values)
    return found if request.param == "dense" else found.to_sparse()


def test_every_entry_is_in_one_part(data):
    split = split_cells(data, test_size=0.2, validation_size=0.1, random_state=1)
    parts = [split.train, split.validation, split.test]
    assert [part.is_sparse for part in parts] == [data.is_sparse] * 3
    assert all(part.shape == data.shape for part in parts)
    cells = torch.cat([part.cells for part in parts], 1)
    whole = TensorData(torch.cat([part.entries for part in parts]), cells, data.shape)
    torch.testing.assert_close(whole.cells, data.cells)
    torch.testing.assert_close(whole.entries, data.entries)
    assert split.test.observed == round(0.2 * data.observed)
    assert split.validation.observed == round(0.1 * data.observed)


def test_something_of_every_label_stays_in_training(data):
    split = split_cells(data, test_size=0.7)
    for mode in range(3):
        observed = data.observed_per(mode) > 0
        assert (split.train.observed_per(mode)[observed] > 0).all()
    assert split.validation is None
    assert split.test.observed_per(0)[3] == 0


def test_the_seed_decides(data):
    one, two, three = (split_cells(data, random_state=seed).test.cells for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"test_size": 0}, "test_size must be a share above 0 and below 1"),
        ({"test_size": 0.6, "validation_size": 0.4}, "leave something for training"),
        ({"test_size": 0.95}, "can be held out .one of every label stays in training"),
    ],
)
def test_impossible_shares_are_refused(data, shares, message):
    with pytest.raises(ValueError, match=message):
        split_cells(data, **shares)


def test_people_are_split_by_group():
    groups = ["a"] * 80 + ["b"] * 20
    split = split_people(100, groups=groups, test_size=0.2, validation_size=0.1)
    assert [len(part) for part in split] == [70, 10, 20]
    assert sorted(np.concatenate(split)) == list(range(100))
    assert (split.test >= 80).sum() == 4
    assert (split.validation >= 80).sum() == 2


def test_people_of_the_data_are_split(data):
    split = split_people(data, "mode_1", test_size=0.25)
    assert (len(split.train), split.validation, len(split.test)) == (6, None, 2)
    assert data.take("mode_1", split.test).shape == (30, 2, 5)
    with pytest.raises(ValueError, match="groups must have 8 entries, one per person, got shape"):
        split_people(data, 1, groups=["a"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": np.ones((3, 2))}, "data must be a TensorData or the number of people, got"),
        ({"data": 1}, "data must be a whole number of at least 2, got 1"),
        ({"data": 3, "test_size": 0.1}, "3 people make parts of 0, 3; choose other shares"),
        ({"data": 4, "test_size": "a"}, "test_size must be a finite number, got 'a'"),
        ({"data": 4, "groups": list("abcd")}, "groups has 4 groups, the smallest with 1 members"),
        ({"data": 4, "groups": [[1], [2, 3]]}, "groups must be an array with rows of equal"),
    ],
)
def test_people_who_cannot_be_split_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        split_people(**arguments)


def test_groups_of_different_types_are_groups():
    groups = np.array([1, "a", None, 1, "a", None], object)
    split = split_people(6, groups=groups, test_size=0.5)
    assert sorted(map(str, groups[split.test])) == ["1", "None", "a"]


def test_cells_of_an_array_are_refused():
    with pytest.raises(TypeError, match="data must be a TensorData, got .* use TensorData.from"):
        split_cells(np.ones((3, 2)))


def test_folds_hold_out_different_entries(data):
    splits = fold_cells(data, 4, random_state=1)
    tests = torch.cat([split.test.cells for split in splits], 1)
    assert len(tests.T.unique(dim=0)) == tests.shape[1]
    for split in splits:
        assert split.train.observed + split.test.observed == data.observed
        for mode in range(3):
            observed = data.observed_per(mode) > 0
            assert (split.train.observed_per(mode)[observed] > 0).all()
    sizes = [split.test.observed for split in splits]
    assert max(sizes) - min(sizes) <= 1
    # All entries that are held out by any split of half of the data can be.
    with pytest.raises(ValueError, match=f"folds must be at most {tests.shape[1]}, .*, got 1000"):
        fold_cells(data, 1000, random_state=1)


def test_the_latest_entries_of_each_person_are_held_out(data):
    times = np.random.default_rng(1).integers(0, 50, data.observed)  # with ties
    split = split_by_time(data, times, test_size=0.2, validation_size=0.1)
    when = dict(zip(map(tuple, data.cells.T.tolist()), times.tolist(), strict=True))
    for person in range(30):
        parts = [
            [when[tuple(cell)] for cell in part.cells.T.tolist() if cell[0] == person]
            for part in split
        ]
        count = sum(map(len, parts))
        assert [len(part) for part in parts[1:]] == [count // 10, count // 5]
        early, middle, late = (part or [None] for part in parts)
        if late != [None]:
            assert max(early) <= min(late)
        if middle != [None]:
            assert max(early) <= min(middle) <= max(middle) <= min(late)
    assert split_by_time(data, times).validation is None


@pytest.mark.parametrize(
    ("times", "shares", "message"),
    [
        (np.zeros(3), {}, "times must be .* numbers or dates, one for each of data.cells"),
        (None, {}, "times must be .* numbers or dates"),
        ("nan", {}, "missing among them, the first at position 0; fill them in"),
        ("text", {}, "got an array of <U3, the first 'May'; convert text first"),
        ("fine", {"test_size": 0.01}, "leave a part empty: people have at most"),
        ("fine", {"test_size": 1.5}, "test_size must be a share above 0 and below 1"),
    ],
)
def test_bad_times_are_refused(data, times, shares, message):
    if isinstance(times, str):
        times = np.full(data.observed, {"nan": np.nan, "text": "May", "fine": 0.0}[times])
    with pytest.raises(ValueError, match=message):
        split_by_time(data, times, **shares)
