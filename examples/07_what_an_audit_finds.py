"""Embeddings that look harmless and leak: one row far away, matched pairs, and predicted scores."""

import numpy as np

from parafair import FairCP, audit, audit_outputs, datasets

QUICK = {"attackers": ["linear", "svm", "kernel-vote"], "permutations": 50}

random = np.random.default_rng(0)
groups = np.repeat(["f", "m"], 60)

print("One row at 1e20: compared with it, all others look alike.")
rows = random.normal(size=(120, 3))
rows[groups == "m", 0] += 3
rows[17] = 1e20
found = audit(rows, sensitive_features=groups, **QUICK)
print(f"{found!r}\n{found.notes[-1]}\n")

print("Matched pairs: everybody's nearest neighbor is of the other group.")
pairs = 10 * random.normal(size=(60, 3))
rows = np.concatenate([pairs, pairs + 0.1 * random.normal(size=(60, 3))])
found = audit(rows, sensitive_features=groups, **QUICK)
print(f"{found!r}\n{found.strongest.model}: balanced accuracy {found.strongest.value:.3f}\n")

print("Outputs: the scores that a plain decomposition predicts, and everybody's 5 highest.")
data = datasets.synthetic(seed=0, shape=(60, 20, 15))
model = FairCP(rank=4, method="none", tol=1e-3).fit(data.tensor)
print(f"residual {model.fit_.residual:.3f}")
scores = model.inverse_transform(model.embedding_)
outputs = audit_outputs(scores, sensitive_features=data.sensitive_features, k=5, **QUICK)
print(f"scores: {outputs.scores!r}\nlists: {outputs.lists!r}")
