"""
A data set of your own
======================

Visits of customers to shops, with their age. A data set is a function that returns a `Dataset`.
"""

import numpy as np

from parafair.datasets.base import Dataset, register

ABOUT = "Visits of customers to shops in four seasons; generated, and age decides where people shop"


@register(ABOUT)
def visits(seed: int = 0, *, customers: int = 60) -> Dataset:
    """Generate how often customers visited shops.

    Args:
        seed: Seed of the random numbers.
        customers: Number of customers.
    """
    random = np.random.default_rng(seed)
    age = np.resize(["under 40", "40 or over"], customers)
    taste = random.uniform(size=(customers, 2)) + np.outer(age == "under 40", [1, 0])
    shops, seasons = random.uniform(size=(6, 2)), random.uniform(size=(4, 2))
    return Dataset(
        name="visits",
        about=ABOUT,
        tensor=np.einsum("ir,jr,kr->ijk", taste, shops, seasons),
        sensitive_features=age,
        modes=("customer", "shop", "season"),
    )


# %%
# The decorator registered it, so the shell knows it too, where it is part of the package.

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    from parafair import FairCP, audit

    data = visits()
    model = FairCP(2, strength=10, random_state=0)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    print(model.fit_)
    found = audit(
        model.embedding_,
        sensitive_features=data.sensitive_features,
        attackers=["linear", "svm"],
        repeats=1,
    )
    print(found)

    figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
    young = data.sensitive_features == "under 40"
    for mine, color, name in ((young, "#004488", "under 40"), (~young, "#ddaa33", "40 or over")):
        axis.plot(data.tensor[mine].mean((0, 2)), "o-", color=color, label=name)
    axis.set(xlabel="shop", ylabel="mean visits")
    axis.legend(frameon=False)
    plt.show()

# %%
# **What you saw.** Age decides where people shop, and the fair embedding does not tell it.
# :doc:`Add a data set </add-a-data-set>` says how to register and test one.
