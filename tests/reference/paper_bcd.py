"""Algorithm 1 as one would first write it: autograd through the whole tensor, step by step."""

import torch
from torch import Tensor


def centered_gaussian_gram(rows: Tensor, gamma: float = 1.0) -> Tensor:
    n = len(rows)
    distances = (rows[:, None, :] - rows[None, :, :]).square().sum(-1)
    centering = torch.eye(n, dtype=rows.dtype, device=rows.device) - 1 / n
    return centering @ torch.exp(-gamma * distances) @ centering


def khsic_penalty(factor: Tensor, sensitive: Tensor, strength: float) -> Tensor:
    grams = centered_gaussian_gram(factor), centered_gaussian_gram(sensitive)
    return strength / len(factor) ** 2 * (grams[0] * grams[1]).sum()


def hsic_penalty(factor: Tensor, sensitive: Tensor, strength: float) -> Tensor:
    factor, sensitive = factor - factor.mean(0), sensitive - sensitive.mean(0)
    return strength / len(factor) ** 2 * (factor.T @ sensitive).square().sum()


def fatr_penalty(factor: Tensor, sensitive: Tensor, strength: float, ridge: float) -> Tensor:
    return strength * (factor.T @ sensitive).square().sum() + ridge * factor.square().sum()


def ridge_penalty(factors: list[Tensor], ridge: float, people: int) -> Tensor:
    """The squares of each component at `ridge` entries of every person, on average over cells."""
    sizes = torch.stack([factor.square().mean(0) for factor in factors]).prod(0)
    return ridge * len(factors[people]) * sizes.sum()


def reconstruct(factors: list[Tensor]) -> Tensor:
    letters = "abcdefgh"[: len(factors)]
    terms = ",".join(f"{letter}r" for letter in letters)
    return torch.einsum(f"{terms}->{letters}", *factors)


def objective(tensor: Tensor, factors: list[Tensor], penalty, mode: int = 0) -> Tensor:
    error = (tensor - reconstruct(factors))[~tensor.isnan()]
    loss = error.square().mean()
    return loss if penalty is None else loss + penalty(factors[mode])


def steps_on(tensor, factors, penalty, step, count, current, mode=0) -> list[Tensor]:
    """Return the factors after `count` gradient steps on one of them."""
    factors = [factor.clone() for factor in factors]
    penalty = penalty if current == mode else None
    for _ in range(count):
        factor = factors[current].requires_grad_()
        value = objective(tensor, factors, penalty, mode)
        (gradient,) = torch.autograd.grad(value, factor)
        factors[current] = factor.detach() - step * gradient
    return factors


def round_of_steps(tensor, factors, penalty, step_sizes, inner_steps, mode=0) -> list[Tensor]:
    """Return the factors after `inner_steps` gradient steps on each factor in turn."""
    for current in range(len(factors)):
        step = step_sizes[0] if current == mode else step_sizes[1]
        factors = steps_on(tensor, factors, penalty, step, inner_steps, current, mode)
    return factors
