"""Fits by process groups on one GPU: one process by nccl, and two that share the GPU by gloo.

    python -m benchmarks.gpu_processes

A process gets its own GPU with nccl, which refuses to share one. So one process whose sums travel
by nccl shows that the backend works, and two by gloo that sharing out people does. Rows are written
to benchmarks/results/gpu_processes.json.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from tests.gpu_processes import METHODS, GroupFit
from tests.processes import together

RESULTS = Path(__file__).parent / "results"
GROUPS = (("nccl", 1), ("gloo", 2))
PEOPLE, ITERATIONS, PATIENCE = 20_000, 20, 200


def main() -> None:
    """Compare, print every row and write all."""
    rows: list[dict[str, object]] = []
    for method in METHODS:
        for missing in (0.0, 0.4):
            work = GroupFit(method, missing, PEOPLE, max_iter=ITERATIONS)
            work(None)  # loads libraries and compiles kernels
            residual, embedding, seconds, _ = work(None)
            for backend, size in GROUPS:
                with tempfile.TemporaryDirectory() as folder:
                    all_found = together(
                        Path(folder), size, work, PATIENCE, backend=backend, start="spawn"
                    )
                if isinstance(all_found[0], BaseException):
                    raise all_found[0]
                found = all_found[0]
                rows.append(
                    {
                        "method": method,
                        "missing": missing,
                        "backend": backend,
                        "processes": size,
                        "residual": residual,
                        "difference of residuals": abs(found[0] - residual) / residual,
                        "difference of embeddings": float(np.abs(found[1] - embedding).max()),
                        "seconds of one process": seconds,
                        "seconds, first fit": found[2],
                        "messages": found[3],
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    path = RESULTS / "gpu_processes.json"
    path.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
