"""
An attacker of your own
=======================

Naive Bayes, which predicts categories only. An attacker is a function from a seed to a scikit-learn
estimator.
"""

from sklearn.naive_bayes import GaussianNB

from parafair.audits.attacker import Attacker
from parafair.audits.estimators import PriorCorrected


def make_classifier(seed):
    """Return an untrained classifier; this one needs no seed."""
    # Scores are balanced accuracies, so the classifier must not favor large groups.
    return PriorCorrected(GaussianNB())


BAYES = Attacker(make_classifier, None, stage="quick")

# %%
# It is used by its name, alone or beside the registered ones.

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    from parafair import FairCP, audit, datasets

    data = datasets.synthetic(seed=0, shape=(60, 20, 15))
    model = FairCP(rank=4, method="none", tol=1e-3).fit(data.tensor)
    found = audit(
        model.embedding_,
        sensitive_features=data.sensitive_features,
        attackers={"bayes": BAYES},
        repeats=1,
    )
    print(f"residual {model.fit_.residual:.3f}")
    print(found)

    _, axis = plt.subplots(figsize=(6, 2.2), layout="constrained")
    for row in found.attackers:
        ends = [[row.value - row.low], [row.high - row.value]]
        axis.errorbar(row.value, row.input, xerr=ends, fmt="o", color="#0072b2", capsize=4)
    axis.axvline(0.5, color="0.4", linestyle="--")
    axis.set(xlabel="balanced accuracy of naive Bayes, by input", xlim=(0.4, 1.05))
    plt.show()

# %%
# **What you saw.** Naive Bayes alone knows the group of everybody in a plain embedding. :doc:`Add
# an attacker </add-an-attacker>` says how to register and test it.
