"""Compare parafair with naive implementations and with other libraries, in one run.

    python -m benchmarks.run [NAME ...]

Names, the default being all of them:

* speed: algorithm1, plain_cp, khsic, audit_time, iteration_time, import_time; solvers: all_at_once,
  plain_starts, plain_people
* fairness: chance_auto, chance_random, chance_seeds, chance_threads, chance_new, chance_chunks,
  default_calls, strength_paths, many_starts, baselines, drift, fair_time
* frontiers: batch, hypervolume; the paper's figures: reproduction
* missing entries: completion, sparse_sums, ridge, oulad_time, oulad_auto, oulad_sums
* audits: power
* guarantees: certified_auto, certified_and_audited, certificate_time, simulated_releases,
  population, population_noise, oulad_population, release_descent, criterion_descent,
  place_restarts
* encoders: adult_methods, adult_blind, adult_noise, adult_race, adult_limit, adult_holes,
  adult_time, oulad_blind
* several processes: many_processes, chance_shared
* recommenders: recommend; fair scores: fair_scores; other models: non_negative_cp, tucker; events
  and counts: losses, linked_noise, zeros_time, zeros_fairness; all of these: unseen_data,
  unseen_strengths, unseen_noise
* the squared loss before other losses existed: squared_before, which needs an earlier version
* only with a CUDA device: gpu_iteration, gpu_criterion, gpu_khsic, gpu_fit

Each benchmark prints its table and writes it, with the machine and the versions, to
benchmarks/results/NAME.json. Times are the best of several runs, because other load on the machine
only adds to them.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from subprocess import Popen
from time import perf_counter

import numpy as np
import torch
from tests.reference import paper_bcd

from benchmarks import (
    audits,
    before_losses,
    blind,
    certificates,
    chance,
    chance_shared,
    chunks,
    completion,
    contenders,
    defaults,
    descents,
    fairness,
    frontiers,
    gpu,
    imports,
    iterations,
    losses,
    marks,
    models,
    paths,
    plain,
    power,
    processes,
    ratings,
    recommend,
    scores,
    solvers,
    starts,
    unseen,
    zeros,
)
from benchmarks import reproduction as figures
from benchmarks.alone import alone
from parafair import datasets
from parafair.audits.measures import residual_fit
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence.gram import CenteredGram, kernel_sum
from parafair.dependence.kernels import Gaussian
from parafair.penalties import KHSIC
from parafair.solvers import GradientBCD
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.sweep import Sweep
from parafair.testing import example_groups, example_rows

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("parafair", "torch", "numpy", "tensorly", "pyttb", "pygenten")


def best_of(repeats: int, function: Callable[..., object], *arguments: object) -> float:
    """Return the seconds of the fastest call."""
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        function(*arguments)
        times.append(perf_counter() - begin)
    return min(times)


Row = dict[str, object]


def algorithm1() -> Iterable[Row]:
    """One iteration of Algorithm 1 with KHSIC, 200 steps on each mode, 200 x 100 x 100, rank 8."""
    for dtype in (torch.float64, torch.float32):
        yield from algorithm1_in(dtype)


def algorithm1_in(dtype: torch.dtype) -> Iterable[Row]:
    """Compare in one dtype: a whole iteration, and the steps on the sensitive factor alone."""
    data, steps, strength = datasets.synthetic(0), (0.5, 1.0), 1600.0
    sensitive = SensitiveFeatures.of(data.sensitive_features)
    stored = TensorData.from_array(data.tensor).to(dtype=dtype)
    tensor = stored.values
    problem = Problem(stored, 8, penalty=KHSIC(strength), sensitive=sensitive)
    starts = make_starts(problem, "uniform", count=1, seed=0)
    solver = GradientBCD(steps, cap=False)
    state = solver.init(problem, starts)
    fixed = paper_bcd.centered_gaussian_gram(sensitive.encode(prototype=tensor))

    def penalty(factor: torch.Tensor) -> torch.Tensor:
        gram = paper_bcd.centered_gaussian_gram(factor)
        return strength / len(factor) ** 2 * (gram * fixed).sum()

    begin = [factor[0] for factor in starts]
    slow_factors = paper_bcd.round_of_steps(tensor, begin, penalty, steps, 200)
    pairs = zip(solver.step(problem, state).factors, slow_factors, strict=True)
    error = max(float((a[0] - b).norm() / b.norm()) for a, b in pairs)
    block, term = Sweep(problem, starts).block(0), problem.bound
    size = torch.full((1,), steps[0], dtype=dtype)
    # Alternating, so that both sides see the same load on the machine.
    times: list[list[float]] = [[], [], [], []]
    for _ in range(3):
        times[0].append(best_of(2, paper_bcd.round_of_steps, tensor, begin, penalty, steps, 200))
        times[1].append(best_of(2, solver.step, problem, state))
        times[2].append(
            best_of(2, paper_bcd.steps_on, tensor, begin, penalty, steps[0], 40, 0) / 40
        )
        times[3].append(best_of(2, solver._descend, block, term, starts[0], size) / 200)
    slow, fast, slow_step, fast_step = (min(column) * 1e3 for column in times)
    name = str(dtype).removeprefix("torch.")
    for what, theirs, ours in (
        ("iteration", slow, fast),
        ("KHSIC step on A", slow_step, fast_step),
    ):
        yield {
            "what": f"{what}, {name}", "autograd ms": theirs, "parafair ms": ours,
            "ratio": theirs / ours, "relative difference": error if what == "iteration" else None,
        }  # fmt: skip


def plain_cp() -> Iterable[Row]:
    """Plain CP from the same start to the same error, that of ALS after 40 sweeps.

    On a busy machine, another process multiplies matrices on one thread all the time.
    """
    for shape, rank in (((200, 100, 100), 8), ((400, 300, 200), 10)):
        random = np.random.default_rng(0)
        factors = [random.uniform(size=(size, rank)) for size in shape]
        tensor = np.einsum("ir,jr,kr->ijk", *factors)
        noise = random.standard_normal(shape)
        tensor += 0.01 * np.linalg.norm(tensor) / np.linalg.norm(noise) * noise
        start = [random.uniform(size=(size, rank)) for size in shape]
        # All libraries take the same ALS sweeps, so one of them defines the target error.
        target = residual_fit(tensor, (None, contenders.pyttb(tensor, start)(40)))
        for busy in (False, True):
            with another_process() if busy else nullcontext():
                for name in contenders.CONTENDERS:
                    if not (busy and name == "pygenten"):  # minutes, far behind the others
                        yield {**contend(name, tensor, start, target), "busy machine": busy}


@contextmanager
def another_process() -> Iterator[None]:
    """Let a process multiply matrices on one thread."""
    work = "import numpy as np; a = np.ones((500, 500))\nwhile True: a @ a"
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with Popen([sys.executable, "-c", work], env=one) as process:
        try:
            yield
        finally:
            process.kill()


def contend(name: str, tensor: np.ndarray, start: list[np.ndarray], target: float) -> Row:
    """Time one contender from the start to the target error."""
    row: Row = {"shape": "x".join(map(str, tensor.shape)), "contender": name}
    try:
        run = contenders.CONTENDERS[name](tensor, start)
    except ImportError as error:
        return {**row, "sweeps": None, "seconds": None, "error": None, "skipped": str(error)}
    for sweeps in range(1, 41) if "parafair" in name else (40, 80):
        error = residual_fit(tensor, (None, run(sweeps)))
        if error <= target * (1 + 1e-9):
            break
    # The slowest library needs a minute per repetition.
    seconds = best_of(1 if name == "pygenten" else 5, run, sweeps)
    return {**row, "sweeps": sweeps, "seconds": seconds, "error": error, "skipped": None}


def khsic() -> Iterable[Row]:
    """KHSIC value and gradient, n rows of 16 columns, each in its own process."""
    for n in (5000, 20_000):
        for how in ("parafair", "naive"):
            # At n = 20 000 the naive implementation needs more than 20 GB.
            if how == "naive" and n > 10_000:
                yield {
                    "n": n, "how": how, "seconds": None, "peak MB": None,
                    "skipped": "not run: 1.6 GB at n = 5000 become 25 GB here",
                }  # fmt: skip
                continue
            yield {"n": n, "how": how, **alone("run.one_khsic", n, how), "skipped": None}


def one_khsic(n: int, how: str) -> Row:
    """Measure one implementation."""
    rows, groups = example_rows(n, 16, seed=0), example_groups(n, seed=1)
    if how == "parafair":
        weights = CenteredGram.of(groups, Gaussian(1.0))
        seconds = best_of(3, kernel_sum, rows, Gaussian(1.0), weights)
    else:
        factor = rows.requires_grad_()
        other = torch.exp(-(groups - groups.mT).square())

        def naive() -> None:
            distances = torch.cdist(factor, factor).square()
            gram = torch.exp(-distances)
            gram = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
            torch.autograd.grad((gram * other).sum() / n**2, factor)

        seconds = best_of(3, naive)
    return {"seconds": seconds}


def machine() -> dict[str, object]:
    """Return the machine and the versions."""
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


def show(rows: list[Row]) -> None:
    """Print rows as a Markdown table."""

    def text(value: object) -> str:
        if value is None:
            return ""
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(map(text, row.values())) + " |", flush=True)


BENCHMARKS = {
    "algorithm1": algorithm1,
    "plain_cp": plain_cp,
    "khsic": khsic,
    "audit_time": audits.audit_time,
    "all_at_once": solvers.all_at_once,
    "plain_starts": plain.plain_starts,
    "plain_people": plain.plain_people,
    "non_negative_cp": models.non_negative_cp,
    "tucker": models.tucker,
    "chance_auto": chance.chance_auto,
    "certified_auto": chance.certified_auto,
    "certified_and_audited": chance.certified_and_audited,
    "chance_random": chance.chance_random,
    "chance_seeds": chance.chance_seeds,
    "chance_threads": defaults.chance_threads,
    "default_calls": defaults.default_calls,
    "strength_paths": paths.strength_paths,
    "chance_new": chance.chance_new,
    "chance_chunks": chunks.chance_chunks,
    "many_starts": starts.many_starts,
    "many_processes": processes.many_processes,
    "chance_shared": chance_shared.chance_shared,
    "baselines": fairness.baselines,
    "drift": fairness.drift,
    "fair_time": fairness.fair_time,
    "batch": frontiers.batch,
    "hypervolume": frontiers.hypervolume,
    "reproduction": figures.reproduction,
    "completion": completion.completion,
    "sparse_sums": completion.sparse_sums,
    "losses": losses.losses,
    "linked_noise": losses.linked_noise,
    "squared_before": before_losses.squared_before,
    "unseen_data": unseen.unseen_data,
    "unseen_strengths": unseen.unseen_strengths,
    "unseen_noise": unseen.unseen_noise,
    "zeros_time": zeros.zeros_time,
    "zeros_fairness": zeros.zeros_fairness,
    "ridge": ratings.ridge,
    "oulad_time": marks.oulad_time,
    "oulad_auto": marks.oulad_auto,
    "oulad_sums": marks.oulad_sums,
    "import_time": imports.import_time,
    "certificate_time": certificates.certificate_time,
    "simulated_releases": certificates.simulated_releases,
    "population": certificates.population,
    "population_noise": certificates.population_noise,
    "oulad_population": certificates.oulad_population,
    "release_descent": descents.release_descent,
    "criterion_descent": descents.criterion_descent,
    "place_restarts": descents.place_restarts,
    "adult_methods": blind.adult_methods,
    "adult_blind": blind.adult_blind,
    "adult_noise": blind.adult_noise,
    "adult_holes": blind.adult_holes,
    "adult_time": blind.adult_time,
    "oulad_blind": blind.oulad_blind,
    "adult_race": blind.adult_race,
    "adult_limit": blind.adult_limit,
    "fair_scores": scores.fair_scores,
    "recommend": recommend.recommend,
    "power": power.power,
    "iteration_time": iterations.iteration_time,
    "gpu_iteration": iterations.gpu_iteration,
    "gpu_criterion": gpu.gpu_criterion,
    "gpu_khsic": gpu.gpu_khsic,
    "gpu_fit": gpu.gpu_fit,
}


def main() -> None:
    """Run the benchmarks named on the command line, or all of them."""
    here = [name for name in BENCHMARKS if torch.cuda.is_available() or "gpu" not in name]
    if "PARAFAIR_BEFORE" not in os.environ:
        here.remove("squared_before")
    for name in sys.argv[1:] or here:
        print(f"\n{BENCHMARKS[name].__doc__}\n")
        rows = list(BENCHMARKS[name]())
        show(rows)
        RESULTS.mkdir(exist_ok=True)
        record = {"about": BENCHMARKS[name].__doc__, "machine": machine(), "rows": rows}
        (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
