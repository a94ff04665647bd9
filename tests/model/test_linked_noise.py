"""Noise with a link: predictions are exponential in the rows."""

import numpy as np
import pytest

from parafair import FairCP
from parafair.errors import ParafairWarning


def counts_with_zero_people(seed, people=80, zeros=5):
    """Counts of people in two groups; some people have zeros alone."""
    random = np.random.default_rng(seed)
    groups = random.integers(0, 2, people)
    rows = random.normal(size=(people, 3))
    model = np.einsum("ir,jr,kr->ijk", rows, *(random.normal(size=(m, 3)) for m in (10, 8)))
    counts = random.poisson(np.exp((1.5 * model / model.std() - 1).clip(-8, 5))).astype(float)
    counts[:zeros] = 0
    return counts, groups


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("seed", [31, 32, 33])
def test_people_with_zeros_alone_do_not_make_everybodys_noise_huge(seed, center):
    counts, groups = counts_with_zero_people(seed)
    model = FairCP(3, loss="poisson", method="none", noise=0.1, center=center)
    model.fit(counts, sensitive_features=groups)
    assert model.ridge_ == 0.1
    before = model.fit_.before_noise.residual
    assert model.fit_.residual < before + 0.15


def test_noise_that_makes_predictions_useless_is_told():
    counts, groups = counts_with_zero_people(31)
    model = FairCP(3, loss="poisson", method="none", noise=1.0, ridge=0.0)
    with pytest.warns(ParafairWarning, match="noise raises the deviance ratio from 0.* worse than"):
        model.fit(counts, sensitive_features=groups)


def test_squared_errors_and_additive_losses_have_no_ridge_without_missing_entries():
    counts, _ = counts_with_zero_people(31)
    for loss in ("squared", "huber", "poisson-identity"):
        model = FairCP(2, loss=loss, method="none", tol=0.0, max_iter=2).fit(counts)
        assert model.ridge_ == 0
