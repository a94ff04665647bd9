"""All losses, by the contract that also tests those of other people."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData, losses
from parafair.data.side_columns import SideColumns
from parafair.losses import LOSSES, deviances, has_link, null_deviance, resolve_loss
from parafair.losses.registry import read_loss, stored_loss
from parafair.model.ridge import usual_ridge
from parafair.testing import LossContract

SETTINGS = (
    *LOSSES.values(),
    losses.Huber(delta=0.3),
    losses.Binomial(trials=7),
    losses.NegativeBinomial(shape=2.5),
)


class TestEveryLoss(LossContract):
    @pytest.fixture(params=SETTINGS, ids=repr)
    def loss(self, request):
        return request.param


def test_poisson_deviance_is_the_textbook_one():
    x, m = torch.tensor([0.0, 2.0, 5.0]).double(), torch.tensor([0.5, 0.5, 2.0]).double()
    mu = m.exp()
    expected = 2 * (torch.xlogy(x, x / mu) - (x - mu))
    torch.testing.assert_close(deviances(LOSSES["poisson"], x, m), expected)


def test_squared_deviance_is_the_squared_error():
    x, m = torch.tensor([1.0, -2.0]).double(), torch.tensor([0.5, 1.0]).double()
    torch.testing.assert_close(deviances(LOSSES["squared"], x, m), (x - m) ** 2)


def test_a_negative_binomial_with_a_large_shape_is_poisson():
    x, rate = torch.tensor([0.0, 1.0, 4.0]).double(), torch.tensor([0.7, 2.0, 3.0]).double()
    shape = 1e7
    found = deviances(losses.NegativeBinomial(shape), x, (rate / shape).log())
    torch.testing.assert_close(
        found, deviances(LOSSES["poisson"], x, rate.log()), rtol=1e-5, atol=1e-5
    )


def test_one_trial_of_a_binomial_is_a_bernoulli():
    x, m = torch.tensor([0.0, 1.0, 1.0]).double(), torch.tensor([-1.0, 0.2, 50.0]).double()
    torch.testing.assert_close(
        deviances(losses.Binomial(1), x, m), deviances(LOSSES["bernoulli"], x, m)
    )


def test_a_link_that_overflows_gives_the_largest_number_and_an_infinite_loss():
    m = torch.tensor([1e4]).double()
    for name in ("poisson", "negative-binomial", "gamma"):
        assert torch.isfinite(LOSSES[name].mean(m)).all()
    value, _ = LOSSES["poisson"].value_and_slope(torch.zeros_like(m), m)
    assert torch.isinf(value).all()


def test_probabilities_have_no_deviance_at_themselves():
    p = torch.tensor([0.0, 0.2, 0.9, 1.0]).double()
    inside = p[1:3]
    torch.testing.assert_close(
        deviances(LOSSES["bernoulli"], inside, inside.logit()), torch.zeros(2).double()
    )
    assert null_deviance(LOSSES["bernoulli"], p) > 0


@pytest.mark.parametrize("loss", SETTINGS, ids=repr)
def test_a_loss_is_stored_and_read(loss):
    assert read_loss(stored_loss(loss)) == loss


def test_unknown_losses_are_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match="loss must be one of squared, .*; got 'poison'"):
        resolve_loss("poison")
    with pytest.raises(ValueError, match="loss must be one of squared"):
        FairCP(loss=losses.Poisson).fit(np.ones((3, 3)))


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="delta must be"):
        losses.Huber(delta=0)
    with pytest.raises(ValueError, match="trials must be"):
        losses.Binomial(trials=0)
    with pytest.raises(ValueError, match="shape must be"):
        losses.NegativeBinomial(shape=-1.0)


@dataclass(frozen=True)
class Own:
    """Someone's own loss, of none of our classes: the squared error, twice."""

    name: ClassVar[str] = "own"
    measure: ClassVar[str] = "loss ratio"
    allowed: ClassVar[str] = "numbers"
    remedy: ClassVar[str] = "drop them"
    monotone: ClassVar[bool] = True
    bound: ClassVar[float] = 2.0

    def accepts(self, values):
        return torch.ones_like(values, dtype=torch.bool)

    def value_and_slope(self, values, model):
        return (model - values).square(), 2 * (model - values)

    def weight(self, values, model):
        return 2 * torch.ones_like(values + model)

    def curvature(self, values, model):
        return self.weight(values, model)

    def saturated(self, values):
        return torch.zeros_like(values)

    def mean(self, model):
        return model

    def linked(self, values, mean):
        return values

    def constant(self, values):
        return float(values.double().mean())


@dataclass(frozen=True)
class OwnPositive(Own):
    """The same for positive numbers alone."""

    def accepts(self, values):
        return values > 0


@dataclass(frozen=True)
class OwnLogarithm(losses.Huber):
    """A loss of one of our classes without a link, with a link of its own."""

    def mean(self, model):
        return model.exp()


def test_whether_a_loss_has_a_link_follows_from_its_mean():
    without = {"squared", "huber", "poisson-identity"}
    assert {name for name, loss in LOSSES.items() if not has_link(loss)} == without
    assert not has_link(Own())
    assert has_link(OwnLogarithm())


def test_an_own_loss_without_a_link_has_no_ridge_and_standardized_side_information():
    data = TensorData.from_array(np.arange(1.0, 13.0).reshape(3, 4))
    assert usual_ridge(Own()) == 0
    assert usual_ridge(OwnLogarithm()) > 0
    columns = SideColumns.of(data, Own())
    np.testing.assert_allclose(columns.mean, [5, 6, 7, 8])
    np.testing.assert_allclose(SideColumns.of(data, OwnLogarithm()).mean, 0)
    # It cannot take numbers of both signs.
    np.testing.assert_allclose(SideColumns.of(data, OwnPositive()).scale, 1)


def test_an_own_loss_without_a_link_fits_as_the_squared_error_does():
    random = np.random.default_rng(0)
    tensor = np.einsum("ir,jr,kr->ijk", *(random.standard_normal((size, 2)) for size in (20, 6, 5)))
    tensor += 0.1 * random.standard_normal(tensor.shape)
    # The best constant is zero, so that both have the same yardstick.
    tensor -= tensor.mean()
    plain, own = (FairCP(2, method="none", loss=loss).fit(tensor) for loss in ("squared", Own()))
    assert own.ridge_ == plain.ridge_ == 0
    assert own.fit_.residual == pytest.approx(plain.fit_.residual**2, rel=1e-3)
