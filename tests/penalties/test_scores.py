"""Kamishima's terms against slow versions of their formulas, and exact block updates."""

import pytest
import torch

from parafair.algebra.cp_tensor import khatri_rao
from parafair.algebra.group_scores import Moments
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import Bhattacharyya, MeanMatching, MutualInformation
from parafair.penalties.bound_scores import derive, mean_differences
from parafair.penalties.scores import bhattacharyya, mutual_information
from parafair.solvers.problem import Problem
from parafair.solvers.sweep import Sweep
from parafair.testing import ScorePenaltyContract, example_rows
from tests.reference import scores as slow

SHAPE, RANK = (8, 4, 3), 2
GROUPS = ["a", "b", "c", "a", "b", "b", "a", "c"]
TWO = ["a", "b", "b", "a", "b", "b", "a", "a"]
TERMS = {
    MeanMatching: slow.mean_matching,
    Bhattacharyya: slow.bhattacharyya,
    MutualInformation: slow.mutual_information,
}


def problem_of(penalty, groups=GROUPS, *, storage="masked", ridge=0.0):
    values = 1 + example_rows(96, 1, seed=0).reshape(SHAPE)
    if storage != "complete":
        values[example_rows(96, 1, seed=1).reshape(SHAPE) > 0.8] = torch.nan
    data = TensorData.from_array(values)
    data = data.to_sparse() if storage == "sparse" else data
    return Problem(data, RANK, 0, penalty, SensitiveFeatures.of(groups), ridge)


def factors_of(seed=0):
    return [example_rows(n, RANK, seed=10 * seed + m)[None] for m, n in enumerate(SHAPE)]


@pytest.fixture(params=TERMS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


class TestScorePenalties(ScorePenaltyContract):
    @pytest.fixture
    def penalty(self, kind):
        return kind(strength=2.0)


@pytest.mark.parametrize("groups", [TWO, GROUPS], ids=["two", "three"])
@pytest.mark.parametrize("storage", ["complete", "masked", "sparse"])
def test_terms_are_the_published_formulas(kind, groups, storage):
    problem, factors = problem_of(kind(3.0), groups, storage=storage), factors_of()
    observed = ~problem.data.to_dense().values.isnan()
    own = [factor[0].clone().requires_grad_() for factor in factors]
    expected = 3 * TERMS[kind](slow.by_group(slow.predicted(own), observed, groups))
    value, gradients = problem.penalty_and_gradients(factors)
    torch.testing.assert_close(value[0], expected.detach(), rtol=1e-9, atol=1e-12)
    for mode, slope in enumerate(torch.autograd.grad(expected, own)):
        torch.testing.assert_close(gradients[mode][0], slope, rtol=1e-7, atol=1e-10)


def test_derivatives_are_those_of_the_closed_form():
    # With D the difference of the means and W the sum of the variances.
    counts = torch.tensor([40.0, 25.0], dtype=torch.float64)
    sums = torch.tensor([[30.0, -12.0]], dtype=torch.float64)
    squares = torch.tensor([[90.0, 70.0]], dtype=torch.float64)
    moments = Moments(counts, sums, squares)
    _, of_sums, of_squares = derive(bhattacharyya, moments, 1.0)
    mean = sums[0] / counts
    spread = (squares[0] - sums[0] ** 2 / counts + 1e-8) / (counts + 1e-8)
    gap, both = mean[0] - mean[1], spread.sum()
    by_spread = -1 / (4 * spread) + 1 / (2 * both) - (gap / both) ** 2 / 4
    by_mean = torch.stack([gap, -gap]) / (2 * both)
    torch.testing.assert_close(of_squares[0], by_spread / (counts + 1e-8))
    expected = by_mean / counts - by_spread * 2 * mean / (counts + 1e-8)
    torch.testing.assert_close(of_sums[0], expected)


def test_terms_vanish_for_equal_moments_and_grow_with_the_difference():
    counts = torch.tensor([10.0, 20.0], dtype=torch.float64)

    def moments(gap, wider=1.0):
        means = torch.tensor([[1.0, 1.0 + gap]], dtype=torch.float64)
        spread = torch.tensor([[1.0, wider]], dtype=torch.float64)
        return Moments(counts, means * counts, (spread + means**2) * counts)

    for term in (mean_differences, bhattacharyya, mutual_information):
        assert float(term(moments(0.0))) == pytest.approx(0, abs=1e-9)
        assert 0 < float(term(moments(0.5))) < float(term(moments(1.0)))
    assert float(mean_differences(moments(0.0, wider=4.0))) == 0
    assert float(bhattacharyya(moments(0.0, wider=4.0))) > 0.1
    assert float(mutual_information(moments(0.0, wider=4.0))) > 0.05


def test_equal_scores_of_a_group_have_a_finite_term(kind):
    problem, factors = problem_of(kind(1.0), TWO), factors_of()
    value, gradients = problem.penalty_and_gradients([torch.zeros_like(f) for f in factors])
    assert torch.isfinite(value).all()
    assert all(torch.isfinite(slope).all() for slope in gradients.values())


@pytest.mark.parametrize("groups", [TWO, GROUPS], ids=["two", "three"])
@pytest.mark.parametrize("storage", ["complete", "masked", "sparse"])
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_block_update_of_mean_matching_is_exact(groups, storage, ridge):
    """One dense system over all rows and components has the same solution."""
    strength = 50.0
    problem = problem_of(MeanMatching(strength), groups, storage=storage, ridge=ridge)
    factors = factors_of()
    values = problem.data.to_dense().values
    for mode in range(3):
        block = Sweep(problem, factors).block(mode)
        bound = problem.scores.block(factors, mode)
        found = bound.minimizer(block, factors[mode])
        # Every observed score is a linear function of the entries of the factor.
        others = khatri_rao([f[0] for m, f in enumerate(factors) if m != mode])
        unfolded, size = values.movedim(mode, 0).flatten(1), SHAPE[mode]
        people = torch.arange(SHAPE[0]).reshape(-1, 1, 1).expand(SHAPE)
        people = people.movedim(mode, 0).flatten(1)
        design, target, owner = [], [], []
        for row, place in (~unfolded.isnan()).nonzero().tolist():
            line = torch.zeros(size, RANK, dtype=torch.float64)
            line[row] = others[place]
            design.append(line.flatten())
            target.append(unfolded[row, place])
            owner.append(groups[int(people[row, place])])
        design, target = torch.stack(design), torch.stack(target)
        means = torch.stack([design[[o == g for o in owner]].mean(0) for g in sorted(set(groups))])
        apart = means - means.mean(0)
        count = len(target)
        matrix = design.mT @ design / count + strength / (len(means) - 1) * apart.mT @ apart
        if ridge:
            squares = [f[0].square().mean(0) for m, f in enumerate(factors) if m != mode]
            shrunk = ridge * SHAPE[0] / size * squares[0] * squares[1] / count
            matrix = matrix + torch.diag(shrunk.repeat(size))
        expected = torch.linalg.solve(matrix, design.mT @ target / count).reshape(size, RANK)
        torch.testing.assert_close(found[0], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("groups", [TWO, GROUPS], ids=["two", "three"])
def test_block_update_of_mean_matching_takes_any_strength(groups):
    # Nothing is left of the identity beside it. Losses with tiny weights have the same effect.
    problem, factors = problem_of(MeanMatching(1e30), groups), factors_of()
    bound, block = problem.scores.block(factors, 0), Sweep(problem, factors).block(0)
    moments = bound.scores.moments(bound.minimizer(block, factors[0]))
    torch.testing.assert_close(moments.means, moments.means.mean(-1, True).expand_as(moments.means))
