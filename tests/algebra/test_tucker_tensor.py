from itertools import pairwise

import pytest
import torch

from parafair.algebra.least_squares import MultilinearBlock, squared_block
from parafair.algebra.row_grams import RowGrams, pair_products
from parafair.algebra.tucker_tensor import Multilinear, TuckerTensor, leading, multiply
from parafair.testing import example_rows

STRUCTURE = Multilinear((6, 5), (3, 2))
RANK = 4


def members(seed=0, batch=2):
    """Bases and coordinates of matrices of the set."""
    bases = [
        example_rows(batch * size, rank, seed + place).unflatten(0, (batch, size))
        for place, (size, rank) in enumerate(
            zip(STRUCTURE.sizes, STRUCTURE.ranks, strict=True), start=1
        )
    ]
    return bases, example_rows(batch * 6, RANK, seed).unflatten(0, (batch, 6))


def test_a_tucker_tensor_is_the_sum_over_its_core():
    core = example_rows(3 * 2, 4, seed=0).reshape(3, 2, 4)
    factors = tuple(example_rows(n, r, seed=n) for n, r in zip((7, 6, 5), core.shape, strict=True))
    found = TuckerTensor(core, factors)
    expected = torch.einsum("abc,ia,jb,kc->ijk", core, *factors)
    torch.testing.assert_close(found.reconstruct(), expected)
    assert (found.shape, found.ranks) == ((7, 6, 5), (3, 2, 4))
    assert repr(found) == "TuckerTensor(7 x 6 x 5, ranks (3, 2, 4))"
    unpacked_core, unpacked = found
    assert unpacked_core is core
    assert unpacked == list(factors)


def test_members_of_the_set_are_split_and_joined_again():
    bases, core = members()
    factor = STRUCTURE.join(bases, core)
    wide = core.unflatten(1, STRUCTURE.ranks)
    expected = torch.einsum("nbcr,njb,nkc->njkr", wide, *bases).flatten(1, 2)
    torch.testing.assert_close(factor, expected)
    again, coordinates = STRUCTURE.split(factor)
    torch.testing.assert_close(STRUCTURE.join(again, coordinates), factor)
    for basis in again:
        unit = torch.eye(basis.shape[-1], dtype=torch.float64).expand(2, -1, -1)
        torch.testing.assert_close(basis.mT @ basis, unit)


def test_gradients_in_the_parameters_are_automatic_ones():
    bases, core = members()
    slope = example_rows(2 * 30, RANK, seed=9).unflatten(0, (2, 30))
    leaves = [part.clone().requires_grad_() for part in (*bases, core)]
    (STRUCTURE.join(leaves[:-1], leaves[-1]) * slope).sum().backward()
    for_bases, for_core = STRUCTURE.pull(bases, core, slope)
    for found, leaf in zip((*for_bases, for_core), leaves, strict=True):
        torch.testing.assert_close(found, leaf.grad)


def test_passes_bring_a_projection_nearer():
    factor = example_rows(2 * 30, RANK, seed=9).unflatten(0, (2, 30))
    distances = [
        float((STRUCTURE.project(factor, passes) - factor).norm()) for passes in (0, 1, 5, 20)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < distances[0]


@pytest.mark.parametrize("size", [3, 20])
def test_leading_vectors_are_singular_vectors(size):
    tensor = example_rows(2 * size, 8, seed=0).reshape(2, size, 2, 4)
    found = leading(tensor, 0, 2)
    for one, own in zip(found, tensor, strict=True):
        expected = torch.linalg.svd(own.flatten(1))[0][:, :2]
        torch.testing.assert_close(one @ one.mT, expected @ expected.mT)


def test_multiply_skips_a_mode():
    tensor = example_rows(2 * 3, 4, seed=0).reshape(1, 2, 3, 4)
    one, two = example_rows(2, 5, seed=1)[None], example_rows(3, 6, seed=2)[None]
    found = multiply(tensor, [one, two], skip=0)
    torch.testing.assert_close(found, torch.einsum("nabr,nbc->nacr", tensor, two))


@pytest.mark.parametrize("missing", [False, True])
def test_updates_of_a_block_never_increase_its_value(missing):
    people = example_rows(40, RANK, seed=0)
    entries = example_rows(30, 40, seed=1)
    observed = (example_rows(30, 40, seed=2) > -0.5).double() if missing else torch.ones(30, 40)
    observed = observed.double()
    target = ((observed * entries) @ people)[None]
    gram = (people.mT @ people)[None]
    if missing:
        gram = RowGrams.of((observed @ pair_products(people))[None], RANK)
    norm = float((observed * entries).square().sum())
    free = squared_block(target, gram, norm_squared=norm, entries=1200, ridge=None)
    block, factor = MultilinearBlock.of(free, STRUCTURE), STRUCTURE.project(target)
    values = [float(block.value(factor))]
    for _ in range(20):
        factor = block.improve(factor)
        values.append(float(block.value(factor)))
    assert all(after <= before + 1e-12 for before, after in pairwise(values))
    assert values[-1] < values[0]
    torch.testing.assert_close(STRUCTURE.project(factor), factor)
