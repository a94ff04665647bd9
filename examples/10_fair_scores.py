"""
Fair scores from an embedding that reveals the group
====================================================

Kamishima's methods make predicted scores comparable between groups. The embedding behind them may
still reveal who is who: fair scores and fair embeddings are two things.
"""

import matplotlib.pyplot as plt
import numpy as np

from parafair import FairCP, audit, compare_scores, datasets

data = datasets.marks(seed=0)
observed = data.tensor.to_dense().values.isnan().logical_not().numpy()

found_by_method = {}
for method in ({"method": "none"}, {"method": "mutual-information", "strength": 1e5}, {}):
    model = FairCP(2, center=True, ridge=3.0, tol=1e-4, **method)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    scores = model.inverse_transform(model.embedding_)
    (found,) = compare_scores(
        np.where(observed, scores, np.nan), sensitive_features=data.sensitive_features
    )
    leakage = audit(
        model.embedding_, sensitive_features=data.sensitive_features, attackers=["linear"]
    ).leakage
    found_by_method[model.method] = (found.ks, leakage)
    print(
        f"{model.method:18}: residual {model.fit_.residual:.3f}, KS distance of scores "
        f"{found.ks:.3f}, leakage of the embedding {leakage:.3f}"
    )

# %%
# Both measures of the three methods.

figure, axis = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
places = np.arange(len(found_by_method))
for offset, (name, color) in enumerate((("scores: KS", "#d59b00"), ("rows: leakage", "#0072b2"))):
    heights = [values[offset] for values in found_by_method.values()]
    axis.bar(places + 0.36 * offset - 0.18, heights, 0.34, color=color, label=name)
axis.set_xticks(places, list(found_by_method))
axis.axhline(0, color="black", linewidth=0.8)
axis.legend(frameon=False)
plt.show()

# %%
# **What you saw.** ``"mutual-information"`` brings the scores of both groups together, and its rows
# still reveal the group. The default hides the group in the rows. :doc:`Fair scores and fair
# embeddings </fair-scores>` has the measurements.
