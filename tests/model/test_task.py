"""Where fits of a model begin."""

import numpy as np
import pytest

from parafair import FairCP


def test_best_of_many_starts_is_kept(data):
    model = FairCP(3, method="none", n_init=5, random_state=0).fit(data.tensor)
    assert len(model.fits_) == 5
    assert model.fit_.objective == min(fit.objective for fit in model.fits_)
    single = FairCP(3, method="none", n_init=1, random_state=0).fit(data.tensor)
    assert model.fits_[0].objective == pytest.approx(single.fit_.objective, rel=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_plain_fit_finds_the_factors_of_an_exact_tensor(missing):
    for seed in range(8):
        random = np.random.default_rng(seed)
        factors = [random.normal(size=(size, 3)) for size in (60, 40, 30)]
        tensor = np.einsum("ir,jr,kr->ijk", *factors)
        tensor[random.random(tensor.shape) < missing] = np.nan
        model = FairCP(3, method="none", ridge=0, random_state=seed).fit(tensor)
        assert model.fit_.residual < 1e-6
        assert model.fit_.counts["rough iterations"] > 0


def test_warm_start_from_an_earlier_model(data):
    first = FairCP(3, method="none", random_state=0).fit(data.tensor)
    second = FairCP(3, method="none", init=first.cp_, max_iter=2, tol=0).fit(data.tensor)
    assert second.fit_.objective <= first.fit_.objective
    third = FairCP(3, method="none", init=[f.numpy() for f in first.cp_.factors], tol=1e-2)
    assert third.fit(data.tensor).fit_.n_iter <= 10  # as many as it needs to know
