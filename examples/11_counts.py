"""Counts: how often people borrow from a library, with a loss that is made for counts.

Young and old people borrow other things. The model predicts rates, and its rows should not tell
the age of a person. Run it with

    python examples/11_counts.py

It takes about half a minute on one core.
"""

import numpy as np

from parafair import FairCP, TensorData, audit, split_cells

random = np.random.default_rng(0)
age = np.resize(["under 40", "40 or over"], 200)
taste = random.normal(size=(200, 3)) + np.outer(age == "under 40", [1.0, 0.0, 0.0])
shelves, months = random.normal(size=(15, 3)) / 2, random.normal(size=(12, 3)) / 2
rates = np.exp(np.einsum("ir,jr,kr->ijk", taste, shelves, months) - 0.5)
data = TensorData.from_array(random.poisson(rates), modes=("person", "shelf", "month"))
parts = split_cells(data, test_size=0.1, random_state=0)
truth = rates[tuple(parts.test.cells.numpy())]

for loss in ("squared", "poisson"):
    for method in ("none", "invariant"):
        model = FairCP(rank=3, method=method, loss=loss, center=True, ridge=1, random_state=0)
        model.fit(parts.train, sensitive_features=age)
        error = np.sqrt(np.mean((model.predict(parts.test) - truth) ** 2))
        found = audit(model.embedding_, sensitive_features=age, attackers=["linear", "svm"])
        print(
            f"{loss}, {method}: {model.training_.loss.measure} {model.fit_.residual:.3f}, "
            f"error of held-out rates {error:.3f}, leakage {found.leakage:.3f}"
        )
