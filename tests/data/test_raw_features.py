"""Tests of what is taken for sensitive features, before they are encoded."""

import numpy as np
import pandas
import pytest

from parafair import (
    FairCP,
    TensorData,
    audit,
    certify_rows,
    compare_scores,
    evaluate_rankings,
    frontier,
    parity_limit,
    tune,
)
from parafair.data.sensitive import SensitiveFeatures

MASKED = [
    np.ma.masked_array([1, 2, 1, 2, 9, 1], [0, 0, 0, 0, 1, 0]),
    np.ma.masked_array([1.5, 2.5, 3.5, 4.5, 9.0, 1.0], [0, 0, 0, 0, 1, 0]),
    np.ma.masked_array(["a", "b", "a", "b", "x", "a"], [0, 0, 0, 0, 1, 0]),
]


@pytest.mark.parametrize("features", MASKED)
def test_masked_values_are_missing(features):
    with pytest.raises(ValueError, match="has 1 missing values .rows 4"):
        SensitiveFeatures.of(features)
    some = SensitiveFeatures.of(features, missing="exclude")
    assert some.has_features.tolist() == [True] * 4 + [False, True]
    found, present = some.with_features().to_list(), features[~features.mask]
    assert found == SensitiveFeatures.of(present.data).to_list()
    other = SensitiveFeatures.of(features[:4]).read(features, missing="exclude")
    assert other.has_features.tolist() == some.has_features.tolist()


def test_a_mask_of_several_columns_is_kept():
    table = np.ma.masked_array([[1, 1], [2, 2], [1, 2], [2, 1]], [[0, 0], [0, 1], [0, 0], [0, 0]])
    some = SensitiveFeatures.of(table, missing="exclude")
    assert some.has_features.tolist() == [True, False, True, True]


def test_categories_of_pandas_are_text():
    values = pandas.Categorical([1, 2, 1, None])
    found = SensitiveFeatures.of(values, missing="exclude")
    assert found.columns[0].categories == ("1", "2")
    assert found.has_features.tolist() == [True, True, True, False]


def test_a_pyarrow_table_has_named_columns():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"sex": ["f", "m", "f", None], "age": [1.5, 2.5, 3.5, 4.5]})
    found = SensitiveFeatures.of(table, missing="exclude")
    assert [column.name for column in found.columns] == ["sex", "age"]
    assert found.has_features.tolist() == [True, True, True, False]
    again = found.read(table.slice(0, 3))
    assert again.columns[0].values.tolist() == [0, 1, 0]
    (only,) = SensitiveFeatures.of(table["age"]).columns
    assert only.kind == "numeric"


def test_ragged_lists_are_refused():
    with pytest.raises(ValueError, match="must be an array with rows of equal length"):
        SensitiveFeatures.of([["f", 1], ["m"], ["f", 2]])


def test_an_unknown_key_is_refused():
    table = pandas.DataFrame({"who": ["a", "b"], "sex": ["f", "m"]})
    with pytest.raises(ValueError, match="key must be one of who, sex; got 'nope'"):
        SensitiveFeatures.from_table(table, key="nope")


def test_an_index_in_another_order_is_refused_everywhere():
    random = np.random.default_rng(0)
    names = [f"p{i}" for i in range(20)]
    rows = pandas.DataFrame(random.standard_normal((20, 5)), index=names)
    groups = pandas.Series(["a", "b"] * 10, index=names)
    turned = groups[::-1]
    model = FairCP(2, method="hsic", max_iter=2, tol=0)
    model.fit(rows, sensitive_features=groups)
    message = "row 0 is 'p19' there and 'p0' in the data; reorder it with"
    data = TensorData.from_array(rows)
    settings = {"attackers": ["linear"], "permutations": 1}
    for call in (
        lambda features: FairCP(2, method="hsic").fit(rows, sensitive_features=features),
        lambda features: FairCP(2, method="hsic").fit(data, sensitive_features=features),
        lambda features: model.transform(rows, sensitive_features=features),
        lambda features: audit(rows, sensitive_features=features, **settings),
        lambda features: frontier(FairCP(2), rows, sensitive_features=features),
    ):
        with pytest.raises(ValueError, match=message):
            call(turned)
    # Positions are meant where either side is only numbered.
    model.transform(rows, sensitive_features=turned.reset_index(drop=True))
    model.transform(rows.to_numpy(), sensitive_features=turned)


def test_a_shuffled_numbered_index_is_refused_everywhere():
    random = np.random.default_rng(0)
    rows = pandas.DataFrame(random.standard_normal((20, 5)))
    groups = pandas.Series(["a", "b"] * 10)
    shuffled = groups.sample(frac=1, random_state=0)
    model = FairCP(2, method="hsic", max_iter=2, tol=0)
    model.fit(rows, sensitive_features=groups)
    held_out = TensorData.from_array(np.where(rows > 1, rows, np.nan))
    settings = {"attackers": ["linear"], "permutations": 1}
    first = shuffled.index[0]
    for call in (
        lambda x, s: FairCP(2, method="hsic").fit(x, sensitive_features=s),
        lambda x, s: model.transform(x, sensitive_features=s),
        lambda x, s: audit(x, sensitive_features=s, **settings),
        lambda x, s: compare_scores(x, sensitive_features=s),
        lambda x, s: evaluate_rankings(x, held_out, sensitive_features=s, k=1),
        lambda x, s: frontier(FairCP(2), x, sensitive_features=s),
        lambda x, s: tune(FairCP(2, method="hsic"), x, grid={"rank": [1]}, sensitive_features=s),
        lambda x, s: parity_limit(x, sensitive_features=s),
        lambda x, s: certify_rows(x, sensitive_features=s, noise=0.1),
    ):
        with pytest.raises(ValueError, match=rf"row 0 is '{first}' there and '0' in the data"):
            call(rows, shuffled)
        with pytest.raises(ValueError, match=rf"row 0 is '0' there and '{first}' in the data"):
            call(rows.loc[shuffled.index], groups)


def test_positions_are_meant_where_a_numbered_index_is_not_that_of_the_other():
    rows = pandas.DataFrame(np.random.default_rng(0).standard_normal((20, 5)))
    groups = pandas.Series(["a", "b"] * 10)
    shuffled = groups.sample(frac=1, random_state=0)
    for features in (
        shuffled.to_numpy(),
        shuffled.reset_index(drop=True),
        groups.set_axis(range(100, 120)),  # a part of a larger table
        groups.set_axis([f"p{i}" for i in range(20)]),
        groups.set_axis(np.arange(20.0)),
    ):
        FairCP(2, method="hsic", max_iter=2, tol=0).fit(rows, sensitive_features=features)
    FairCP(2, method="hsic", max_iter=2, tol=0).fit(rows.to_numpy(), sensitive_features=shuffled)


def test_a_shuffled_target_is_refused():
    pytest.importorskip("fairlearn")
    rows = pandas.DataFrame(np.random.default_rng(0).standard_normal((20, 5)))
    target = pandas.Series([0, 1] * 10).sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match="the index of target does not match the people"):
        audit(rows, sensitive_features=["a", "b"] * 10, target=target, attackers=["linear"])
