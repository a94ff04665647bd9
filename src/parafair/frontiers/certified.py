"""Certificates of the points of a frontier: their settings, and their columns of the table."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from parafair.arguments import instance_of, one_of
from parafair.errors import unknown_choice
from parafair.guarantees.certificate import Certificate
from parafair.guarantees.certifying import certify
from parafair.guarantees.settings import check_settings
from parafair.guarantees.statements import MATRIX, RELEASE

# Up to this number of people a certificate costs less than an audit.
MOST_PEOPLE = 5000
AUTO = "auto"
# The settings of `certify` that the points of a frontier may have, and their defaults.
SETTINGS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in signature(certify).parameters.items()
    if name in signature(check_settings).parameters
}


def check_certificates(
    certificates: Mapping[str, Any] | str | None, people: int
) -> dict[str, Any] | None:
    """Return the settings of the certificates; None for none.

    Args:
        certificates: Arguments of `certify` by name, "auto" or None.
        people: How many there are.
    """
    if certificates is None:
        return None
    if isinstance(certificates, str):
        if certificates != AUTO:
            raise unknown_choice("certificates", certificates, [AUTO])
        return None if people > MOST_PEOPLE else dict(SETTINGS)
    instance_of("certificates", certificates, Mapping, "pass the arguments of certify by name")  # type: ignore[type-abstract]
    for name in certificates:
        one_of("a key of certificates", name, SETTINGS)
    found = {**SETTINGS, **certificates}
    try:
        check_settings(**found)
    except (TypeError, ValueError) as error:
        raise type(error)(f"certificates cannot be used: {error}") from error
    return found


def certified_columns(certificate: Certificate | None) -> dict[str, float | None]:
    """Return what is certified, and the exposures, as columns of the tidy table.

    With several features, each is the largest of all of them. Exposures have the letter of their
    threat; "vote" is the advantage of the vote of threat (a), and "vote_by_chance" what random
    groups reach.
    """
    found: dict[str, float | None] = dict.fromkeys(COLUMNS)
    if certificate is None:
        return found
    kinds = {statement.kind for statement in certificate.statements}
    for kind in kinds & {RELEASE, MATRIX}:
        found[f"certified_{kind}"] = certificate.leakage(kind)
    for threat in ("b", "a"):
        own = [exposure for exposure in certificate.exposures if exposure.threat == threat]
        if own:
            found[f"exposure_{threat}"] = max(exposure.largest for exposure in own)
            found[f"exposure_{threat}_95"] = max(exposure.percentile for exposure in own)
    votes = [e for e in certificate.exposures if e.advantage is not None]
    if votes:
        strongest = max(votes, key=lambda exposure: exposure.advantage or 0.0)
        found |= {"vote": strongest.advantage, "vote_by_chance": strongest.by_chance}
    return found


COLUMNS = (
    f"certified_{RELEASE}",
    f"certified_{MATRIX}",
    "exposure_b",
    "exposure_b_95",
    "exposure_a",
    "exposure_a_95",
    "vote",
    "vote_by_chance",
)
