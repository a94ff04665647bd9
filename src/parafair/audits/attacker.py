"""What an attacker is: how to make models that predict a sensitive feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor

from parafair.audits.inputs import INPUTS, Input
from parafair.data.column import Kind
from parafair.errors import shown, unknown_choice

Maker = Callable[[int], Any]
Stage: TypeAlias = Literal["quick", "thorough", "slow"]

# In the order of time: a panel includes the panels before it.
STAGES: tuple[Stage, ...] = ("quick", "thorough", "slow")


@dataclass(frozen=True)
class Attacker:
    """One way to predict a feature: a classifier for categories, a regressor for numbers.

    Attributes:
        classifier: Makes an untrained classifier from a seed; None if there is none.
        regressor: Makes an untrained regressor from a seed; None if there is none.
        stage: The first panel it takes part in: "quick", "thorough" or "slow". See `panel`.
        max_people: Larger training sets are sampled down to this many people.
        inputs: The inputs it is tried on: "standardized", "whitened" and "ranks".
    """

    classifier: Maker | None
    regressor: Maker | None
    stage: Stage = "thorough"
    max_people: int | None = None
    inputs: tuple[Input, ...] = INPUTS

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise unknown_choice("stage", self.stage, STAGES)
        unknown = set(self.inputs) - set(INPUTS)
        if unknown or not self.inputs:
            given = min(unknown) if unknown else self.inputs
            raise unknown_choice("every entry of inputs", given, INPUTS)
        if self.classifier is None and self.regressor is None:
            raise ValueError(
                "classifier and regressor are both None; give at least one, a function from a "
                "seed to an untrained scikit-learn estimator"
            )

    @classmethod
    def from_estimator(cls, name: str, estimator: Any) -> Attacker:
        """Return an attacker that trains copies of a scikit-learn estimator."""
        if isinstance(estimator, Attacker):
            return estimator
        is_estimator = isinstance(estimator, BaseEstimator)
        if not (is_estimator and (is_classifier(estimator) or is_regressor(estimator))):
            raise TypeError(
                f"the estimator of attackers[{name!r}] must be a scikit-learn classifier or "
                f"regressor, got {shown(estimator)}; derive it from BaseEstimator and "
                "ClassifierMixin or RegressorMixin"
            )

        def make(seed: int) -> Any:
            copy = clone(estimator)
            unset = {k: v for k, v in copy.get_params().items() if k.endswith("random_state")}
            return copy.set_params(**{k: seed for k, v in unset.items() if v is None})

        return cls(make, None) if is_classifier(estimator) else cls(None, make)

    def predicts(self, kind: Kind) -> bool:
        """Tell whether it can predict features of this kind."""
        return (self.classifier if kind == "categorical" else self.regressor) is not None

    def make(self, kind: Kind, seed: int) -> Any:
        """Return an untrained model for one kind of feature."""
        maker = self.classifier if kind == "categorical" else self.regressor
        if maker is None:
            raise ValueError(f"this attacker has no model for {kind} features")
        return maker(seed)
