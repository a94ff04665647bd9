"""A penalty of your own: the groups get equal means in every component."""

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties.bound import BoundAutograd


@dataclass(frozen=True)
class EqualMeans:
    """``strength * sum_r (mean of group 1 - mean of group 0)**2`` for a 0/1 feature."""

    strength: float = 1.0

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundAutograd:
        """Return the penalty as a function of the factor of these people."""
        group = sensitive.encode(prototype=tensor)[:, 0]
        weights = group / group.sum() - (1 - group) / (1 - group).sum()

        def value(factor: Tensor) -> Tensor:
            # Leading dimensions of the factor are a batch of fits.
            gap = torch.einsum("n,...nr->...r", weights, factor)
            return self.strength * gap.square().sum(-1)

        return BoundAutograd(value)


if __name__ == "__main__":
    from parafair import FairCP, audit, datasets

    data = datasets.synthetic(seed=0)
    for strength in (0.01, 1.0, 100.0):
        model = FairCP(8, method=EqualMeans(strength), random_state=0)
        model.fit(data.tensor, sensitive_features=data.sensitive_features)
        gap = model.embedding_[:100].mean(0) - model.embedding_[100:].mean(0)
        leakage = audit(
            model.embedding_,
            sensitive_features=data.sensitive_features,
            attackers=["linear", "svm"],
        ).leakage
        print(
            f"strength {strength:6}: residual {model.fit_.residual:.3f}, "
            f"largest gap between means {abs(gap).max():7.3f}, leakage {leakage:.3f}"
        )
