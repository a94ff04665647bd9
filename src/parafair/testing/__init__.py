"""Contract tests for penalties, losses, kernels, solvers, attackers and data sets, ours or yours.

Subclass a contract in a test file and provide the fixtures it names; pytest runs its tests::

    class TestMyPenalty(PenaltyContract):
        @pytest.fixture
        def penalty(self):
            return MyPenalty(strength=2.0)
"""

from __future__ import annotations

from parafair.testing.contracts import (
    AttackerContract,
    DatasetContract,
    KernelContract,
    PenaltyContract,
    SolverContract,
    example_groups,
    example_rows,
)
from parafair.testing.losses import LossContract
from parafair.testing.scores import ScorePenaltyContract

__all__ = [
    "AttackerContract",
    "DatasetContract",
    "KernelContract",
    "LossContract",
    "PenaltyContract",
    "ScorePenaltyContract",
    "SolverContract",
    "example_groups",
    "example_rows",
]
