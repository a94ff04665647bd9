"""The four methods of the paper on its synthetic data: a table and a picture.

    python examples/demo.py [folder]

Settings are those of the paper's Figure 2b: rank 8, U(0, 1) starts, 200 steps per factor, its
step sizes and strengths. The paper prints lambda without saying that its formula divides by
n**2; the strengths below are the printed ones times n**2, the only reading under which they
have an effect on this data.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from rich.console import Console
from rich.progress import track
from rich.table import Table

from parafair import FairCP, audit, datasets, metrics
from parafair.penalties import HSIC, KHSIC, Orthogonality
from parafair.solvers import GradientBCD

ROUNDS, SEED = 100, 0


def main(folder: Path) -> None:
    """Fit, measure, print and draw."""
    data = datasets.synthetic(SEED)
    n_squared = data.tensor.shape[0] ** 2
    methods = {
        "BCD": ("none", GradientBCD((3.0, 1.0))),
        "FATR": (Orthogonality(0.1, ridge=1.0), GradientBCD((3.0, 1.0))),
        "HSIC-BCD": (HSIC(0.01 * n_squared), GradientBCD((0.5, 1.0))),
        "KHSIC-BCD": (KHSIC(0.04 * n_squared), GradientBCD((0.5, 1.0))),
    }
    rows = {}
    for name, (method, solver) in track(methods.items(), "fitting", transient=True):
        model = FairCP(
            8, method=method, solver=solver, max_rounds=ROUNDS, tolerance=0, random_state=SEED
        )
        model.fit(data.tensor, sensitive_features=data.sensitive)
        embedding = model.embedding_
        rows[name] = {
            "residual": model.fit_.residual,
            "unfairness": metrics.unfairness(embedding, data.sensitive).value,
            "leakage": audit(
                embedding, data.sensitive, attackers=["linear", "svm", "forest"]
            ).leakage,
            "normalized KHSIC": metrics.normalized_khsic(embedding, data.sensitive),
            "||A'S||": metrics.orthogonality(embedding, data.sensitive),
            "capped": model.fit_.counts["capped"] / model.fit_.counts["blocks"],
            "seconds": model.fit_.seconds,
        }
    table = Table(
        "method",
        title="The paper's four methods on its synthetic data, 200 x 100 x 100, rank 8",
        caption="unfairness: held-out accuracy of the paper's network - 0.5; 0.5 is certainty\n"
        "leakage: the same for the strongest attacker of the audit, which ignores scale\n"
        "capped: share of block updates whose printed step was too large and was shortened",
    )
    for column in next(iter(rows.values())):
        table.add_column(column, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{value:.3g}" for value in row.values()))
    console = Console(width=100)
    console.print(table)
    folder.mkdir(parents=True, exist_ok=True)
    console.print(f"picture: {draw(rows, folder / 'four_methods.png')}", highlight=False)


def draw(rows: dict[str, dict[str, float]], path: Path) -> Path:
    """Draw what each method gives up in fit, and what it gains in fairness."""
    panels = {
        "residual": "relative residual",
        "normalized KHSIC": "normalized KHSIC",
        "unfairness": "unfairness (paper; 0.5: always seen)",
        "leakage": "leakage (audit; 0.5: always seen)",
    }
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.6), layout="constrained")
    colors = ["#666666", "#4c78a8", "#f58518", "#54a24b"]
    for axis, (column, title) in zip(axes, panels.items(), strict=True):
        bars = axis.bar(list(rows), [row[column] for row in rows.values()], color=colors)
        axis.bar_label(bars, fmt="%.3f", padding=2, fontsize=8)
        axis.set_title(title, fontsize=10)
        axis.tick_params(axis="x", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.15)
    for axis in axes[2:]:
        axis.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
        axis.set_ylim(0, 0.6)
    figure.suptitle("The paper's four methods: fit, criterion, and what a classifier still sees")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
