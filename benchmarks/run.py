"""Measure parafair against the obvious way and against its peers, side by side in one run.

    python benchmarks/run.py [algorithm1] [plain_cp] [khsic]

Each benchmark prints its table and writes it, with the machine and the versions, to
benchmarks/results/NAME.json. Times are the best of several runs, because whatever else the
machine does can only add to them.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import contenders
from parafair import datasets
from parafair.independence import CenteredGram, kernel_sum
from parafair.kernels import Gaussian
from parafair.metrics import residual_fit
from parafair.penalties import KHSIC
from parafair.problem import Problem, Sweep, as_tensor
from parafair.sensitive import SensitiveFeatures
from parafair.solvers import GradientBCD
from parafair.starts import make_starts
from parafair.testing import example_groups, example_rows
from tests.reference import paper_bcd

PACKAGES = ("parafair", "torch", "numpy", "tensorly", "pyttb", "pygenten")


def best_of(repeats: int, function: Callable[[], object]) -> float:
    """Return the seconds of the fastest call."""
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        function()
        times.append(perf_counter() - begin)
    return min(times)


def algorithm1() -> Iterable[dict[str, object]]:
    """One round of Algorithm 1 with KHSIC, 200 steps on each mode, 200 x 100 x 100, rank 8."""
    data, steps, strength = datasets.synthetic(0), (0.5, 1.0), 1600.0
    for dtype in (torch.float64, torch.float32):
        sensitive = SensitiveFeatures.of(data.sensitive)
        tensor = as_tensor(data.tensor, dtype=dtype)
        problem = Problem(tensor, 8, penalty=KHSIC(strength), sensitive=sensitive)
        starts = make_starts(problem, "uniform", count=1, seed=0)
        solver = GradientBCD(steps, cap=False)
        state = solver.init(problem, starts)
        fast = best_of(10, lambda: solver.step(problem, state))

        groups = sensitive.encode(like=tensor)
        fixed = paper_bcd.centered_gaussian_gram(groups)  # nobody would recompute this

        def penalty(factor: torch.Tensor) -> torch.Tensor:
            gram = paper_bcd.centered_gaussian_gram(factor)
            return strength / len(factor) ** 2 * (gram * fixed).sum()

        begin = [factor[0] for factor in starts]
        reference: list[torch.Tensor] = []
        slow = best_of(
            2,
            lambda: reference.extend(
                paper_bcd.round_of_steps(tensor, begin, penalty, steps, 200)
            ),
        )
        pairs = zip(solver.step(problem, state).factors, reference[:3], strict=True)
        error = max(float((a[0] - b).norm() / b.norm()) for a, b in pairs)
        block, term = Sweep(problem, starts).block(0), problem.term
        size = torch.full((1,), steps[0], dtype=dtype)
        fast_step = best_of(10, lambda: solver._descend(block, term, starts[0], size)) / 200
        slow_step = best_of(
            2, lambda: paper_bcd.steps_on(tensor, begin, penalty, steps[0], 40, 0)
        ) / 40
        name = str(dtype).removeprefix("torch.")
        yield {
            "what": f"round, {name}", "autograd ms": slow * 1e3, "parafair ms": fast * 1e3,
            "ratio": slow / fast, "relative difference": error,
        }  # fmt: skip
        yield {
            "what": f"KHSIC step on A, {name}", "autograd ms": slow_step * 1e3,
            "parafair ms": fast_step * 1e3, "ratio": slow_step / fast_step,
            "relative difference": None,
        }  # fmt: skip


def plain_cp() -> Iterable[dict[str, object]]:
    """Plain CP from the same start to the same error: the one plain ALS has after 40 sweeps."""
    for shape, rank in (((200, 100, 100), 8), ((400, 300, 200), 10)):
        random = np.random.default_rng(0)
        factors = [random.uniform(size=(size, rank)) for size in shape]
        tensor = np.einsum("ir,jr,kr->ijk", *factors)
        noise = random.standard_normal(shape)
        tensor += 0.01 * np.linalg.norm(tensor) / np.linalg.norm(noise) * noise
        start = [random.uniform(size=(size, rank)) for size in shape]
        # All peers take the same ALS sweeps, so one of them sets the error to reach.
        target = residual_fit(tensor, (None, contenders.pyttb(tensor, start)(40)))
        for name, prepare in contenders.CONTENDERS.items():
            run = prepare(tensor, start)
            sweeps, error = 40, 1.0
            if name.startswith("parafair"):
                sweeps = next(
                    k for k in range(1, 41) if residual_fit(tensor, (None, run(k))) <= target
                )
            seconds = best_of(1 if name == "pygenten" else 5, lambda: run(sweeps))
            error = residual_fit(tensor, (None, run(sweeps)))
            yield {
                "shape": "x".join(map(str, shape)), "contender": name, "sweeps": sweeps,
                "seconds": seconds, "ms per sweep": seconds / sweeps * 1e3, "error": error,
            }  # fmt: skip


def khsic() -> Iterable[dict[str, object]]:
    """KHSIC value and gradient, n rows of 16 columns, each in a process of its own."""
    for n in (5000, 20_000):
        for how in ("parafair", "naive"):
            # The naive way at n = 20 000 needs more than 20 GB.
            if how == "naive" and n > 10_000:
                yield {
                    "n": n, "how": how, "seconds": None, "peak MB": None,
                    "skipped": "five n x n matrices of 3.2 GB each, and autograd's copies",
                }  # fmt: skip
                continue
            command = [sys.executable, __file__, "--khsic", str(n), how]
            result = subprocess.run(command, capture_output=True, check=True, text=True)
            yield {"n": n, "how": how, **json.loads(result.stdout), "skipped": None}


def khsic_alone(n: int, how: str) -> None:
    """Measure one way in this process and print its time and peak memory."""
    rows, groups = example_rows(n, 16, seed=0), example_groups(n, seed=1)
    if how == "parafair":
        weights = CenteredGram.of(groups, Gaussian(1.0))
        seconds = best_of(3, lambda: kernel_sum(rows, Gaussian(1.0), weights))
    else:
        factor = rows.requires_grad_()

        def naive() -> None:
            distances = torch.cdist(factor, factor).square()
            gram = torch.exp(-distances)
            gram = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
            other = torch.exp(-torch.cdist(groups, groups).square())
            torch.autograd.grad((gram * other).sum() / n**2, factor)

        seconds = best_of(3, naive)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"seconds": seconds, "peak MB": peak}))


def machine() -> dict[str, object]:
    """Return what the numbers depend on."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0].split(":")[1].strip() if names else processor
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **versions,
    }


def show(rows: list[dict[str, object]]) -> None:
    """Print rows as a Markdown table."""

    def text(value: object) -> str:
        if value is None:
            return ""
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(map(text, row.values())) + " |", flush=True)


BENCHMARKS = {"algorithm1": algorithm1, "plain_cp": plain_cp, "khsic": khsic}


def main() -> None:
    """Run the benchmarks named on the command line, or all of them."""
    if sys.argv[1:2] == ["--khsic"]:
        khsic_alone(int(sys.argv[2]), sys.argv[3])
        return
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"\n{BENCHMARKS[name].__doc__}\n")
        rows = list(BENCHMARKS[name]())
        show(rows)
        results = ROOT / "benchmarks" / "results"
        results.mkdir(exist_ok=True)
        record = {"about": BENCHMARKS[name].__doc__, "machine": machine(), "rows": rows}
        (results / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
