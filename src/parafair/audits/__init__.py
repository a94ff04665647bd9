"""The audit: how much an embedding reveals about the sensitive features, for any model."""

from typing import TYPE_CHECKING

from parafair.lazy import attach_modules

# Imported when they are first used, because a fit needs few of them. A test compares the lists.
if TYPE_CHECKING:
    from parafair.audits.attacker import STAGES, Attacker
    from parafair.audits.attackers import ATTACKERS, panel
    from parafair.audits.outputs import OutputAudit, audit_outputs
    from parafair.audits.pictures import draw
    from parafair.audits.rankings import Rankings, evaluate_rankings
    from parafair.audits.result import Audit, Measure, Verdict, check_max_leakage
    from parafair.audits.run import audit
    from parafair.audits.scores import ScoreComparison, ScoreDifferences, compare_scores

_NAMES = {
    "attacker": ["STAGES", "Attacker"],
    "attackers": ["ATTACKERS", "panel"],
    "outputs": ["OutputAudit", "audit_outputs"],
    "pictures": ["draw"],
    "rankings": ["Rankings", "evaluate_rankings"],
    "result": ["Audit", "Measure", "Verdict", "check_max_leakage"],
    "run": ["audit"],
    "scores": ["ScoreComparison", "ScoreDifferences", "compare_scores"],
}

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

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__, __dir__ = attach_modules(__name__, _NAMES)
