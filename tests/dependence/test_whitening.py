import pytest
import torch

from parafair.dependence.whitening import RowViews, Standardized
from parafair.testing import example_rows
from tests.reference.criterion import robust_units

ROWS = example_rows(90, 4, seed=0) @ example_rows(4, 4, seed=1) + 7


def test_whitened_columns_are_uncorrelated():
    found = Standardized.of(ROWS)
    torch.testing.assert_close(found.whitened.mT @ found.whitened / 90, torch.eye(4).double())
    torch.testing.assert_close(found.whitened @ found.basis, ROWS - ROWS.mean(0))


def test_robust_units_are_those_of_the_formula():
    found, (robust, components) = RowViews(ROWS[None]), robust_units(Standardized.of(ROWS).columns)
    torch.testing.assert_close(found.robust[0], robust)
    torch.testing.assert_close(found.components[0], components)


def test_people_far_away_do_not_change_the_units_of_the_others():
    rows = example_rows(200, 3, seed=2)
    far = rows.clone()
    far[:10] = 40 * far[:10]
    found, usual = RowViews(torch.stack([rows, far])), Standardized.of(far)
    spreads = found.robust[:, 10:].std(1)
    assert float((spreads[1] / spreads[0]).min()) > 0.6
    assert float(usual.whitened[10:].std(0).max()) < 0.25


@pytest.mark.parametrize("kind", ["whitened", "robust", "components"])
def test_gradients_match_finite_differences(kind):
    rows = ROWS[:20, :3].clone()
    upstream = example_rows(20, 3, seed=3)[None]
    parts = {"whitened": 0.0, "robust": 0.0, "components": 0.0} | {kind: 1.0}
    found = RowViews(rows[None])
    gradient = found.pull_back(*(weight * upstream for weight in parts.values()))[0]
    for seed in range(3):
        direction = example_rows(20, 3, seed=10 + seed)
        ahead, behind = (
            (getattr(RowViews((rows + sign * 1e-5 * direction)[None]), kind) * upstream).sum()
            for sign in (1, -1)
        )
        slope = (ahead - behind) / 2e-5
        torch.testing.assert_close((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-8)


def test_a_member_that_overflowed_does_not_fail_the_others():
    batch = torch.stack([ROWS, ROWS * torch.inf, ROWS])
    found = RowViews(batch)
    assert torch.isnan(found.robust[1]).all()
    torch.testing.assert_close(found.robust[2], found.robust[0])
