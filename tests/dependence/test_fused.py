"""Kernels on a CUDA device agree with plain PyTorch; skipped where there is none."""

import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import fused, fused_columns
from parafair.dependence.criterion import Criterion
from parafair.dependence.gram import CenteredGram, kernel_sum
from parafair.dependence.kernels import Gaussian
from parafair.dependence.views import compare_columns, compare_rows, row_sums
from parafair.dependence.whitening import RowViews
from parafair.penalties import Invariant
from parafair.testing import example_rows

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
@pytest.mark.parametrize("groups", [2, 12])
@pytest.mark.parametrize("rank", [1, 7, 40])
def test_fused_sums_of_a_kernel_agree_with_double_precision(rank, groups, estimator):
    n = 20_011  # more than one tile of plain PyTorch, and the last tile is not full
    codes = torch.arange(n, device="cuda") % groups
    rows = example_rows(n, rank, seed=0).cuda() + codes[:, None] / 5 + 10  # far from the origin
    rows = torch.stack([rows, 0.5 * rows])
    features = torch.nn.functional.one_hot(codes).double()
    kernel = Gaussian(0.1)
    exact, single = (
        kernel_sum(rows.to(t), kernel, CenteredGram.of(features.to(t), Gaussian(1.0), estimator))
        for t in (torch.float64, torch.float32)
    )
    # The value is a small difference of sums of size 1, which round to about 1e-7.
    torch.testing.assert_close(single[0].double(), exact[0], rtol=1e-4, atol=1e-6)
    assert float((single[1].double() - exact[1]).norm() / exact[1].norm()) < 1e-4


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("groups", [2, 12])
@pytest.mark.parametrize("rank", [1, 7, 16, 40])
def test_fused_rows_agree_with_double_precision(rank, groups, alike, monkeypatch):
    n = 2105  # three chunks of different sizes
    rows = example_rows(n, rank, seed=0).cuda()
    sensitive = SensitiveFeatures.of(
        np.arange(n) % groups < 1 if groups == 2 else np.arange(n) % 12
    )
    rows = torch.stack([rows, rows + 0.3 * torch.arange(n, device="cuda")[:, None] % groups])
    single, double = (
        Criterion(sensitive, rows[:, :0].to(dtype).flatten(), chunk_size=700)
        for dtype in (torch.float32, torch.float64)
    )
    whitened = RowViews(rows).whitened
    exact = compare_rows(whitened, double.scorers(rank).rows, double.places)
    scorer = single.scorers(rank).rows
    assert fused.is_fused(whitened.float(), scorer.weights.columns)
    runs = single.runs if alike else None
    assert runs or not alike
    found = compare_rows(whitened.float(), scorer, single.places, runs)
    again = compare_rows(whitened.float(), scorer, single.places, runs)
    sums = row_sums(whitened.float(), scorer.weights.columns, single.places)
    monkeypatch.setattr(fused, "row_kernels", None)
    assert not fused.is_fused(whitened.float(), scorer.weights.columns)
    plain = row_sums(whitened.float(), scorer.weights.columns, single.places)
    torch.testing.assert_close(found[0].double(), exact[0], rtol=1e-3, atol=1e-8)
    error = (found[1].double() - exact[1]).norm() / exact[1].norm()
    assert float(error) < 1e-3
    # In standard deviations of independent rows.
    torch.testing.assert_close(
        scorer.deviations(sums), scorer.deviations(plain), rtol=1e-3, atol=0.01
    )
    assert torch.equal(again[0], found[0])
    assert torch.equal(again[1], found[1]) or not alike  # others are added up by atomic operations


@pytest.mark.parametrize("groups", [2, 5])
@pytest.mark.parametrize("rank", [1, 2, 7, 12, 16])
def test_fused_columns_agree_with_plain_pytorch(rank, groups, monkeypatch):
    n = 5003
    codes = np.arange(n) % 17 % groups  # uneven
    rows = torch.stack([example_rows(n, rank, seed=seed) for seed in (0, 1)]).float().cuda()
    rows[1] += 0.5 * torch.from_numpy(codes).cuda()[:, None]
    criterion = Criterion(SensitiveFeatures.of(codes.astype(str)), rows[:0])
    columns, scorers = criterion._columns(RowViews(rows)), criterion.scorers(rank)

    def compare():
        alike = criterion._alike_here
        return compare_columns(columns, scorers.columns, scorers.pairs, alike)

    calls, compute = [], fused_columns.total
    monkeypatch.setattr(fused_columns, "total", lambda waves: calls.append(0) or compute(waves))
    found, again = compare(), compare()
    assert len(calls) == 2
    monkeypatch.setattr(fused_columns, "column_kernels", None)
    plain = compare()
    assert len(calls) == 2
    torch.testing.assert_close(found[0], plain[0], rtol=1e-4, atol=1e-7)
    assert float((found[1] - plain[1]).norm() / plain[1].norm()) < 1e-4
    assert all(map(torch.equal, found, again))


def test_waves_of_many_people_agree_with_double_precision():
    n = 30_000
    rows = example_rows(n, 5, seed=0).cuda()
    groups = SensitiveFeatures.of(np.arange(n) % 7 < 2)
    values, gradients = [], []
    for dtype in (torch.float32, torch.float64):
        criterion = Criterion(groups, rows[:0].to(dtype))
        columns = criterion._columns(RowViews(rows[None]))
        scorers = criterion.scorers(5)
        value, gradient = compare_columns(columns, scorers.columns, scorers.pairs, criterion.alike)
        values.append(value.double())
        gradients.append(gradient.double())
    torch.testing.assert_close(values[0], values[1], rtol=1e-3, atol=1e-8)
    assert float((gradients[0] - gradients[1]).norm() / gradients[1].norm()) < 1e-3


def test_a_million_people_fit_into_memory():
    n = 1_000_000
    rows = example_rows(n, 16, seed=0).float().cuda()[None]
    sensitive = SensitiveFeatures.of(np.arange(n) % 2)
    criterion = Invariant().criterion(sensitive, rows)
    torch.cuda.reset_peak_memory_stats()
    value, gradient = criterion.value_and_gradient(rows)
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()
    assert torch.cuda.max_memory_allocated() < 10e9
