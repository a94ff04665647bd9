import numpy as np
import pytest
import torch

from parafair import datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import HSIC, Orthogonality
from parafair.solvers import GradientBCD, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.result import Status, Stop
from parafair.testing import SolverContract
from tests.conftest import small_problem
from tests.reference import paper_bcd
from tests.solvers.conftest import PENALTIES, SHAPES, starts_of

SLOW_PENALTIES = {
    "none": lambda s: None,
    "fatr": lambda s: lambda a: paper_bcd.fatr_penalty(a, s, 0.05, 0.1),
    "hsic": lambda s: lambda a: paper_bcd.hsic_penalty(a, s, 20.0),
    "khsic": lambda s: lambda a: paper_bcd.khsic_penalty(a, s, 50.0),
}


class TestGradientBCD(SolverContract):
    @pytest.fixture
    def solver(self):
        return GradientBCD((0.05, 0.05), inner_steps=20)

    @pytest.fixture(params=PENALTIES)
    def problem(self, request):
        return small_problem(PENALTIES[request.param])

    @pytest.mark.parametrize("order", SHAPES)
    @pytest.mark.parametrize("method", PENALTIES)
    @pytest.mark.parametrize("mode", [0, 1])
    def test_follows_the_papers_iteration_to_rounding(self, method, order, mode):
        problem = small_problem(PENALTIES[method], shape=SHAPES[order], mode=mode)
        steps = (0.02, 0.01)
        starts = starts_of(problem)
        slow_penalty = SLOW_PENALTIES[method](problem.sensitive.encode())
        slow = [factor[0] for factor in starts]
        for _ in range(3):
            slow = paper_bcd.round_of_steps(
                problem.data.values, slow, slow_penalty, steps, 25, mode
            )
        solver = GradientBCD(steps, inner_steps=25, cap=False)
        (fit,) = solve_batch(problem, solver, starts=starts, stop=Stop(3, 0))
        for mine, theirs in zip(fit.cp.factors, slow, strict=True):
            torch.testing.assert_close(mine, theirs.detach(), rtol=1e-9, atol=1e-11)
        expected = paper_bcd.objective(problem.data.values, slow, slow_penalty, mode)
        assert fit.objective == pytest.approx(float(expected), rel=1e-9)

    def test_steps_within_the_curvature_are_not_capped(self):
        problem = small_problem(HSIC(20.0))
        solvers = [GradientBCD((1e-3, 1e-3), 20, cap=cap) for cap in (True, False)]
        fits = [
            solve_batch(problem, s, starts=starts_of(problem), stop=Stop(3, 0)) for s in solvers
        ]
        assert fits[0][0].counts == {"blocks": 9, "capped": 0}
        assert fits[0][0].objective == fits[1][0].objective

    @pytest.mark.parametrize("method", ["none", "fatr", "hsic"])
    def test_capped_steps_never_increase_the_objective(self, method):
        problem = small_problem(PENALTIES[method])
        solver = GradientBCD((1e3, 1e3), inner_steps=10)
        (fit,) = solve_batch(problem, solver, starts=starts_of(problem), stop=Stop(30, 0))
        assert fit.counts == {"blocks": 90, "capped": 90}
        values = [entry.objective for entry in fit.history]
        assert all(np.diff(values) <= 1e-9 * np.array(values[:-1]))

    def test_printed_steps_of_fatr_diverge_on_the_papers_data(self):
        # The printed step 3 exceeds 2 / (2 a_l2) = 1, what the ridge alone allows.
        data = datasets.synthetic(0)
        problem = Problem(
            TensorData.from_array(data.tensor),
            8,
            penalty=Orthogonality(0.1, ridge=1.0),
            sensitive=SensitiveFeatures.of(data.sensitive_features),
        )
        uncapped = GradientBCD((3.0, 1.0), cap=False)
        (fit,) = solve_batch(problem, uncapped, starts=starts_of(problem), stop=Stop(60, 0))
        assert fit.status is Status.DIVERGED
        assert all(torch.isfinite(factor).all() for factor in fit.cp.factors)
        assert np.isfinite(fit.objective)
        (capped,) = solve_batch(
            problem, GradientBCD((3.0, 1.0)), starts=starts_of(problem), stop=Stop(60, 0)
        )
        assert capped.status is Status.OUT_OF_ITERATIONS
        assert capped.counts["capped"] > 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"step_sizes": (1.0,)}, "step_sizes must be two positive numbers"),
            ({"step_sizes": (1.0, 0.0)}, "each of step_sizes must be a finite number above 0"),
            ({"inner_steps": 0}, "inner_steps must be a whole number of at least 1, got 0"),
        ],
    )
    def test_bad_settings_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            GradientBCD(**options)
