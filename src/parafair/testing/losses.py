"""The contract of losses."""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.algebra.zero_entries import ZeroLoss
from parafair.losses import Loss, needs_non_negative


class LossContract:
    """Contract of a loss; provide the fixture `loss`."""

    def grid(self, loss: Loss) -> tuple[Tensor, Tensor, Tensor]:
        """Return entries that the loss accepts, models, and points where squares touch the loss.

        Models of a loss for non-negative factors are not negative. Shapes are (entries, 1, 1),
        (models, 1) and (points,).
        """
        tried = torch.tensor(
            [-2.5, 0.0, 0.25, 1.0, 2.0, 3.5, 7.0], dtype=torch.float64, device="cpu"
        )
        values = tried[loss.accepts(tried)]
        models = torch.linspace(-6, 6, 61, dtype=torch.float64, device="cpu")
        points = torch.tensor([-4.0, -0.5, 0.0, 1e-6, 1.5, 4.0], dtype=torch.float64, device="cpu")
        if needs_non_negative(loss):
            models, points = models[models >= 0], points[points > 0]
        return values[:, None, None], models[:, None], points

    def test_it_accepts_some_values(self, loss: Loss) -> None:
        """At least two values are possible, and messages can say which."""
        assert self.grid(loss)[0].numel() >= 2
        for text in (loss.name, loss.measure, loss.allowed, loss.remedy):
            assert text.strip() == text != ""

    def test_slope_matches_automatic_differentiation(self, loss: Loss) -> None:
        """The derivative is that of the value."""
        values, models, _ = self.grid(loss)
        # Away from the kinks of a loss.
        at = (models + 0.013).expand(len(values), -1, 1).clone().requires_grad_()
        value, slope = loss.value_and_slope(values, at)
        (expected,) = torch.autograd.grad(value.sum(), at)
        torch.testing.assert_close(slope.detach(), expected)

    def test_single_precision_is_kept_and_finite(self, loss: Loss) -> None:
        """Nothing becomes double precision on the way, which a fit in single precision lacks."""
        values, models, _ = (part.float() for part in self.grid(loss))
        both = (values, models + 0.013)
        found = {
            "value_and_slope": loss.value_and_slope(*both),
            "weight": (loss.weight(*both),),
            "curvature": (loss.curvature(*both),),
            "saturated": (loss.saturated(values),),
            "mean": (loss.mean(models),),
            "linked": (loss.linked(values, values.mean()),),
        }
        for name, parts in found.items():
            for part in parts:
                assert part.dtype == torch.float32, f"{name} is not in single precision"
                assert torch.isfinite(part).all(), f"{name} is not finite in single precision"

    def test_squares_touch_the_loss_and_lie_above_it(self, loss: Loss) -> None:
        """If the loss is monotone, weighted squares and those of its bound are nowhere below it."""
        values, models, points = self.grid(loss)
        here, slope = loss.value_and_slope(values, points)
        there, _ = loss.value_and_slope(values, models)
        move = models - points
        weights = [loss.weight(values, points)]
        assert (weights[0] >= 0).all()
        assert (weights[0] > 0).any()
        if loss.bound is not None:
            weights.append(torch.full_like(weights[0], loss.bound))
        for weight in weights if loss.monotone else []:
            above = here + slope * move + weight / 2 * move.square()
            least = (above - there).min()
            assert least > -1e-9 * (1 + there.abs().max()), "the squares lie below the loss"

    def test_curvature_is_at_least_zero_and_at_most_the_bound(self, loss: Loss) -> None:
        """Neither it nor the weight exceeds the bound."""
        values, models, _ = self.grid(loss)
        curvature, weight = (function(values, models) for function in (loss.curvature, loss.weight))
        assert (curvature >= 0).all()
        if loss.bound is not None:
            assert max(curvature.max(), weight.max()) <= loss.bound * (1 + 1e-12)

    def test_no_model_is_below_the_saturated_one(self, loss: Loss) -> None:
        """The saturated value is a lower bound, and nearly reached."""
        values, _, _ = self.grid(loss)
        models = torch.linspace(-12, 12, 4801, dtype=torch.float64, device="cpu")[:, None]
        if needs_non_negative(loss):
            models = models.clamp_min(0.0)
        least = loss.value_and_slope(values, models)[0].amin((-2, -1))
        saturated = loss.saturated(values.flatten())
        assert (least - saturated).min() > -1e-9
        assert (least - saturated).max() < 1e-3

    def test_the_loss_of_zeros_is_as_stated(self, loss: Loss) -> None:
        """If it has `at_zero`, zeros are values, and those are the terms and the weight of one."""
        if not isinstance(loss, ZeroLoss):
            return
        _, models, _ = self.grid(loss)
        zeros = torch.zeros_like(models)
        assert loss.accepts(zeros).all()
        values = torch.cat([self.grid(loss)[0].flatten(), zeros[:5, 0]])
        of_mean = loss.constant(values.mean().reshape(1))
        assert abs(loss.constant(values) - of_mean) < 1e-9 * (1 + abs(of_mean))
        if loss.at_zero is not None:
            linear, quadratic = loss.at_zero
            expected = linear * models + quadratic * models.square()
            torch.testing.assert_close(loss.value_and_slope(zeros, models)[0], expected)
            for weight in (loss.weight, loss.curvature):
                found = weight(zeros, models)
                torch.testing.assert_close(found, torch.full_like(found, 2 * quadratic))

    def test_the_constant_is_the_best_one(self, loss: Loss) -> None:
        """Its slope vanishes, and its mean has the units of the entries."""
        values, _, _ = self.grid(loss)
        constant = torch.full_like(values, loss.constant(values))
        _, slope = loss.value_and_slope(values, constant)
        assert abs(float(slope.mean())) < 1e-6 * (1 + float(values.abs().max()))
        assert torch.isfinite(loss.mean(constant)).all()

    def test_linked_entries_are_finite_and_in_order(self, loss: Loss) -> None:
        """Larger entries are larger on the scale of the model; missing ones stay missing."""
        values = self.grid(loss)[0].flatten().sort().values
        missing = values.new_tensor([torch.nan])
        linked = loss.linked(torch.cat([values, missing]), values.mean())
        assert torch.isnan(linked[-1])
        assert torch.isfinite(linked[:-1]).all()
        assert (linked[:-1].diff() > 0).all()
