import pytest
import torch

from parafair.algebra import all_cells
from parafair.algebra.entrywise import entries_of
from parafair.algebra.zero_entries import ZeroLoss, all_entries_of, closed_zeros
from parafair.losses import LOSSES, needs_non_negative
from tests.algebra.test_zero_filled import MISSING, factors_of
from tests.reference import zeros

NAMES = [name for name, loss in LOSSES.items() if isinstance(loss, ZeroLoss)]


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("name", NAMES)
def test_sums_of_a_loss_are_those_of_the_dense_tensor(name, missing, monkeypatch):
    monkeypatch.setattr(all_cells, "COLUMNS", 7)  # several parts
    monkeypatch.setattr(all_cells, "TILE", {"cpu": 40})
    listed, dense = zeros.pair(name, missing=missing)
    loss, factors = LOSSES[name], factors_of(listed.shape)
    fixed = [factor[0, :, :2] for factor in factors_of(listed.shape, rank=2)]
    if needs_non_negative(loss):
        factors, fixed = [f.abs() for f in factors], [f.abs() for f in fixed]
    mine, expected = all_entries_of(listed.observations), entries_of(dense.observations)
    pairs = []
    for more in ([], fixed):
        found, right = (e.value_and_slopes(loss, factors, more) for e in (mine, expected))
        pairs += [(found[0], right[0]), *zip(found[1], right[1], strict=True)]
        found, right = (e.margins(loss, factors, more) for e in (mine, expected))
        pairs += zip(found, right, strict=True)
        for mode in range(3):
            for method in ("of_rows", "slope_and_grams"):
                arguments = (loss, loss.weight, factors, more, mode)
                found, right = (getattr(e, method)(*arguments) for e in (mine, expected))
                pairs += zip(found, right, strict=True)
    for own, other in pairs:
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)


def test_sums_without_weights_have_no_gram_matrices():
    listed, _ = zeros.pair("poisson-identity")
    entries, factors = all_entries_of(listed.observations), factors_of(listed.shape)
    assert entries.of_rows(LOSSES["poisson-identity"], None, factors, [], 0)[2] is None
    assert entries.of_rows(LOSSES["bernoulli"], None, factors, [], 0)[2] is None


def test_some_losses_have_a_closed_form():
    closed = [name for name in LOSSES if closed_zeros(LOSSES[name]) is not None]
    assert closed == ["squared", "bernoulli-poisson", "poisson-identity"]
    assert not isinstance(LOSSES["gamma"], ZeroLoss)
