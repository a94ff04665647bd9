from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score

from parafair import FairCP, ParafairWarning, SensitiveFeatures, audit, certify, datasets
from parafair.penalties import SlicedTransport, Transport

pytestmark = pytest.mark.filterwarnings("ignore:with noise=0")
QUICK = SlicedTransport(rotations=40, knots=50)
TRAINED = 1200


def example(count=2000, seed=0):
    """A matrix of people whose groups differ in the mean and in the spread, and the groups."""
    random = np.random.default_rng(seed)
    groups = np.where(random.random(count) < 0.4, "b", "a")
    rows = random.standard_normal((count, 3)) * np.where(groups == "a", 1.0, 1.6)[:, None]
    rows[:, 0] += 1.2 * (groups == "b")
    columns = np.random.default_rng(9).standard_normal((3, 12))
    return rows @ columns + 0.3 * random.standard_normal((count, 12)), groups


@pytest.fixture(scope="module")
def people():
    return example()


@pytest.fixture(scope="module")
def model(people):
    tensor, groups = people
    return FairCP(3, method=QUICK, tol=1e-3).fit(
        tensor[:TRAINED], sensitive_features=groups[:TRAINED]
    )


def advantage(rows, groups, new, theirs):
    """What a quadratic discriminant learns from some people about others, above chance."""
    attacker = QuadraticDiscriminantAnalysis(priors=[0.5, 0.5]).fit(rows, groups)
    return balanced_accuracy_score(theirs, attacker.predict(new)) - 0.5


def test_training_and_new_people_are_hidden_alike(people, model):
    tensor, groups = people
    known, new = groups[:TRAINED], groups[TRAINED:]
    rows = model.transform(tensor[TRAINED:], sensitive_features=new)
    # The standard error is 0.018 for the new people.
    assert abs(advantage(model.embedding_, known, rows, new)) < 0.05
    assert abs(advantage(rows[::2], new[::2], rows[1::2], new[1::2])) < 0.07
    with pytest.warns(ParafairWarning, match="pass sensitive_features"):
        plain = model.transform(tensor[TRAINED:])
    assert advantage(plain[::2], new[::2], plain[1::2], new[1::2]) > 0.2


def test_the_people_of_the_training_come_out_where_they_are(people):
    tensor, groups = (part[:400] for part in people)
    model = FairCP(3, method=QUICK, noise=0, tol=1e-3).fit(tensor, sensitive_features=groups)
    rows = model.transform(tensor, sensitive_features=groups)
    np.testing.assert_allclose(rows, model.embedding_, rtol=1e-8, atol=1e-8)


def test_the_default_noise_is_that_of_the_method(model, people):
    assert model.record_.noise == 0.2
    added = model.embedding_ - model.fit_.noiseless.numpy()
    spread = model.fit_.noiseless.numpy().std(0)
    assert 0.1 < np.median(added.std(0) / spread) < 0.3


def test_new_people_of_a_tensor_with_missing_entries_follow_the_map():
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, 1500)
    rows = random.standard_normal((1500, 2)) + 1.5 * groups[:, None]
    others = [random.standard_normal((size, 2)) for size in (5, 4)]
    tensor = np.einsum("ir,jr,kr->ijk", rows, *others)
    tensor[random.random(tensor.shape) < 0.2] = np.nan
    model = FairCP(2, method=QUICK, ridge=0.1, noise=0, tol=1e-3)
    model.fit(tensor[:900], sensitive_features=groups[:900])
    moved = model.transform(tensor[900:], sensitive_features=groups[900:])
    with pytest.warns(ParafairWarning, match="pass sensitive_features"):
        plain = model.transform(tensor[900:])
    new = groups[900:]

    def apart(rows):
        return np.abs((rows[new == 1].mean(0) - rows[new == 0].mean(0)) / rows.std(0)).max()

    assert apart(plain) > 0.8
    assert apart(moved) < 0.25  # the standard error is 0.08


def test_another_combination_moves_like_the_group_with_most_in_common(people):
    tensor, groups = (part[:400] for part in people)
    other = np.random.default_rng(1).choice(["x", "y"], len(groups))
    kept = ~((groups == "b") & (other == "y"))
    features = pd.DataFrame({"group": groups, "other": other})
    model = FairCP(3, method=SlicedTransport(3, 20), noise=0, tol=1e-3)
    model.fit(tensor[kept], sensitive_features=features[kept].reset_index(drop=True))
    unseen = pd.DataFrame({"group": ["b"], "other": ["y"]})
    found = model.transform(tensor[:1], sensitive_features=unseen)
    # (a, y) and (b, x) have one category in common; (b, x) is the smaller group.
    like = pd.DataFrame({"group": ["a"], "other": ["y"]})
    np.testing.assert_array_equal(found, model.transform(tensor[:1], sensitive_features=like))


