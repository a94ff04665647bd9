"""
A penalty of your own
=====================

The groups get equal means in every component. A penalty is a frozen dataclass with a method `bind`,
which returns a differentiable function of the rows. That is not much: an attacker who looks at more
than means still finds the group.
"""

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


# %%
# Any object with ``bind`` can be the method of a model.

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    from parafair import FairCP, audit, datasets

    data = datasets.synthetic(seed=0, shape=(120, 15, 10))
    gaps, leakages, strengths = [], [], (0.01, 1.0, 100.0)
    for strength in strengths:
        model = FairCP(4, method=EqualMeans(strength), random_state=0)
        model.fit(data.tensor, sensitive_features=data.sensitive_features)
        found = audit(
            model.embedding_,
            sensitive_features=data.sensitive_features,
            attackers=["linear", "svm"],
            permutations=1,
        )
        gap = model.embedding_[:60].mean(0) - model.embedding_[60:].mean(0)
        gaps.append(abs(gap).max())
        leakages.append(found.leakage)
        print(
            f"strength {strength:6}: residual {model.fit_.residual:.3f}, "
            f"largest gap between means {gaps[-1]:7.3f}, leakage {leakages[-1]:.3f}"
        )

    figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axis.semilogx(strengths, gaps, "s-", color="#d59b00", label="largest gap between means")
    axis.semilogx(strengths, leakages, "o-", color="#0072b2", label="leakage")
    axis.set(xlabel="strength", ylim=(-0.05, None))
    axis.legend(frameon=False)
    plt.show()

# %%
# **What you saw.** The penalty does what it says: the means become equal. Attackers lose what
# they knew from the means and keep the rest: the groups still differ in shape. :doc:`Add a
# penalty </add-a-penalty>` says what else a penalty may offer and how to test it.
