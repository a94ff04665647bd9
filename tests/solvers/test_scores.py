"""Fits with penalties on predicted scores, and what they refuse."""

import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData
from parafair.data.sensitive import SensitiveFeatures
from parafair.model.preparation import Settings
from parafair.penalties import Bhattacharyya, MeanMatching, MutualInformation
from parafair.solvers import LBFGS, BlockDescent, GradientBCD, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop
from parafair.testing import SolverContract
from tests.conftest import small_problem
from tests.reference import scores as slow
from tests.solvers.conftest import starts_of

KINDS = (MeanMatching, Bhattacharyya, MutualInformation)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


class TestScores(SolverContract):
    @pytest.fixture(params=[BlockDescent(), LBFGS()], ids=["block", "lbfgs"])
    def solver(self, request):
        return request.param

    @pytest.fixture
    def problem(self, kind):
        return small_problem(kind(5.0))

    @pytest.mark.parametrize("storage", ["complete", "masked"])
    def test_objective_never_increases(self, solver, kind, storage):
        problem = small_problem(kind(5.0), storage=storage, ridge=0.1)
        for fit in solve_batch(problem, solver, starts=starts_of(problem, 2), stop=Stop(12, 0)):
            values = np.array([entry.objective for entry in fit.history])
            assert (np.diff(values) <= 1e-12 * values[:-1]).all()


def test_masked_and_sparse_fits_are_the_same(kind):
    found = []
    for storage in ("masked", "sparse"):
        problem = small_problem(kind(5.0), storage=storage)
        (fit,) = solve_batch(problem, LBFGS(), starts=starts_of(problem), stop=Stop(10, 0))
        found.append(fit.objective)
    assert found[0] == pytest.approx(found[1], rel=1e-8)


@pytest.mark.slow
def test_block_descent_and_lbfgs_find_the_same_minimum(kind):
    problem, plain = (small_problem(penalty, ridge=1.0) for penalty in (kind(5.0), None))
    (start,) = solve_batch(plain, LBFGS(), starts=starts_of(plain), stop=Stop(100, 1e-6))
    starts = tuple(factor[None] for factor in start.cp.factors)
    ends = [
        solve_batch(problem, solver, starts=starts, stop=Stop(100, 1e-7))[0].objective
        for solver in (BlockDescent(), LBFGS())
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)


def test_members_with_other_strengths_are_fits_of_their_own(kind):
    problem = small_problem(kind(5.0))
    strengths = torch.tensor([0.0, 5.0], dtype=torch.float64)
    starts = tuple(factor.expand(2, *factor.shape[1:]) for factor in starts_of(problem))
    for solver in (LBFGS(), BlockDescent()):
        both = solve_batch(
            problem.with_strengths(strengths), solver, starts=starts, stop=Stop(10, 0)
        )
        for strength, fit in zip((0.0, 5.0), both, strict=True):
            alone = small_problem(kind(strength))
            (own,) = solve_batch(alone, solver, starts=starts_of(alone), stop=Stop(10, 0))
            assert fit.objective == pytest.approx(own.objective, rel=1e-9)


def test_offsets_are_part_of_a_score(kind):
    """Items that one group rates more often raise its mean, unless the offsets are counted."""
    random = np.random.default_rng(0)
    values = random.standard_normal((20, 4, 3)) + 5 * np.arange(4)[:, None]
    values[:10, :2] = np.nan
    groups = np.repeat(["a", "b"], 10)
    model = FairCP(2, method=kind(1.0), center=True, ridge=0.0, max_iter=30, n_init=1, tol=1e-3)
    model.fit(values, sensitive_features=groups)
    scores = torch.from_numpy(model.inverse_transform(model.embedding_))
    parts = slow.by_group(scores, torch.from_numpy(~np.isnan(values)), groups)
    term = {
        MeanMatching: slow.mean_matching,
        Bhattacharyya: slow.bhattacharyya,
        MutualInformation: slow.mutual_information,
    }[kind](parts)
    assert model.fit_.history[-1].penalty == pytest.approx(float(term), rel=1e-6)


def test_people_without_features_or_entries_do_not_count(kind):
    problem = small_problem(kind(5.0))
    features = ["a", "b"] * 10
    people = SensitiveFeatures.of([*features, None, None, "a", "b"], missing="exclude")
    values = problem.data.values.clone()
    values[22:] = torch.nan
    more = Problem(TensorData.from_array(values), 3, 0, kind(5.0), people)
    few = Problem(
        TensorData.from_array(values[:20]), 3, 0, kind(5.0), SensitiveFeatures.of(features)
    )
    factors = starts_of(problem)
    fewer = [factors[0][:, :20], *factors[1:]]
    torch.testing.assert_close(more.penalty_of(factors), few.penalty_of(fewer))


def test_single_precision_is_close(kind):
    double, single = (small_problem(kind(5.0), dtype=d) for d in (torch.float64, torch.float32))
    starts = starts_of(double)
    value, slopes = double.penalty_and_gradients(starts)
    rough, other = single.penalty_and_gradients([factor.float() for factor in starts])
    torch.testing.assert_close(value, rough, rtol=1e-4, atol=1e-6)
    for mode, slope in slopes.items():
        assert other[mode].dtype == torch.float32
        torch.testing.assert_close(slope.float(), other[mode], rtol=1e-2, atol=1e-5)


def test_numbers_are_refused_before_the_fit(kind):
    values = np.random.default_rng(0).standard_normal((30, 4, 3))
    with pytest.raises(ValueError, match="compares groups, but sensitive feature .* is numeric"):
        FairCP(2, method=kind()).fit(values, sensitive_features=np.linspace(0, 1, 30))


def test_too_many_groups_are_refused(kind):
    values = np.random.default_rng(0).standard_normal((240, 2, 2))
    groups = [f"g{number % 110}" for number in range(240)]
    with pytest.raises(ValueError, match="takes at most 100 groups"):
        FairCP(2, method=kind()).fit(values, sensitive_features=groups)


def test_several_modes_are_refused(kind):
    values = np.random.default_rng(0).standard_normal((6, 4, 3))
    features = {0: ["a", "b"] * 3, 1: ["a", "b"] * 2}
    with pytest.raises(ValueError, match="several modes need a scale-free penalty"):
        FairCP(2, method=kind()).fit(values, sensitive_features=features)


def test_the_papers_algorithm_is_refused(kind):
    problem = small_problem(kind(5.0))
    with pytest.raises(ValueError, match="for penalties on one factor"):
        solve_batch(problem, GradientBCD(), starts=starts_of(problem), stop=Stop(2, 0))
    for solver in ("gradient", GradientBCD((3, 1))):
        with pytest.raises(ValueError, match="for penalties on one factor"):
            Settings.of(FairCP(2, method=kind(), solver=solver))
