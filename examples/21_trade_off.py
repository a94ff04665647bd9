"""
What does fairness cost? The frontier
=====================================

``frontier`` fits many strengths as one batch and audits every fit. The result is the curve to
choose from: residual against leakage.
"""

import matplotlib.pyplot as plt

from parafair import FairCP, datasets, frontier

data = datasets.synthetic(seed=0, shape=(120, 15, 10))
quick = {"attackers": ["linear", "svm", "kernel-vote"], "permutations": 50}
curve = frontier(
    FairCP(rank=4, tol=1e-3),
    data.tensor,
    sensitive_features=data.sensitive_features,
    strengths=(1, 3, 10, 30, 100),
    audits=quick,
    limit=True,
)
print(curve.to_frame()[["strength", "residual", "leakage"]].round(3).to_string(index=False))

# %%
# ``pick`` returns the model with the smallest residual whose leakage is at most a given one.

picked = curve.best(max_leakage=0.05)
print(f"picked: strength {picked.member.strength:g}, residual {picked.residual:.3f}")
model = curve.pick(max_leakage=0.05)
print(model)

# %%
# The dashed curve is a lower bound: no model whose groups differ this little fits these people
# better. An audit tests attackers on people they have not seen, so a fit may lie a little below.

figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
rows = curve.to_frame()
axis.plot(rows["residual"], rows["leakage"], "o-", color="#0072b2", label="fits, by strength")
for residual, leakage, strength in rows[["residual", "leakage", "strength"]].to_numpy():
    axis.annotate(f"{strength:g}", (residual, leakage), (6, 6), textcoords="offset points")
taus, residuals = zip(*((leakage, residual) for leakage, residual in curve.limit), strict=True)
axis.plot(residuals, taus, "--", color="0.4", label="limit of every model")
axis.plot(picked.residual, picked.leakage, "o", ms=14, mfc="none", mec="black", label="picked")
axis.axhline(0.05, color="#d55e00", linewidth=0.8)
axis.set(xlabel="residual", ylabel="leakage (0.5 is certainty)")
axis.legend(frameon=False)
plt.show()

# %%
# **What you saw.** Weak penalties cost little and hide little. From some strength on attackers
# are at chance, and more strength only costs. With 120 people, leakages below about 0.2 are
# noise: see :doc:`how many people you need <29_how_many_people>`.
