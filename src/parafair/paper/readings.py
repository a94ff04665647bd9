"""What the paper leaves open or says in two ways: the reading chosen, why, and the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from parafair.errors import unknown_choice


@dataclass(frozen=True)
class Readings:
    """The readings of the paper, each of which can be replaced; `EXPLAINED` says why.

    Attributes:
        rounds: Outer rounds of Algorithm 1 on the synthetic data.
        contraceptive_rounds: The same on the contraceptive data.
        units: Units of the strengths of HSIC and KHSIC on the synthetic data: "sum" or "mean".
        contraceptive_units: The same on the contraceptive data.
        loss: Whether squared errors are averaged, "mean", or summed, "sum".
        steps: "capped" at what the curvature allows, or as "printed".
        scaling: Columns of the contraceptive table: "range" (to [0, 1]), "standard" or "raw".
        largest: Strength of KHSIC-BCD in Figure 2b: "printed" (0.04) or "range" (0.4).
        runs: What differs between the five runs: "starts", or "data" as well.
        ones: Which of two groups is 1 in S: the "second" or the "first".
        batch_size: People per step of the classifier.
    """

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
        for name in ("rounds", "contraceptive_rounds", "batch_size"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(
                    f"reading {name!r} must be a whole number of at least 1, got "
                    f"{getattr(self, name)!r}"
                )


OPTIONS = {
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
        paper: What the paper says, or does not.
        reason: Why the default was chosen.
    """

    paper: str
    reason: str


EXPLAINED = {
    "rounds": Explanation(
        "The number of epochs T of Algorithm 1 is not given.",
        "After it the residual of plain BCD falls by less than 0.002 in 300 more rounds. The "
        "seventh figure shows what the number decides.",
    ),
    "contraceptive_rounds": Explanation(
        "The number of epochs is not given.",
        "BCD on this matrix no longer moves after 30 rounds; a round of KHSIC-BCD takes more than "
        "a second on one core.",
    ),
    "units": Explanation(
        "The objective divides KHSIC by n²; the printed strengths have no effect if they are "
        "meant like that.",
        "Without the division (strength times n² in the formula) the printed ranges act. "
        "A footnote defines HSIC without it.",
    ),
    "contraceptive_units": Explanation(
        "The same formula, with strengths up to 4.8.",
        "With the 1/n² of the formula these strengths act; without it they are a million times "
        "the loss.",
    ),
    "loss": Explanation(
        "The objective divides the squared error by the number of entries; Algorithm 1 and the "
        "formula of FATR do not.",
        "The objective is what is said to be minimized, and with the division the printed steps "
        "are of the right size.",
    ),
    "steps": Explanation(
        "Fixed step sizes are printed.",
        "At the printed steps FATR overflows in the first round on both data sets (its ridge of 1 "
        "alone allows no step beyond 1), and HSIC-BCD within ten on the synthetic data. A step is "
        "shortened where it exceeds what the curvature of its block allows; tables say how often.",
    ),
    "scaling": Explanation(
        "Nothing is said about the units of the columns, which run from 0-1 to 16-49.",
        "With raw or standardized columns every method overflows at the printed steps within two "
        "rounds; with columns on [0, 1] only FATR does.",
    ),
    "largest": Explanation(
        "Figure 2b uses 0.04 for KHSIC-BCD and calls it the largest value of the range of "
        "Figure 2a, which is 0.4.",
        "The number that is printed; both are in the figure.",
    ),
    "runs": Explanation(
        "Bars are averages of five runs; what differs between them is not said.",
        "The starts and the classifier's split; the text speaks of one synthetic data set.",
    ),
    "ones": Explanation(
        "Which group is 1 matters to FATR, which does not center S. For the synthetic data it is "
        "not said; for the contraceptive data 1 is the majority.",
        "The order of the text: the uniform group, and the majority.",
    ),
    "batch_size": Explanation(
        "The classifier's batch size and initial weights are not given.",
        "32, and PyTorch's weights of linear layers.",
    ),
}


def read_readings(changes: Iterable[str]) -> Readings:
    """Return the readings with changes such as "rounds=50".

    >>> read_readings(["rounds=50", "units=mean"]).rounds
    50
    """
    found: dict[str, Any] = {}
    known = [entry.name for entry in fields(Readings)]
    for change in changes:
        name, equals, value = change.partition("=")
        if name not in known:
            raise unknown_choice("a reading", name, known)
        if not equals or not value:
            raise ValueError(f"a reading must be written NAME=VALUE, got {change!r}")
        number = isinstance(getattr(Readings(), name), int)
        if number and not value.isdigit():
            raise ValueError(f"reading {name!r} must be a whole number, got {value!r}")
        found[name] = int(value) if number else value
    return replace(Readings(), **found)
