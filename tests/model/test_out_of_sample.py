from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsClassifier

from parafair import FairCP, ParafairWarning, SensitiveFeatures, TensorData, audit, frontier
from parafair.audits.trials import auc
from parafair.dependence.criterion import Criterion
from parafair.dependence.neighbors import NEAR, NEAR_SHARE
from parafair.dependence.whitening import Standardized
from parafair.model.moving import COPY
from parafair.penalties import Invariant
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


def test_new_people_reveal_less_with_their_features(marks, model):
    tensor, groups = marks
    new, theirs = tensor[TRAINED:], groups[TRAINED:]
    with pytest.warns(ParafairWarning, match="pass sensitive_features"):
        plain = model.transform(new)
    fair = model.transform(new, sensitive_features=theirs)
    settings = {"attackers": ("linear", "svm"), "repeats": 2, "permutations": 1}
    before, after = (
        audit(rows, sensitive_features=theirs, **settings).leakage for rows in (plain, fair)
    )
    assert before > 0.15
    assert after < before / 2  # 80 people: an audit cannot tell 0.1 from chance


@pytest.mark.filterwarnings("ignore:with noise=0")
@pytest.mark.parametrize("method", ["invariant", "fatr", "khsic", "moment-matching"])
def test_the_people_of_the_training_come_out_where_they_are(marks, method):
    tensor, groups = marks[0][:TRAINED], marks[1][:TRAINED]
    model = FairCP(3, method=method, noise=0, random_state=0, max_iter=30, tol=0)
    model.fit(tensor, sensitive_features=groups)
    rows = model.transform(tensor, sensitive_features=groups)
    np.testing.assert_allclose(rows, model.embedding_, rtol=1e-6, atol=1e-6)
    with pytest.warns(ParafairWarning, match="pass sensitive_features"):
        plain = model.transform(tensor)
    assert np.linalg.norm(plain - rows) > 1e-3 * np.linalg.norm(rows)


@pytest.mark.filterwarnings("ignore:with noise=0")
@pytest.mark.parametrize(("rank", "dtype"), [(3, "float32"), (18, "float64")])
@pytest.mark.slow
def test_so_they_do_in_single_precision_and_in_many_dimensions(rank, dtype):
    random = np.random.default_rng(0)
    tensor, groups = random.standard_normal((150, 9, 8)), random.integers(0, 2, 150)
    model = FairCP(rank, noise=0, random_state=0, max_iter=20, tol=0, dtype=dtype)
    model.fit(tensor, sensitive_features=groups)
    rows = model.transform(tensor, sensitive_features=groups)
    assert np.linalg.norm(rows - model.embedding_) < 1e-3 * np.linalg.norm(model.embedding_)


@pytest.mark.filterwarnings("ignore:with noise=0")
def test_models_made_in_other_ways_shift_new_people_too(marks, tmp_path):
    tensor, groups = marks[0][:TRAINED], marks[1][:TRAINED]
    found = frontier(
        FairCP(3, noise=0),
        tensor,
        sensitive_features=groups,
        strengths=[1.0, 5.0],
        audits=None,
        limit=False,
        out=tmp_path / "all",
    )
    for point, model in ((point, found.model(point)) for point in found.points):
        rows = model.transform(tensor, sensitive_features=groups)
        embedding = point.fit.cp.factors[0].numpy()
        np.testing.assert_allclose(rows, embedding, rtol=1e-6, atol=1e-6)


