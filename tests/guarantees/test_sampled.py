"""(F) from samples: above the exact value, by the stated error at most on average."""

import numpy as np
import pytest
import torch

from parafair import FairCP, certify, datasets
from parafair.guarantees.advantage import best_advantage
from parafair.guarantees.sampled import sampled_advantage
from parafair.guarantees.statements import RELEASE
from tests.guarantees.conftest import people

SETTINGS = {"draws": 4000, "delta": 0.05}


def generator(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("sizes", [(3000, 1000), (800, 700, 900)])
def test_the_bound_holds_for_everybody_and_is_near(sizes):
    from parafair import SensitiveFeatures

    rows, labels = people(*sizes, columns=2)
    column, z = SensitiveFeatures.of(labels).columns[0], torch.from_numpy(rows).double()
    codes = torch.from_numpy(column.values.astype(np.int64))
    exact = best_advantage(z, codes, draws=20_000, delta=0.05, generator=generator(0)).estimate
    for seed in range(5):
        found, slack = sampled_advantage(
            z, column, people=600, generator=generator(seed), **SETTINGS
        )
        assert found.upper + slack > exact
        # A sample overstates: fewer people hide each other less.
        assert abs(found.estimate - exact) < slack


def test_a_model_of_many_people_states_the_error_of_the_sample():
    data = datasets.synthetic(0, shape=(400, 8, 6), rank=3)
    model = FairCP(2, method="none", noise=1.0, max_iter=5, tol=0)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    full = certify(model, draws=2000)
    found = certify(model, draws=2000, max_people=200)
    (statement,) = found.statements
    assert statement.kind == RELEASE
    assert statement.people == 400
    # Two groups of 100: sqrt(2 / 100 * ln(1 / (0.9 * 0.05)) / 2) / 2.
    assert statement.slack == pytest.approx(0.0881, abs=1e-4)
    assert statement.upper >= full.leakage(RELEASE) - 0.01
    assert not found.exposures
    assert "samples of 200 of 400 people" in found.notes[-1]
    assert certify(model, draws=2000, max_people=400).leakage(RELEASE) == full.leakage(RELEASE)
    with pytest.raises(ValueError, match="max_people must be a whole number of at least 100"):
        certify(model, max_people=99)
