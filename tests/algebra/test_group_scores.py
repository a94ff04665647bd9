"""Sums over predicted scores by group, against sums over the scores themselves."""

import pytest
import torch

from parafair.algebra.group_scores import GroupScores
from parafair.algebra.observed import observe
from parafair.testing import example_rows
from tests.reference import scores as slow

SHAPE, RANK, BATCH = (9, 5, 4), 3, 2
GROUPS = {0: [0, 2, 5, 6], 1: [1, 3, 8]}  # 4 and 7 belong to no group
KINDS = ("complete", "masked", "sparse", "cells")


def example(kind, *, mode=0):
    """Entries of one kind, what is observed, factors of a batch, and the scores of the groups."""
    order = [mode, *(m for m in range(3) if m != mode)]
    shape = [SHAPE[order.index(m)] for m in range(3)]
    values = 3 + example_rows(180, 1, seed=0).reshape(shape)
    observed = torch.ones(shape, dtype=torch.bool)
    if kind != "complete":
        observed = example_rows(180, 1, seed=1).reshape(shape) > -0.3
    indices = observed.nonzero().mT if kind in ("sparse", "cells") else None
    given = values[observed] if indices is not None else values.where(observed, torch.nan)
    entries = observe(given, indices, tuple(shape))
    factors = [
        torch.stack([example_rows(n, RANK, seed=7 * b + m) for b in range(BATCH)])
        for m, n in enumerate(shape)
    ]
    constants = [example_rows(n, 2, seed=30 + m) for m, n in enumerate(shape)]
    people = [torch.tensor(rows) for rows in GROUPS.values()]
    return entries, observed, factors, GroupScores.of(entries, mode, people, constants)


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    most = 1000 if request.param == "cells" else 0
    monkeypatch.setattr("parafair.algebra.cells.MOST_CELLS", most)
    monkeypatch.setattr("parafair.algebra.cells.LEAST_ENTRIES", 1)
    return request.param


def direct(factors, observed, constants, mode):
    """Moments (3, groups) of one member, from every score."""
    wide = [torch.cat([f, c], 1) for f, c in zip(factors, constants, strict=True)]
    scores = slow.predicted(wide).movedim(mode, 0)
    seen = observed.movedim(mode, 0)
    parts = [scores[rows][seen[rows]] for rows in GROUPS.values()]
    return [
        torch.tensor([len(part) for part in parts], dtype=torch.float64),
        torch.stack([part.sum() for part in parts]),
        torch.stack([part.square().sum() for part in parts]),
    ]


@pytest.mark.parametrize("mode", [0, 1])
def test_moments_are_those_of_the_scores(kind, mode):
    _, observed, factors, scores = example(kind, mode=mode)
    moments, _ = scores.moments_and_slopes(factors)
    for member in range(BATCH):
        own = [factor[member] for factor in factors]
        counts, sums, squares = direct(own, observed, scores.constants, mode)
        assert torch.equal(moments.counts, counts)
        torch.testing.assert_close(moments.sums[member], sums, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(moments.squares[member], squares, rtol=1e-10, atol=1e-10)
        for block in range(3):
            alone = scores.block(factors, block).moments(factors[block])
            torch.testing.assert_close(alone.sums[member], sums, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(alone.squares[member], squares, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", [0, 1])
def test_gradients_are_automatic_ones(kind, mode):
    _, observed, factors, scores = example(kind, mode=mode)
    of_sums = torch.tensor([[0.3, -1.0], [2.0, 0.5]], dtype=torch.float64)
    of_squares = torch.tensor([[-0.7, 0.2], [0.1, 1.5]], dtype=torch.float64)
    _, slopes = scores.moments_and_slopes(factors)
    found = scores.gradients(factors, slopes, of_sums, of_squares)
    for member in range(BATCH):
        own = [factor[member].clone().requires_grad_() for factor in factors]
        _, sums, squares = direct(own, observed, scores.constants, mode)
        value = (of_sums[member] * sums + of_squares[member] * squares).sum()
        for m, expected in enumerate(torch.autograd.grad(value, own)):
            torch.testing.assert_close(found[m][member], expected, rtol=1e-9, atol=1e-9)
            alone = scores.block(factors, m).gradient(factors[m], of_sums, of_squares)
            torch.testing.assert_close(alone[member], expected, rtol=1e-9, atol=1e-9)


def test_slopes_of_sums_are_the_gradients_of_each_sum(kind):
    _, _, factors, scores = example(kind)
    for mode in range(3):
        block = scores.block(factors, mode)
        found = block.slopes_of_sums(factors[mode])
        for group in range(len(GROUPS)):
            one = torch.zeros(BATCH, len(GROUPS), dtype=torch.float64)
            one[:, group] = 1
            expected = block.gradient(factors[mode], one, torch.zeros_like(one))
            torch.testing.assert_close(found[:, group], expected)


def test_masked_equals_complete_when_nothing_is_missing():
    entries, _, factors, complete = example("complete")
    indices = torch.ones(SHAPE).nonzero().mT
    sparse = observe(entries.values.flatten(), indices, SHAPE)
    other = GroupScores.of(sparse, 0, complete.people, complete.constants)
    one, two = (scores.moments_and_slopes(factors)[0] for scores in (complete, other))
    assert torch.equal(one.counts, two.counts)
    torch.testing.assert_close(one.sums, two.sums)
    torch.testing.assert_close(one.squares, two.squares)
