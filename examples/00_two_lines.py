"""
Two lines: fit and audit
========================

A tensor of people, one label per person, and two calls: one embeds the people, the other asks what
the embedding reveals about the labels.
"""

import matplotlib.pyplot as plt

from parafair import FairCP, audit, datasets

data = datasets.synthetic(seed=0, shape=(100, 15, 10))  # 100 people, in two groups
groups = data.sensitive_features

model = FairCP(rank=4, tol=1e-3).fit(data.tensor, sensitive_features=groups)
found = audit(model.embedding_, sensitive_features=groups, attackers=["linear", "svm", "neighbors"])

print(model.fit_)
print(repr(found))

# %%
# Each row of the picture is one attacker: a classifier that was trained on the embedding of other
# people and guesses the group of the rest. The interval of every one contains the dashed line,
# which is guessing.

_, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
for model_name in ("neighbors", "svm", "linear"):
    rows = [r for r in found.attackers if r.model == model_name]
    best = max(rows, key=lambda r: r.value)  # each attacker is tried on several inputs
    ends = [[best.value - best.low], [best.high - best.value]]
    axis.errorbar(best.value, model_name, xerr=ends, fmt="o", color="#0072b2", capsize=4)
axis.axvline(0.5, color="0.4", linestyle="--")
axis.set(xlabel="balanced accuracy, with simultaneous 95 % intervals", xlim=(0, 1))
plt.show()

# %%
# **What you saw.** ``fit`` found four numbers per person, ``model.embedding_``. ``audit`` said that
# three attackers cannot tell the groups from them. The residual says how much of the data is lost:
# these two groups differ in everything, so here it is much. :doc:`01_quickstart` compares it with a
# plain decomposition.
