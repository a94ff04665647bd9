"""
Several sensitive features at once
==================================

Gender and age, a category and a number. Each is hidden alone, and both together: a person must not
be recognized as a young woman either.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from parafair import FairCP, audit

random = np.random.default_rng(0)
people = pd.DataFrame(
    {"gender": np.resize(["f", "m"], 160), "age": random.integers(18, 70, 160).astype(float)}
)
traits = random.normal(size=(160, 4))
traits[:, 0] += 1.5 * (people["gender"] == "f")
traits[:, 1] += (people["age"] - 44) / 15
entries = np.einsum(
    "ir,jr,kr->ijk", traits, random.normal(size=(10, 4)), random.normal(size=(8, 4))
)
entries += 0.5 * random.normal(size=entries.shape)

# %%
# A DataFrame may have any number of columns. Text is a category, numbers are numbers.

quick = {"attackers": ["linear", "svm"], "permutations": 1}
models = {"plain": FairCP(rank=4, method="none"), "fair": FairCP(rank=4, tol=1e-3)}
for name, model in models.items():
    model.fit(entries, sensitive_features=people)
    found = audit(model.embedding_, sensitive_features=people, **quick)
    print(f"{name}: residual {model.fit_.residual:.3f}, leakage {found.leakage:.3f}")
    for feature in ("gender", "age"):
        best = max((r for r in found.attackers if r.feature == feature), key=lambda r: r.value)
        print(f"  best guess of the {feature}: {best.measure} {best.value:.3f} ({best.model})")

# %%
# The component that follows the age most, before and after.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharex=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    rows = model.embedding_
    follows = [abs(np.corrcoef(column, people["age"])[0, 1]) for column in rows.T]
    column = rows[:, int(np.argmax(follows))]
    for gender, color, marker in (("f", "#004488", "o"), ("m", "#ddaa33", "^")):
        mine = people["gender"] == gender
        axis.scatter(people["age"][mine], column[mine], c=color, marker=marker, s=16, label=gender)
    axis.set(title=f"{name}: correlation {max(follows):.2f}", xlabel="age", yticks=[])
axes[0].set_ylabel("component that follows the age most")
axes[0].legend(frameon=False)
plt.show()

# %%
# **What you saw.** One fit hides a category and a number. The audit reports each feature and the
# combination of all, and its leakage is the largest of them.
