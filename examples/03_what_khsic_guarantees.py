"""
What a small KHSIC does and does not guarantee
==============================================

The numbers and the figure of :doc:`the page of this name </what-khsic-guarantees>`. It is not run
when the site is built: it takes minutes. Run it with

.. code-block:: sh

    python examples/03_what_khsic_guarantees.py [folder] [--quick]

.. image:: /images/khsic_guarantees.png
   :alt: Accuracy of attackers against the criterion
"""

# sphinx_gallery_thumbnail_path = 'images/khsic_guarantees.png'

import argparse
import json
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from parafair import FairCP, audit, datasets
from parafair.audits import measures
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Criterion, PermutationTest
from parafair.dependence.gram import CenteredGram
from parafair.dependence.kernels import Gaussian
from parafair.dependence.whitening import Standardized
from parafair.penalties import KHSIC
from parafair.solvers import GradientBCD

ATTACKERS = {"linear": "#4c78a8", "svm": "#f58518", "forest": "#54a24b", "neighbors": "#b279a2"}


def over_null(rows, encoded, gamma):
    """Return Gaussian HSIC divided by its mean over permutations of the people."""
    everybody, samples = slice(0, len(rows)), ((rows, gamma), (encoded, 1.0))
    first, second = (CenteredGram.of(x, Gaussian(g)).tile(everybody, everybody) for x, g in samples)
    return float((first * second).sum() * (len(rows) - 1) / (first.trace() * second.trace()))


def measure(embedding, groups, attackers=tuple(ATTACKERS)):
    """Return each criterion, its level without dependence, and the accuracy of attackers."""
    sensitive, rows = SensitiveFeatures.of(groups), torch.as_tensor(embedding)
    encoded, whitened = sensitive.encode(prototype=rows), Standardized.of(rows).whitened
    distances = torch.pdist(whitened).square()
    permuted = Criterion(sensitive, rows[:0]).permuted(rows, permutations=100, random_state=0)
    test = PermutationTest.of(permuted)
    value, null = test.statistic, test.null_mean
    khsic = measures.normalized_khsic(rows, sensitive_features=groups)
    ratio = over_null(rows, encoded, 1.0)
    found = audit(
        rows.numpy(), sensitive_features=groups, attackers=attackers, repeats=1, permutations=1
    )
    scores = {name: [r.value for r in found.attackers if r.model == name] for name in attackers}
    return {
        "rho": measures.khsic(rows, sensitive_features=groups),
        "khsic": khsic,
        "khsic_null": khsic / ratio,
        "khsic_over_null": ratio,
        "one_width_over_null": over_null(whitened, encoded, 1 / (2 * rows.shape[1])),
        "criterion": value,
        "null": null,
        "over_null": value / null,
        "median_over_mean": float(distances.median() / distances.mean()),
        "attackers": {name: max(both) for name, both in scores.items()},
        "strongest": found.strongest.value,
        "weakest": min(min(both) for both in scores.values()),
    }


def theorems():
    """Return the paper's counterexample to FATR, and our counterexample to its Theorem 2."""
    rows, groups = np.array([[1.0], [0], [0], [-1], [-1], [1]]), [1, 0, 0, 1, 1, 1]
    table = {"orthogonality": measures.orthogonality(rows, sensitive_features=groups)}
    table["khsic"] = measures.normalized_khsic(rows, sensitive_features=groups)
    table["khsic_shrunk"] = measures.normalized_khsic(rows / 100, sensitive_features=groups)
    labels = np.repeat([0, 1], 50)
    for name, rows in (("same", labels[:, None]), ("tenth", labels[:, None] / 10)):
        bound = measures.parity_bound(rows, sensitive_features=labels)
        table[name] = {"rho": measures.khsic(rows, sensitive_features=labels), **vars(bound)}
    share = labels.mean()  # P(A and B) = P(A) = P(B) for A = B = {1}
    return table | {"set_gap": share - share**2, "parity_gap": 1 - share}


