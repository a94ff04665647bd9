"""The contract of penalties on predicted scores."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import ScorePenalty
from parafair.solvers.problem import Problem
from parafair.testing.contracts import example_rows


class ScorePenaltyContract:
    """Contract of a penalty on predicted scores; provide the fixture `penalty`."""

    shape, rank = (13, 5, 4), 3

    def problem(self, penalty: ScorePenalty) -> Problem:
        """Return a problem with three groups and with missing entries."""
        people, *others = self.shape
        values = example_rows(people, others[0] * others[1], seed=0).reshape(self.shape)
        values[::3, 1, 2] = torch.nan
        groups = SensitiveFeatures.of(np.resize(["a", "b", "c"], people))
        return Problem(TensorData.from_array(values), self.rank, 0, penalty, groups)

    def factors(self) -> list[Tensor]:
        """Return a batch of two models."""
        return [
            torch.stack([example_rows(n, self.rank, seed=9 * m + b) for b in range(2)])
            for m, n in enumerate(self.shape)
        ]

    def test_value_is_finite_and_at_least_zero(self, penalty: ScorePenalty) -> None:
        """Each member of a batch has a value of its own."""
        problem, factors = self.problem(penalty), self.factors()
        values = problem.penalty_of(factors)
        assert values is not None
        assert values.shape == (2,)
        assert torch.isfinite(values).all()
        assert (values > -1e-12).all()
        for member, value in enumerate(values):
            alone = problem.penalty_of([factor[member : member + 1] for factor in factors])
            torch.testing.assert_close(alone, value[None])

    def test_gradients_match_finite_differences(self, penalty: ScorePenalty) -> None:
        """Central differences along random directions match the gradients in every factor."""
        problem, factors, width = self.problem(penalty), self.factors(), 1e-5
        _, gradients = problem.penalty_and_gradients(factors)
        for mode, factor in enumerate(factors):
            step = width * example_rows(self.shape[mode], self.rank, seed=40 + mode)
            ahead, behind = (
                problem.penalty_of([*factors[:mode], factor + sign * step, *factors[mode + 1 :]])
                for sign in (1, -1)
            )
            slope = (ahead - behind) / 2  # type: ignore[operator]
            found = (gradients[mode] * step).sum((-2, -1))
            torch.testing.assert_close(found, slope, rtol=1e-5, atol=1e-10)

    def test_scale_moves_between_the_factors(self, penalty: ScorePenalty) -> None:
        """Predicted scores do not depend on which factor carries the scale."""
        problem, (first, second, third) = self.problem(penalty), self.factors()
        moved = problem.penalty_of([first * 5, second / 5, third])
        torch.testing.assert_close(moved, problem.penalty_of([first, second, third]))
