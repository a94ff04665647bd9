import torch

from parafair.encoders.adam import BETAS, EPSILON, Adam


def test_steps_are_those_of_torch():
    generator = torch.Generator().manual_seed(0)
    ours, theirs = ([torch.ones(3, 2), torch.ones(4)] for _ in range(2))
    reference = torch.optim.Adam(theirs, betas=BETAS, eps=EPSILON)
    adam = Adam(ours)
    for number in range(5):
        gradients = [torch.randn(each.shape, generator=generator) for each in ours]
        rate = 0.1 / (1 + number)
        adam.step(gradients, rate)
        for own, gradient in zip(theirs, gradients, strict=True):
            own.grad = gradient
        for group in reference.param_groups:
            group["lr"] = rate
        reference.step()
    torch.testing.assert_close(ours, theirs)
