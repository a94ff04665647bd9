"""New people as they come: other labels, another order, no entries, features that nobody asked."""

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, TensorData
from parafair.encoders import Learned

QUICK = Learned(hidden=4, steps=10, learning_rate=0.03)
MODES = ("person", "module", "test")
PEOPLE, MODULES, TESTS = 60, 4, 3
KINDS = {
    "learned": {"encoder": QUICK, "noise": 0.3},
    "leace": {"method": "leace"},
    "perez-suay": {"method": "perez-suay"},
}


def table_of(entries, first=0):
    """The entries as a table, one line for each."""
    names = [
        [f"p{first + person:03}" for person in range(len(entries))],
        [f"m{module}" for module in range(MODULES)],
        [f"t{test}" for test in range(TESTS)],
    ]
    index = pd.MultiIndex.from_product(names, names=MODES)
    return pd.Series(entries.reshape(-1), index, name="mark").dropna().reset_index()


def read(table):
    return TensorData.from_table(table, modes=MODES, value="mark")


@pytest.fixture(scope="module")
def people():
    """Entries of trained and new people, and the groups of the trained ones."""
    random = np.random.default_rng(0)
    groups = random.choice(["a", "b"], PEOPLE)
    entries = random.standard_normal((PEOPLE + 20, MODULES, TESTS))
    entries[:PEOPLE] += (groups == "b")[:, None, None]
    return entries[:PEOPLE], entries[PEOPLE:], groups


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def model(request, people):
    trained, _, groups = people
    model = FairCP(2, tol=1e-2, **request.param)
    return model.fit(read(table_of(trained)), sensitive_features=groups)


def test_labels_in_another_order_are_matched(model, people):
    table = table_of(people[1], first=100)
    expected = model.transform(read(table))
    shuffled = read(table.sample(frac=1, random_state=0))
    # A table has its labels in order; an array has those that it was given.
    data = read(table).take(1, np.array([2, 0, 3, 1]))
    assert [*data.labels[1]] == ["m2", "m0", "m3", "m1"]
    for other in (shuffled, data):
        found = model.transform(other)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6, atol=1e-8)


def test_new_columns_are_refused_by_name(model, people):
    table = table_of(people[1], first=100).replace({"m3": "m9"})
    with pytest.raises(ValueError, match="mode 'module' has no label m9"):
        model.transform(read(table))


def test_missing_columns_are_missing_entries(model, people):
    table = table_of(people[1], first=100)
    fewer = read(table[table["module"] != "m3"])
    holes = people[1].copy()
    holes[:, 3] = np.nan
    expected = model.transform(holes)
    np.testing.assert_allclose(np.asarray(model.transform(fewer)), expected, rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match=r"X must have shape \(people, 4, 3\)"):
        model.transform(people[1][:, :3])


def test_a_person_without_any_entry_gets_the_mean_row_and_a_warning(model, people):
    entries = people[1].copy()
    entries[4] = np.nan
    with pytest.warns(UserWarning, match="no observed entries; their rows are the mean"):
        rows = model.transform(entries)
    # The mean row, before noise.
    spread = model.embedding_.std(0).max()
    np.testing.assert_allclose(rows[4], model.embedding_.mean(0), atol=0.2 * spread)
    others = np.arange(20) != 4
    np.testing.assert_allclose(rows[others], model.transform(people[1])[others], atol=1e-6)


def test_features_that_the_training_did_not_have_are_refused(model, people):
    other = pd.DataFrame({"age": np.arange(20), "sex": ["a", "b"] * 10})
    with pytest.raises(ValueError, match="sensitive_features has no column 'sensitive'"):
        model.transform(people[1], sensitive_features=other)
    with pytest.raises(ValueError, match="'sensitive' must be one of a, b; got 'c'"):
        model.transform(people[1], sensitive_features=["c"] * 20)


def test_features_for_a_model_that_has_none_are_refused(people):
    plain = FairCP(2, method="none", tol=1e-2).fit(people[0])
    with pytest.raises(ValueError, match="the model was fitted without; omit them"):
        plain.transform(people[1], sensitive_features=["a", "b"] * 10)


def test_rows_depend_on_the_entries_alone(model, people, recwarn):
    expected = model.transform(people[1])
    order = np.random.default_rng(1).permutation(20)
    np.testing.assert_allclose(model.transform(people[1][order]), expected[order], atol=1e-6)
    np.testing.assert_allclose(model.transform(people[1][3:4]), expected[3:4], atol=1e-6)
    assert not recwarn.list


def test_people_with_the_same_entries_differ_by_noise_alone(model, people):
    """Whoever else is in the call: the first row is that of the person alone."""
    alone = model.transform(people[1][:1])
    same = model.transform(np.concatenate([people[1][:1]] * 400 + [people[1][1:]]))[:400]
    np.testing.assert_allclose(same[:1], alone, atol=1e-6)
    if not model.fit_.noise:
        np.testing.assert_allclose(same, np.repeat(alone, 400, axis=0), atol=1e-6)
        return
    matrix = model.fit_.noise[0].numpy()
    exact = model.encoder_.encode(TensorData.from_array(people[1][:1])).numpy()
    noise = (same - exact) @ np.linalg.inv(matrix)
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.2)  # the standard error is 0.05
    np.testing.assert_allclose(noise.std(0), 1, atol=0.15)


def test_a_saved_model_is_the_same_map(model, people, tmp_path):
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    np.testing.assert_allclose(
        loaded.transform(people[1]), model.transform(people[1]), rtol=1e-8, atol=1e-10
    )
