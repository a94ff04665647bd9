import numpy as np
import torch

from parafair import FairCP, SensitiveFeatures, TensorData
from parafair.encoders.batches import LEVELS, Batch, make_batches
from parafair.model.preparation import Settings


def task_of(tensor, features, **settings):
    data = TensorData.from_array(tensor)
    return Settings.of(FairCP(rank=2, **settings)).bind(data, features)


def test_batches_have_everybody_once_and_their_share_of_every_group():
    random = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], [300, 120]).astype(object)
    groups[::20] = None
    features = SensitiveFeatures.of(groups, missing="exclude")
    matrix = random.standard_normal((420, 6))
    task = task_of(matrix, features, strength=1.0)
    inputs = torch.arange(420.0, dtype=torch.float64)[:, None]
    batches = make_batches(task.problem, inputs, 100)
    assert len(batches) == 4
    people = torch.cat([batch.inputs[:, 0] for batch in batches]).sort().values
    assert people.tolist() == list(range(420))
    for batch in batches:
        own = batch.inputs[:, 0].long().numpy()
        np.testing.assert_array_equal(batch.problem.data.values.numpy(), matrix[own])
        assert abs((groups[own] == "a").sum() - (groups == "a").sum() / 4) <= 1
        assert abs((groups[own] == "b").sum() - (groups == "b").sum() / 4) <= 1


def incomplete(people=400):
    """Entries of people who have 2, 4, 6 or 8 of them, and groups."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((people, 8))
    counts = random.permutation(np.repeat([2, 4, 6, 8], people // 4))
    matrix[np.argsort(random.random(matrix.shape), 1) >= counts[:, None]] = np.nan
    return matrix, counts, random.integers(0, 2, people).astype(str)


def test_people_with_as_many_entries_are_compared_on_their_own():
    matrix, counts, groups = incomplete()
    problem = task_of(matrix, groups, strength=3.0).problem
    rows = torch.from_numpy(np.random.default_rng(1).standard_normal((400, 2)))
    batch = Batch.of(problem, rows, LEVELS)
    value, slope = batch.penalty_and_slope(rows, deal=0)
    expected, wanted = problem.bound.value_and_gradient(rows[None])
    for count in np.unique(counts):
        own = np.flatnonzero(counts == count)
        # In units of all entries.
        features = problem.penalized_features.take(own)
        bound = problem.penalty.bind(features, problem.observations.values)
        more, steeper = bound.value_and_gradient(rows[None, own])
        expected = expected + more / 4
        wanted[:, own] += steeper / 4
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(slope, wanted[0])


def test_complete_entries_have_one_level():
    matrix, _, groups = incomplete()
    problem = task_of(np.nan_to_num(matrix), groups, strength=3.0).problem
    assert len(Batch.of(problem, torch.zeros(400, 2), LEVELS).bounds) == 1


def test_small_groups_have_fewer_levels():
    matrix, _, groups = incomplete()
    groups[:] = "a"
    groups[:45] = "b"
    problem = task_of(matrix, groups, strength=3.0).problem
    assert len(Batch.of(problem, torch.zeros(400, 2), LEVELS).bounds) == 1 + 2
