"""
Embeddings that look harmless and leak
======================================

One row far away, people matched in pairs, and predicted scores: three ways in which a group is
revealed although simple checks find nothing.
"""

import matplotlib.pyplot as plt
import numpy as np

from parafair import FairCP, audit, audit_outputs, datasets

QUICK = {"attackers": ["linear", "svm", "kernel-vote"], "permutations": 50}

random = np.random.default_rng(0)
groups = np.repeat(["f", "m"], 60)

# %%
# Standard deviations and means are dominated by one person at 1e20. Ranks are not.

print("One row at 1e20: compared with it, all others look alike.")
rows = random.normal(size=(120, 3))
rows[groups == "m", 0] += 3
rows[17] = 1e20
found = audit(rows, sensitive_features=groups, **QUICK)
print(f"{found!r}\n{found.notes[-1]}\n")

# %%
# A classifier that trusts neighbors is wrong almost always, which is as good as right.

print("Matched pairs: everybody's nearest neighbor is of the other group.")
pairs = 10 * random.normal(size=(60, 3))
rows = np.concatenate([pairs, pairs + 0.1 * random.normal(size=(60, 3))])
found = audit(rows, sensitive_features=groups, **QUICK)
print(f"{found!r}\n{found.strongest.model}: balanced accuracy {found.strongest.value:.3f}\n")
figure, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
for group, color, marker in (("f", "#004488", "o"), ("m", "#ddaa33", "^")):
    axis.scatter(*rows[groups == group, :2].T, c=color, marker=marker, s=20, label=group)
axis.set(title="matched pairs: each has a neighbor of the other group", xticks=[], yticks=[])
axis.legend(frameon=False)
plt.show()

# %%
# What leaves the house may be scores or lists, not the embedding. They are audited as they are.

print("Outputs: the scores that a plain decomposition predicts, and everybody's 5 highest.")
data = datasets.synthetic(seed=0, shape=(60, 20, 15))
model = FairCP(rank=4, method="none", tol=1e-3).fit(data.tensor)
print(f"residual {model.fit_.residual:.3f}")
scores = model.inverse_transform(model.embedding_)
outputs = audit_outputs(scores, sensitive_features=data.sensitive_features, k=5, **QUICK)
print(f"scores: {outputs.scores!r}\nlists: {outputs.lists!r}")

# %%
# **What you saw.** In each case a simple check finds nothing, and the audit does.
# :doc:`What the numbers mean </measures>` explains its inputs and its two-sided intervals.
