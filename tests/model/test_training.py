"""Tests of the cells that a model predicts: positions, tables of labels, and data."""

import warnings

import numpy as np
import pandas
import pytest

from parafair import FairCP, TensorData, split_cells

VALUES = np.random.default_rng(0).random((6, 4))
PEOPLE = [7, 3, 9, 1, 2, 0]
ITEMS = ["p", "q", "r", "s"]
POSITIONS = np.array([[0, 1], [5, 3], [2, 2]])


def fit(**options):
    data = TensorData.from_array(VALUES, **options)
    return FairCP(2, method="none", tol=0.0, max_iter=3).fit(data), data


@pytest.fixture(scope="module")
def plain():
    return fit()[0]


@pytest.fixture(scope="module")
def labeled():
    return fit(modes=("who", "what"), labels=(PEOPLE, ITEMS))


def table(positions=POSITIONS):
    people, items = np.array(PEOPLE), np.array(ITEMS)
    return pandas.DataFrame({"who": people[positions[:, 0]], "what": items[positions[:, 1]]})


def test_labels_and_positions_are_the_same_cells(plain, labeled):
    np.testing.assert_array_equal(labeled[0].predict(table()), plain.predict(POSITIONS))


@pytest.mark.parametrize("cells", [POSITIONS, POSITIONS.tolist(), np.array([["7", "q"]])])
def test_an_array_is_ambiguous_for_a_model_with_labels(labeled, cells):
    with pytest.raises(ValueError, match="cells of a model with labels must be a data frame with"):
        labeled[0].predict(cells)


def test_positions_are_not_ambiguous_if_only_modes_have_names(plain):
    named = fit(modes=("who", "what"))[0]
    np.testing.assert_array_equal(named.predict(POSITIONS), plain.predict(POSITIONS))


@pytest.mark.parametrize("sparse", [False, True])
def test_data_is_predicted_at_its_cells(plain, labeled, sparse):
    model, data = labeled
    test = split_cells(data.to_sparse() if sparse else data, test_size=0.3).test
    expected = plain.predict(test.cells.T.numpy())
    np.testing.assert_array_equal(model.predict(test), expected)
    np.testing.assert_array_equal(plain.predict(test), expected)


def test_labels_of_data_are_matched(labeled):
    model, data = labeled
    some = TensorData.from_table(
        data.to_table().sample(5, random_state=0), modes=["who", "what"], value="value"
    )
    expected = model.predict(some.to_table()[["who", "what"]])
    np.testing.assert_array_equal(model.predict(some), expected)


def test_data_of_another_shape_is_refused(plain, labeled):
    other = TensorData.from_array(VALUES[:, :3])
    for model in (plain, labeled[0]):
        with pytest.raises(ValueError, match=r"cells must have shape \(6, 4\) as in training"):
            model.predict(other)
    with pytest.raises(ValueError, match="cells must have the modes who, what of the model"):
        labeled[0].predict(fit(modes=("what", "who"), labels=(PEOPLE, ITEMS))[1])


def test_unknown_labels_come_with_the_remedy(labeled):
    cells = table().assign(who=[7, 8, 99])
    message = r"mode 'who' has no label 8, 99 \(2 unknown in all\); leave these cells out, or fit"
    with pytest.raises(ValueError, match=message) as error:
        labeled[0].predict(cells)
    assert "did you mean" not in str(error.value)
    with pytest.raises(ValueError, match=r"label qq .*leave these cells out.* did you mean 'q'"):
        labeled[0].predict(table().assign(what=["p", "q", "qq"]))


def test_unknown_labels_of_new_people_come_with_the_remedy(labeled):
    model, data = labeled
    new = TensorData.from_array(VALUES, modes=data.modes, labels=(PEOPLE, ["p", "q", "r", "t"]))
    with pytest.raises(ValueError, match="no label t .*drop these entries, or fit again with"):
        model.transform(new)


def test_read_only_cells_give_no_warning(plain):
    frozen = POSITIONS.copy(order="F")
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for cells in (frozen, pandas.DataFrame(POSITIONS, columns=["a", "b"])):
            np.testing.assert_array_equal(plain.predict(cells), plain.predict(POSITIONS))


def test_a_pyarrow_table_of_cells(labeled):
    pyarrow = pytest.importorskip("pyarrow")
    cells = pyarrow.Table.from_pandas(table())
    np.testing.assert_array_equal(labeled[0].predict(cells), labeled[0].predict(table()))


@pytest.mark.parametrize("X", [np, object(), {1, 2}, "abc", [[1, 2], [3]], pandas.NA, range(3)])
def test_what_is_no_tensor_gets_an_error_that_names_it(X):
    model = FairCP(1, method="none", max_iter=1, tol=0.0)
    with pytest.raises((TypeError, ValueError), match=r"^X must be (a matrix|an array)"):
        model.fit(X)


@pytest.mark.parametrize("scale", [0.0, 1e300])
def test_data_without_a_usable_norm_has_no_score(scale):
    model = FairCP(1, method="none", max_iter=1, tol=0.0).fit(np.eye(3))
    with pytest.raises(ValueError, match=r"X (is zero everywhere|has entries too large)"):
        model.score(scale * np.eye(3))
