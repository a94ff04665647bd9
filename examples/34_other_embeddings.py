"""
Audit an embedding from anywhere
================================

``audit`` takes any matrix with one row per person: principal components, a network's hidden
layer, or the factors of another library. Here are four embeddings of the same people, two of them
made fair by linear methods, and what each attacker finds.
"""

import matplotlib.pyplot as plt
import numpy as np
from fairlearn.preprocessing import CorrelationRemover
from sklearn.decomposition import PCA

from parafair import FairCP, audit

random = np.random.default_rng(0)
groups = np.resize([0, 1], 200)
# The groups have the same mean and another shape: one is a ring around the other.
angle = random.uniform(0, 2 * np.pi, 200)
radius = random.uniform(0.6, 1.0, 200) + 1.2 * groups
traits = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), random.normal(size=200)])
columns = traits @ random.normal(size=(3, 10)) + 0.1 * random.normal(size=(200, 10))

plain = PCA(3).fit_transform(columns)
removed = CorrelationRemover(sensitive_feature_ids=[3]).fit_transform(np.c_[plain, groups])
embeddings = {
    "PCA": plain,
    "PCA, CorrelationRemover": removed,
    'FairCP(method="leace")': FairCP(3, method="leace")
    .fit(columns, sensitive_features=groups)
    .embedding_,
    "FairCP()": FairCP(3, tol=1e-3).fit(columns, sensitive_features=groups).embedding_,
}

# %%
# The same attackers for all of them.

attackers = ("linear", "svm", "neighbors")
table = []
for name, rows in embeddings.items():
    found = audit(rows, sensitive_features=groups, attackers=attackers, permutations=1)
    best = [max(r.value for r in found.attackers if r.model == model) for model in attackers]
    table.append(best)
    print(f"{name:24} " + " ".join(f"{m} {v:.2f}" for m, v in zip(attackers, best, strict=True)))

# %%
# Balanced accuracy; 0.5 is guessing.

figure, axis = plt.subplots(figsize=(6.8, 3.2), layout="constrained")
picture = axis.imshow(table, cmap="cividis", vmin=0.5, vmax=1, aspect="auto")
for row, values in enumerate(table):
    for column, value in enumerate(values):
        color = "white" if value < 0.75 else "black"
        axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
axis.set_xticks(range(len(attackers)), attackers)
axis.set_yticks(range(len(embeddings)), list(embeddings))
figure.colorbar(picture, label="balanced accuracy")
plt.show()

# %%
# **What you saw.** Methods that make the group linearly invisible fool a linear attacker and
# nobody else: a ring has the same mean as its center. The criterion of ``FairCP()`` looks at
# distributions.
