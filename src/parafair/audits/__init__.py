"""The audit: how much of the sensitive features an embedding reveals, whoever made it."""

from parafair.audits.attackers import ATTACKERS, Attacker
from parafair.audits.base import audit
from parafair.audits.pictures import draw
from parafair.audits.result import Audit, Measure

__all__ = ["ATTACKERS", "Attacker", "Audit", "Measure", "audit", "draw"]
