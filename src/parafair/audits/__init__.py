"""The audit: how much an embedding reveals about the sensitive features, for any model."""

from parafair.audits.attacker import STAGES, Attacker
from parafair.audits.attackers import ATTACKERS, panel
from parafair.audits.outputs import OutputAudit, audit_outputs
from parafair.audits.pictures import draw
from parafair.audits.rankings import Rankings, evaluate_rankings
from parafair.audits.result import Audit, Measure, Verdict, check_max_leakage
from parafair.audits.run import audit
from parafair.audits.scores import ScoreComparison, ScoreDifferences, compare_scores

__all__ = [
    "ATTACKERS",
    "STAGES",
    "Attacker",
    "Audit",
    "Measure",
    "OutputAudit",
    "Rankings",
    "ScoreComparison",
    "ScoreDifferences",
    "Verdict",
    "audit",
    "audit_outputs",
    "check_max_leakage",
    "compare_scores",
    "draw",
    "evaluate_rankings",
    "panel",
]
