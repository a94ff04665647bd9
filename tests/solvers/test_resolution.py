from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence.whitening import spread_basis
from parafair.penalties import Invariant, Orthogonality
from parafair.solvers import LBFGS, Problem, Status, Stop, decompose_from, decompose_plain
from parafair.solvers import fitting as module
from parafair.solvers.init import make_starts
from parafair.solvers.resolution import noise_cost
from tests.reference.kinds import draw, mean_shift


def problem_of(missing=0.0, *, sparse=False, strength=1.0):
    tensor, groups, rank = draw(mean_shift, 0, 60)
    tensor = np.where(np.random.default_rng(0).random(tensor.shape) < missing, np.nan, tensor)
    data = TensorData.from_array(tensor)
    features = SensitiveFeatures.of(groups)
    data = data.to_sparse() if sparse else data
    return Problem(data, rank, penalty=Invariant(strength), sensitive=features)


def plain_of(problem, tol=1e-5):
    starts = make_starts(problem, "uniform", count=5, seed=0)
    return decompose_plain(problem, starts=starts, stop=Stop(tol=tol), each=5)


@pytest.mark.parametrize(("missing", "sparse"), [(0.0, False), (0.3, False), (0.3, True)])
def test_the_cost_is_what_noise_adds_to_the_loss(missing, sparse):
    problem = problem_of(missing, sparse=sparse)
    (plain,) = plain_of(problem, tol=1e-9)
    rows, *others = (factor[None] for factor in plain.cp.factors)
    basis = Invariant.default_noise * spread_basis(rows[0])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(300, *rows.shape[1:], generator=generator, dtype=rows.dtype) @ basis
    factors = (rows + drawn, *(other.expand(300, -1, -1) for other in others))
    added = problem.loss_of(factors) - problem.loss_of((rows, *others))
    error = 4 * float(added.std()) / 300**0.5
    assert noise_cost(problem, [plain]) == pytest.approx(float(added.mean()), abs=error)


def test_the_cheapest_of_several_decompositions_counts():
    problem = problem_of()
    (plain,) = plain_of(problem)
    first, *others = plain.cp.factors
    wide, lost = (
        replace(plain, cp=CPTensor.from_factors([by * first, *others])) for by in (2.0, torch.nan)
    )
    one = noise_cost(problem, [plain])
    assert noise_cost(problem, [wide]) == pytest.approx(4 * one)
    assert noise_cost(problem, [wide, lost, plain]) == one


def test_penalties_without_a_resolution_have_no_noise():
    problem = problem_of()
    fits = plain_of(problem)
    assert noise_cost(replace(problem, penalty=None), fits) == 0
    assert noise_cost(replace(problem, penalty=Orthogonality(0.1)), fits) == 0


def test_a_fit_ends_when_it_gains_little_beside_the_noise(monkeypatch):
    problem, stop = problem_of(strength=100.0), Stop(tol=1e-6)
    fits, found = plain_of(problem), []
    for cost in (0.0, 100.0):
        monkeypatch.setattr(module, "noise_cost", lambda problem, plain, cost=cost: cost)
        found += decompose_from(problem, LBFGS(), plain=fits, stop=stop)
    longer, fit = found
    assert fit.status is longer.status is Status.CONVERGED
    many, few = (each.n_iter + each.counts["rough iterations"] for each in found)
    assert few < many
    assert longer.objective < fit.objective
