"""Streamed fits by the number of people: time, memory, and the bound on memory.

    python -m benchmarks.scale generated --people 100000,1000000 --rank 4
    python -m benchmarks.scale parquet --people 1000000 --folder /data/scale --rank 4

`generated` draws the entries from a seed in every pass, so any number of people can be tried.
`parquet` writes them once, sorts them, and streams them. Each number of people runs in a process of
its own, for its peak memory. Rows are added to benchmarks/results/scale_NAME.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch

from benchmarks.alone import alone
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
    parser.add_argument("source", choices=["generated", "parquet"])
    parser.add_argument("--people", default="100000")
    parser.add_argument("--entries", type=int, default=20)
    parser.add_argument("--others", default="20,10")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--method", default="none")
    parser.add_argument("--memory", default="8GB")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--max-iter", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where `parquet` writes its files")
    given = vars(parser.parse_args())
    folder = given.pop("folder")
    if given["source"] == "parquet" and folder is None:
        parser.error("parquet needs --folder")
    others = [int(size) for size in given.pop("others").split(",")]
    rows = []
    for people in map(int, given.pop("people").split(",")):
        place = None if folder is None else str(folder / str(people))
        row = alone("scale.one_fit", {**given, "people": people, "others": others, "folder": place})
        print(json.dumps(row), flush=True)
        rows.append(row)
    path = RESULTS / f"scale_{given['source']}.json"
    before = json.loads(path.read_text())["rows"] if path.is_file() else []
    path.write_text(json.dumps({"rows": before + rows}, indent=1) + "\n")


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
        tol=0.0,
        n_init=1,
        dtype=str(wanted["dtype"]),
    )
    plan = MemoryPlan.of(Settings.of(model), data.to(dtype=str(wanted["dtype"])), source.rank)
    checked = check_stream(Settings.of(model), data.to(dtype=str(wanted["dtype"])), 0)
    times.update(_passes(checked, source.rank, str(wanted["device"])))
    begin = perf_counter()
    features = source.groups if wanted["method"] != "none" else None
    model.set_params(device=str(wanted["device"]))
    model.fit(data, sensitive_features=features)
    seconds = perf_counter() - begin
    return {
        "people": source.shape[0],
        "entries": source.count,
        "rank": source.rank,
        "method": str(wanted["method"]),
        "dtype": str(wanted["dtype"]),
        "device": str(wanted["device"]),
        "threads": torch.get_num_threads(),
        **times,
        "fit, s": seconds,
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
