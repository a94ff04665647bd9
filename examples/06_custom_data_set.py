"""A custom data set: visits of customers to shops, with their age."""

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


if __name__ == "__main__":
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
