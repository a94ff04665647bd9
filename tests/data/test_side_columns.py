import numpy as np
import pandas as pd
import pytest
import torch

from parafair.data.side_columns import SideColumns, read_side
from parafair.data.tensor_data import TensorData
from parafair.errors import ParafairWarning
from parafair.losses import Squared

PEOPLE = ["a", "b", "c", "d"]
LABELED = TensorData.from_array(np.ones((4, 2)), modes=("who", "what"), labels=(PEOPLE, ["x", "y"]))
PLAIN = TensorData.from_array(np.ones((4, 2)))
TABLE = pd.DataFrame({"u": [1.0, 2.0, 6.0], "v": [0.0, np.nan, 4.0]}, index=["c", "a", "d"])


def test_rows_are_matched_by_label_and_others_are_missing():
    found = read_side(TABLE, LABELED, 0)
    expected = [[2.0, np.nan], [np.nan, np.nan], [1.0, 0.0], [6.0, 4.0]]
    np.testing.assert_array_equal(found.values, expected)
    assert found.labels[1].tolist() == ["u", "v"]
    listed = read_side(TensorData.from_array(TABLE).to_sparse(), LABELED, 0)
    assert listed.is_sparse
    np.testing.assert_array_equal(listed.to_dense().values, expected)


def test_rows_without_labels_are_matched_by_position():
    np.testing.assert_array_equal(
        read_side(np.arange(8.0).reshape(4, 2), LABELED, 0).values, np.arange(8.0).reshape(4, 2)
    )
    assert read_side(pd.Series(np.arange(4.0), index=PEOPLE), PLAIN, 0).shape == (4, 1)


@pytest.mark.parametrize(
    ("side", "match"),
    [
        (TABLE.rename(index={"c": "z"}), "1 of 3 people whom X does not have, such as z"),
        (TABLE.rename(index={"c": "a"}), "side, read like X: .* label a more than once"),
        (TABLE.assign(u="text"), "side, read like X: .* must hold numbers.*get_dummies"),
        (np.ones((5, 2)), "side has 5 rows but X has 4 people"),
        (np.ones((4, 2, 2)), "side must be a matrix"),
        (np.full((4, 2), np.nan), "side, read like X: .* no observed entries"),
        (np.full((4, 2), np.inf), "side, read like X: .* infinite"),
        ("people.csv", "side must be a table of numbers, got 'people.csv'"),
    ],
)
def test_what_is_no_table_of_these_people_is_refused(side, match):
    with pytest.raises((ValueError, TypeError), match=match):
        read_side(side, LABELED, 0)


def test_columns_are_standardized_over_the_observed_entries():
    table = read_side(TABLE, LABELED, 0)
    columns = SideColumns.of(table, Squared())
    found = columns.standardize(table)
    np.testing.assert_allclose(np.nanmean(found.values, 0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(found.values, 0), 1)
    np.testing.assert_allclose(columns.restore(found.values.numpy()), table.values)
    listed = columns.standardize(table.to_sparse())
    torch.testing.assert_close(listed.to_dense().values, found.values, equal_nan=True)
    again = SideColumns.from_record(columns.to_record())
    np.testing.assert_array_equal(again.mean, columns.mean)


@pytest.mark.parametrize("unit", [2.0**700, 2.0**-700, 2.0**1000])
def test_units_of_columns_do_not_matter(unit):
    usual = SideColumns.of(TensorData.from_array(TABLE), Squared())
    moved = TensorData.from_array(TABLE * unit)
    columns = SideColumns.of(moved, Squared())
    standard = columns.standardize(moved).values
    expected = usual.standardize(TensorData.from_array(TABLE)).values
    torch.testing.assert_close(standard, expected, equal_nan=True)
    np.testing.assert_allclose(columns.restore(standard.numpy()), TABLE * unit)


def test_columns_that_tell_nothing():
    table = TensorData.from_array(TABLE.assign(same=3.0))
    with pytest.warns(ParafairWarning, match="columns same of side have the same value"):
        columns = SideColumns.of(table, Squared())
    assert columns.standardize(table).values[:, 2].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="no entries in the columns gone"):
        SideColumns.of(TensorData.from_array(TABLE.assign(gone=np.nan)), Squared())
    with pytest.raises(ValueError, match="same value for everybody in every column"):
        SideColumns.of(TensorData.from_array(np.ones((4, 2))), Squared())


def test_new_tables_have_the_columns_of_the_fit():
    columns = SideColumns.of(TensorData.from_array(TABLE), Squared())
    swapped = TensorData.from_array(TABLE[["v", "u"]])
    np.testing.assert_array_equal(columns.align(swapped).values, TABLE.to_numpy())
    unnamed = TensorData.from_array(TABLE.to_numpy())
    assert columns.align(unnamed) is unnamed
    for other in (TABLE[["u"]], TABLE.assign(w=1.0), TABLE.to_numpy()[:, :1]):
        with pytest.raises(ValueError, match="must have the columns of the fit"):
            columns.align(TensorData.from_array(other))


@pytest.mark.parametrize(
    ("side", "error", "match"),
    [
        (pd.DataFrame(), ValueError, r"side must have at least one row .* got shape \(0, 0\)"),
        ("side.csv", TypeError, "side must be a table of numbers, got 'side.csv'; read the file"),
        (pd.DataFrame(np.eye(2), columns=["a", "a"]), ValueError, "side has the column 'a' more"),
    ],
)
def test_what_is_no_table_is_called_side(side, error, match):
    with pytest.raises(error, match=match):
        read_side(side, TensorData.from_array(np.eye(2)), 0)
