import numpy as np
import pytest
import torch
from torch.nn import functional

from parafair.audits.paper_network import Networks
from parafair.testing import example_groups, example_rows

ROWS = example_rows(60, 3, seed=0).float()
GROUPS = example_groups(60, seed=1)
SETTINGS = {"hidden": 16, "epochs": 20, "learning_rate": 0.1, "batch_size": 8}


@pytest.mark.parametrize("numeric", [False, True])
def test_gradient_steps_are_those_of_autograd(numeric):
    rows, groups = ROWS[:8], GROUPS[:8]
    targets = groups.float() if numeric else groups[:, 0].long()
    networks = Networks.draw(3, 16, 1 if numeric else 2, [torch.Generator().manual_seed(0)])
    weights = [w.clone().requires_grad_() for w in vars(networks).values()]
    outputs = (rows @ weights[0][0] + weights[1][0]).relu() @ weights[2][0].T
    if numeric:
        loss = functional.mse_loss(outputs, targets) / 2
    else:
        loss = functional.cross_entropy(outputs, targets)
    gradients = torch.autograd.grad(loss, weights)
    networks.descend(rows[None], targets[None], 0.1)
    for new, old, gradient in zip(vars(networks).values(), weights, gradients, strict=True):
        torch.testing.assert_close(new, (old - 0.1 * gradient).detach())


def train(rows, targets, seeds, outputs=2):
    randoms = [np.random.RandomState(seed) for seed in seeds]
    return Networks.train(rows, targets, outputs=outputs, randoms=randoms, **SETTINGS)


def test_training_recognizes_groups():
    revealing = torch.cat([GROUPS.float(), ROWS], 1)[None]
    labels = GROUPS[None, :, 0].long()
    assert (train(revealing, labels, [0]).scores(revealing).argmax(2) == labels).all()


def test_the_seed_is_honored():
    labels = GROUPS[None, :, 0].long()
    first, same, other = (train(ROWS[None], labels, [seed]) for seed in (0, 0, 1))
    assert torch.equal(first.second, same.second)
    assert not torch.equal(first.second, other.second)


@pytest.mark.parametrize("numeric", [False, True])
def test_a_batch_is_trained_as_one_by_one(numeric):
    rows = torch.stack([ROWS, ROWS.flip(0), 2 * ROWS])
    targets = rows[..., :1] if numeric else (rows[..., 0] > 0).long()
    together = train(rows, targets, range(3), outputs=1 if numeric else 2)
    for i in range(3):
        alone = train(rows[i : i + 1], targets[i : i + 1], [i], outputs=1 if numeric else 2)
        # 160 steps in single precision.
        for one, other in zip(vars(together.take(i)).values(), vars(alone).values(), strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
