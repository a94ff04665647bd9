"""
Marks of the Open University
============================

What students' marks reveal about them, and what it costs to hide it. Fits the marks of the Open
University (OULAD), students x modules x assessments, without a penalty, with FATR and with our
criterion. Measures the error of held-out marks and the leakage of training and of new students.
It is not run when the site is built: it needs the data and some minutes for each attribute.
:doc:`What it found </oulad>` has a page. Run it with

.. code-block:: sh

    python examples/04_oulad.py --data FOLDER

FOLDER holds the tables ``oulad/*.csv``; without --data the files are downloaded.
"""

# sphinx_gallery_thumbnail_path = 'images/oulad.png'

import argparse
from time import perf_counter

import numpy as np
import pandas as pd

from parafair import FairCP, audit, datasets, split_cells, split_people
from parafair.penalties import Invariant, Orthogonality

RANK = 8
ATTRIBUTES = ("gender", "age_band", "disability", "imd_band")
ATTACKERS = ("linear", "svm", "forest", "boosting")


def leakage(rows, features):
    """Return what an attacker gains over chance, for at most 4000 people."""
    settings = {"attackers": ATTACKERS, "repeats": 1, "permutations": 1, "max_people": 4000}
    return audit(rows, sensitive_features=features, n_jobs=-1, **settings).leakage


def main():
    """Fit, embed new people, and show the components."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with oulad/*.csv")
    parser.add_argument("--device", help="device, such as cuda")
    parser.add_argument(
        "--attributes", default=",".join(ATTRIBUTES), help="attributes to measure, as a,b"
    )
    parser.add_argument("--strengths", default="30,100", help="of our criterion, as 30,300")
    options = parser.parse_args()
    ours = {f"ours, {s}": Invariant(float(s)) for s in options.strengths.split(",")}
    data = datasets.oulad(options.data)
    scored = data.tensor.observed_per(0) > 0
    tensor, people = data.tensor.take(0, scored), data.sensitive_features[scored]
    print(tensor)
    rows = []
    for attribute in options.attributes.split(","):
        known = people[attribute].notna().to_numpy()
        features = people[attribute][known].to_numpy()
        marks = tensor.take(0, known)
        split = split_people(marks, groups=features, test_size=0.25, random_state=0)
        cells = split_cells(marks.take(0, split.train), test_size=0.1, random_state=0)
        new_people = marks.take(0, split.test)
        own, others = features[split.train], features[split.test]
        methods = {"plain": "none", "FATR": Orthogonality(0.1), **ours}
        for name, method in methods.items():
            model = FairCP(
                RANK, method=method, center=True, ridge=10.0, random_state=0, device=options.device
            )
            begin = perf_counter()
            model.fit(cells.train, sensitive_features=own)
            seconds = perf_counter() - begin
            error = model.predict(cells.test) - cells.test.entries.numpy()
            theirs = None if name == "plain" else others
            new = model.transform(new_people, sensitive_features=theirs, refine=name in ours)
            rows.append(
                {
                    "attribute": attribute,
                    "method": name,
                    "RMSE": np.sqrt(np.mean(error**2)),
                    "leakage": leakage(model.embedding_, own),
                    "of new people": leakage(new, others),
                    "seconds": seconds,
                }
            )
            if attribute == "gender" and name != "FATR":
                show_components(name, model)
    print(pd.DataFrame(rows).round(3).to_string(index=False))


def show_components(name, model):
    """Print the largest loadings of each component on modules and assessments."""
    modules, tests = (factor.cpu().numpy() for factor in model.cp_.factors[1:])
    sizes = model.embedding_.std(0)
    print(f"components of {name}, by the spread of the students")
    for r in np.argsort(-sizes)[:4]:
        first = np.argsort(-np.abs(modules[:, r]))[:3]
        second = np.argsort(-np.abs(tests[:, r]))[:3]
        loads = [f"{model.training_.labels[1][m]} {modules[m, r]:+.1f}" for m in first]
        parts = [f"{model.training_.labels[2][t]} ({tests[t, r]:+.1f})" for t in second]
        print(f"  {sizes[r]:5.1f}  modules {', '.join(loads)}; assessments {', '.join(parts)}")


if __name__ == "__main__":
    main()
