import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parafair.algebra.cp_tensor import (
    CPTensor,
    contract_first,
    cross_gram,
    gram,
    khatri_rao,
    mttkrp,
    reconstruct,
)
from tests.reference import paper_bcd

shapes = st.lists(st.integers(1, 5), min_size=2, max_size=4)
batches = st.sampled_from([(), (1,), (3,), (2, 2)])


def draw_factors(shape, rank, batch=(), dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(*batch, n, rank, generator=generator, dtype=torch.float64).to(dtype)
        for n in shape
    ]


def slow_mttkrp(tensor, factors, mode):
    """One entry after the other, straight from the definition."""
    result = torch.zeros_like(factors[mode])
    for index in np.ndindex(*tensor.shape):
        for r in range(result.shape[1]):
            product = tensor[index].clone()
            for other, factor in enumerate(factors):
                if other != mode:
                    product = product * factor[index[other], r]
            result[index[mode], r] += product
    return result


@settings(max_examples=40, deadline=None)
@given(shapes, st.integers(1, 3), batches, st.booleans())
def test_mttkrp_equals_its_definition_for_any_order_and_batch(shape, rank, batch, batched_tensor):
    factors = draw_factors(shape, rank, batch)
    lead = batch if batched_tensor else ()
    tensor = torch.randn(*lead, *shape, generator=torch.Generator().manual_seed(1)).double()
    first = contract_first(tensor, factors[0], len(shape))
    for mode in range(len(shape)):
        fast = mttkrp(tensor, factors, mode)
        assert fast.shape == factors[mode].shape
        if mode:
            torch.testing.assert_close(mttkrp(tensor, factors, mode, first), fast)
        for member in np.ndindex(*batch):
            own = tensor[member] if batched_tensor else tensor
            slow = slow_mttkrp(own, [factor[member] for factor in factors], mode)
            torch.testing.assert_close(fast[member], slow)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reconstruction_equals_the_sum_of_outer_products(order, dtype):
    factors = draw_factors((4, 3, 2, 5)[:order], 3, dtype=dtype)
    torch.testing.assert_close(reconstruct(factors), paper_bcd.reconstruct(factors))


def test_reconstruction_broadcasts_over_a_batch():
    factors = draw_factors((4, 3, 2), 3, batch=(2,))
    whole = reconstruct(factors)
    assert whole.shape == (2, 4, 3, 2)
    torch.testing.assert_close(whole[1], reconstruct([factor[1] for factor in factors]))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_mttkrp_broadcasts_batches_of_different_shapes(mode):
    shape, rank = (3, 4, 5), 2
    shared = draw_factors(shape, rank)
    mixed = [f.expand(b, *f.shape) for f, b in zip(shared, (1, 6, 1), strict=True)]
    tensors = torch.randn(6, *shape, generator=torch.Generator().manual_seed(0)).double()
    for factors in (shared, mixed):
        batched = mttkrp(tensors, factors, mode)
        assert batched.shape == (6, shape[mode], rank)
        torch.testing.assert_close(batched[4], mttkrp(tensors[4], shared, mode))
    one = mttkrp(tensors[0], mixed, mode)
    torch.testing.assert_close(one[5], mttkrp(tensors[0], shared, mode))


def test_grams_give_the_curvature_without_the_tensor():
    factors = draw_factors((4, 3, 5), 2, batch=(3,))
    expected = gram(khatri_rao([factors[0], factors[2]]))
    torch.testing.assert_close(cross_gram([gram(factor) for factor in factors], 1), expected)


class TestCPTensor:
    def test_unpacks_like_tensorlys(self):
        cp = CPTensor.from_factors(draw_factors((4, 3), 2))
        weights, factors = cp
        assert torch.equal(weights, torch.ones(2, dtype=torch.float64))
        assert [tuple(factor.shape) for factor in factors] == [(4, 2), (3, 2)]
        assert len(cp) == 2
        assert torch.equal(cp[1][0], factors[0])
        assert (cp.rank, cp.shape) == (2, (4, 3))

    def test_reconstruction_is_tensorlys(self):
        tensorly = pytest.importorskip("tensorly")
        cp = CPTensor(torch.tensor([2.0, 3.0]).double(), tuple(draw_factors((4, 3, 5), 2)))
        theirs = tensorly.cp_to_tensor((cp.weights.numpy(), [f.numpy() for f in cp.factors]))
        np.testing.assert_allclose(theirs, cp.reconstruct().numpy())

    def test_ranks_must_agree(self):
        with pytest.raises(ValueError, match=r"agree on the rank.*\[2, 3\]"):
            CPTensor.from_factors([torch.ones(4, 2), torch.ones(3, 3)])

    def test_one_factor_is_not_enough(self):
        with pytest.raises(ValueError, match="at least 2 matrices.*got 1"):
            CPTensor.from_factors([torch.ones(4, 2)])


@pytest.mark.parametrize("factors", [[], [[1.0], [2.0]], 5, [np.eye(2), np.eye(2)]])
def test_factors_that_are_no_tensors_are_refused(factors):
    with pytest.raises(TypeError, match="factors must be"):
        CPTensor.from_factors(factors)


def test_factors_that_are_no_matrices_are_refused():
    with pytest.raises(ValueError, match="factors must be matrices, one per mode, and weights"):
        CPTensor(torch.ones(2), (torch.ones(2), torch.ones(2)))
