import numpy as np
import pytest
import torch
from torch.nn import functional

from parafair.audits.paper_network import Network
from parafair.testing import example_groups, example_rows

ROWS = example_rows(60, 3, seed=0).float()
GROUPS = example_groups(60, seed=1)
SETTINGS = {"hidden": 16, "epochs": 20, "learning_rate": 0.1, "batch_size": 8}


@pytest.mark.parametrize("numeric", [False, True])
def test_gradient_steps_are_those_of_autograd(numeric):
    rows, groups = ROWS[:8], GROUPS[:8]
    targets = groups.float() if numeric else groups[:, 0].long()
    network = Network.draw(3, 16, 1 if numeric else 2, torch.Generator().manual_seed(0))
    weights = [w.clone().requires_grad_() for w in (network.first, network.bias, network.second)]
    outputs = (rows @ weights[0] + weights[1]).relu() @ weights[2]
    if numeric:
        loss = functional.mse_loss(outputs, targets) / 2
    else:
        loss = functional.cross_entropy(outputs, targets)
    gradients = torch.autograd.grad(loss, weights)
    network.descend(rows, targets, 0.1)
    updated = (network.first, network.bias, network.second)
    for new, old, gradient in zip(updated, weights, gradients, strict=True):
        torch.testing.assert_close(new, (old - 0.1 * gradient).detach())


def test_training_recognizes_groups():
    revealing = torch.cat([GROUPS.float(), ROWS], 1)
    labels = GROUPS[:, 0].long()
    random = np.random.RandomState(0)
    network = Network.train(revealing, labels, outputs=2, random=random, **SETTINGS)
    assert (network.scores(revealing).argmax(1) == labels).all()


def test_the_seed_is_honored():
    labels = GROUPS[:, 0].long()
    first, same, other = (
        Network.train(ROWS, labels, outputs=2, random=np.random.RandomState(seed), **SETTINGS)
        for seed in (0, 0, 1)
    )
    assert torch.equal(first.second, same.second)
    assert not torch.equal(first.second, other.second)
