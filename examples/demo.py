"""
The paper's methods and ours, with a report
===========================================

The paper's four methods and ours on its synthetic data: frontier, audit, report. ``make demo``
runs it, in about 80 seconds on two cores. It is not run when the site is built: it would be most
of the time. This is its picture:

.. image:: /images/frontier.png
   :alt: Residual against leakage for seven methods, with the limit

For each method, fits at several strengths run as one batch. Every fit is audited. The report shows
what each level of leakage costs. Fits that are already in the folder are not repeated.

The paper's methods have the paper's settings: rank 8, U(0, 1) starts, 200 steps per factor and its
step sizes. The paper prints strengths without the division by n**2 in its formula. The strengths
below are the printed ones times n**2; otherwise they have no effect on this data.
"""

# sphinx_gallery_thumbnail_path = 'images/frontier.png'

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from parafair import FairCP, datasets, frontier
from parafair.cli.frontiers import show
from parafair.frontiers.result import join
from parafair.penalties import HSIC, KHSIC, Orthogonality
from parafair.report import write_report
from parafair.solvers import GradientBCD

AUDITS = {"attackers": ("linear", "svm", "forest"), "repeats": 1, "permutations": 50}


def methods(n: int) -> dict[str, tuple[FairCP, tuple[float, ...]]]:
    """Return the methods and their strengths, for n people."""

    def paper(method: Any, first_step: float) -> FairCP:
        solver = GradientBCD((first_step, 1.0))
        return FairCP(8, method=method, solver=solver, max_iter=60, tol=0.0)

    return {
        "BCD": (paper("none", 3.0), ()),
        "FATR": (paper(Orthogonality(ridge=1.0), 3.0), (0.01, 0.03, 0.1)),
        "HSIC-BCD": (paper(HSIC(), 0.5), tuple(s * n**2 for s in (0.001, 0.003, 0.01))),
        "KHSIC-BCD": (paper(KHSIC(), 0.5), tuple(s * n**2 for s in (0.01, 0.04, 0.1, 0.4))),
        "CP + correlation removal": (FairCP(8, method="correlation-removal"), ()),
        "CP + transport repair": (FairCP(8, method="transport"), ()),
        "invariant": (FairCP(8), (4, 16, 64, 128, 300, 1000)),
    }


def main(folder: Path) -> None:
    """Fit and audit all methods, and write the report."""
    data = datasets.synthetic(0)
    found = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name, (model, strengths) in methods(len(data.sensitive_features)).items():
            task = progress.add_task(name, total=None)

            def on_progress(what: str, done: int, total: int, task: Any = task) -> None:
                progress.update(task, completed=done, total=total)

            found.append(
                frontier(
                    model,
                    data.tensor,
                    sensitive_features=data.sensitive_features,
                    strengths=strengths,
                    name=name,
                    audits=AUDITS,
                    limit=not found,
                    out=folder / "run",
                    n_jobs=2,
                    on_progress=on_progress,
                )
            )
    curve = join(found)
    show(curve, max_leakage=0.05)
    title = "The paper's methods and ours on its synthetic data"
    page, *figures = write_report(
        curve, folder / "report.html", title=title, formats=("png",), overwrite=True
    )
    console = Console()
    console.print(f"figures: {', '.join(map(str, figures))}", highlight=False, soft_wrap=True)
    console.print(f"page: {page}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
