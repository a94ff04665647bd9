"""Successes among a known number of trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from parafair.arguments import whole_number
from parafair.losses import logistic


@dataclass(frozen=True)
class Binomial:
    """``n ln(1 + e**m) - x m``: entries count successes among `trials`, ``n``.

    Attributes:
        trials: The number of trials of every entry.
    """

    trials: int = 1

    name: ClassVar[str] = "binomial"
    measure: ClassVar[str] = "deviance ratio"
    remedy: ClassVar[str] = "pass loss=Binomial(trials=...) with the number of trials of an entry"
    monotone: ClassVar[bool] = True
    at_zero: ClassVar[tuple[float, float] | None] = None

    def __post_init__(self) -> None:
        whole_number("trials", self.trials)

    @property
    def allowed(self) -> str:
        """The values that an entry may have, in words."""
        return f"whole numbers from 0 to its number of trials, {self.trials}"

    @property
    def bound(self) -> float:
        """The largest curvature of the logistic curve, for each trial."""
        return self.trials / 4

    def accepts(self, values: Tensor) -> Tensor:
        """Return where values are whole numbers from 0 to `trials`."""
        return (values >= 0) & (values <= self.trials) & (values == values.round())

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood, up to a constant, and its derivative."""
        return logistic.value_and_slope(float(self.trials), values, model)

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return Jaakkola and Jordan's weight, for each trial."""
        return logistic.weight(float(self.trials), model)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``n p (1 - p)``."""
        return logistic.curvature(float(self.trials), model)

    def saturated(self, values: Tensor) -> Tensor:
        """Return the loss at ``p = x / n``."""
        return logistic.entropy(float(self.trials), values)

    def mean(self, model: Tensor) -> Tensor:
        """Return expected successes."""
        return self.trials * model.sigmoid()

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return the log-odds half way to the mean."""
        return logistic.logit((values + mean) / (2 * self.trials))

    def constant(self, values: Tensor) -> float:
        """Return the log-odds of the mean."""
        return float(logistic.logit(values.double().mean() / self.trials))
