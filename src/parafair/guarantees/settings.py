"""The settings of a certificate, checked before any work is done."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from parafair.arguments import whole_number
from parafair.data.devices import check_device
from parafair.data.randomness import RandomState, as_seed
from parafair.guarantees.bounds import LEAST_DRAWS, MOST_DRAWS, check_confidence

# A smaller sample bounds nothing.
LEAST_SAMPLED = 100


@dataclass(frozen=True)
class CertificateSettings:
    """Checked settings of a certificate; see `parafair.certify`."""

    confidence: float
    releases: int
    draws: int
    device: str | torch.device | None
    seed: int
    max_people: int | None = None

    @classmethod
    def of(
        cls,
        confidence: float,
        releases: int,
        draws: int,
        device: str | torch.device | None,
        random_state: RandomState,
        max_people: int | None = None,
    ) -> CertificateSettings:
        """Return the settings; raise if one is invalid."""
        check_device(device)
        if max_people is not None:
            whole_number("max_people", max_people, least=LEAST_SAMPLED)
        return cls(
            check_confidence(confidence),
            whole_number("releases", releases),
            whole_number("draws", draws, least=LEAST_DRAWS, most=MOST_DRAWS),
            device,
            as_seed(random_state),
            max_people,
        )


def check_settings(
    *, confidence: float, releases: int, draws: int, random_state: RandomState
) -> None:
    """Raise unless `certify` takes these settings; call it before any work is done."""
    CertificateSettings.of(confidence, releases, draws, None, random_state)
