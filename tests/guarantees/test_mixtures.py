import numpy as np
import pytest
import torch

from parafair.guarantees import mixtures
from parafair.guarantees.mixtures import draw_stratified, group_posteriors, posterior_means
from tests.guarantees.conftest import people
from tests.reference.mixtures import densities


def sample(*sizes, columns=3, seed=0):
    rows, labels = people(*sizes, columns=columns, seed=seed)
    return torch.from_numpy(rows), torch.from_numpy(np.unique(labels, return_inverse=True)[1])


@pytest.mark.parametrize("sizes", [(20, 20), (30, 7), (9, 12, 15)])
def test_posteriors_are_those_of_the_densities(sizes):
    rows, codes = sample(*sizes)
    points = rows[:15] + torch.randn(15, 3, generator=torch.Generator().manual_seed(0)).double()
    slow = densities(points.numpy(), rows.numpy(), codes.numpy(), np.eye(3))
    slow /= slow.sum(1, keepdims=True)
    np.testing.assert_allclose(group_posteriors(points, rows, codes), slow, atol=1e-12)


@pytest.mark.parametrize("tile", [(1, 1), (7, 3), (64, 16), (10**6, 10**6)])
def test_tiles_of_any_size_give_the_same(tile, monkeypatch):
    rows, codes = sample(40, 33)
    expected = group_posteriors(rows, rows, codes)
    monkeypatch.setattr(mixtures, "TILE", {"cpu": tile[0]})
    monkeypatch.setattr(mixtures, "TILE_PEOPLE", {"cpu": tile[1]})
    torch.testing.assert_close(group_posteriors(rows, rows, codes), expected)


def test_people_far_apart_do_not_underflow():
    rows, codes = sample(20, 20)
    far = rows * 1e8
    found = group_posteriors(far, far, codes)
    torch.testing.assert_close(found, torch.nn.functional.one_hot(codes).double())
    # A point that is far from everybody has a nearest person too.
    lonely = torch.full((1, 3), 1e4, dtype=torch.float64)
    assert bool(torch.isfinite(group_posteriors(lonely, rows, codes)).all())


def test_products_and_differences_agree(monkeypatch):
    rows, codes = sample(30, 20)
    expected = group_posteriors(rows, rows, codes)
    monkeypatch.setattr(mixtures, "LARGEST_PRODUCT", 0.0)
    torch.testing.assert_close(group_posteriors(rows, rows, codes), expected)


def test_single_precision_agrees():
    rows, codes = sample(50, 40)
    found = group_posteriors(rows.float(), rows.float(), codes)
    torch.testing.assert_close(
        found.double(), group_posteriors(rows, rows, codes), atol=1e-5, rtol=0
    )


def test_rotations_shifts_and_the_order_of_people_do_not_matter():
    rows, codes = sample(30, 20)
    expected = group_posteriors(rows[:10], rows, codes)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1)).double()).Q
    torch.testing.assert_close(
        group_posteriors(rows[:10] @ turn + 5, rows @ turn + 5, codes), expected
    )
    order = torch.randperm(50, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(group_posteriors(rows[:10], rows[order], codes[order]), expected)


def test_people_can_have_weights():
    rows, _ = sample(4, 4)
    numbers = torch.arange(8).double()[:, None]
    twice = torch.cat([rows, rows[:1]]), torch.cat([numbers, numbers[:1]])
    weights = torch.ones(8).double()
    weights[0] = 2
    torch.testing.assert_close(
        posterior_means(rows, rows, numbers, weights),
        posterior_means(rows, *twice, torch.ones(9).double()),
    )


@pytest.mark.parametrize("count", [7, 50, 51, 1000])
def test_draws_take_people_evenly(count):
    rows = 100.0 * torch.arange(50, dtype=torch.float64)[:, None]
    drawn = draw_stratified(rows, count, torch.Generator().manual_seed(0))
    people_drawn = (drawn / 100).round().flatten()
    counts = torch.bincount(people_drawn.long(), minlength=50)
    assert abs(counts - count / 50).max() < 2
    assert float((drawn.flatten() - 100 * people_drawn).std()) == pytest.approx(1, abs=0.4)


@pytest.mark.parametrize("largest", [0.0, 1e6])
def test_posteriors_can_be_differentiated(largest, monkeypatch):
    monkeypatch.setattr(mixtures, "LARGEST_PRODUCT", largest)
    monkeypatch.setattr(mixtures, "TILE_PEOPLE", {"cpu": 3})
    rows, codes = sample(4, 5, columns=2)
    points = (rows[:3] + 0.3).requires_grad_()
    rows.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, z: group_posteriors(x, z, codes), (points, rows))
