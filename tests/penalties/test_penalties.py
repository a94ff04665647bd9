import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import kernels
from parafair.dependence.criterion import Criterion
from parafair.dependence.hsic import hsic
from parafair.penalties import (
    HSIC,
    KHSIC,
    BoundAutograd,
    BoundInvariant,
    Invariant,
    Orthogonality,
    Penalty,
)
from parafair.testing import PenaltyContract, example_groups, example_rows
from tests.reference import paper_bcd
from tests.reference.kernels import RationalQuadratic

FACTOR, GROUPS = example_rows(13, 3, seed=0), example_groups(13, seed=1)
PEOPLE = SensitiveFeatures.of(GROUPS)


def check_against(penalty, slow):
    """Compare value and gradient with a reference and its automatic derivative."""
    factor = FACTOR.clone().requires_grad_()
    expected = slow(factor)
    value, gradient = penalty.bind(PEOPLE, FACTOR).value_and_gradient(FACTOR)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, factor)[0])


class TestOrthogonality(PenaltyContract):
    @pytest.fixture
    def penalty(self):
        return Orthogonality(strength=2.0, ridge=0.5)

    def test_is_the_published_formula(self, penalty):
        check_against(penalty, lambda a: paper_bcd.fatr_penalty(a, GROUPS, 2.0, 0.5))

    def test_theorem_1_a_zero_penalty_hides_nothing(self):
        # The paper's counterexample: A'S = 0, yet the norm of a row tells its group.
        factor = torch.tensor([[1.0, 0], [0, 0], [0, 0], [-1, 0], [-1, 0], [1, 0]]).double()
        groups = torch.tensor([[1.0, 0], [0, 1], [0, 1], [1, 0], [1, 0], [1, 0]]).double()
        assert Orthogonality(1.0).bind(SensitiveFeatures.of(groups), FACTOR).value(
            factor
        ) == pytest.approx(0, abs=1e-30)
        recognized = factor.norm(dim=1) == groups[:, 0]
        assert recognized.all()
        # KHSIC is not fooled.
        assert KHSIC(1.0).bind(SensitiveFeatures.of(groups), FACTOR).value(factor) > 0.01

    def test_features_are_not_centered(self):
        constant = torch.ones(13, 3, dtype=torch.float64)
        assert Orthogonality(1.0).bind(PEOPLE, FACTOR).value(constant) > 1
        assert HSIC(1.0).bind(PEOPLE, FACTOR).value(constant) == pytest.approx(0, abs=1e-25)


class TestHSIC(PenaltyContract):
    @pytest.fixture
    def penalty(self):
        return HSIC(strength=2.0)

    def test_is_the_papers_formula(self, penalty):
        check_against(penalty, lambda a: paper_bcd.hsic_penalty(a, GROUPS, 2.0))

    def test_equals_hsic_with_linear_kernels(self, penalty):
        linear = (kernels.Linear(), kernels.Linear())
        expected = 2 * hsic(FACTOR, GROUPS, kernels=linear)
        torch.testing.assert_close(penalty.bind(PEOPLE, FACTOR).value(FACTOR), expected)


class TestKHSIC(PenaltyContract):
    @pytest.fixture(
        params=[
            KHSIC(strength=2.0),
            KHSIC(2.0, kernel=RationalQuadratic(0.5), sensitive_kernel=kernels.Delta()),
        ],
        ids=["Gaussian", "a kernel of one's own"],
    )
    def penalty(self, request):
        return request.param

    def test_is_the_papers_formula(self):
        check_against(KHSIC(2.0), lambda a: paper_bcd.khsic_penalty(a, GROUPS, 2.0))

    def test_value_can_be_part_of_a_larger_function(self):
        factor = FACTOR.clone().requires_grad_()
        term = KHSIC(2.0).bind(PEOPLE, FACTOR)
        assert torch.autograd.gradcheck(term.value, factor)

    def test_median_bandwidth_is_for_the_features_only(self):
        assert KHSIC(1.0, sensitive_kernel=kernels.Gaussian("median")).bind(PEOPLE, FACTOR)
        with pytest.raises(ValueError, match="kernel must have a fixed gamma, got 'median'"):
            KHSIC(1.0, kernel=kernels.Gaussian("median"))

    def test_kernels_must_be_kernels(self):
        with pytest.raises(TypeError, match="kernel must be a kernel such as .* got 'gaussian'"):
            KHSIC(1.0, kernel="gaussian")

    def test_spread_rows_look_independent_to_a_fixed_bandwidth(self):
        # Why a small KHSIC alone proves nothing: the same embedding in other units.
        term = KHSIC(1.0).bind(PEOPLE, FACTOR)
        revealing = torch.cat([GROUPS, FACTOR[:, :1]], 1)
        assert term.value(1000 * revealing) < term.value(revealing)


