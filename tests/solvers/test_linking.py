import pytest
import torch

from parafair import FairCP, FairTucker
from parafair.data.centering import Offsets
from parafair.data.tensor_data import TensorData
from parafair.losses import LOSSES
from parafair.solvers import Stop, decompose_plain
from parafair.solvers.init import make_starts
from parafair.solvers.linking import fold, linked_data, linked_starts
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


def counts_of(seed, shape=(40, 9, 8), rank=3):
    """Counts whose logarithm of the rate is a CP decomposition of this rank."""
    generator = torch.Generator().manual_seed(seed)
    factors = [torch.randn(n, rank, generator=generator, dtype=torch.float64) for n in shape]
    model = torch.einsum("ir,jr,kr->ijk", *factors)
    return torch.poisson((model / model.std()).clamp(-6, 4).exp(), generator=generator)


@pytest.mark.parametrize(
    "seed", [20, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(21, 32))]
)
def test_tucker_fits_counts_no_worse_than_cp_started_alike(seed):
    counts = counts_of(seed).numpy()
    settings = {"method": "none", "loss": "poisson", "ridge": 0.0}
    cp = FairCP(3, n_init=5, **settings).fit(counts)
    for init in ("svd", "uniform"):
        tucker = FairTucker((3, 3, 3), init=init, **settings).fit(counts)
        assert tucker.fit_.residual <= 1.01 * cp.fit_.residual


def test_a_matrix_of_cells_is_folded_dense_or_listed():
    tensor = reference.example("poisson", missing=0.3)
    matrix = TensorData.from_array(tensor.flatten(1))
    for data in (matrix, matrix.to_sparse()):
        folded = fold(data, tuple(tensor.shape[1:]))
        torch.testing.assert_close(folded.to_dense().values, tensor, equal_nan=True)
