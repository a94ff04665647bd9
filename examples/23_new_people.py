"""
New people, with and without their group
========================================

A model is fitted once and then embeds people who were not there. Three ways: with the group of the
new people, without it, and with an encoder that nobody has to tell the group.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from parafair import FairCP, audit, split_people

random = np.random.default_rng(0)
groups = np.resize(["a", "b"], 600)
tastes = random.normal(size=(600, 3)) + np.outer(groups == "a", [2.0, 0, 0])
others = random.normal(size=(10, 3)), random.normal(size=(8, 3))
entries = np.einsum("ir,jr,kr->ijk", tastes, *others) + random.normal(size=(600, 10, 8))

parts = split_people(len(groups), groups=groups, test_size=0.5, random_state=0)
old, new = entries[parts.train], entries[parts.test]
old_groups, new_groups = groups[parts.train], groups[parts.test]


def leakage(rows):
    """Return what attackers learn about new people, trained on other new people."""
    quick = {"attackers": ["linear", "svm", "kernel-vote"], "permutations": 1}
    return audit(rows, sensitive_features=new_groups, **quick).leakage


# %%
# ``transform`` embeds new people. It takes their groups where they are known. Where they are not,
# it leaves the penalty out and says so in a warning, which is silenced here because it is the
# point.

plain = FairCP(rank=3, method="none").fit(old, sensitive_features=old_groups)
fair = FairCP(rank=3, tol=1e-3).fit(old, sensitive_features=old_groups)
blind = FairCP(rank=3, encoder="network").fit(old, sensitive_features=old_groups)
with warnings.catch_warnings(action="ignore"):
    found = {
        "plain": leakage(plain.transform(new)),
        "fair,\ngroup not given": leakage(fair.transform(new)),
        "fair,\ngroup given": leakage(fair.transform(new, sensitive_features=new_groups)),
        "encoder,\nno group needed": leakage(blind.transform(new)),
    }
for name, value in found.items():
    print(f"{' '.join(name.split()):28} leakage of new people {value:6.3f}")

# %%
# The same as a picture.

figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
axis.bar(list(found), list(found.values()), color=["#d55e00", "#d59b00", "#0072b2", "#009e73"])
axis.axhline(0, color="black", linewidth=0.8)
axis.set(ylabel="leakage of new people", ylim=(-0.1, 0.5))
plt.show()

# %%
# **What you saw.** A fair model alone does not make new rows fair: it has to know the group, or
# to have learned a map that does not need it. Learning it takes people: with half as many, and
# groups that differ less, an encoder hides far less. The guide has a page about :doc:`people whose
# group is not known </unknown-groups>`.
