import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from parafair.dependence.sliced import move_together


def two_groups(first, second, columns, *, seed=0, differ=True):
    """Return points of two groups, the second with another mean and spread, and the groups."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(first + second, columns, generator=generator, dtype=torch.float64)
    groups = (torch.arange(first + second) >= first).long()
    if differ:
        points[first:] = points[first:] * torch.linspace(0.5, 2, columns) + 1
    return points, groups


def test_in_one_column_two_groups_of_equal_size_meet_halfway():
    points, groups = two_groups(40, 40, 1)
    moved = move_together(points, groups)
    halfway = (points[:40].sort(0).values + points[40:].sort(0).values) / 2
    for group in (0, 1):
        found = moved[groups == group].sort(0).values
        torch.testing.assert_close(found, halfway, rtol=0, atol=1e-5)
        # Nobody overtakes another of the same group.
        ranks = points[groups == group].argsort(0)
        assert (moved[groups == group][ranks.flatten()].diff(dim=0) >= 0).all()


@pytest.mark.parametrize(("first", "second"), [(600, 600), (300, 1500)])
def test_groups_agree_in_directions_that_were_not_tried(first, second):
    points, groups = two_groups(first, second, 4)
    moved = move_together(points, groups)
    directions = torch.from_numpy(np.random.default_rng(1).standard_normal((4, 20)))
    before, after = (
        [ks_2samp(z[groups == 0], z[groups == 1]).pvalue for z in (rows @ directions).T]
        for rows in (points, moved)
    )
    assert np.median(before) < 1e-6
    assert min(after) > 0.05


def test_three_groups_and_a_tiny_one_agree():
    points, groups = two_groups(500, 500, 3)
    groups[900:997], groups[997:] = 2, 3
    moved = move_together(points, groups)
    means = [moved[groups == group].mean(0) for group in range(3)]
    assert (torch.stack(means).std(0) < 0.05).all()
    assert moved.isfinite().all()


def test_groups_of_one_distribution_hardly_move():
    points, groups = two_groups(1000, 1000, 4, differ=False)
    moved = move_together(points, groups)
    assert float((moved - points).square().sum(1).mean()) < 0.05


def test_the_order_of_people_does_not_matter():
    points, groups = two_groups(60, 90, 3)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    moved = move_together(points[order], groups[order])
    torch.testing.assert_close(moved, move_together(points, groups)[order], rtol=0, atol=1e-5)


def test_rounding_does_not_decide_where_equal_people_go():
    points, groups = two_groups(300, 300, 3)
    points = points[torch.arange(600) // 20 * 20]  # thirty different rows
    nearly = points + 1e-14 * torch.randn(points.shape, generator=torch.Generator().manual_seed(1))
    moved = [move_together(rows, groups) for rows in (points, nearly)]
    torch.testing.assert_close(*moved, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_cannot_move_stays(dtype):
    points = torch.randn(10, 2, generator=torch.Generator().manual_seed(0), dtype=dtype)
    one = torch.zeros(10, dtype=torch.long)
    assert torch.equal(move_together(points, one), points)
    constant, halves = torch.ones(10, 2, dtype=dtype), torch.arange(10) % 2
    assert torch.equal(move_together(constant, halves), constant)
    assert move_together(points, halves).dtype == dtype
