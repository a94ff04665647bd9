"""Bounds that hold for every model or every attacker."""

from typing import TYPE_CHECKING

from parafair.lazy import attach_modules

# Imported when they are first used, because a fit needs few of them. A test compares the lists.
if TYPE_CHECKING:
    from parafair.guarantees.bounds import people_needed
    from parafair.guarantees.certificate import Certificate
    from parafair.guarantees.certifying import certify, certify_rows
    from parafair.guarantees.exposure import Exposure
    from parafair.guarantees.limits import ParityLimit, parity_limit
    from parafair.guarantees.noise_search import noise_for
    from parafair.guarantees.releases import Release
    from parafair.guarantees.statements import Statement

_NAMES = {
    "bounds": ["people_needed"],
    "certificate": ["Certificate"],
    "certifying": ["certify", "certify_rows"],
    "exposure": ["Exposure"],
    "limits": ["ParityLimit", "parity_limit"],
    "noise_search": ["noise_for"],
    "releases": ["Release"],
    "statements": ["Statement"],
}

__all__ = [
    "Certificate",
    "Exposure",
    "ParityLimit",
    "Release",
    "Statement",
    "certify",
    "certify_rows",
    "noise_for",
    "parity_limit",
    "people_needed",
]

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__, __dir__ = attach_modules(__name__, _NAMES)
