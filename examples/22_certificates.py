"""
A bound that holds for every attacker
=====================================

An audit is about the attackers that were tried. A certificate is about all of them: it bounds what
anybody can learn from one released row, even somebody who holds all exact rows with everybody's
group. It needs noise, so the question is how much.
"""

from textwrap import fill

import matplotlib.pyplot as plt

from parafair import FairCP, certify, datasets

data = datasets.synthetic(seed=0, shape=(100, 15, 10))
levels = (0.25, 0.5, 1.0, 2.0)
bounds, residuals = {}, {}
for method in ("none", "invariant"):
    for noise in levels:
        model = FairCP(rank=3, method=method, noise=noise, tol=1e-3)
        model.fit(data.tensor, sensitive_features=data.sensitive_features)
        bounds[method, noise] = certify(model).leakage("release")
        residuals[method, noise] = model.fit_.residual
        print(
            f"{method:9} noise {noise:4}: residual {residuals[method, noise]:.3f}, "
            f"certified leakage at most {bounds[method, noise]:.4f}"
        )

# %%
# A certificate is a sentence, with everything that it does not cover:

print(fill(str(certify(model).statements[0]), 80))

# %%
# Noise alone is expensive. A fit whose groups overlap already needs much less of it for the same
# bound.

figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for method, color, marker in (("none", "#d55e00", "s"), ("invariant", "#0072b2", "o")):
    values = [bounds[method, noise] for noise in levels]
    axis.plot(levels, values, marker=marker, color=color, label=f'method="{method}"')
axis.axhline(0.05, color="0.5", linewidth=0.8, linestyle="--")
axis.set(
    xscale="log", xlabel="noise, as a share of the spread", ylabel="certified leakage, at most"
)
axis.set_xticks(levels, [f"{level:g}" for level in levels])
axis.minorticks_off()
axis.set_ylim(bottom=0)
axis.legend(frameon=False)
plt.show()

# %%
# **What you saw.** More noise, smaller bound, larger residual. ``FairCP(strength="auto",
# guarantee="release", max_leakage=0.05)`` looks for the cheapest way to a bound that you name; the
# guide has a page about :doc:`guarantees </guarantees>`.
