"""New people of a model with an encoder: labels, columns and features that do not fit."""

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, TensorData
from parafair.encoders import Learned
from parafair.model.record import FORMAT
from parafair.stored import read_record, write_record

# Too few steps to learn anything.
pytestmark = pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
QUICK = Learned(hidden=0, steps=2)
COLUMNS = [f"c{i}" for i in range(6)]
RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.standard_normal((80, 4)) @ RANDOM.standard_normal((4, 6))
GROUPS = np.where(RANDOM.random(80) < 0.5, "a", "b")


def labeled(matrix, columns):
    people = [f"p{i}" for i in range(len(matrix))]
    return TensorData.from_array(matrix, modes=("person", "column"), labels=(people, columns))


@pytest.fixture(scope="module")
def model():
    return FairCP(2, encoder=QUICK, tol=1e-3).fit(
        labeled(MATRIX, COLUMNS), sensitive_features=GROUPS
    )


@pytest.fixture(scope="module")
def of_frame():
    return FairCP(2, encoder=QUICK, tol=1e-3).fit(
        pd.DataFrame(MATRIX, columns=COLUMNS), sensitive_features=GROUPS
    )


def test_labels_in_another_order_are_aligned_by_name(model):
    expected = model.transform(labeled(MATRIX[:5], COLUMNS))
    found = model.transform(labeled(MATRIX[:5, ::-1], COLUMNS[::-1]))
    np.testing.assert_array_equal(found, expected)


def test_a_column_that_is_left_out_is_one_of_missing_entries(model):
    holes = MATRIX[:5].copy()
    holes[:, 5] = np.nan
    expected = model.transform(labeled(holes, COLUMNS))
    found = model.transform(labeled(MATRIX[:5, :5], COLUMNS[:5]))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_new_column_is_refused_by_name(model):
    more = labeled(np.column_stack([MATRIX[:5], MATRIX[:5, 0]]), [*COLUMNS, "other"])
    with pytest.raises(ValueError, match="mode 'column' has no label other"):
        model.transform(more)


@pytest.mark.parametrize("columns", [5, 7])
def test_another_number_of_columns_without_labels_is_refused(model, columns):
    matrix = np.ones((5, columns))
    with pytest.raises(ValueError, match=rf"X must have shape \(people, 6\), got \(5, {columns}\)"):
        model.transform(matrix)


def test_columns_of_a_frame_must_be_those_of_the_training(of_frame):
    frame = pd.DataFrame(MATRIX[:5], columns=COLUMNS)
    with pytest.raises(ValueError, match="its columns are in another order; pass X"):
        of_frame.transform(frame[COLUMNS[::-1]])
    with pytest.raises(ValueError, match=r"yet now missing.*NaN if not known \(c5\)"):
        of_frame.transform(frame[COLUMNS[:5]])


def test_features_for_a_model_without_any_are_refused():
    model = FairCP(2, method="none", tol=1e-3).fit(MATRIX)
    with pytest.raises(ValueError, match="sensitive_features were given, but the model was fitted"):
        model.transform(MATRIX[:5], sensitive_features=GROUPS[:5])


def test_a_model_that_was_saved_before_there_were_encoders_has_none(tmp_path):
    model = FairCP(2, method="hsic", strength=1.0, tol=1e-3).fit(MATRIX, sensitive_features=GROUPS)
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    record = read_record(file, file_format=FORMAT)
    del record["params"]["encoder"]
    write_record(file, {"format": FORMAT, **record})
    loaded = FairCP.load(tmp_path / "model")
    assert loaded.encoder_ is None
    with pytest.warns(UserWarning, match="may reveal the sensitive features; pass sensitive_feat"):
        rows = loaded.transform(MATRIX[:5])
    with pytest.warns(UserWarning, match="may reveal the sensitive features"):
        np.testing.assert_array_equal(rows, model.transform(MATRIX[:5]))
