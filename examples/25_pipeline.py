"""
In a Pipeline, with GridSearchCV
================================

``FairCP`` is a scikit-learn transformer. A matrix of people and columns goes through a pipeline:
scale, embed without the group, classify. Metadata routing carries the groups to the step that asks
for them, and ``GridSearchCV`` chooses the rank.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from parafair import FairCP, audit

sklearn.set_config(enable_metadata_routing=True)

random = np.random.default_rng(0)
sex = np.resize(["f", "m"], 240)
skills = random.normal(size=(240, 4)) + np.outer(sex == "f", [1.5, 0, 0, 0])
columns = skills @ random.normal(size=(4, 12)) + 0.5 * random.normal(size=(240, 12))
hired = skills[:, 1] + skills[:, 2] + 0.5 * random.normal(size=240) > 0

# %%
# The step says once that it wants ``sensitive_features``, when it is fitted and when it transforms.

step = FairCP(method="leace").set_fit_request(sensitive_features=True)
step.set_transform_request(sensitive_features=True)
pipeline = make_pipeline(StandardScaler(), step, LogisticRegression())
search = GridSearchCV(pipeline, {"faircp__rank": [1, 2, 3, 4, 6]}, cv=5, scoring="roc_auc")
search.fit(columns, hired, sensitive_features=sex)
print(f"best rank {search.best_params_['faircp__rank']}, AUC {search.best_score_:.3f}")

# %%
# ``"leace"`` removes the group for every linear model, and its encoder embeds new people without
# knowing theirs. Two audits: of the columns as they came, and of what the classifier sees.

quick = {"attackers": ["linear", "svm"], "permutations": 1}
best = search.best_estimator_
seen = best[:-1].transform(columns)
for name, rows in (("columns", columns), ("embedding", seen)):
    print(f"{name:9}: {audit(rows, sensitive_features=sex, **quick)!r}")

# %%
# What the search found: the AUC of every rank, and how often each sex is hired by the model.

answers = cross_val_predict(best, columns, hired, cv=5, params={"sensitive_features": sex})
print(pd.Series(answers).groupby(sex).mean().rename("share of yes").round(3).to_string())
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
results = search.cv_results_
axis.errorbar(
    results["param_faircp__rank"].astype(int),
    results["mean_test_score"],
    results["std_test_score"],
    marker="o",
    color="#0072b2",
    capsize=3,
)
axis.set(xlabel="rank", ylabel="AUC, mean and sd of 5 folds")
plt.show()

# %%
# **What you saw.** Nothing of scikit-learn had to be replaced. ``"leace"`` is linear: where the
# audit still finds something, ``encoder="network"`` removes more (:doc:`23_new_people`).
