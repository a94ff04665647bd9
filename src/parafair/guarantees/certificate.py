"""Certificate: statements about every attacker, with the exposure of single people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import as_path, one_of
from parafair.display import TERMINAL, view
from parafair.guarantees.exposure import Exposure
from parafair.guarantees.statements import Statement, rounded_up
from parafair.guarantees.view import certificate_parts
from parafair.stored import read_record, reading, write_record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The certificate in the folder of a model.
CERTIFICATE_FILE = "certificate.json"
FORMAT = 2
REMEDY = "certify again, or use a copy of the file"
THREATS = {
    "b": "someone with all exact rows and groups",
    "a": "a vote of all others, whose groups are known",
}
# The letter of each kind of statement.
LETTERS = {"release": "F", "matrix": "C", "population": "P"}


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """What is certified about a release with known noise.

    Attributes:
        statements: Upper bounds on the leakage; all hold together with `confidence`.
        exposures: How sure attackers are about each person, for each feature and threat.
        confidence: Probability with which all statements hold.
        releases: Number of independent releases of the same rows.
        draws: Number of random draws of each statement.
        people: Number of people.
        notes: Sentences on who is left out, and on the computation.
    """

    statements: tuple[Statement, ...]
    exposures: tuple[Exposure, ...]
    confidence: float
    releases: int
    draws: int
    people: int
    notes: tuple[str, ...] = ()

    def leakage(self, kind: str) -> float:
        """Return the largest certified leakage of a kind, over all features.

        Args:
            kind: "release", "matrix" or "population".
        """
        one_of("kind", kind, dict.fromkeys(statement.kind for statement in self.statements))
        return max(statement.upper for statement in self.statements if statement.kind == kind)

    @property
    def exposure(self) -> NDArray[np.float64] | None:
        """How sure the holder of the exact rows is about each person, shape (n,).

        This is the largest over all features, and NaN for people who are not certified. None
        without exact rows of these people, and after `read`: files do not contain it.
        """
        found = [e.values for e in self.exposures if e.threat == "b" and e.values is not None]
        return np.max(found, axis=0) if found else None

    def exposure_columns(self) -> dict[str, NDArray[np.float64]]:
        """Return how sure attackers are about each person, as columns of a table of people.

        The column "exposure_b_gender" is about the holder of the exact rows and the feature gender,
        "exposure_a_gender" about the vote of the others. NaN for people who are not certified.
        Empty after `read`.
        """
        return {
            f"exposure_{exposure.threat}_{exposure.column}": exposure.values
            for exposure in self.exposures
            if exposure.values is not None
        }

    def sentences(self) -> tuple[str, ...]:
        """Return each statement as a sentence."""
        return tuple(statement.sentence for statement in self.statements)

    def described(self) -> tuple[str, ...]:
        """Return each exposure as a sentence."""
        return tuple(map(describe, self.exposures))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON, without those of single people."""
        return {
            "statements": [statement.to_dict() for statement in self.statements],
            "exposures": [exposure.to_dict() for exposure in self.exposures],
            "confidence": self.confidence,
            "releases": self.releases,
            "draws": self.draws,
            "people": self.people,
            "notes": list(self.notes),
        }

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the certificate as JSON with its checksum, whole or not at all."""
        record = {"format": FORMAT, **self.to_dict()}
        write_record(as_path("path", path), record, overwrite=overwrite)

    @classmethod
    def read(cls, path: str | Path) -> Certificate:
        """Read a certificate that `write` wrote."""
        file = as_path("path", path)
        record = read_record(file, file_format=FORMAT)
        with reading(file, REMEDY):
            statements = tuple(map(Statement.from_dict, record.pop("statements")))
            exposures = tuple(map(Exposure.from_dict, record.pop("exposures")))
            notes = tuple(map(str, record.pop("notes")))
            return cls(statements, exposures, notes=notes, **record)

    def __repr__(self) -> str:
        bounds = [f"{s.kind} {s.column} <= {rounded_up(s.upper):.4f}" for s in self.statements]
        return f"Certificate({', '.join(bounds)}; {self.people:,} people)"

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the certified leakage of each statement, with its estimate.

        Args:
            ax: Axes of matplotlib to draw on; None for those of a new figure.
        """
        from parafair.guarantees.pictures import plot

        return plot(self, ax=ax)

    def _repr_html_(self) -> str:
        return view("Certificate", *certificate_parts(self))

    def __str__(self) -> str:
        lines = [f"{'certified leakage':<20}{'feature':<26}{'at most':>9}{'estimate':>10}"]
        for statement in self.statements:
            name = f"({LETTERS[statement.kind]}) {statement.kind}"
            text = f"{name:<20}{statement.column[:24]:<26}{rounded_up(statement.upper):9.4f}"
            estimate = "" if statement.confidence == 1 else f"{statement.estimate:10.4f}"
            slack = f"  slack {statement.slack:.4f}" if statement.slack else ""
            lines.append(f"{text}{estimate}{slack}".rstrip())
        if self.exposures:
            lines += ["", f"{'exposure':<20}{'feature':<26}{'largest':>9}{'95 %':>10}{'chance':>9}"]
        for found in self.exposures:
            text = f"{f'threat ({found.threat})':<20}{found.column[:24]:<26}{found.largest:9.3f}"
            lines.append(f"{text}{found.percentile:10.3f}{found.chance:9.3f}")
        lines.append("")
        for sentence in (*self.sentences(), *self.described(), *self.notes):
            lines += wrap(sentence, TERMINAL, initial_indent="- ", subsequent_indent="  ")
        return "\n".join(lines)


def describe(exposure: Exposure) -> str:
    """Return an exposure as a sentence."""
    text = (
        f"Exposure to {THREATS[exposure.threat]}: the largest certainty about the "
        f"{exposure.column} of one person is {exposure.largest:.3f}"
    )
    if exposure.advantage is None:
        return f"{text}."
    text += f"; the vote's advantage, turned around if negative, is {exposure.advantage:.3f}"
    if exposure.by_chance is not None:
        text += f" (random groups reach {exposure.by_chance:.3f} in one of 20 cases)"
    return f"{text}. This is measured, not certified."
