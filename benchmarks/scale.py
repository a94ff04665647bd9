"""Fits by the number of people: time, memory, and for streamed fits the bound on memory.

    python -m benchmarks.scale generated --people 100000,1000000 --rank 4
    python -m benchmarks.scale parquet --people 1000000 --folder /data/scale --rank 4
    python -m benchmarks.scale memory --people 100000,1000000 --device cuda --rank 16
    python -m benchmarks.scale aims --device cuda

`generated` draws the entries from a seed in every pass, so any number of people can be tried.
`parquet` writes them once, sorts them, and streams them. `memory` draws them into the memory of the
device; see `benchmarks.drawn`. Each number of people runs in a process of its own, for its peak
memory. Rows are added to benchmarks/results/scale_NAME.json. With several numbers of people, the
power with which the time of a pass, a fit or a step grows is printed. `aims` is a list of `memory`:
a fit of 10^6 people with 100 entries each, and steps of 10^5, 10^6 and 10^7 people with 10 entries
each; --quick has a hundredth of the people. It needs what parafair itself needs, and says on the
way where it is.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch

from benchmarks.alone import alone
from benchmarks.drawn import exponent
from benchmarks.simulated import SimulatedSource, write_files
from parafair import FairCP, TensorData, sort_parquet
from parafair.arguments import bytes_of
from parafair.data.streamed import StreamedData
from parafair.model.preparation import Settings
from parafair.model.streaming import MemoryPlan, check_stream

RESULTS = Path(__file__).parent / "results"
Row = dict[str, object]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", choices=["generated", "parquet", "memory", "aims"])
    parser.add_argument("--people", default="100000")
    parser.add_argument("--entries", type=int, default=20)
    parser.add_argument("--others", default="20,10")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--method", default="none")
    parser.add_argument("--memory", default="8GB")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--max-iter", type=int, default=10)
    parser.add_argument("--tol", type=float, default=0.0)
    parser.add_argument("--steps-only", action="store_true", help="no whole fit; for `memory`")
    parser.add_argument("--seconds", type=float, default=200.0, help="a fit of `memory` ends then")
    parser.add_argument("--quick", action="store_true", help="few people; for `aims`")
    parser.add_argument("--folder", type=Path, help="where `parquet` writes its files")
    given = vars(parser.parse_args())
    folder, quick = given.pop("folder"), given.pop("quick")
    if given["source"] == "aims":
        aims(given["device"], 100 if quick else 1, given["seconds"])
        return
    if given["source"] == "parquet" and folder is None:
        parser.error("parquet needs --folder")
    others = [int(size) for size in given.pop("others").split(",")]
    rows = []
    for people in map(int, given.pop("people").split(",")):
        place = None if folder is None else str(folder / str(people))
        module = "drawn" if given["source"] == "memory" else "scale"
        wanted = {**given, "people": people, "others": others, "folder": place}
        row = alone(f"{module}.one_fit", wanted)
        print(json.dumps(row), flush=True)
        rows.append(row)
        _store(f"scale_{given['source']}", row)
    if len(rows) > 1:
        # Streams depend on disks and on other work of the machine, so CPU time too.
        streamed = ("pass, s", "pass, CPU s", "fit, s", "fit, CPU s")
        for name in ("step, s",) if given["source"] == "memory" else streamed:
            print(f"{name} grows with the power {exponent(rows, name):.3f} of the people")


def aims(device: str, divisor: int, seconds: float) -> None:
    """Measure a large fit, then how steps grow with the people; each row is stored at once.

    Args:
        device: The device.
        divisor: What the numbers of people are divided by.
        seconds: When the fit ends, converged or not.
    """
    common: Row = {"device": device, "rank": 16, "method": "invariant", "max_iter": 2000}
    common |= {"tol": 3e-5, "seconds": seconds}
    small = {**common, "others": [20, 20], "entries": 10, "steps_only": True}
    large = {**common, "others": [500, 500], "entries": 100, "steps_only": False}
    plan = [{**large, "people": 10**6 // divisor}]
    plan += [{**small, "people": n // divisor} for n in (10**5, 10**6, 10**7)]
    rows = []
    names = ("people", "entries", "drawn, s", "step, s", "fit, s", "status", "residual", "GPU GB")
    print(" | ".join(names), flush=True)
    for wanted in plan:
        row = alone("drawn.one_fit", wanted)
        rows.append(row)
        if divisor == 1:
            _store("scale_aims", row)
        print(" | ".join(_short(row.get(name, "")) for name in names), flush=True)
        print(json.dumps(row), flush=True)
    power = exponent(rows[1:], "step, s")
    print(f"step, s grows with the power {power:.3f} of the people")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _store(name: str, row: Row) -> None:
    """Add a row to the results."""
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text())["rows"] if path.is_file() else []
    path.write_text(json.dumps({"rows": [*before, row]}, indent=1) + "\n")


def one_fit(settings: dict[str, object]) -> Row:
    """Return the times and the memory of one fit."""
    wanted = dict(settings)
    source = SimulatedSource(
        wanted["people"],  # type: ignore[arg-type]
        others=tuple(wanted["others"]),  # type: ignore[arg-type]
        entries=wanted["entries"],  # type: ignore[arg-type]
        rank=wanted["rank"],  # type: ignore[arg-type]
    )
    times: Row = {}
    if wanted["source"] == "parquet":
        data = _sorted(source, Path(str(wanted["folder"])), times)
    else:
        data = StreamedData(source)
    data = data.with_memory(bytes_of("memory", wanted["memory"]))
    model = FairCP(
        source.rank,
        method=str(wanted["method"]),
        ridge=1.0,
        max_iter=wanted["max_iter"],  # type: ignore[arg-type]
        tol=wanted.get("tol", 0.0),  # type: ignore[arg-type]
        n_init=1,
        dtype=str(wanted["dtype"]),
    )
    plan = MemoryPlan.of(Settings.of(model), data.to(dtype=str(wanted["dtype"])), source.rank)
    checked = check_stream(Settings.of(model), data.to(dtype=str(wanted["dtype"])), 0)
    times.update(_passes(checked, source.rank, str(wanted["device"])))
    features = source.groups if wanted["method"] != "none" else None
    model.set_params(device=str(wanted["device"]))
    begin, cpu = perf_counter(), process_time()
    model.fit(data, sensitive_features=features)
    times["fit, s"], times["fit, CPU s"] = perf_counter() - begin, process_time() - cpu
    return {
        "people": source.shape[0],
        "entries": source.count,
        "rank": source.rank,
        "method": str(wanted["method"]),
        "dtype": str(wanted["dtype"]),
        "device": str(wanted["device"]),
        "threads": torch.get_num_threads(),
        **times,
        "iterations": model.n_iter_,
        "residual": model.fit_.residual,
        "bound MB": (plan.least - plan.least_tile + 440 * checked.tile) // 10**6,
    }


def _sorted(source: SimulatedSource, folder: Path, times: Row) -> StreamedData:
    """Return the data from files, which are written and sorted once."""
    if not (folder / "sorted").is_dir():
        (folder / "raw").mkdir(parents=True, exist_ok=True)
        write_files(source, folder / "raw")
        begin, cpu = perf_counter(), process_time()
        sort_parquet(
            folder / "raw", folder / "sorted", modes=source.modes, value="value", overwrite=True
        )
        times["sort, s"] = perf_counter() - begin
        times["sort, CPU s"] = process_time() - cpu
    return TensorData.from_parquet(folder / "sorted")


def _passes(data: StreamedData, rank: int, device: str) -> Row:
    """Return the seconds of reading alone and of a pass with its gradients, by clock and CPU.

    CPU time is that of all threads. Other work on the machine adds little to it.
    """
    factors = [
        torch.from_numpy(np.random.default_rng(0).standard_normal((1, size, rank))).to(data.like)
        for size in data.shape
    ]
    moved = [factor.to(device) for factor in factors]
    on_device = data.to(device)

    def read() -> None:
        for first, last in data.ranges:
            data.source.read(first, last, range(data.order + 1))

    found: Row = {}
    works = {"read": read, "pass": lambda: on_device.observations.error_and_slopes(moved)}
    for name, work in works.items():
        times = []
        for _ in range(2):  # the first one also loads libraries
            clock, cpu = perf_counter(), process_time()
            work()
            times.append((perf_counter() - clock, process_time() - cpu))
        found[f"{name}, s"], found[f"{name}, CPU s"] = map(min, zip(*times, strict=True))
    return found


if __name__ == "__main__":
    main()
