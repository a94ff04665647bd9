import numpy as np
import pytest
import torch

from parafair import FairTucker, SensitiveFeatures, TensorData
from parafair.solvers.init import make_starts
from parafair.solvers.lbfgs import evaluate
from parafair.solvers.parameters import flatten, to_parameters
from parafair.solvers.problem import Problem


@pytest.fixture(scope="module")
def matrix():
    random = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 30)
    loadings = random.standard_normal((60, 3)) + (groups == "a")[:, None]
    return loadings @ random.standard_normal((3, 8)) + 0.1 * random.standard_normal((60, 8)), groups


def tucker_problem(tensor, ranks, penalty, groups, other_sensitive=None):
    """The problem of a Tucker decomposition with people in the first mode and a ridge."""
    data = TensorData.from_array(tensor)
    unfolding = FairTucker(ranks).unfolding_of(data)
    return Problem(
        unfolding.unfold(data),
        unfolding.rank,
        0,
        penalty,
        SensitiveFeatures.of(groups),
        ridge=0.5,
        other_sensitive=other_sensitive or {},
        structure=unfolding.structure,
    )


def check_gradients(problem):
    """Compare gradients in all parameters with finite differences.

    Returns:
        All parameters of two starts, each as one vector, and their objectives.
    """
    starts = make_starts(problem, "normal", count=2, seed=0)
    vector = flatten(to_parameters(starts, problem.structure))
    found, width = evaluate(problem, vector), 1e-6
    direction = torch.randn(vector.shape, dtype=torch.float64, generator=torch.manual_seed(0))
    ahead, behind = (
        evaluate(problem, vector + sign * width * direction).objective.value for sign in (1, -1)
    )
    expected = (found.gradient * direction).sum(-1)
    torch.testing.assert_close((ahead - behind) / (2 * width), expected, rtol=1e-5, atol=1e-7)
    return vector, found
