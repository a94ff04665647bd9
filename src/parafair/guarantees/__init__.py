"""Bounds that hold for every model or every attacker."""

from parafair.guarantees.bounds import people_needed
from parafair.guarantees.certificate import Certificate
from parafair.guarantees.certifying import certify, certify_rows
from parafair.guarantees.exposure import Exposure
from parafair.guarantees.limits import ParityLimit, parity_limit
from parafair.guarantees.noise_search import noise_for
from parafair.guarantees.releases import Release
from parafair.guarantees.statements import Statement

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
