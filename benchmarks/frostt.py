"""Sparse tensors with the sizes of FROSTT's NELL-2: loading, memory and sweeps.

    python -m benchmarks.frostt load --nonzeros 1000000
    python -m benchmarks.frostt sweep --nonzeros 100000000 --rank 16 --device cuda

`load` reads the same entries from a .tns file, from a binary list (a .npy file of positions and one
of values, made into a sparse tensor) and from a sorted Parquet folder. `sweep` measures the sums of
all modes and the error with all gradients, from entries drawn on the device; on a GPU, with the
kernels of `parafair.algebra.fused_segments` and by plain PyTorch. Every measurement runs in a
process of its own, for its peak memory. Rows are added to benchmarks/results/frostt_NAME.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.alone import alone
from parafair import TensorData, sort_parquet
from parafair.algebra import fused_segments
from parafair.algebra.sparse import SparseObservations

# FROSTT's NELL-2, which has 76.9 million nonzeros.
SHAPE = (12092, 9184, 28818)
RESULTS = Path(__file__).parent / "results"
FORMATS = ("tns", "binary", "parquet")
Row = dict[str, object]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["load", "sweep"])
    parser.add_argument("--nonzeros", default="1000000")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rows = []
    for count in map(int, given.nonzeros.split(",")):
        if given.what == "load":
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), count)
                found = [alone("frostt.load", folder, kind) for kind in FORMATS]
        else:
            options = (count, given.rank, given.device, given.dtype, given.repeats)
            ways = (True, False) if given.device == "cuda" else (False,)
            found = [alone("frostt.sweep", *options, fused) for fused in ways]
        for row in found:
            print(json.dumps(row), flush=True)
        rows += found
    path = RESULTS / f"frostt_{given.what}.json"
    before = json.loads(path.read_text())["rows"] if path.is_file() else []
    path.write_text(json.dumps({"rows": before + rows}, indent=1) + "\n")


def draw(count: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return different cells in ascending order, shape (order, count), and values.

    Positions are skewed as in data: a few have most of the entries.
    """
    random = np.random.default_rng(seed)
    found = np.zeros(0, np.int64)
    while len(found) < count:
        more = int(1.2 * (count - len(found))) + 1000
        places = [(size * random.random(more) ** 2).astype(np.int64) for size in SHAPE]
        found = np.unique(np.concatenate([found, np.ravel_multi_index(places, SHAPE)]))
    kept = np.sort(random.permutation(found)[:count])
    return np.stack(np.unravel_index(kept, SHAPE)), random.standard_normal(count)


def write(folder: Path, count: int) -> None:
    """Write the same entries in every format."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    cells, values = draw(count)
    with (folder / "x.tns").open("w") as file:
        for begin in range(0, count, 10**6):
            part = slice(begin, begin + 10**6)
            np.savetxt(file, np.c_[cells[:, part].T + 1, values[part]], fmt="%d %d %d %.6g")
    np.save(folder / "cells.npy", cells)
    np.save(folder / "values.npy", values)
    table = pa.table({"a": cells[0], "b": cells[1], "c": cells[2], "value": values})
    write_table(table, folder / "x.parquet")
    sort_parquet(folder / "x.parquet", folder / "sorted", modes=["a", "b", "c"], value="value")


def load(folder: str, kind: str) -> Row:
    """Return the seconds to read one format; for Parquet, those of one pass over the tiles."""
    path = Path(folder)
    begin, cpu = perf_counter(), process_time()
    if kind == "tns":
        data = TensorData.from_tns(path / "x.tns")
        size = (path / "x.tns").stat().st_size
    elif kind == "binary":
        cells, values = (torch.from_numpy(np.load(path / f"{n}.npy")) for n in ("cells", "values"))
        data = TensorData.from_array(
            torch.sparse_coo_tensor(cells, values, SHAPE, check_invariants=True)
        )
        size = sum((path / f"{n}.npy").stat().st_size for n in ("cells", "values"))
    else:
        data = TensorData.from_parquet(path / "sorted")
        for first, last in data.ranges:
            data.source.read(first, last, range(data.order + 1))
        size = sum(part.bytes for part in data.source.parts)  # type: ignore[attr-defined]
    seconds = perf_counter() - begin
    return {
        "format": kind,
        "nonzeros": data.observed,
        "file MB": size // 10**6,
        "seconds": seconds,
        "CPU seconds": process_time() - cpu,
        "nonzeros/s": data.observed / seconds,
    }


def sweep(count: int, rank: int, device: str, dtype: str, repeats: int, fused: bool) -> Row:
    """Return the seconds of the sums of all modes, and of the error with all gradients."""
    if not fused:
        fused_segments.segment_kernels = None  # type: ignore[assignment]
    like = torch.empty(0, device=device, dtype=getattr(torch, dtype))
    generator = torch.Generator(device).manual_seed(0)
    rows = [torch.rand(count, generator=generator, device=device).square() for _ in SHAPE]
    places = [(size * row).long() for size, row in zip(SHAPE, rows, strict=True)]
    del rows
    values = torch.randn(count, generator=generator, device=device).to(like)
    entries = SparseObservations(torch.stack(places), values, SHAPE)
    factors = [
        torch.randn(1, size, rank, generator=generator, device=device).to(like) for size in SHAPE
    ]

    def all_modes() -> None:
        sums = entries.sums(factors)
        for mode in range(len(SHAPE)):
            sums.target(mode)

    begin = _now(device)
    all_modes()  # sorts the entries by each mode
    first = _now(device) - begin
    return {
        "nonzeros": count,
        "rank": rank,
        "device": device,
        "dtype": dtype,
        "kernels": fused_segments.segment_kernels is not None,
        "first sweep, s": first,
        "sweep, s": _best(all_modes, repeats, device),
        "gradients, s": _best(lambda: entries.error_and_slopes(factors), repeats, device),
        "GPU GB": torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0,
    }


def _best(function: Callable[[], object], repeats: int, device: str) -> float:
    times = []
    for _ in range(repeats):
        begin = _now(device)
        function()
        times.append(_now(device) - begin)
    return min(times)


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return perf_counter()


if __name__ == "__main__":
    main()
