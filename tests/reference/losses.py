"""Losses of whole tensors by their textbook formulas, minimized by automatic differentiation."""

import torch


def negative_log_likelihood(name, x, m):
    """The loss of each entry, up to a constant; losses with their default settings."""
    return {
        "squared": lambda: (x - m) ** 2 / 2,
        "huber": lambda: torch.where((x - m).abs() <= 1, (x - m) ** 2 / 2, (x - m).abs() - 0.5),
        "bernoulli": lambda: torch.log(1 + m.exp()) - x * m,
        "binomial": lambda: torch.log(1 + m.exp()) - x * m,
        "negative-binomial": lambda: (1 + x) * torch.log(1 + m.exp()) - x * m,
        "poisson": lambda: m.exp() - x * m,
        "poisson-identity": lambda: m - x * m.log(),
        "bernoulli-poisson": lambda: (1 - x) * m - x * torch.log(1 - (-m).exp()),
        "gamma": lambda: m + x * (-m).exp(),
    }[name]()


def loss_of(name, tensor, factors, offsets=0.0, ridge=0.0):
    """Twice the loss of the observed entries, and the ridge, over their number; mode 0 has people.

    The ridge is the squared size of the components on extra entries of each person.
    """
    observed = ~tensor.isnan()
    model = torch.einsum("ir,jr,kr->ijk", *factors) + offsets
    values = negative_log_likelihood(name, tensor[observed], model.expand_as(tensor)[observed])
    sizes = [f.square().mean(0) for f in factors]
    held = ridge * tensor.shape[0] * (sizes[0] * sizes[1] * sizes[2]).sum()
    return (2 * values.sum() + held) / observed.sum()


def minimize(objective, begin, steps=300):
    """Return the tensors where an objective is smallest, from `begin`, by torch's L-BFGS."""
    found = [part.clone().requires_grad_() for part in begin]
    solver = torch.optim.LBFGS(
        found, max_iter=steps, tolerance_grad=1e-12, tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure():
        solver.zero_grad()
        value = objective(found)
        value.backward()
        return value

    solver.step(closure)
    return [part.detach() for part in found]


def example(name, shape=(14, 6, 5), rank=2, missing=0.0, seed=0):
    """Entries that a loss accepts, from a model of this rank; NaN where missing."""
    generator = torch.Generator().manual_seed(seed)
    factors = [torch.randn(n, rank, generator=generator, dtype=torch.float64) for n in shape]
    model = 0.8 * torch.einsum("ir,jr,kr->ijk", *factors).clamp(-3, 3)
    noise = torch.rand(shape, generator=generator, dtype=torch.float64)
    drawn = {
        "squared": lambda: model + noise,
        "huber": lambda: model + 0.1 / (noise + 0.02),
        "bernoulli": lambda: (noise < model.sigmoid()).double(),
        "binomial": lambda: (noise < model.sigmoid()).double(),
        "bernoulli-poisson": lambda: (noise < 1 - (-model.abs()).exp()).double(),
        "gamma": lambda: model.exp() * (0.2 + noise),
    }
    tensor = drawn[name]() if name in drawn else torch.poisson(model.exp(), generator=generator)
    gone = torch.rand(shape, generator=generator, dtype=torch.float64) < missing
    return torch.where(gone, torch.nan, tensor)
