"""
A classifier on a fair embedding, judged by fairlearn
=====================================================

Somebody trains a classifier on the embedding and knows nothing of fairness. fairlearn's
``MetricFrame`` shows what the classifier does to both groups, with a plain and with a fair
embedding.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_predict

from parafair import FairCP

random = np.random.default_rng(0)
sex = np.resize(["f", "m"], 300)
traits = random.normal(size=(300, 4)) + np.outer(sex == "f", [1.5, 0, 0, 0])
entries = np.einsum(
    "ir,jr,kr->ijk", traits, random.normal(size=(10, 4)), random.normal(size=(6, 4))
)
entries += 0.5 * random.normal(size=entries.shape)
# The outcome depends on two traits; one of them depends on the sex.
success = traits[:, 0] + traits[:, 1] + 0.5 * random.normal(size=300) > 0.75

# %%
# The classifier never sees the sex. It sees four numbers per person.

frames = {}
for name, method in (("plain", "none"), ("fair", "invariant")):
    model = FairCP(rank=4, method=method, tol=1e-3).fit(entries, sensitive_features=sex)
    answers = cross_val_predict(
        HistGradientBoostingClassifier(random_state=0), model.embedding_, success, cv=5
    )
    frames[name] = MetricFrame(
        metrics={"accuracy": accuracy_score, "selection rate": selection_rate},
        y_true=success,
        y_pred=answers,
        sensitive_features=pd.Series(sex, name="sex"),
    )
    gap = demographic_parity_difference(success, answers, sensitive_features=sex)
    print(f"{name}: demographic parity difference {gap:.3f}")
    print(frames[name].by_group.round(3).to_string(), "\n")

# %%
# The two metrics by sex.

figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), layout="constrained", sharey=True)
for axis, metric in zip(axes, ("selection rate", "accuracy"), strict=True):
    table = pd.DataFrame({name: frame.by_group[metric] for name, frame in frames.items()}).T
    table.plot.bar(ax=axis, rot=0, color=["#004488", "#ddaa33"], legend=axis is axes[0])
    axis.set_title(metric)
plt.show()

# %%
# **What you saw.** On the plain embedding the classifier learns the sex from the traits and
# selects the groups at different rates. On the fair one it cannot. It also loses accuracy: part
# of what predicts the outcome is the group itself. fairlearn's own reductions change the
# classifier instead, which costs less when one classifier is all you need.
