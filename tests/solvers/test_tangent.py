import pytest
import torch

from parafair.losses import LOSSES
from parafair.solvers.sweep import Sweep
from tests.solvers.test_deviance import KINDS, NAMES, batch_of, problem_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_block_touches_the_loss_and_lies_above_it_if_it_is_monotone(name, kind):
    _, problem = problem_of(name, kind)
    factors = batch_of(problem)
    generator = torch.Generator().manual_seed(0)
    _, gradients, _ = problem.value_and_gradients(factors)
    for mode, factor in enumerate(factors):
        block = Sweep(problem, factors).block(mode)
        torch.testing.assert_close(block.value(factor), problem.evaluate(factors).value)
        move = torch.randn(factor.shape, generator=generator, dtype=factor.dtype)
        slope = (block.value(factor + 1e-6 * move) - block.value(factor - 1e-6 * move)) / 2e-6
        torch.testing.assert_close(
            slope, (gradients[mode] * move).sum((-2, -1)), rtol=1e-5, atol=1e-6
        )
        other = list(factors)
        other[mode] = factor + move
        if LOSSES[name].monotone:
            assert (problem.evaluate(other).value <= block.value(other[mode]) + 1e-9).all()


def test_complete_events_share_one_gram_matrix():
    _, problem = problem_of("bernoulli", "complete")
    assert Sweep(problem, batch_of(problem)).block(0).gram.shape == (2, 2, 2)