class TestInvariant(PenaltyContract):
    @pytest.fixture
    def penalty(self):
        return Invariant(strength=2.0)

    def test_solvers_know_that_scale_does_not_matter(self, penalty):
        term, factor = self.bound(penalty)
        assert isinstance(term, BoundInvariant)
        rows = torch.linalg.solve(term.basis(factor), factor - factor.mean(0), left=False)
        torch.testing.assert_close(rows.mT @ rows / len(rows), torch.eye(3).double())

    def test_strength_has_the_units_of_the_squared_data(self):
        small, large = (
            Invariant(1.0).bind(PEOPLE, unit * torch.ones(4, 3).double()).value(FACTOR)
            for unit in (1, 10)
        )
        torch.testing.assert_close(large, 100 * small)

    def test_single_precision_in_chunks_is_precise_enough(self):
        rows, groups = example_rows(3000, 4, seed=2), example_groups(3000, seed=3)
        rows = rows + 0.1 * groups
        people = SensitiveFeatures.of(groups)
        term = Invariant(1.0).bind(people, torch.ones(1).double())
        value, gradient = term.value_and_gradient(rows)
        exact, slope = Criterion(people, rows.flatten()[:0]).value_and_gradient(rows)
        assert value.dtype == gradient.dtype == torch.float64
        assert 0 < abs(value - exact) < 1e-7
        assert (gradient - slope).norm() < 1e-3 * slope.norm()

    @pytest.mark.parametrize("size", [10, 1000.5, None])
    def test_chunks_that_are_too_small_are_refused(self, size):
        with pytest.raises(ValueError, match="chunk_size must be a whole number of at least 50"):
            Invariant(1.0, chunk_size=size)


class Spread:
    """A penalty of a user's own, by automatic differentiation."""

    strength = 1.0

    def bind(self, sensitive, tensor):
        groups = sensitive.encode(prototype=tensor)
        return BoundAutograd(lambda factor: (groups.mT @ factor.tanh()).square().sum((-2, -1)))


class TestPenaltyOfOnesOwn(PenaltyContract):
    @pytest.fixture
    def penalty(self):
        return Spread()

    def test_is_a_penalty(self):
        assert isinstance(Spread(), Penalty)


@pytest.mark.parametrize("penalty", [Invariant, Orthogonality, HSIC, KHSIC])
def test_numpy_numbers_are_numbers(penalty):
    for number in (np.float32(0.5), np.int64(2), np.float64(1)):
        assert penalty(number).strength == number


@pytest.mark.parametrize("penalty", [Invariant, Orthogonality, HSIC, KHSIC])
@pytest.mark.parametrize("strength", [-1, float("nan"), float("inf"), "1"])
def test_bad_strengths_are_refused(penalty, strength):
    with pytest.raises(ValueError, match="strength must be a finite number of at least 0, got"):
        penalty(strength)


def test_strength_multiplies():
    for penalty in (Invariant, Orthogonality, HSIC, KHSIC):
        one, three = (penalty(s).bind(PEOPLE, FACTOR).value(FACTOR) for s in (1.0, 3.0))
        torch.testing.assert_close(three, 3 * one)
