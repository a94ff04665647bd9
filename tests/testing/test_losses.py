from dataclasses import dataclass

import pytest

from parafair.losses import Bernoulli, Poisson
from parafair.testing import LossContract


@dataclass(frozen=True)
class WrongSlope(Poisson):
    def value_and_slope(self, values, model):
        value, slope = super().value_and_slope(values, model)
        return value, slope + 1


@dataclass(frozen=True)
class TooFlat(Bernoulli):
    def weight(self, values, model):
        return super().weight(values, model) / 4


@dataclass(frozen=True)
class Doubled(Poisson):
    def mean(self, model):
        return super().mean(model.double())


@pytest.mark.parametrize(
    ("name", "message", "loss"),
    [
        (
            "test_slope_matches_automatic_differentiation",
            "Tensor-likes are not close",
            WrongSlope(),
        ),
        (
            "test_squares_touch_the_loss_and_lie_above_it",
            "the squares lie below the loss",
            TooFlat(),
        ),
        (
            "test_single_precision_is_kept_and_finite",
            "mean is not in single precision",
            Doubled(),
        ),
    ],
)
def test_the_contract_rejects_a_wrong_loss(name, message, loss):
    with pytest.raises(AssertionError, match=message):
        getattr(LossContract(), name)(loss)
