import numpy as np
import pytest
import torch

from parafair import FairCP, ParafairWarning, SensitiveFeatures, TensorData, audit
from parafair.criterion import Criterion, Standardized
from parafair.newcomers import NewcomerTerm, fair_rows, fit_rows
from parafair.testing import example_rows

TRAINED = 120


@pytest.fixture(scope="module")
def marks():
    """200 people in two groups, whose first coordinate differs in mean and second in spread."""
    random = np.random.default_rng(1)
    groups = random.integers(0, 2, 200)
    people = random.standard_normal((200, 3))
    people[:, 0] += 1.5 * groups
    people[:, 1] *= np.where(groups == 1, 1.8, 0.7)
    others = [random.uniform(size=(size, 3)) for size in (12, 8)]
    tensor = np.einsum("ir,jr,kr->ijk", people, *others)
    return tensor + 0.1 * random.standard_normal(tensor.shape), groups


@pytest.fixture(scope="module")
def model(marks):
    tensor, groups = marks
    model = FairCP(3, strength=3.0, random_state=0)
    return model.fit(tensor[:TRAINED], sensitive_features=groups[:TRAINED])


def test_gradient_matches_finite_differences(marks):
    features = SensitiveFeatures.of(marks[1][:30])
    trained, new = example_rows(20, 3, seed=0), example_rows(10, 3, seed=1)[None]
    basis = Standardized.of(trained).basis
    term = NewcomerTerm(Criterion(features, trained.flatten()[:0]), trained, basis, 2.0)
    _, gradient = term.value_and_gradient(new)
    for place in [(0, 0, 0), (0, 4, 2), (0, 9, 1)]:
        step = torch.zeros_like(new)
        step[place] = 1e-6
        slope = (term.value(new + step) - term.value(new - step)) / 2e-6
        assert float(gradient[place]) == pytest.approx(float(slope), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("rowwise", [False, True])
def test_without_strength_new_people_are_fitted(marks, rowwise):
    features = SensitiveFeatures.of(marks[1][:30])
    trained, target = example_rows(20, 3, seed=0), example_rows(10, 3, seed=6)
    others = example_rows(15, 3, seed=7)
    gram = others.mT @ others
    gram = gram.expand(10, 3, 3) if rowwise else gram
    found = fair_rows(
        target, gram, norm_squared=100.0, entries=40, trained=trained, scale=0.0,
        criterion=Criterion(features, trained.flatten()[:0]),
    )  # fmt: skip
    torch.testing.assert_close(found, fit_rows(target, gram))


def test_new_people_reveal_less_with_the_criterion(marks, model):
    tensor, groups = marks
    new, theirs = tensor[TRAINED:], groups[TRAINED:]
    with pytest.warns(ParafairWarning, match="pass sensitive_features"):
        plain = model.transform(new)
    fair = model.transform(new, sensitive_features=theirs)
    settings = {"attackers": ("linear", "svm"), "repeats": 2, "permutations": 1}
    before, after = (audit(rows, theirs, **settings).leakage for rows in (plain, fair))
    assert before > 0.15
    assert after < before / 2  # 80 people: an audit cannot tell 0.1 from chance


def test_the_trained_people_come_back_nearly_where_they_were(marks, model):
    tensor, groups = marks
    rows = model.transform(tensor[:TRAINED], sensitive_features=groups[:TRAINED])
    distance = np.linalg.norm(rows - model.embedding_, axis=1)
    spread = np.linalg.norm(model.embedding_ - model.embedding_.mean(0), axis=1)
    assert np.median(distance) < 0.2 * np.median(spread)


def test_people_without_entries_or_features_are_embedded_too(marks):
    tensor, groups = marks
    data = TensorData.from_array(tensor).to_sparse()
    model = FairCP(3, strength=1.0, random_state=0, ridge=0.0)
    model.fit(data.take(0, range(TRAINED)), sensitive_features=groups[:TRAINED])
    holed = tensor[TRAINED:].copy()
    holed[3] = np.nan
    labels = [None if place == 5 else group for place, group in enumerate(groups[TRAINED:])]
    features = SensitiveFeatures.of(labels, missing="exclude")
    with pytest.warns(ParafairWarning, match="nothing was observed of 1 of 80 new people"):
        rows = model.transform(TensorData.from_array(holed), sensitive_features=features)
    np.testing.assert_allclose(rows[3], model.embedding_.mean(0))
    with pytest.warns(ParafairWarning):
        plain = model.transform(TensorData.from_array(holed))
    np.testing.assert_allclose(rows[5], plain[5])


def test_features_are_matched_by_name(marks):
    pandas = pytest.importorskip("pandas")
    people = pandas.DataFrame({"one": ["a", "b"] * 5, "two": ["x"] * 5 + ["y"] * 5})
    trained = SensitiveFeatures.of(people)
    again = trained.read(people[["two", "one"]])
    assert [column.values.tolist() for column in again.columns] == [
        column.values.tolist() for column in trained.columns
    ]
    with pytest.raises(ValueError, match="one"):
        trained.read(people.rename(columns={"one": "other"}))
    with pytest.raises(ValueError, match="'c'"):
        trained.read(people.replace({"one": {"b": "c"}}))


def test_modes_in_another_order_are_refused(marks):
    tensor, groups = marks
    data = TensorData.from_array(tensor[:40, :12, :8], modes=("who", "what", "when"))
    model = FairCP(2, method="hsic", random_state=0).fit(data, sensitive_features=groups[:40])
    turned = TensorData.from_array(tensor[:12, :, :], modes=("what", "who", "when"))
    with pytest.raises(ValueError, match="in the same order"):
        model.transform(turned)


def test_a_saved_model_predicts_and_embeds_the_same(marks, tmp_path):
    tensor, groups = marks
    holed = tensor.copy()
    holed[np.random.default_rng(0).uniform(size=tensor.shape) < 0.3] = np.nan
    data = TensorData.from_array(holed, modes=("who", "what", "when"))
    model = FairCP(3, mode="who", strength=1.0, center=True, ridge=1.0, random_state=0)
    model.fit(data.take("who", range(TRAINED)), sensitive_features=groups[:TRAINED])
    model.save(tmp_path / "model")
    again = FairCP.load(tmp_path / "model")
    cells = np.argwhere(np.isnan(holed[:TRAINED]))
    np.testing.assert_allclose(again.predict(cells), model.predict(cells))
    error = model.predict(cells) - tensor[tuple(cells.T)]
    assert np.sqrt(np.mean(error**2)) < 0.5 * tensor.std()
    new, theirs = data.take("who", range(TRAINED, 200)), groups[TRAINED:]
    np.testing.assert_allclose(
        again.transform(new, theirs), model.transform(new, theirs), rtol=1e-6, atol=1e-8
    )