def test_a_saved_model_has_the_map_and_a_warning(people, model, tmp_path):
    tensor, groups = people
    with pytest.warns(ParafairWarning, match="quantiles of the rows without noise"):
        model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    new = {"sensitive_features": groups[TRAINED:]}
    expected = model.transform(tensor[TRAINED:], **new)
    np.testing.assert_array_equal(loaded.transform(tensor[TRAINED:], **new), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda moves: None, r"it has no map, but the method is SlicedTransport\("),
        (lambda moves: _of_groups(moves, 1), "its map has 1 groups, but the people 2"),
        (lambda moves: _of_groups(moves, 3), "its map has 3 groups, but the people 2"),
        (lambda moves: replace(moves, basis=0 * moves.basis), "its moves_basis has no inverse"),
    ],
)
def test_a_saved_model_without_the_map_of_its_people_is_refused(model, tmp_path, change, message):
    forged = copy(model)
    forged.fit_ = replace(model.fit_, moves=change(model.fit_.moves), noise={}, noiseless=None)
    forged.save(tmp_path / "model")
    with pytest.raises(ValueError, match=rf"factors.safetensors is damaged .*{message}"):
        FairCP.load(tmp_path / "model")


def _of_groups(moves, count):
    """A map that is right for itself, with another number of groups."""
    quantiles = moves.quantiles[:, [0] * count]
    return replace(
        moves, quantiles=quantiles, shares=torch.full((count,), 1 / count, dtype=torch.float64)
    )


def test_a_model_of_another_method_with_a_map_is_refused(model, people, tmp_path):
    tensor, groups = (part[:50] for part in people)
    other = FairCP(3, method="none", max_iter=2, tol=0).fit(tensor, sensitive_features=groups)
    other.fit_ = replace(other.fit_, moves=model.fit_.moves)
    other.save(tmp_path / "model")
    with pytest.raises(ValueError, match="it has a map, but the method is 'none'"):
        FairCP.load(tmp_path / "model")


@pytest.mark.parametrize("method", [SlicedTransport, Transport])
def test_seeds_have_a_limit(method):
    with pytest.raises(
        ValueError, match="seed must be a whole number from 0 to 9223372036854775807"
    ):
        method(seed=2**63)


def test_few_people_have_few_rotations(people):
    tensor, groups = (part[:400] for part in people)
    usual, many = (
        FairCP(3, method=SlicedTransport(rotations), tol=1e-3).fit(
            tensor, sensitive_features=groups
        )
        for rotations in (None, 300)
    )
    assert len(usual.fit_.moves.turns) == 10
    assert len(many.fit_.moves.turns) == 300
    assert usual.fit_.residual < many.fit_.residual


def test_people_without_features_or_entries_are_no_group_of_the_map(people):
    tensor, groups = (part[:400].copy() for part in people)
    features = pd.DataFrame({"group": groups.astype(object), "other": ["x", "y"] * 200})
    features.loc[features["group"] == "b", "other"] = "x"  # one combination does not occur
    features.loc[:3, "group"] = None
    tensor[5] = np.nan
    known = SensitiveFeatures.of(features, missing="exclude")
    model = FairCP(3, method=SlicedTransport(3, 20), noise=0, tol=1e-3)
    with pytest.warns(ParafairWarning, match="no observed entries"):
        model.fit(tensor, sensitive_features=known)
    assert model.fit_.moves.shares.shape == (3,)
    with (
        pytest.warns(ParafairWarning, match="no observed entries"),
        pytest.warns(ParafairWarning, match="4 of 400 new people lack sensitive features"),
    ):
        rows = model.transform(tensor, sensitive_features=known)
    np.testing.assert_allclose(rows[6:], model.embedding_[6:], rtol=1e-8, atol=1e-8)
    plain = tensor[:4]
    with pytest.warns(ParafairWarning, match="pass sensitive_features"):
        np.testing.assert_allclose(rows[:4], model.transform(plain), rtol=1e-8, atol=1e-8)


def test_bad_settings_and_features_are_refused(people):
    tensor = people[0]
    with pytest.raises(ValueError, match="knots must be a whole number from 2 to 10000"):
        SlicedTransport(knots=1)
    with pytest.raises(ValueError, match="method='sliced-transport' needs groups"):
        FairCP(2, method="sliced-transport").fit(tensor, sensitive_features=tensor[:, 0])
    with pytest.raises(ValueError, match="Use such a method, or leave strength out"):
        FairCP(2, method="sliced-transport", strength="auto").fit(
            tensor, sensitive_features=people[1]
        )
    with pytest.raises(ValueError, match="method='sliced-transport' takes at most 100 groups"):
        FairCP(2, method="sliced-transport").fit(
            tensor, sensitive_features=[f"g{i % 150}" for i in range(len(tensor))]
        )


def test_a_seed_determines_the_map(people):
    tensor, groups = (part[:200] for part in people)

    def rows(**settings):
        model = FairCP(3, method=SlicedTransport(5, 20), noise=0, tol=1e-2, **settings)
        return model.fit(tensor, sensitive_features=groups).embedding_

    np.testing.assert_array_equal(rows(random_state=3), rows(random_state=3))
    assert np.abs(rows(random_state=3) - rows(random_state=4)).max() > 1e-3


@pytest.mark.slow
def test_many_rotations_of_few_people_pair_them_across_groups_as_the_page_says():
    for seed in (0, 1):
        data = datasets.synthetic(seed, shape=(200, 8, 6), rank=3)
        groups = data.sensitive_features
        usual, many = (
            FairCP(3, method=SlicedTransport(rotations)).fit(data.tensor, sensitive_features=groups)
            for rotations in (None, 300)
        )
        found = [
            audit(model.embedding_, sensitive_features=groups, attackers=["kernel-vote"])
            for model in (usual, many)
        ]
        assert not found[0].below_chance
        assert found[1].below_chance
        assert certify(many).leakage("release") < 0.01 < certify(usual).leakage("release")
