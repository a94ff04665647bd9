import pytest
import torch

from parafair.algebra import cells, row_grams, segments, sparse
from parafair.algebra import observed as observed_module
from parafair.algebra.row_grams import RowGrams, from_pairs, pair_products
from parafair.algebra.sparse import values_at
from parafair.data.tensor_data import TensorData
from parafair.testing import example_rows
from tests.reference.paper_bcd import reconstruct

SHAPES = [(6, 5), (6, 5, 4), (3, 4, 2, 5)]


def holed(shape, share=0.4):
    generator = torch.Generator().manual_seed(len(shape))
    tensor = torch.randn(shape, generator=generator, dtype=torch.float64)
    tensor[torch.rand(shape, generator=generator) < share] = torch.nan
    return tensor


def stored(tensor, storage):
    data = TensorData.from_array(tensor)
    return data.to_sparse() if storage.startswith("sparse") else data


def gram_of(sums, mode):
    """G of all rows at once."""
    grams = sums.gram(mode)
    assert isinstance(grams, RowGrams)
    return torch.cat([gram for _, gram in grams.matrices()], 1)


def sums_by_definition(tensor, factors, mode):
    """M and G entry by entry: for every observed one, the product of the other factors' rows."""
    n, rank = factors[mode].shape
    target, gram = torch.zeros(n, rank).double(), torch.zeros(n, rank, rank).double()
    for index in (~tensor.isnan()).nonzero().tolist():
        product = torch.ones(rank).double()
        for other, place in enumerate(index):
            if other != mode:
                product = product * factors[other][place]
        target[index[mode]] += tensor[tuple(index)] * product
        gram[index[mode]] += torch.outer(product, product)
    return target, gram


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("storage", ["masked", "sparse", "sparse, by cell"])
@pytest.mark.parametrize("length", [2, 64])
def test_sums_are_those_over_the_observed_entries(monkeypatch, shape, storage, length):
    # Short pieces in several blocks, whose edges cut through rows; or long ones, filled up.
    monkeypatch.setattr(segments, "SHORTEST", length)
    monkeypatch.setattr(cells, "LEAST_ENTRIES", 1 if storage == "sparse, by cell" else 1000)
    monkeypatch.setattr(cells, "PIECE", length)
    monkeypatch.setattr(row_grams, "FORMED", {"cpu": 6 * length})
    monkeypatch.setattr(segments, "HELD", {"cpu": 50})
    monkeypatch.setattr(observed_module, "NUMBERS_AT_ONCE", 20)
    tensor = holed(shape)
    batch = [torch.stack([example_rows(n, 3, seed=s + n) for s in (0, 50)]) for n in shape]
    sums = stored(tensor, storage).observations.sums(batch)
    for mode in range(len(shape)):
        for member in range(2):
            factors = [factor[member] for factor in batch]
            target, gram = sums_by_definition(tensor, factors, mode)
            torch.testing.assert_close(sums.target(mode)[member], target)
            torch.testing.assert_close(gram_of(sums, mode)[member], gram)
        # A new factor must reach the sums of the other modes.
        batch[mode] = batch[mode] + 1
        sums.replace(mode, batch[mode])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("storage", ["masked", "sparse"])
def test_residual_and_counts(monkeypatch, shape, storage):
    monkeypatch.setattr(observed_module, "NUMBERS_AT_ONCE", 20)
    tensor = holed(shape)
    found = stored(tensor, storage).observations
    factors = [example_rows(n, 3, seed=n) for n in shape]
    observed = ~tensor.isnan()
    error = (tensor - reconstruct(factors))[observed].square().sum()
    assert found.residual_squared(factors) == pytest.approx(float(error))
    assert found.values.numel() == int(observed.sum())
    for mode in range(len(shape)):
        others = [m for m in range(len(shape)) if m != mode]
        assert found.counts(mode).tolist() == observed.sum(others).tolist()


def test_rows_without_entries_have_zero_sums():
    tensor = holed((5, 4, 3))
    tensor[2] = torch.nan
    tensor[:, 3] = torch.nan
    for storage in ("masked", "sparse"):
        sums = stored(tensor, storage).observations.sums(
            [torch.ones(1, n, 2).double() for n in (5, 4, 3)]
        )
        assert not sums.target(0)[0, 2].any()
        assert not gram_of(sums, 1)[0, 3].any()


def test_values_at_cells_are_those_of_the_reconstruction(monkeypatch):
    monkeypatch.setattr(sparse, "NUMBERS_AT_ONCE", 10)
    factors = [example_rows(n, 3, seed=n) for n in (4, 3, 2)]
    cells = torch.tensor([[0, 3, 3], [2, 0, 1], [1, 1, 0]])
    expected = reconstruct(factors)[tuple(cells)]
    torch.testing.assert_close(values_at(cells, factors), expected)
    assert len(values_at(cells[:, :0], factors)) == 0


def test_pairs_come_back_as_symmetric_matrices():
    rows = example_rows(4, 3, seed=0)
    expected = torch.einsum("nr,ns->nrs", rows, rows)
    torch.testing.assert_close(from_pairs(pair_products(rows), 3), expected)
