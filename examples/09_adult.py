"""
A census without the sex, and a model of the income
===================================================

Embeds a sample of Adult (80 standardized columns) without fairness, with fair PCA, with our
criterion, with a map that knows the sex, and with an encoder that needs nobody's. Attackers guess
the sex of new people, after they have seen the fitted people ("leakage") or other new people
("within new"). A classifier of the income is trained on the embedding of the fitted people, and
fairlearn compares its answers for new women and men. It is not run when the site is built: it needs
the data. Run it with

.. code-block:: sh

    python examples/09_adult.py --data FOLDER

FOLDER holds adult/adult.data and adult/adult.test; without --data the files are downloaded. It
takes one to two minutes on one core.
"""

# sphinx_gallery_thumbnail_path = 'images/adult.png'

import argparse
from time import perf_counter

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score

from parafair import FairCP, audit, datasets

RANK = 8
ATTACKERS = ("linear", "forest", "boosting")

# A name, a model, and whether `transform` is told the sex of new people, once or in both ways.
# Another model is one more line.
MODELS = (
    ("plain", FairCP(RANK, method="none"), ["unknown"]),
    ("fair-pca", FairCP(RANK, method="fair-pca"), ["unknown"]),
    ("strength 100", FairCP(RANK, strength=100), ["known", "unknown"]),
    ("sliced-transport", FairCP(RANK, method="sliced-transport"), ["known"]),
    ("encoder", FairCP(RANK, encoder="network"), ["unknown"]),
)


def sample(data, people):
    """Return entries, sex and income of some people, drawn at random."""
    chosen = np.random.default_rng(0).choice(len(data.target), people, replace=False)
    rich = (data.target == ">50K").to_numpy()
    return data.tensor[chosen], data.sensitive_features["sex"].to_numpy()[chosen], rich[chosen]


def main():
    """Embed, audit and predict with every model, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with adult/adult.data and adult/adult.test")
    parser.add_argument("--people", type=int, default=2000, help="people to fit; half as many new")
    options = parser.parse_args()
    entries, sex, rich = sample(datasets.adult(options.data), options.people)
    others = sample(datasets.adult(options.data, subset="test"), options.people // 2)

    costs, by_sex = [], {}
    for name, model, ways in MODELS:
        begin = perf_counter()
        model.fit(entries, sensitive_features=sex)
        seconds = perf_counter() - begin
        classifier = HistGradientBoostingClassifier(random_state=0).fit(model.embedding_, rich)
        for way in ways:
            new = model.transform(
                others[0], sensitive_features=others[1] if way == "known" else None
            )
            answers = classifier.predict_proba(new)[:, 1]
            costs.append(
                {"model": name, "sex": way, "residual": model.fit_.residual}
                | leakages(model.embedding_, sex, new, others[1])
                | utility(answers, others[2], others[1])
                | {"seconds": seconds}
            )
            by_sex[name, way] = MetricFrame(
                metrics={"accuracy": accuracy_score, "share >50K": selection_rate},
                y_true=others[2],
                y_pred=answers > 0.5,
                sensitive_features=pd.Series(others[1], name="sex"),
            ).by_group.unstack()
    print(pd.DataFrame(costs).round(3).to_string(index=False))
    print("\nThe classifier of the income, by sex:")
    print(pd.DataFrame(by_sex).T.round(3).to_string())


def leakages(rows, sex, new, sex_new):
    """Return what attackers gain over chance about new people."""
    settings = {"attackers": ATTACKERS, "permutations": 1}
    known = {"new_embedding": new, "new_sensitive_features": sex_new}
    return {
        "leakage": audit(rows, sensitive_features=sex, **known, **settings).leakage,
        "within new": audit(new, sensitive_features=sex_new, **settings).leakage,
    }


def utility(answers, rich, sex):
    """Return how well the income is predicted, and how the answers differ between the sexes."""
    parity = demographic_parity_difference(rich, answers > 0.5, sensitive_features=sex)
    return {"income AUC": roc_auc_score(rich, answers), "parity difference": parity}


if __name__ == "__main__":
    main()
