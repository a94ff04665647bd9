from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP


@pytest.fixture(scope="module")
def table():
    entries = np.random.default_rng(0).standard_normal((60, 5))
    return pd.DataFrame(entries, columns=list("abcde"))


@pytest.fixture(scope="module")
def model(table):
    return FairCP(2, method="fair-pca").fit(table, sensitive_features=list("xy" * 30))


def test_columns_in_another_order_are_refused_with_the_right_remedy(model, table):
    other = table[list("edcba")]
    with pytest.raises(ValueError, match=r"in another order; pass X\[model.feature_names_in_\]$"):
        model.transform(other)
    np.testing.assert_array_equal(
        model.transform(other[model.feature_names_in_]), model.transform(table)
    )


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (lambda t: t.assign(f=1.0), r"leave out the columns that the model does not have \(f\)$"),
        (lambda t: t.drop(columns="b"), r"add those that it had in training, NaN .* \(b\)$"),
        (lambda t: t.rename(columns={"a": "z"}), r"does not have \(z\); add those .* \(a\)$"),
        (lambda t: t.to_numpy()[:, 1:], "pass the 5 columns of the training data, in the same"),
        (lambda t: t.assign(a="text"), r"convert it first, for example with numpy.asarray"),
    ],
)
def test_other_columns_are_refused_with_a_remedy(model, table, change, remedy):
    with pytest.raises(ValueError, match=remedy):
        model.transform(change(table))


@pytest.mark.parametrize(
    ("X", "remedy"),
    [
        ("scores.csv", r"read the file first: TensorData.from_table\(path"),
        (Path("scores.csv"), r"read the file first: TensorData.from_table\(path"),
        (
            pd.DataFrame({"user": ["a", "b"], "film": ["x", "y"], "stars": [1, 2]}),
            r"one row per entry is TensorData.from_table\(X, modes=",
        ),
        ([["a", "b"], ["c", "d"]], "convert it first, for example with numpy.asarray"),
    ],
)
def test_files_and_tables_of_entries_are_refused_with_how_to_read_them(X, remedy):
    with pytest.raises((TypeError, ValueError), match=f"one row per person, got .*{remedy}"):
        FairCP(2).fit(X, sensitive_features=["a", "b"])
