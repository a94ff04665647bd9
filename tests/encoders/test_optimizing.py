import itertools

import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData, datasets
from parafair.encoders import Learned
from parafair.encoders.optimizing import learn, make_batches, thinned
from parafair.errors import Interrupted
from parafair.model.preparation import Settings
from parafair.solvers import Status


def task_of(tensor, features, **settings):
    return Settings.of(FairCP(rank=2, **settings)).bind(
        TensorData(torch.as_tensor(tensor)), features
    )


@pytest.fixture(scope="module")
def task():
    data = datasets.synthetic(0, shape=(150, 6, 5), rank=3)
    return task_of(np.array(data.tensor), data.sensitive_features, strength=100.0)


@pytest.fixture(scope="module")
def plain(task):
    return task.fit_plain()


def test_without_penalty_and_noise_a_linear_encoder_keeps_the_plain_fit():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((300, 8)) * 2.0 ** -np.arange(8)
    task = task_of(matrix, random.integers(0, 2, 300).astype(str), strength=0.0)
    plain = task.fit_plain()
    fit = learn(task.problem, plain, Learned(hidden=0, steps=20), noise=0.0, seed=0)
    assert fit.residual == pytest.approx(plain.residual, rel=1e-3)


def test_the_objective_is_lower_than_that_of_the_plain_fit(task, plain):
    fit = learn(
        task.problem, plain, Learned(hidden=8, steps=60, learning_rate=0.03), noise=0.1, seed=0
    )
    assert fit.status is Status.FINISHED
    assert fit.n_iter == 60
    assert fit.objective < fit.history[0].objective / 2
    judged = task.problem.evaluate([factor[None] for factor in fit.cp.factors])
    assert fit.objective == pytest.approx(float(judged.value), rel=1e-6)


def test_a_seed_determines_the_encoder(task, plain):
    fits = [
        learn(task.problem, plain, Learned(hidden=4, steps=10), noise=0.3, seed=seed)
        for seed in (3, 3, 4)
    ]
    first, again, other = (fit.cp.factors[0] for fit in fits)
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_random_state_of_the_process_is_not_used(task, plain):
    before = torch.get_rng_state()
    learn(task.problem, plain, Learned(hidden=4, steps=3), noise=0.3, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_have_everybody_once_and_their_share_of_every_group():
    random = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], [300, 120]).astype(object)
    groups[::20] = None
    features = SensitiveFeatures.of(groups, missing="exclude")
    matrix = random.standard_normal((420, 6))
    task = task_of(matrix, features, strength=1.0)
    batches = make_batches(task.problem, 100)
    assert len(batches) == 4
    assert torch.cat([batch.people for batch in batches]).sort().values.tolist() == list(range(420))
    for batch in batches:
        own = batch.people.numpy()
        np.testing.assert_array_equal(batch.problem.data.values.numpy(), matrix[own])
        assert abs((groups[own] == "a").sum() - (groups == "a").sum() / 4) <= 1
        assert abs((groups[own] == "b").sum() - (groups == "b").sum() / 4) <= 1


def incomplete_people():
    """People of whom some have few entries and others many."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((600, 9))
    matrix[random.random(matrix.shape) > random.random((600, 1))] = np.nan
    matrix[:, 0] = 1.0
    return matrix, random.choice(["a", "b"], 600)


def test_people_with_about_as_many_entries_are_in_a_batch_too():
    matrix, groups = incomplete_people()
    batches = make_batches(task_of(matrix, groups, strength=1.0).problem, 150)
    assert len(batches) == 8
    counts = np.isfinite(matrix).sum(1)
    mixed, alike = (
        [counts[batch.people.numpy()] for batch in half] for half in (batches[:4], batches[4:])
    )
    assert sorted(np.concatenate([batch.people for batch in batches[4:]])) == list(range(600))
    for one, other in itertools.pairwise(alike):
        assert one.max() <= other.min()
    assert all(own.min() == 1 and own.max() > 6 for own in mixed)


def test_a_batch_of_people_alike_has_people_of_every_group():
    matrix, groups = incomplete_people()
    counts = np.isfinite(matrix).sum(1)
    groups[counts < 4] = "a"
    rare = np.flatnonzero(counts >= 4)[:60]
    groups[counts >= 4] = "a"
    groups[rare] = "b"
    batches = make_batches(task_of(matrix, groups, strength=1.0).problem, 150)
    assert all((groups[batch.people.numpy()] == "b").sum() >= 20 for batch in batches)


def test_fewer_entries_are_some_of_those_that_were_there():
    matrix, _ = incomplete_people()
    data = TensorData.from_array(matrix)
    found = thinned(data, 0, torch.Generator().manual_seed(0)).to_dense().values.numpy()
    there = np.isfinite(found)
    np.testing.assert_array_equal(found[there], matrix[there])
    kept = there.sum(1) / np.isfinite(matrix).sum(1)
    assert there.any(1).all()
    assert 0.7 < kept.mean() < 0.85  # from none to half of them are left out
    assert kept[np.isfinite(matrix).sum(1) > 7].min() < 0.65


def test_an_interrupted_fit_has_an_encoder(task, plain):
    def stop(number, objective):
        if number == 3:
            raise KeyboardInterrupt

    settings = Learned(hidden=4, steps=20)
    with pytest.raises(Interrupted, match="interrupted after 3 iterations") as caught:
        learn(task.problem, plain, settings, noise=0.1, seed=0, on_iteration=stop)
    fit = caught.value.fit
    assert fit.status is Status.INTERRUPTED
    assert fit.n_iter == 3
    rows = fit.encoder.encode(task.problem.data)
    torch.testing.assert_close(rows, fit.cp.factors[0], rtol=1e-4, atol=1e-5)
