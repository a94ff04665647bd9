"""The same data as a CP, a non-negative CP and a Tucker model, plain and with our criterion.

120 people have non-negative entries for 12 subjects on 10 days, which are sums of components of
some subjects on some days; one group has more of the first component. Run it with

    python examples/12_models.py

It takes half a minute on one core.
"""

import warnings

import numpy as np

from parafair import FairCP, FairTucker, audit

ATTACKERS = ("linear", "forest")

MODELS = {
    "FairCP": lambda method: FairCP(4, method=method),
    "FairCP, non-negative": lambda method: FairCP(4, method=method, non_negative=True),
    "FairTucker": lambda method: FairTucker((4, 4, 3), method=method),
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
    print(f"{'model':22} {'method':10} {'residual':>8} {'leakage':>8} {'smallest loading':>17}")
    for name, model_of in MODELS.items():
        for method in ("none", "invariant"):
            model = model_of(method).fit(tensor, sensitive_features=groups)
            found = audit(
                model.embedding_,
                sensitive_features=groups,
                attackers=ATTACKERS,
                permutations=20,
            )
            # Noise is added to the rows of people after the fit.
            others = [np.asarray(factor).min() for factor in model.cp_.factors[1:]]
            print(
                f"{name:22} {method:10} {model.fit_.residual:8.4f} {found.leakage:8.3f} "
                f"{min(others):17.3f}"
            )


if __name__ == "__main__":
    main()
