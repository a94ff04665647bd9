"""
Counts, with a loss that is made for counts
===========================================

How often people borrow from a library. Young and old people borrow other things. The model predicts
rates, and its rows should not tell the age of a person.
"""

import matplotlib.pyplot as plt
import numpy as np

from parafair import FairCP, TensorData, audit, split_cells

random = np.random.default_rng(0)
age = np.resize(["under 40", "40 or over"], 150)
taste = random.normal(size=(150, 3)) + np.outer(age == "under 40", [1.0, 0.0, 0.0])
shelves, months = random.normal(size=(15, 3)) / 2, random.normal(size=(12, 3)) / 2
rates = np.exp(np.einsum("ir,jr,kr->ijk", taste, shelves, months) - 0.5)
data = TensorData.from_array(random.poisson(rates), modes=("person", "shelf", "month"))
parts = split_cells(data, test_size=0.1, random_state=0)
truth = rates[tuple(parts.test.cells.numpy())]

errors = {}
for loss in ("squared", "poisson"):
    for method in ("none", "invariant"):
        model = FairCP(rank=3, method=method, loss=loss, center=True, ridge=1, tol=1e-3)
        model.fit(parts.train, sensitive_features=age)
        error = np.sqrt(np.mean((model.predict(parts.test) - truth) ** 2))
        found = audit(model.embedding_, sensitive_features=age, attackers=["linear", "svm"])
        errors[f"{loss},\n{method}"] = error
        print(
            f"{loss}, {method}: {model.training_.loss.measure} {model.fit_.residual:.3f}, "
            f"error of held-out rates {error:.3f}, leakage {found.leakage:.3f}"
        )

# %%
# The error of rates that were held out.

figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.bar(list(errors), list(errors.values()), color=["#d59b00", "#d59b00", "#0072b2", "#0072b2"])
axis.set(ylabel="error of held-out rates")
plt.show()

# %%
# **What you saw.** ``loss="poisson"`` predicts rates better than the squared error, which may even
# predict negative ones. Fairness works the same with both. :doc:`Counts, events and other entries
# </losses>` lists the losses.
