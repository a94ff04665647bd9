import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Criterion
from parafair.testing import example_rows


def criterion(features):
    return Criterion(SensitiveFeatures.of(features), torch.zeros(0, dtype=torch.float64))


@pytest.mark.parametrize("columns", [1, 2])
def test_people_with_equal_features_are_summed_up_together(columns, monkeypatch):
    rows = example_rows(300, 3, seed=0).repeat(2, 1, 1) * torch.tensor([1.0, 2.0])[:, None, None]
    features = np.random.default_rng(1).integers(0, 3 - columns // 2, (300, columns))
    found = criterion(features)
    assert sum(found.alike.sizes) == 300
    one_by_one = criterion(features)
    one_by_one.__dict__["alike"] = None
    for part, expected in zip(
        found.value_and_gradient(rows), one_by_one.value_and_gradient(rows), strict=True
    ):
        torch.testing.assert_close(part, expected)
    monkeypatch.setattr("parafair.dependence.waves.WAVE_BYTES", {"cpu": 100_000})
    in_parts = found.value_and_gradient(rows)
    for part, expected in zip(in_parts, one_by_one.value_and_gradient(rows), strict=True):
        torch.testing.assert_close(part, expected)


def test_numbers_and_small_groups_are_not_summed_up_together():
    assert criterion(np.linspace(0, 1, 200)).alike is None
    assert criterion(np.arange(200) % 10).alike is None
