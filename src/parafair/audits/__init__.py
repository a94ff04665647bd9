"""The audit: how much of the sensitive features an embedding reveals, whoever made it."""

from parafair.audits.attackers import ATTACKERS, Attacker
from parafair.audits.pictures import draw
from parafair.audits.result import Audit, Measure, Verdict
from parafair.audits.run import audit

__all__ = ["ATTACKERS", "Attacker", "Audit", "Measure", "Verdict", "audit", "draw"]