def test_it_does_not_matter_who_else_is_new(marks, model):
    tensor, groups = marks
    together = model.transform(tensor[TRAINED:], sensitive_features=groups[TRAINED:])
    alone = [
        model.transform(tensor[[person]], sensitive_features=groups[[person]])[0]
        for person in range(TRAINED, TRAINED + 10)
    ]
    np.testing.assert_allclose(together[:10], alone, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_many_new_people_can_be_refined_together():
    random = np.random.default_rng(2)
    groups = random.integers(0, 2, 500)
    people = random.standard_normal((500, 3)) + 1.5 * groups[:, None] * [1, 0, 0]
    people[:, 1] *= np.where(groups == 1, 1.8, 0.7)
    others = [random.uniform(size=(size, 3)) for size in (12, 8)]
    tensor = np.einsum("ir,jr,kr->ijk", people, *others)
    model = FairCP(3, random_state=0, tol=1e-3, n_init=1)
    model.fit(tensor[:200], sensitive_features=groups[:200])

    def deviation(refine):
        """The criterion's statistics in standard deviations: about 1 without dependence."""
        rows = model.transform(tensor[200:], sensitive_features=groups[200:], refine=refine)
        criterion = Criterion(SensitiveFeatures.of(groups[200:]), torch.zeros(0).double())
        return float(criterion.deviations(torch.from_numpy(rows)).square().mean().sqrt())

    # Shifts alone leave some dependence, refinement none.
    assert deviation(refine=False) > 2.5
    assert deviation(refine=True) < 0.6
    # People without features have no part in it.
    some, rest = np.arange(200, 260), np.arange(260, 320)
    alone = model.transform(tensor[some], sensitive_features=groups[some], refine=True)
    labels = [*groups[some].tolist(), *[None] * len(rest)]
    features = SensitiveFeatures.of(labels, missing="exclude")
    with pytest.warns(ParafairWarning, match="60 of 120 new people lack sensitive features"):
        both = model.transform(
            np.concatenate([tensor[some], 10 * tensor[rest]]),
            sensitive_features=features,
            refine=True,
        )
    np.testing.assert_allclose(both[:60], alone, rtol=1e-6, atol=1e-8)


def test_people_without_entries_or_features_are_embedded_too(marks):
    tensor, groups = marks
    data = TensorData.from_array(tensor).to_sparse()
    model = FairCP(3, strength=1.0, random_state=0, ridge=0.0)
    model.fit(data.take(0, range(TRAINED)), sensitive_features=groups[:TRAINED])
    holed = tensor[TRAINED:].copy()
    holed[3] = np.nan
    labels = [None if place == 5 else group for place, group in enumerate(groups[TRAINED:])]
    features = SensitiveFeatures.of(labels, missing="exclude")
    with (
        pytest.warns(ParafairWarning, match=r"1 of 80 new people lack sensitive features \(5\)"),
        pytest.warns(ParafairWarning, match="1 of 80 new people have no observed entries"),
    ):
        rows = model.transform(TensorData.from_array(holed), sensitive_features=features)
    np.testing.assert_allclose(rows[3], model.embedding_.mean(0))
    with pytest.warns(ParafairWarning, match="without regard to fairness|no observed entries"):
        plain = model.transform(TensorData.from_array(holed))
    np.testing.assert_allclose(rows[5], plain[5])


def test_features_that_the_training_did_not_have_are_refused(marks):
    tensor, groups = marks
    model = FairCP(2, method="none", random_state=0).fit(tensor[:40])
    with pytest.raises(
        ValueError, match="sensitive_features were given, but the model was fitted without"
    ):
        model.transform(tensor[40:], sensitive_features=groups[40:])


def test_features_are_matched_by_name(marks):
    pandas = pytest.importorskip("pandas")
    people = pandas.DataFrame({"one": ["a", "b"] * 5, "two": ["x"] * 5 + ["y"] * 5})
    trained = SensitiveFeatures.of(people)
    again = trained.read(people[["two", "one"]])
    assert [column.values.tolist() for column in again.columns] == [
        column.values.tolist() for column in trained.columns
    ]
    with pytest.raises(
        ValueError, match="sensitive_features has no column 'one'; it has other, two"
    ):
        trained.read(people.rename(columns={"one": "other"}))
    with pytest.raises(ValueError, match="sensitive feature 'one' must be one of a, b; got 'c'"):
        trained.read(people.replace({"one": {"b": "c"}}))


def test_modes_in_another_order_are_refused(marks):
    tensor, groups = marks
    data = TensorData.from_array(tensor[:40, :12, :8], modes=("who", "what", "when"))
    model = FairCP(2, method="hsic", random_state=0).fit(data, sensitive_features=groups[:40])
    turned = TensorData.from_array(tensor[:12, :, :], modes=("what", "who", "when"))
    with pytest.raises(
        ValueError, match="X has the modes what, who, when but the model was trained with"
    ):
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
        again.transform(new, sensitive_features=theirs),
        model.transform(new, sensitive_features=theirs),
        rtol=1e-6,
        atol=1e-8,
    )


@pytest.mark.slow
def test_chunks_of_refined_people_are_dealt_anew(monkeypatch):
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, 500)
    matrix = random.standard_normal((500, 3)) @ random.standard_normal((3, 8))
    matrix += 2 * groups[:, None] * random.standard_normal(8)
    model = FairCP(3, method=Invariant(30.0, chunk_size=50), random_state=0)
    model.fit(matrix[:100], sensitive_features=groups[:100])
    deals, with_deal = set(), Criterion.with_deal
    monkeypatch.setattr(
        Criterion, "with_deal", lambda self, deal: deals.add(deal) or with_deal(self, deal)
    )
    model.transform(matrix[100:], sensitive_features=groups[100:], refine=True)
    assert deals >= {1, 2}


def test_refinement_says_what_it_needs(marks, model):
    tensor, groups = marks
    new, theirs = tensor[TRAINED:], groups[TRAINED:]
    with pytest.raises(ValueError, match="refine=True needs sensitive_features of the new people"):
        model.transform(new, refine=True)
    with pytest.raises(ValueError, match="refine=True needs people who differ in 'sensitive'"):
        model.transform(new[:1], sensitive_features=theirs[:1], refine=True)
    linear = FairCP(2, method="hsic", max_iter=3, tol=0).fit(tensor, sensitive_features=groups)
    with pytest.raises(ValueError, match="refine=True needs a scale-free penalty"):
        linear.transform(new, sensitive_features=theirs, refine=True)


