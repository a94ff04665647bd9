"""Readings: choices where the paper is silent or contradicts itself, with reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from parafair.errors import unknown_choice


@dataclass(frozen=True)
class Readings:
    """The readings of the paper; `EXPLAINED` has the reason for each default.

    Attributes:
        init: What the initial factors are drawn from: "uniform" (U(0, 1)) or "normal" (N(0, 1)).
        inner_steps: Gradient steps on a factor before the next one.
        rounds: Outer iterations of Algorithm 1 on the synthetic data.
        contraceptive_rounds: The same on the contraceptive data.
        units: Units of the strengths of HSIC and KHSIC on the synthetic data: "sum" or "mean".
        contraceptive_units: The same on the contraceptive data.
        loss: Whether squared errors are averaged, "mean", or summed, "sum".
        steps: Step sizes: "capped" by the curvature, or as "printed".
        scaling: Columns of the contraceptive table: "range" (to [0, 1]), "standard" or "raw".
        largest: Largest strength of KHSIC-BCD in Figures 1b and 2b: "printed" (0.04) or "range"
            (0.4).
        runs: What differs between the five runs: "starts", or "data" as well.
        ones: Which of two groups is 1 in S: the "second" or the "first".
        batch_size: People per step of the classifier.
    """

    init: str = "uniform"
    inner_steps: int = 200
    rounds: int = 100
    contraceptive_rounds: int = 50
    units: str = "sum"
    contraceptive_units: str = "mean"
    loss: str = "mean"
    steps: str = "capped"
    scaling: str = "range"
    largest: str = "printed"
    runs: str = "starts"
    ones: str = "second"
    batch_size: int = 32

    def __post_init__(self) -> None:
        for name, options in OPTIONS.items():
            if getattr(self, name) not in options:
                raise unknown_choice(f"reading {name!r}", getattr(self, name), options)
        for name in WHOLE_NUMBERS:
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(
                    f"reading {name!r} must be a whole number of at least 1, got "
                    f"{getattr(self, name)!r}"
                )


WHOLE_NUMBERS = ("inner_steps", "rounds", "contraceptive_rounds", "batch_size")
OPTIONS = {
    "init": ("uniform", "normal"),
    "units": ("sum", "mean"),
    "contraceptive_units": ("sum", "mean"),
    "loss": ("mean", "sum"),
    "steps": ("capped", "printed"),
    "scaling": ("range", "standard", "raw"),
    "largest": ("printed", "range"),
    "runs": ("starts", "data"),
    "ones": ("second", "first"),
}


@dataclass(frozen=True)
class Explanation:
    """Why a reading is needed, and why this one.

    Attributes:
        paper: What the paper says or omits.
        reason: Why the default was chosen.
    """

    paper: str
    reason: str


EXPLAINED = {
    "init": Explanation(
        "The initial factors are drawn from U(0, 1).",
        "This is printed. `parafair reproduce readings` shows what a standard normal start "
        "changes.",
    ),
    "inner_steps": Explanation(
        "Algorithm 1 takes one gradient step on a factor, and the experiments take 200.",
        "We follow the experiments.",
    ),
    "rounds": Explanation(
        "The paper does not give the number of epochs T of Algorithm 1.",
        "In 300 more iterations the residual of plain BCD falls by less than 0.002. The seventh "
        "figure shows the effect of this number.",
    ),
    "contraceptive_rounds": Explanation(
        "The paper does not give the number of epochs.",
        "BCD on this matrix has converged after 30 iterations. An iteration of KHSIC-BCD takes "
        "more than a second on one core.",
    ),
    "units": Explanation(
        "The objective divides KHSIC by n². With this division the printed strengths have no "
        "effect.",
        "Without the division (strength times n² in the formula) the printed strengths have an "
        "effect. A footnote defines HSIC without the division.",
    ),
    "contraceptive_units": Explanation(
        "The same formula, with strengths up to 4.8.",
        "With the 1/n² of the formula these strengths have an effect. Without it the penalty is a "
        "million times the loss.",
    ),
    "loss": Explanation(
        "The objective divides the squared error by the number of entries. Algorithm 1 and the "
        "formula of FATR do not.",
        "The paper says that the objective is minimized. With the division the printed step sizes "
        "are reasonable.",
    ),
    "steps": Explanation(
        "The paper prints fixed step sizes.",
        "With the printed step sizes FATR diverges in the first iteration on both data sets (its "
        "ridge of 1 requires steps of at most 1), and HSIC-BCD diverges within ten iterations on "
        "the synthetic data. We cap a step at the bound that the curvature of its block gives. The "
        "tables say how often.",
    ),
    "scaling": Explanation(
        "The paper does not say how the columns are scaled. Their ranges go from 0-1 to 16-49.",
        "With raw or standardized columns and the printed step sizes, every method diverges within "
        "two iterations. With columns scaled to [0, 1], only FATR does.",
    ),
    "largest": Explanation(
        "Figure 2b uses 0.04 for KHSIC-BCD and calls it the largest value of Figure 2a. The "
        "largest value of Figure 2a is 0.4, that of Figure 1b is 0.04.",
        "These are the printed numbers. Figure 2b shows both.",
    ),
    "runs": Explanation(
        "The bars are averages of five runs. The paper does not say how the runs differ.",
        "The starts and the classifier's split differ. The text mentions one synthetic data set.",
    ),
    "ones": Explanation(
        "FATR does not center S, so its result depends on which group is 1. For the contraceptive "
        "data 1 is the majority. For the synthetic data the paper does not say.",
        "We follow the order of the text: 1 is the uniform group, and the majority.",
    ),
    "batch_size": Explanation(
        "The paper does not give the classifier's batch size and initial weights.",
        "We use a batch size of 32 and PyTorch's default weights of linear layers.",
    ),
}


def read_readings(changes: Iterable[str]) -> Readings:
    """Return the readings with changes such as "rounds=50".

    >>> read_readings(["rounds=50", "units=mean"]).rounds
    50
    """
    found = read_values(changes)
    for name, values in found.items():
        if len(values) > 1:
            raise ValueError(
                f"reading {name!r} must have one value here, got {len(values)}; "
                "`parafair reproduce readings` compares several"
            )
    return replace(Readings(), **{name: value for name, (value,) in found.items()})


def read_values(changes: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each reading in texts such as "rounds=50,100".

    >>> read_values(["rounds=50,100"])
    {'rounds': (50, 100)}
    """
    found: dict[str, tuple[Any, ...]] = {}
    known = [entry.name for entry in fields(Readings)]
    for change in changes:
        name, equals, text = change.partition("=")
        if name not in known:
            raise unknown_choice("a reading", name, known)
        if not equals or not text:
            raise ValueError(f"a reading must be written NAME=VALUE, got {change!r}")
        values: list[Any] = list(dict.fromkeys(text.split(",")))
        if name in WHOLE_NUMBERS:
            for value in values:
                if not value.isdecimal():
                    raise ValueError(f"reading {name!r} must be a whole number, got {value!r}")
            values = [int(value) for value in values]
        for value in values:
            Readings(**{name: value})  # which refuses what is no value of this reading
        found[name] = tuple(values)
    return found
