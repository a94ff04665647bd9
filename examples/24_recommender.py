"""
A recommender that does not know the gender
===========================================

Ratings of users for films in three contexts, most of them missing. The model predicts the missing
ratings from an embedding of the users that should not tell their gender. The data is generated, so
that the script needs no download.
"""

import matplotlib.pyplot as plt
import numpy as np

from parafair import FairCP, TensorData, audit, split_cells
from parafair.audits.evaluation import evaluate_predictions

random = np.random.default_rng(0)
users, films, contexts = 200, 40, 3
gender = np.resize(["f", "m"], users)
taste = random.normal(size=(users, 3)) + np.outer(gender == "f", [1.2, 0, 0])
genre, when = random.normal(size=(films, 3)), 1 + 0.3 * random.normal(size=(contexts, 3))
ratings = 3 + 0.7 * np.einsum("ir,jr,kr->ijk", taste, genre, when)
ratings = np.clip(np.round(ratings + 0.5 * random.normal(size=ratings.shape)), 1, 5)
ratings[random.random(ratings.shape) < 0.8] = np.nan
data = TensorData.from_array(ratings, modes=("user", "film", "context"))
print(data)

# %%
# A third of the ratings is held out. ``center`` predicts from the means of users, films and
# contexts first; ``ridge`` shrinks the rows of users with few ratings.

parts = split_cells(data, test_size=0.33, random_state=0)
rows = []
for method in ("none", "invariant"):
    model = FairCP(rank=3, method=method, center=True, ridge=3, tol=1e-3)
    model.fit(parts.train, sensitive_features=gender)
    found = evaluate_predictions(
        parts.test,
        model.predict(parts.test),
        sensitive_features=gender,
        threshold=4,
        k=3,
    )
    leakage = audit(
        model.embedding_,
        sensitive_features=gender,
        attackers=["linear", "svm"],
    ).leakage
    rows.append((method, found.value("rmse"), found.value("precision@3"), leakage))
    print(
        f"{method:9}: RMSE {rows[-1][1]:.3f}, precision@3 {rows[-1][2]:.3f}, leakage {leakage:.3f}"
    )

# %%
# Error and leakage side by side.

figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained")
names = ["plain", "fair"]
titles = ("RMSE of held-out ratings", "precision@3", "leakage of the gender")
for axis, title, values in zip(axes, titles, list(zip(*rows, strict=True))[1:], strict=True):
    axis.bar(names, values, color=["#d55e00", "#0072b2"])
    axis.set_title(title, fontsize=10)
    axis.axhline(0, color="black", linewidth=0.8)
plt.show()

# %%
# **What you saw.** The embedding of the fair model does not tell the gender to these attackers,
# and its predictions are worse: taste and gender go together in this data. The predicted ratings
# may still differ between women and men: fair scores are :doc:`another question
# <10_fair_scores>`.
