"""The default method on a CUDA device: the criterion, and whole fits of many people."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import numpy as np
import torch

from parafair import FairCP
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import fused, fused_columns
from parafair.dependence.kernels import Gaussian
from parafair.penalties import KHSIC, Invariant

Row = dict[str, object]


def gpu_criterion() -> Iterable[Row]:
    """The criterion with its gradient, rank 16, two groups; fused kernels and plain PyTorch."""
    for n in (20_000, 100_000, 1_000_000):
        rows = torch.randn(1, n, 16, device="cuda")
        criterion = Invariant().criterion(SensitiveFeatures.of(np.arange(n) % 2), rows)
        kernels = fused.row_kernels, fused_columns.column_kernels
        times = {}
        for name, used in (("fused", kernels), ("plain", (None, None))):
            fused.row_kernels, fused_columns.column_kernels = used
            torch.cuda.reset_peak_memory_stats()
            times[f"{name}, ms"] = 1e3 * min(_seconds(criterion, rows) for _ in range(6))
            times[f"{name}, GB"] = torch.cuda.max_memory_allocated() / 1e9
        fused.row_kernels, fused_columns.column_kernels = kernels
        yield {"people": n, **times}


def gpu_khsic() -> Iterable[Row]:
    """The paper's KHSIC with its gradient over all pairs, rank 16; fused and plain PyTorch."""
    for n, groups in ((20_000, 2), (100_000, 2), (100_000, 12)):
        codes = np.arange(n) % groups
        rows = torch.randn(1, n, 16, device="cuda") + torch.from_numpy(codes).cuda()[:, None] % 2
        bound = KHSIC(kernel=Gaussian(0.05)).bind(SensitiveFeatures.of(codes), rows.flatten()[:1])
        kernels = fused.row_kernels
        times = {}
        for name, used in (("fused", kernels), ("plain", None)):
            fused.row_kernels = used
            times[f"{name}, ms"] = 1e3 * min(_seconds(bound, rows) for _ in range(6))
        fused.row_kernels = kernels
        yield {"people": n, "groups": groups, **times}


def _seconds(function: object, rows: torch.Tensor) -> float:
    torch.cuda.synchronize()
    begin = perf_counter()
    function.value_and_gradient(rows)  # type: ignore[attr-defined]
    torch.cuda.synchronize()
    return perf_counter() - begin


def gpu_fit() -> Iterable[Row]:
    """Whole fits in single precision, rank 16, strength 20; the first one loads the libraries."""
    for n, other in ((10_000, 20), (100_000, 20), (1_000_000, 10)):
        random = np.random.default_rng(0)
        groups = random.integers(0, 2, n)
        people = random.standard_normal((n, 16)) + groups[:, None] * random.standard_normal(16)
        factors = [people, *(random.standard_normal((other, 16)) for _ in range(2))]
        factors = [torch.from_numpy(factor).float().cuda() for factor in factors]
        tensor = torch.einsum("ir,jr,kr->ijk", *factors)
        tensor += 0.1 * tensor.std() * torch.randn_like(tensor)
        torch.cuda.reset_peak_memory_stats()
        begin = perf_counter()
        model = FairCP(16, strength=20.0, random_state=0).fit(tensor, sensitive_features=groups)
        yield {
            "shape": f"{n} x {other} x {other}",
            "seconds": perf_counter() - begin,
            "iterations": model.fit_.n_iter,
            "status": model.fit_.status.name,
            "residual": model.fit_.residual,
            "GB": torch.cuda.max_memory_allocated() / 1e9,
        }
