"""Tests of labels: every label keeps its value, or is refused."""

import numpy as np
import pandas
import pytest

from parafair.data.labels import as_labels, find_labels
from parafair.data.tensor_data import TensorData


@pytest.mark.parametrize(
    "values",
    [
        [2.0**63, 2.0**64],
        np.array([2.0**63, 2.0**64]),
        np.array([2**63, 2**63 + 1], np.uint64),
        [-1, 2**63],
        [2**70, 1],
        [2**5000, 0.5],
        [1.0, float("inf")],
        np.array([-np.inf, 2.5]),
    ],
)
def test_numbers_beyond_64_bits_are_refused(values):
    with pytest.raises(ValueError, match="outside the range of 64-bit integers"):
        as_labels(values, "labels")


def test_integers_that_are_rounded_beside_fractions_are_refused():
    with pytest.raises(ValueError, match="beside fractions"):
        as_labels([2**53 + 1, 0.5], "labels")


def test_the_largest_64_bit_integers_are_exact():
    wanted = [2**63 - 1, 2**63 - 2, -(2**63)]
    assert as_labels(wanted, "labels").tolist() == wanted
    assert as_labels(np.array(wanted[:2], np.uint64), "labels").tolist() == wanted[:2]
    assert as_labels(np.array([2.0**62, -1.0]), "labels").tolist() == [2**62, -1]


def test_integers_and_floats_are_compared_exactly():
    found = find_labels(np.array([2**53, 2**53 + 1]), np.array([0.5, 2.0**53]))
    assert found.tolist() == [1, -1]


def test_a_table_does_not_wrap_unsigned_labels():
    people = np.array([2**64 - 1, 1], np.uint64)
    table = pandas.DataFrame({"who": people, "what": [1, 2], "x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="outside the range of 64-bit integers"):
        TensorData.from_table(table, modes=["who", "what"], value="x")
    small = table.assign(who=np.array([3, 1], np.uint64))
    data = TensorData.from_table(small, modes=["who", "what"], value="x")
    assert data.labels[0].tolist() == [1, 3]


def test_large_numerals_of_a_file_stay_text(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("who,what,x\n1e+20,1,1\n1e+21,2,2\n")
    data = TensorData.from_table(file, modes=["who", "what"], value="x")
    assert data.labels[0].tolist() == ["1e+20", "1e+21"]


@pytest.mark.parametrize("values", [5, "abc", None, object()])
def test_what_is_no_list_of_labels_is_refused(values):
    with pytest.raises(TypeError, match="labels must be a list of labels, got"):
        as_labels(values, "labels")


def test_arrays_are_no_labels():
    with pytest.raises(ValueError, match="labels must hold labels such as text or numbers"):
        as_labels([[1, 2], [3]], "labels")
