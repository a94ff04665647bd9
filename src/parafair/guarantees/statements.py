"""A statement of a certificate: a bound on what an attacker can learn, and its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

RELEASE, MATRIX, POPULATION = "release", "matrix", "population"

# What each kind assumes, and what it does not cover.
ASSUMED = {
    RELEASE: "the noise is secret and was drawn {times}",
    MATRIX: "the noise is secret and was drawn {times}",
    POPULATION: "these people are a random sample of each group, were not used for the fit or for "
    "any choice after it, and the noise is secret and drawn {times}",
}
NOT_COVERED = {
    RELEASE: "someone who learns from other people of the release whose {column} is known, someone "
    "who knows the person's own entries, and predictions from factors without noise",
    MATRIX: "someone who knows the {column} of one of the two people of a pair, someone who knows "
    "the person's own entries, and predictions from factors without noise",
    POPULATION: "other populations, someone who knows the person's own entries, and predictions "
    "from factors without noise",
}
AGAINST = {
    RELEASE: "even one who holds all exact rows with everybody's {column}",
    MATRIX: "even one who holds all exact rows and knows which people are paired across groups",
    POPULATION: "even one who knows the laws of the released rows of all groups",
}
WHO = {
    RELEASE: "these {people:,} people",
    MATRIX: "these {people:,} people",
    POPULATION: "new people of the population of these {people:,} held-out people",
}


@dataclass(frozen=True)
class Statement:
    """An upper bound on the leakage: what the best possible attacker learns about one feature.

    Attributes:
        kind: "release": one released row of these people; "matrix": the same in closed form, by
            pairs of people; "population": one released row of new people.
        column: The feature.
        measure: "balanced accuracy" or "share of variance".
        chance: Its value for a guess.
        estimate: The leakage: the value minus chance, before any error is added. No guarantee.
        upper: The certified leakage.
        confidence: Probability with which all statements of the certificate hold; 1 if nothing is
            random.
        groups: Number of groups; 1 for a number.
        people: Number of people.
        releases: Number of independent releases of the same rows.
        slack: The part of `upper` that is due to the number of held-out or sampled people.
    """

    kind: str
    column: str
    measure: str
    chance: float
    estimate: float
    upper: float
    confidence: float
    groups: int
    people: int
    releases: int = 1
    slack: float = 0.0

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """What is promised, against whom, under which assumption, and what is not covered."""
        times = "once per person"
        if self.releases > 1:
            times = f"{self.releases} times per person, all of them seen by the attacker"
        words = {"column": self.column, "people": self.people, "times": times}
        who, against = WHO[self.kind].format(**words), AGAINST[self.kind].format(**words)
        if self.measure == "share of variance":
            promise = (
                f"no attacker who sees a released row of {who} explains more than "
                f"{100 * rounded_up(self.upper):.2f} % of the variance of {self.column} or of its "
                "ranks"
            )
        else:
            promise = (
                f"no attacker who sees a released row of {who} has a balanced accuracy above "
                f"{rounded_up(self.chance + self.upper):.4f} for {self.column} (chance "
                f"{self.chance:.4f})"
            )
        sure = "" if self.confidence == 1 else f" (confidence {self.confidence:.4g})"
        assumed = ASSUMED[self.kind].format(**words)
        without = NOT_COVERED[self.kind].format(**words)
        sentence = f"{promise}, {against}{sure}, if {assumed}; not covered: {without}."
        return sentence[0].upper() + sentence[1:]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON."""
        return {**vars(self), "sentence": self.sentence}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Statement:
        """Return a statement from the result of `to_dict`."""
        found = cls(**{name: value for name, value in record.items() if name != "sentence"})
        if found.kind not in WHO:
            raise ValueError(f"kind must be one of {', '.join(WHO)}, got {found.kind!r}")
        return found


def rounded_up(bound: float) -> float:
    """Return a bound with four digits that is not below it.

    >>> rounded_up(0.50001)
    0.5001
    """
    return min(1.0, ceil(bound * 1e4 - 1e-9) / 1e4)
