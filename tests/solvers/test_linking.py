import pytest
import torch

from parafair.data.centering import Offsets
from parafair.data.tensor_data import TensorData
from parafair.losses import LOSSES
from parafair.solvers import Stop, decompose_plain
from parafair.solvers.init import make_starts
from parafair.solvers.linking import linked_data, linked_starts
from parafair.solvers.problem import Problem
from tests.reference import losses as reference

# Larger than the examples of other tests: the start of these is hardly better than no model.
SHAPE = (40, 15, 12)


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("name", ["bernoulli", "poisson", "gamma"])
def test_a_start_is_better_than_no_model_and_a_fit_from_it_better_still(name, missing):
    data = TensorData.from_array(reference.example(name, SHAPE, missing=missing))
    problem = Problem(data, 2, ridge=1.0, loss=LOSSES[name])
    starts = linked_starts(problem, make_starts(problem, "uniform", count=2, seed=0))
    begun = problem.evaluate(starts).residual
    assert (begun < 1.05).all()
    for fit, before in zip(
        decompose_plain(problem, starts=starts, stop=Stop()), begun, strict=True
    ):
        assert fit.residual < min(0.97, float(before))


def test_squared_errors_need_no_start():
    problem = Problem(TensorData.from_array(reference.example("squared")), 2)
    starts = make_starts(problem, "uniform", count=1, seed=0)
    assert linked_starts(problem, starts) is starts


def test_missing_entries_of_a_list_stay_missing_and_intercepts_are_subtracted():
    data = TensorData.from_array(reference.example("poisson", missing=0.2)).to_sparse()
    offsets = Offsets.fit(data, 0, LOSSES["poisson"])
    problem = Problem(data, 1, loss="poisson", offsets=offsets)
    found = linked_data(problem)
    assert found.observed == data.observed
    expected = ((data.values + data.values.mean()) / 2).log() - offsets.at(data.indices)
    torch.testing.assert_close(found.values, expected)
