"""
CP, non-negative CP and Tucker
==============================

The same data as three models, plain and with our criterion. 120 people have non-negative entries
for 12 subjects on 10 days, which are sums of components of some subjects on some days; one group
has more of the first component.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from parafair import FairCP, FairTucker, audit

ATTACKERS = ("linear", "svm")

MODELS = {
    "FairCP": lambda method: FairCP(4, method=method, tol=1e-3),
    "FairCP, non-negative": lambda method: FairCP(4, method=method, non_negative=True, tol=1e-3),
    "FairTucker": lambda method: FairTucker((4, 4, 3), method=method, tol=1e-3),
}


def people():
    """Return entries and groups."""
    random = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 60)
    # Each component has some of the subjects and some of the days.
    factors = [
        random.gamma(1.0, size=(size, 4)) * (random.random((size, 4)) < share)
        for size, share in ((120, 1.0), (12, 0.6), (10, 0.6))
    ]
    factors[0][:, 0] += 2.0 * (groups == "a")
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    return tensor + 0.5 * tensor.std() * random.random(tensor.shape), groups


def main():
    """Fit every model with and without the criterion, and print one table."""
    warnings.simplefilter("ignore")
    tensor, groups = people()
    points = {}
    print(f"{'model':22} {'method':10} {'residual':>8} {'leakage':>8} {'smallest loading':>17}")
    for name, model_of in MODELS.items():
        for method in ("none", "invariant"):
            model = model_of(method).fit(tensor, sensitive_features=groups)
            found = audit(
                model.embedding_,
                sensitive_features=groups,
                attackers=ATTACKERS,
                permutations=1,
            )
            # Noise is added to the rows of people after the fit.
            others = [np.asarray(factor).min() for factor in model.cp_.factors[1:]]
            points[name, method] = (model.fit_.residual, found.leakage)
            print(
                f"{name:22} {method:10} {model.fit_.residual:8.4f} {found.leakage:8.3f} "
                f"{min(others):17.3f}"
            )
    _, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for name, marker in zip(MODELS, "osD", strict=True):
        ends = [points[name, method] for method in ("none", "invariant")]
        axis.plot(*zip(*ends, strict=True), marker=marker, label=name)
    axis.set(xlabel="residual", ylabel="leakage", title="from plain to fair")
    axis.legend(frameon=False)
    plt.show()


if __name__ == "__main__":
    main()

# %%
# **What you saw.** Fairness is a setting of every model, and so is the audit. Non-negative factors
# can be read as parts, and cost a little fit. :doc:`Non-negative CP and Tucker </models>` has more.
