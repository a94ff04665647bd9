"""
A plain and a fair decomposition
================================

The same tensor is decomposed twice. The plain embedding separates the two groups at a glance. The
fair one mixes them, and its residual is the price.
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from parafair import FairCP, audit, datasets

data = datasets.synthetic(seed=0, shape=(120, 15, 10))
groups = data.sensitive_features
print(data.about)

# %%
# ``method="none"`` is CP without fairness. ``method="invariant"``, the default, adds a penalty on
# every kind of dependence between rows and groups; ``strength`` is its weight.

settings = {"plain": {"method": "none"}, "fair": {"method": "invariant", "strength": 300}}
models = {}
for name, setting in settings.items():
    models[name] = FairCP(rank=4, tol=1e-3, random_state=0, **setting)
    models[name].fit(data.tensor, sensitive_features=groups)
    found = audit(
        models[name].embedding_,
        sensitive_features=groups,
        attackers=["linear", "svm", "neighbors"],
    )
    print(f"{name}: residual {models[name].fit_.residual:.3f}, leakage {found.leakage:.3f}")

# %%
# Leakage is what the best attacker gains over guessing, in balanced accuracy: 0.5 is certainty, 0
# is guessing. Here is why: the first two principal components of both embeddings.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for axis, (name, model) in zip(axes, models.items(), strict=True):
    places = PCA(2).fit_transform(model.embedding_ / model.embedding_.std(0))
    for group, color, marker in (("normal", "#004488", "o"), ("uniform", "#ddaa33", "^")):
        axis.scatter(*places[groups == group].T, c=color, marker=marker, s=18, label=group)
    axis.set(title=f"{name}: residual {model.fit_.residual:.2f}", xticks=[], yticks=[])
axes[0].legend(title="group", frameon=False)
plt.show()

# %%
# **What you saw.** Without the penalty every attacker knows the group. With it the groups overlap
# and attackers guess. The fit is worse: what made the groups different was a large part of the
# data. Next, see :doc:`what each level of leakage costs <21_trade_off>`.
