"""How a certificate and a limit look in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.display import (
    Cell,
    Dots,
    Html,
    folded,
    histogram,
    interval,
    paragraph,
    scatter,
    table,
)
from parafair.guarantees.statements import rounded_up

if TYPE_CHECKING:
    from parafair.guarantees.certificate import Certificate
    from parafair.guarantees.limits import ParityLimit


def certificate_parts(certificate: Certificate) -> list[Html]:
    """Return the first statement as a sentence, then all statements and exposures."""
    sentences = certificate.sentences()
    parts = [paragraph(sentences[0])] if sentences else []
    most = max((statement.upper for statement in certificate.statements), default=1.0)
    statements: list[list[Cell]] = [
        [
            statement.kind,
            statement.column,
            rounded_up(statement.upper),
            statement.estimate,
            interval(
                rounded_up(statement.upper),
                (0.0, rounded_up(statement.upper)),
                (0.0, max(most, 0.1)),
                f"at most {rounded_up(statement.upper):.4f} above chance",
            ),
        ]
        for statement in certificate.statements
    ]
    header = ["certified leakage", "feature", "at most", "estimate", ""]
    parts.append(table(statements, header=header))
    exposures: list[list[Cell]] = [
        [
            f"threat ({exposure.threat})",
            exposure.column,
            exposure.largest,
            exposure.percentile,
            exposure.chance,
            histogram(exposure.counts, "people by exposure, from chance to 1")
            if exposure.counts
            else "",
        ]
        for exposure in certificate.exposures
    ]
    if exposures:
        names = ["exposure", "feature", "largest", "95 % of people below", "chance", "people"]
        parts.append(table(exposures, header=names))
    more = [*sentences[1:], *certificate.described(), *certificate.notes]
    return [*parts, folded(f"{len(more)} further sentences", more)]


def limit_parts(limit: ParityLimit) -> list[Html]:
    """Return the limit at exact parity, the limit at other leakages as a curve, and the groups."""
    sign = "" if limit.exact else "at least "
    text = f"Exact parity needs a residual of {sign}{limit.residual:.3f}; groups drawn at random, "
    text += f"{limit.chance:.3f}."
    curve = Dots(tuple(zip(limit.leakages, limit.residuals, strict=True)), connected=True)
    label = "the least residual of any model at each leakage"
    groups: list[list[Cell]] = [list(group) for group in limit.groups]
    return [
        paragraph(text),
        scatter([curve], label, axes=("attacker's advantage at most", "residual at least")),
        table(groups, header=["group", "people"]),
        folded("notes", limit.notes),
    ]
