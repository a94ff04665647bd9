"""
How many people does an audit need?
===================================

An audit of few people finds little, whether something is there or not. This script draws rows that
leak a known amount and audits them with growing numbers of people. ``people_needed`` answers the
same question for a certificate about new people, by a formula.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from parafair import audit, people_needed

TRUE = 0.1  # the best possible attacker gains this much over chance
# Two normal groups, this many standard deviations apart, are told apart with accuracy 0.5 + TRUE.
shift = 2 * norm.ppf(0.5 + TRUE)

found = {}
for people in (50, 100, 200, 400, 800, 1600):
    random = np.random.default_rng(people)
    groups = np.resize(["a", "b"], people)
    rows = random.normal(size=(people, 2)) + np.outer(groups == "b", [shift, 0])
    found[people] = audit(rows, sensitive_features=groups, attackers=["linear"], permutations=1)
    low, high = found[people].leakage_interval
    print(
        f"{people:5} people: leakage {found[people].leakage:6.3f} [{low:6.3f}, {high:6.3f}], "
        f"{'significant' if found[people].above_chance else 'not significant'}"
    )

# %%
# The interval shrinks like one over the square root of the number of people.

figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
centers = np.array([result.leakage for result in found.values()])
ends = np.array([result.leakage_interval for result in found.values()])
axis.errorbar(list(found), centers, np.abs(ends.T - centers), fmt="o", color="#0072b2", capsize=4)
axis.axhline(TRUE, color="#009e73", linestyle="--", label="true advantage")
axis.axhline(0, color="black", linewidth=0.8)
axis.set(xscale="log", xlabel="people", ylabel="leakage, with 95 % interval")
axis.set_xticks(list(found), list(found))
axis.minorticks_off()
axis.legend(frameon=False)
plt.show()

# %%
# A certificate about new people needs held-out people of every group:

for leakage in (0.2, 0.1, 0.05, 0.02):
    print(f"to certify a leakage of {leakage:4}: {people_needed(leakage):5} per group, at least")

# %%
# **What you saw.** To see an advantage of 0.1 takes hundreds of people, and to see one of 0.05 four
# times as many. "No attacker is above chance" of 50 people says almost nothing. The :doc:`questions
# and answers </faq>` have a table.