def test_refined_people_get_the_same_noise(marks, model):
    tensor, groups = (array[TRAINED:] for array in marks)
    quiet = replace(model.fit_, noise={0: 0 * model.fit_.noise[0]})
    plain = FairCP.from_fit(quiet, record=model.record_, training=model.training_)
    shifted, refined = (
        [fit.transform(tensor, sensitive_features=groups, refine=refine) for fit in (model, plain)]
        for refine in (False, True)
    )
    assert model.record_.noise == 0.1
    noise = shifted[0] - shifted[1]
    assert np.abs(noise).min() > 0
    assert not np.allclose(refined[1], shifted[1])
    np.testing.assert_allclose(refined[0] - refined[1], noise, rtol=1e-6, atol=1e-8)


def test_near_people_are_found_by_released_rows_minus_shifts(marks, model):
    tensor, groups = (array[TRAINED:] for array in marks)
    with pytest.warns(ParafairWarning, match="without regard to fairness"):
        plain = model.transform(tensor)
    rows = model.transform(tensor, sensitive_features=groups)
    shifts = model.fit_.shifts.numpy()
    places = model.embedding_ - shifts
    inverse = np.linalg.inv(np.cov(places.T))
    own = model.exact_release(tensor, groups).rows.numpy() - (rows - plain)  # noise is the same
    distances = cdist(own, places, "mahalanobis", VI=inverse)
    same = groups[:, None] == marks[1][:TRAINED]
    distances[~same] = np.inf
    ranks = distances.argsort(1).argsort(1)
    near = ranks < np.minimum(NEAR, (NEAR_SHARE * same.sum(1)).astype(int))[:, None]
    followed = np.isclose((rows - plain)[:, None], shifts, rtol=0, atol=1e-9).all(-1)
    # A copy of a neighbor does not follow it; see `parafair.model.moving`.
    copied = distances.min(1) < COPY * model.record_.noise * rows.shape[1] ** 0.5
    assert copied.mean() < 0.1
    assert (followed.sum(1) == 1)[~copied].all()
    assert near[followed].all()
    assert ranks[followed].max() > 5  # not always the nearest


@pytest.mark.filterwarnings("ignore:with noise=0")
def test_new_people_get_noise_of_their_own():
    """A copy of a training person's noise would tell that person's group: the given one."""
    found = [noise_attacked(seed) for seed in (1, 2, 3, 4)]
    assert min(copied for _, copied in found) > 0.8
    # The interval of one of them at chance, as in the test of Mann and Whitney.
    assert abs(np.mean([fresh for fresh, _ in found]) - 0.5) < 1.96 * (401 / (12 * 200**2)) ** 0.5


def noise_attacked(seed):
    """Return the AUC of an attacker who knows the training rows: of new noise, and of copies."""
    random = np.random.default_rng(seed)
    groups, given = np.arange(120) % 2, random.integers(0, 2, 400)
    profiles = random.standard_normal((6, 3))[random.integers(0, 6, 520)]
    people = profiles + 0.05 * random.standard_normal((520, 3))
    table = people @ random.standard_normal((3, 12)) + 0.02 * random.standard_normal((520, 12))
    fair = FairCP(3, strength=1.0, noise=0, tol=1e-3).fit(table[:120], sensitive_features=groups)
    rows = fair.fit_.cp.factors[0]
    matrix = 0.4 * Standardized.of(rows).basis
    added = example_rows(120, 3, seed=1) @ matrix
    cp = replace(fair.fit_.cp, factors=(rows + added, *fair.fit_.cp.factors[1:]))

    def attack(copied, noise):
        fit = replace(fair.fit_, cp=cp, shifts=fair.fit_.shifts + copied, noise=noise)
        record = replace(fair.record_, noise=0.4)
        model = FairCP.from_fit(fit, record=record, training=fair.training_)
        new = model.transform(table[120:], sensitive_features=given)
        neighbor = KNeighborsClassifier(1).fit(model.embedding_, groups)
        return new, model, auc(given == 1, neighbor.predict_proba(new)[:, 1])

    new, model, found = attack(0, {0: matrix})
    # Noise of the same size as in training, that depends on the person alone.
    without = model.exact_release(table[120:], given).rows.numpy()
    assert ((new - without) @ matrix.inverse().numpy()).std() == pytest.approx(1, rel=0.1)
    alone = model.transform(table[125:126], sensitive_features=given[5:6])
    np.testing.assert_allclose(alone, new[5:6])
    return found, attack(added, {})[2]