def escapes(people, **settings):
    """Return four ways to lower a criterion while the groups remain clearly separate."""
    random, half = np.random.default_rng(0), people // 2
    groups = np.repeat(["inside", "outside"], half)
    outside = groups == "outside"
    angle = random.uniform(0, np.pi, half).reshape(2, -1)
    angle = np.concatenate([angle, angle + np.pi], 1).ravel()  # antipodes: both means are zero
    radius = np.repeat(random.uniform(0.5, 1.0, (2, 1, half // 2)), 2, 1).ravel() + outside
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
    column = np.where(outside, 1, -1) + 0.1 * random.standard_normal(people)
    noise = np.tile(random.standard_normal((half, 3)), (2, 1))  # the same in both groups
    far = np.arange(people) % (half // 2) < half * 0.03  # 6 % of each group, in antipodal pairs
    cases = [("none", 1, ring)]
    cases += [("spread", factor, factor * ring) for factor in (10, 100)]
    cases += [("shrink", factor, factor * ring) for factor in (0.1, 0.01)]
    cases += [("hide", f, np.column_stack([f * column, noise])) for f in (1, 0.1, 0.01)]
    cases += [("squeeze", f, np.where(far[:, None], f, 1) * ring) for f in (1, 10, 30, 100)]
    return [{"escape": e, "factor": f} | measure(x, groups, **settings) for e, f, x in cases]


def fits(quick, **measuring):
    """Return fits of the paper's method and of ours at increasing strengths."""
    data = datasets.synthetic(0, shape=(40, 12, 10) if quick else (200, 100, 100))
    rank, rounds, scale = (4, [2, 5], 40**2) if quick else (8, [5, 20, 100], 200**2)
    table = {"khsic": [], "rounds": [], "invariant": []}

    def add(name, at, **settings):
        model = FairCP(rank, random_state=0, **settings)
        model.fit(data.tensor, sensitive_features=data.sensitive_features)
        found = measure(model.embedding_, data.sensitive_features, **measuring)
        table[name].append({"at": at, "residual": model.fit_.residual} | found)
        print(f"{name} {at}: residual {model.fit_.residual:.3f}", flush=True)
        return model

    paper = {"solver": GradientBCD((0.5, 1.0)), "tol": 0}
    for strength in (0, 0.04) if quick else (0, 1e-5, 1e-4, 3e-4, 0.04, 0.4):
        add("khsic", strength, method=KHSIC(strength * scale), max_iter=rounds[-1], **paper)
    for count in rounds:
        add("rounds", count, method=KHSIC(0.04 * scale), max_iter=count, **paper)
    start = "uniform"
    for s in (1, 3) if quick else (1, 3, 10, 20, 30, 45, 70, 300):
        model = add("invariant", s, method="invariant", strength=s, init=start, max_iter=1000)
        start = model.cp_
    with warnings.catch_warnings(action="ignore"):  # that it leaves the penalty out: the point
        table["transform"] = measure(
            model.transform(data.tensor), data.sensitive_features, **measuring
        )
    return table


def draw(path):
    """Draw the accuracy of attackers against the criterion, from the table alone."""
    table = json.loads(path.read_text("utf-8"))["fits"]
    panels = [("khsic", "khsic_over_null", "KHSIC-BCD as published: KHSIC")]
    panels += [("invariant", "over_null", 'method="invariant": our criterion')]
    shared = {"sharex": True, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.3), **shared)
    for axis, (method, ratio, title) in zip(axes, panels, strict=True):
        rows, last = table[method], np.inf
        for name, marker in zip(rows[0]["attackers"], "osD^", strict=False):
            points = [(row[ratio], row["attackers"][name]) for row in rows]
            style = {"color": ATTACKERS[name], "marker": marker, "markersize": 5, "label": name}
            axis.plot(*zip(*points, strict=True), **style)
        for row in rows:  # label above the points, or below them if it would overlap
            above, scores = last / row[ratio] > 1.2, row["attackers"].values()
            at, last = (row[ratio], max(scores) if above else min(scores)), row[ratio]
            style = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
            label = f"{row['at']:g}".replace("e-0", "e-")
            axis.annotate(label, at, (0, 6 if above else -14), **style)
        axis.axvline(1, color="black", linewidth=0.8, linestyle=":")
        axis.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
        axis.set(title=title, xlabel="criterion / its level without dependence")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set(xscale="log", xlim=(110, 0.06), ylabel="balanced accuracy of attackers")
    axes[0].set_xticks([100, 10, 1, 0.1], ["100", "10", "1", "0.1"])
    axes[0].annotate("chance", (100, 0.51), fontsize=8)
    axes[0].legend(frameon=False, loc="center left")
    figure.suptitle("At the level of independence, what do attackers see? (numbers: strength)")
    figure.savefig(path.with_suffix(".png"), dpi=150)
    plt.close(figure)


def main():
    """Measure, write the table, draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="demo", type=Path)
    parser.add_argument("--quick", action="store_true", help="few people, fits and attackers")
    options = parser.parse_args()
    few = {"attackers": ("svm",)} if options.quick else {}
    table = {"theorems": theorems(), "escapes": escapes(40 if options.quick else 200, **few)}
    text = json.dumps(table | {"fits": fits(options.quick, **few)})
    # Six digits: processors differ in later ones.
    table = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "khsic_guarantees.json"
    path.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    draw(path)


if __name__ == "__main__":
    main()
