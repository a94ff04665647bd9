"""Marks recognize training people, and tell of their entries four bits at most."""

import json

import numpy as np
import pytest
import torch

from parafair import TensorData
from parafair.model.draws import hash_people_rounded
from parafair.model.marks import BITS, Marks

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.standard_normal((3000, 4, 3))
HOLED = np.where(RANDOM.random(VALUES.shape) < 0.3, np.nan, VALUES)


def marks_of(values, mode=0):
    return Marks.of(TensorData.from_array(values), mode, "secret")


def counted(marks, values, mode=0, zeros=False):
    data = values if isinstance(values, TensorData) else TensorData.from_array(values)
    words = marks.words_of(data, mode, zeros=zeros)
    return marks.count(words), len(words)


@pytest.mark.parametrize("values", [VALUES, HOLED], ids=["complete", "holed"])
def test_every_training_person_is_recognized_in_any_arrangement(values):
    marks, data = marks_of(values), TensorData.from_array(values)
    for other in (data, data.to_sparse(), data.to(dtype="float32"), values[::-1].copy()):
        assert counted(marks, other) == (3000, 3000)
    moved = marks_of(np.moveaxis(values, 0, 1), mode=1)
    assert counted(moved, np.moveaxis(values, 0, 1)[:, 5:25], mode=1) == (20, 20)


@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e200])
def test_one_in_sixteen_others_is_recognized(scale):
    marks = marks_of(scale * VALUES[:1500])
    found, people = counted(marks, scale * VALUES[1500:])
    assert people == 1500
    # Seven standard deviations of a binomial number.
    assert found / people == pytest.approx(marks.by_chance, abs=7 * (1 / 16 / 1500) ** 0.5)
    assert marks.by_chance == pytest.approx(1 - np.exp(-1 / BITS), abs=0.003)


def test_one_changed_entry_or_cell_is_another_person():
    changed = VALUES.copy()
    changed[:, 2, 1] *= 1 + 1e-5
    cells = np.roll(VALUES, 1, axis=2)
    for other in (changed, cells, HOLED[np.isnan(HOLED).any((1, 2))]):
        found, people = counted(marks_of(VALUES), other)
        assert found < 0.1 * people


def test_few_values_have_different_marks():
    """Zeros and ones differ in few bits of their representation."""
    profiles = (np.arange(4096)[:, None] >> np.arange(12)) & 1
    tensor = profiles.reshape(-1, 4, 3).astype(float)
    words = hash_people_rounded(TensorData.from_array(tensor), 0, key="k")
    assert len(np.unique(words)) == 4096
    found, people = counted(marks_of(tensor[::2]), tensor[1::2])
    assert found < 0.1 * people


def test_marks_are_in_no_order_of_people():
    marks, other = marks_of(VALUES), marks_of(VALUES[RANDOM.permutation(3000)])
    np.testing.assert_array_equal(marks.bits, other.bits)


def test_other_training_data_has_other_marks():
    data = TensorData.from_array(VALUES)
    first, second = (Marks.of(data, 0, secret) for secret in ("one", "two"))
    both = np.unpackbits(first.bits) & np.unpackbits(second.bits)
    assert both.mean() == pytest.approx(first.by_chance**2, abs=0.002)


def test_people_without_entries_have_no_mark():
    values = HOLED.copy()
    values[:100] = np.nan
    marks = marks_of(values)
    assert marks.people == 2900
    assert counted(marks, values[:105]) == (5, 5)


def test_people_with_equal_entries_are_repeated():
    values = np.concatenate([VALUES[:10], VALUES[:5], VALUES[:5]])
    assert marks_of(values).repeated == 0.75
    assert counted(marks_of(VALUES), values) == (20, 20)


def test_halves_are_rounded_as_in_single_precision():
    """Whole numbers above 2^24, every other one of which single precision does not have."""
    values = np.arange(2.0**24 - 50, 2.0**24 + 250).reshape(100, 3)
    words = {
        dtype: hash_people_rounded(TensorData.from_array(values.astype(dtype)), 0, key="k")
        for dtype in (np.float32, np.float64)
    }
    np.testing.assert_array_equal(words[np.float32], words[np.float64])


def test_zeros_that_count_are_the_same_listed_or_not():
    values = torch.tensor([2.0, 0.0, 1.0, torch.nan])
    indices = torch.tensor([[0, 1, 1, 1], [1, 0, 1, 2]])
    listed = TensorData(values, indices, (3, 3), absent="zero")
    few = [0, 2, 3]
    shorter = TensorData(values[few], indices[:, few], (3, 3), absent="zero")
    marks = Marks.of(listed, 0, "secret")
    assert marks.people == 3
    for other in (listed, shorter, listed.to_dense()):
        assert counted(marks, other, zeros=True) == (3, 3)


def test_marks_are_read_as_they_were_written():
    marks = marks_of(VALUES)
    read = Marks.from_record(marks.to_record())
    np.testing.assert_array_equal(read.bits, marks.bits)
    assert (read.salt, read.people, read.repeated) == (marks.salt, 3000, 0.0)
    assert counted(read, VALUES[:7]) == (7, 7)
    assert read.words is None
    whole = Marks.from_record(json.loads(json.dumps(marks.to_record(whole=True))))
    np.testing.assert_array_equal(whole.words, marks.words)


@pytest.mark.parametrize(
    "wrong", [{"people": 2999}, {"people": 0}, {"repeated": 2.0}, {"bits": "AAAA"}]
)
def test_damaged_marks_are_refused(wrong):
    with pytest.raises(ValueError, match=r"it has \d+ bits for -?\d+ people, not 16 for each"):
        Marks.from_record({**marks_of(VALUES).to_record(), **wrong})


def test_damaged_hashes_are_refused():
    record = marks_of(VALUES).to_record(whole=True)
    with pytest.raises(ValueError, match="it has 2997 hashes for 3000 people, not one for each"):
        Marks.from_record({**record, "words": record["words"][:-32]})
