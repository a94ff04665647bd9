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
    figure = found.draw()

# %%
# **What you saw.** Naive Bayes alone knows the group of everybody in a plain embedding. :doc:`Add
# an attacker </add-an-attacker>` says how to register and test it.
