import pytest
import torch

from parafair.audits.tuned_network import Members
from parafair.testing import example_rows

ROWS = example_rows(40, 3, seed=0).float().reshape(4, 10, 3)


def draw(outputs, members=4):
    return Members.draw(members, (3, 8, 8, outputs), torch.Generator().manual_seed(0))


@pytest.mark.parametrize("numeric", [False, True])
def test_gradients_are_those_of_autograd(numeric):
    targets = ROWS[..., :1] if numeric else torch.arange(40).reshape(4, 10) % 3
    members = draw(1 if numeric else 3)
    space = members.space(10)
    for _ in range(2):  # the second time in used memory
        found = members.gradients(ROWS, targets, space)
    layers = [layer.detach().clone().requires_grad_() for layer in members.layers]
    values = ROWS.mT
    for weights, bias in zip(layers[::2], layers[1::2], strict=True):
        outputs = weights @ values + bias
        values = outputs.relu()
    if numeric:
        losses = (outputs - targets.mT).square().mean((1, 2))
    else:
        losses = torch.nn.functional.cross_entropy(outputs, targets, reduction="none").mean(1)
    torch.testing.assert_close(members.losses(ROWS, targets), losses.detach())
    expected = torch.autograd.grad(losses.sum(), layers)
    torch.testing.assert_close(found, list(expected))


def test_members_do_not_depend_on_each_other():
    members = draw(2)
    outputs = members.outputs(ROWS)
    part = slice(1, None, 2)
    torch.testing.assert_close(members.take(part).outputs(ROWS[part]), outputs[part])
    joined = Members.join([members.take(slice(0, 1)), members.take(slice(1, 4))])
    assert len(joined) == 4
    torch.testing.assert_close(joined.outputs(ROWS), outputs)
