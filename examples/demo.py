"""The paper's four methods and ours on its synthetic data: frontier, audit, report.

    python examples/demo.py [folder]

For each method, fits at several strengths run as one batch. Every fit is audited. The report shows
what each level of leakage costs. Fits that are already in the folder are not repeated.

The paper's methods have the paper's settings: rank 8, U(0, 1) starts, 200 steps per factor and its
step sizes. The paper prints strengths without the division by n**2 in its formula. The strengths
below are the printed ones times n**2; otherwise they have no effect on this data.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from parafair import datasets, frontier
from parafair.cli.frontiers import show
from parafair.frontiers.result import join
from parafair.penalties import HSIC, KHSIC, Orthogonality
from parafair.report import write_report
from parafair.solvers import GradientBCD

AUDIT = {"attackers": ("linear", "svm", "forest"), "repeats": 1, "permutations": 50}


def methods(n: int) -> dict[str, dict[str, Any]]:
    """Return the methods with their settings, for n people."""
    paper = {"max_iter": 60, "tol": 0.0}
    return {
        "BCD": {"method": "none", "solver": GradientBCD((3.0, 1.0)), **paper},
        "FATR": {
            "method": Orthogonality(ridge=1.0), "solver": GradientBCD((3.0, 1.0)),
            "strengths": (0.01, 0.03, 0.1), **paper,
        },
        "HSIC-BCD": {
            "method": HSIC(), "solver": GradientBCD((0.5, 1.0)),
            "strengths": tuple(s * n**2 for s in (0.001, 0.003, 0.01)), **paper,
        },
        "KHSIC-BCD": {
            "method": KHSIC(), "solver": GradientBCD((0.5, 1.0)),
            "strengths": tuple(s * n**2 for s in (0.01, 0.04, 0.1, 0.4)), **paper,
        },
        "CP + correlation removal": {"method": "correlation-removal"},
        "invariant": {"method": "invariant", "strengths": (1, 4, 8, 16, 32, 64, 90, 128)},
    }  # fmt: skip


def main(folder: Path) -> None:
    """Fit and audit all methods, and write the report."""
    data = datasets.synthetic(0)
    found = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name, settings in methods(len(data.sensitive_features)).items():
            task = progress.add_task(name, total=None)

            def on_progress(what: str, done: int, total: int, task: Any = task) -> None:
                progress.update(task, completed=done, total=total)

            found.append(
                frontier(
                    data.tensor,
                    data.sensitive_features,
                    rank=8,
                    name=name,
                    audits=AUDIT,
                    limit=not found,
                    out=folder / "run",
                    n_jobs=2,
                    on_progress=on_progress,
                    **settings,
                )
            )
    curve = join(found)
    show(curve, leakage=0.05)
    title = "The paper's methods and ours on its synthetic data"
    page, *figures = write_report(curve, folder / "report.html", title=title, formats=("png",))
    console = Console()
    console.print(f"figures: {', '.join(map(str, figures))}", highlight=False, soft_wrap=True)
    console.print(f"page: {page}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
