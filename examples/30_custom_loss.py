"""
A loss of your own: shortages cost more than leftovers
======================================================

A shop predicts how much customers will buy. To predict too little is three times as bad as to
predict too much, so the squared error is the wrong loss. A loss is a frozen dataclass; this one is
squared with another weight on each side, the loss of an expectile.
"""

from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from parafair import FairCP, TensorData, audit, split_cells


@dataclass(frozen=True)
class Expectile:
    """``w (x - m)**2`` with ``w = 2 level`` where the entry is larger, else ``2 (1 - level)``."""

    level: float = 0.75

    name: ClassVar[str] = "expectile"
    measure: ClassVar[str] = "loss ratio"
    allowed: ClassVar[str] = "numbers"
    remedy: ClassVar[str] = "drop them"
    monotone: ClassVar[bool] = True  # because the weight is the larger one everywhere

    @property
    def bound(self) -> float:
        """The larger of both weights."""
        return 2 * max(self.level, 1 - self.level)

    def accepts(self, values: Tensor) -> Tensor:
        """Return True everywhere."""
        return torch.ones_like(values, dtype=torch.bool)

    def side(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the weight of each entry."""
        return torch.where(values > model, 2 * self.level, 2 * (1 - self.level)).to(model)

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return half the weighted square, and its derivative."""
        error, weight = model - values, self.side(values, model)
        return weight * error.square() / 2, weight * error

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the bound: squares with it lie nowhere below the loss."""
        return torch.full_like(values + model, self.bound)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the weight of each side."""
        return self.side(values, model)

    def saturated(self, values: Tensor) -> Tensor:
        """Return 0: a model may equal the entries."""
        return torch.zeros_like(values)

    def mean(self, model: Tensor) -> Tensor:
        """Return the model: it is in the units of the data."""
        return model

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return the entries."""
        return values

    def constant(self, values: Tensor) -> float:
        """Return the expectile, by repeated weighted means."""
        found = values.double().mean()
        for _ in range(100):
            weights = self.side(values.double(), found)
            found = (weights * values.double()).sum() / weights.sum()
        return float(found)


# %%
# ``parafair.testing.LossContract`` tells whether the methods agree with each other: the slope with
# automatic differentiation, the squares with the loss. The tests of the repository run it on this
# class. Then it is an argument like any other.

if __name__ == "__main__":
    random = np.random.default_rng(0)
    age = np.resize(["under 40", "40 or over"], 100)
    wants = random.gamma(2, size=(100, 2)) + np.outer(age == "under 40", [1.0, 0.0])
    goods, weeks = random.gamma(2, size=(12, 2)), random.gamma(4, size=(10, 2)) / 4
    bought = np.einsum("ir,jr,kr->ijk", wants, goods, weeks)
    bought *= random.gamma(4, size=bought.shape) / 4
    data = TensorData.from_array(bought, modes=("customer", "good", "week"))
    parts = split_cells(data, test_size=0.2, random_state=0)
    errors = {}
    for name, loss in (("squared", "squared"), ("expectile", Expectile(0.9))):
        model = FairCP(rank=2, loss=loss, center=True, ridge=1, tol=1e-3)
        model.fit(parts.train, sensitive_features=age)
        errors[name] = model.predict(parts.test) - parts.test.entries.numpy()
        quick = {"attackers": ["linear", "svm"], "permutations": 1}
        leakage = audit(model.embedding_, sensitive_features=age, **quick).leakage
        print(
            f"{name:9}: {model.training_.loss.measure} {model.fit_.residual:.3f}, too little in "
            f"{np.mean(errors[name] < 0):.0%} of held-out entries, leakage {leakage:.3f}"
        )

# %%
# The errors of held-out entries: the new loss moves them to the right, where leftovers are.

if __name__ == "__main__":
    figure, axis = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
    bins = np.linspace(*np.quantile(np.concatenate(list(errors.values())), (0.01, 0.99)), 40)
    for (name, values), color in zip(errors.items(), ("#d55e00", "#0072b2"), strict=True):
        axis.hist(values, bins, histtype="stepfilled", alpha=0.5, color=color, label=name)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set(xlabel="predicted - observed", ylabel="held-out entries")
    axis.legend(frameon=False)
    plt.show()

# %%
# **What you saw.** A loss is one class. Solvers, fairness, audits and new people need nothing else.
