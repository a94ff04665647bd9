"""The same results on a CUDA device as on the CPU; skipped where there is none."""

import numpy as np
import pytest
import torch

from parafair import (
    ConvergenceWarning,
    FairCP,
    ParafairWarning,
    TensorData,
    audit,
    certify_rows,
    datasets,
)
from parafair.algebra.segments import Segments
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.hsic import khsic
from parafair.dependence.sliced import move_together
from parafair.losses import LOSSES, needs_non_negative
from parafair.paper import compare_readings, make_tables
from parafair.paper.table import read_rows
from parafair.penalties import (
    HSIC,
    KHSIC,
    Invariant,
    MeanMatching,
    MutualInformation,
    Orthogonality,
)
from parafair.solvers import GradientBCD
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.testing import example_groups, example_rows
from tests.one_process import shared_by_one
from tests.paper.conftest import TINY
from tests.reference import losses as reference

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize(
    "method", ["none", Orthogonality(0.05, 0.1), HSIC(20.0), KHSIC(50.0)], ids=str
)
@pytest.mark.parametrize(
    "solver", ["block", GradientBCD((0.05, 0.05), 20)], ids=["block", "gradient"]
)
def test_fits_agree_with_the_cpu(data, method, solver):
    options = {"method": method, "solver": solver, "max_iter": 5, "tol": 0, "n_init": 2}
    models = [
        FairCP(3, **options, random_state=0, device=device).fit(
            data.tensor, sensitive_features=data.sensitive_features
        )
        for device in ("cpu", "cuda")
    ]
    assert models[1].cp_.factors[0].is_cuda
    np.testing.assert_allclose(models[1].embedding_, models[0].embedding_, rtol=1e-6, atol=1e-8)
    assert (
        audit(
            models[1].embedding_, sensitive_features=data.sensitive_features, permutations=20
        ).people
        == 40
    )


@pytest.mark.parametrize(
    "method", ["none", Invariant(2.0), MeanMatching(5.0), MutualInformation(5.0)], ids=str
)
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("sparse", [False, True])
def test_all_factors_at_once_agree_with_the_cpu(data, method, share, sparse):
    missing = np.random.default_rng(0).uniform(size=data.tensor.shape) < share
    tensor = TensorData.from_array(np.where(missing, np.nan, data.tensor))
    tensor = tensor.to_sparse() if sparse else tensor
    options = {"method": method, "solver": "lbfgs", "max_iter": 5, "tol": 0, "n_init": 2}
    cpu, cuda = (
        FairCP(3, **options, ridge=0.1, random_state=0, device=device).fit(
            tensor, sensitive_features=data.sensitive_features
        )
        for device in ("cpu", "cuda")
    )
    assert cuda.cp_.factors[0].is_cuda
    # Fits with the default penalty begin in single precision.
    digits = 1e-5 if method == "none" else 1e-2
    np.testing.assert_allclose(cuda.embedding_, cpu.embedding_, rtol=digits, atol=digits / 10)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_agree_with_the_cpu(name, share):
    example = reference.example(name, missing=share)
    modes = (0, 1, 2) if needs_non_negative(LOSSES[name]) else ()
    found = []
    for device in ("cpu", "cuda"):
        data = TensorData.from_array(example).to(device)
        problem = Problem(data, 2, loss=name, ridge=0.3, non_negative=modes)
        factors = make_starts(problem, "uniform", count=2, seed=0)
        assert all(factor.device.type == device for factor in factors)
        objective, gradients, _ = problem.value_and_gradients(factors)
        found.append([part.cpu() for part in (objective.value, *gradients)])
    torch.testing.assert_close(found[1], found[0])
    options = {"method": "none", "loss": name, "max_iter": 20, "tol": 0}
    cpu, cuda = (FairCP(2, **options, device=device).fit(example) for device in ("cpu", "cuda"))
    assert cuda.cp_.factors[0].is_cuda
    assert cuda.fit_.residual == pytest.approx(cpu.fit_.residual, rel=1e-2)


def test_data_on_the_device_stays_there(data):
    tensor = torch.from_numpy(data.tensor).cuda()
    model = FairCP(3, method="none", random_state=0).fit(tensor)
    assert model.record_.device.startswith("cuda")
    np.testing.assert_allclose(model.transform(tensor), model.embedding_, rtol=1e-6, atol=1e-8)


def test_large_samples_need_no_square_matrix():
    n = 50_000
    rows = example_rows(n, 16, seed=0).float().cuda().requires_grad_()
    groups = example_groups(n, seed=1).float().cuda()
    torch.cuda.reset_peak_memory_stats()
    khsic(rows, groups).backward()
    assert torch.isfinite(rows.grad).all()
    assert torch.cuda.max_memory_allocated() < 4e9  # one n x n matrix would be 10 GB


def test_figures_of_the_paper_are_made_on_the_device(tmp_path):
    pytest.importorskip("ot")  # without it a warning says that the limit is left out
    for device in ("cpu", "cuda"):
        out = tmp_path / device
        make_tables(["rounds", "fig1a"], out=out, scale=TINY, device=device, n_jobs=2)
    for name in ("rounds", "fig1a"):
        rows = [read_rows(tmp_path / device / f"{name}.csv") for device in ("cpu", "cuda")]
        for first, second in zip(*rows, strict=True):
            assert first["method"] == second["method"]
            if first["rounds"] is not None:  # few enough for rounding not to matter
                assert second["residual"] == pytest.approx(first["residual"], rel=1e-3)


def test_readings_of_the_paper_are_compared_on_the_device(tmp_path):
    # A GPU has another default product; both have only one value of the readings of this figure.
    values = {"inner_steps": (200,), "rounds": (2,), "units": ("sum",), "largest": ("range",)}
    values |= {"init": ("uniform", "normal"), "batch_size": (32, 8)}
    found = [
        compare_readings(
            ["fig1b"], out=tmp_path / device, scale=TINY, device=device, readings=values
        )
        for device in ("cpu", "cuda")
    ]
    for cpu, gpu in zip(*(verdicts["fig1b"] for verdicts in found), strict=True):
        assert cpu.readings == gpu.readings
        assert cpu.claim.verdict == gpu.claim.verdict
        assert cpu.claim.measured == gpu.claim.measured


def test_missing_entries_and_new_people_on_the_device():
    data = datasets.synthetic(0, shape=(60, 12, 10), rank=4)
    tensor = data.tensor.copy()
    tensor[np.random.default_rng(0).uniform(size=tensor.shape) < 0.3] = np.nan
    for listed in (False, True):
        found = TensorData.from_array(tensor)
        found = found.to_sparse() if listed else found
        rows = []
        for device in ("cpu", "cuda"):
            model = FairCP(3, strength=1.0, device=device, random_state=0, max_iter=5)
            with pytest.warns(ConvergenceWarning, match="after 5 iterations: did not converge"):
                model.fit(
                    found.take(0, range(50)), sensitive_features=data.sensitive_features[5:55]
                )
            new = model.transform(
                found.take(0, range(50, 60)), sensitive_features=data.sensitive_features[:10]
            )
            rows.append((model.embedding_, new))
        np.testing.assert_allclose(rows[0][0], rows[1][0], rtol=1e-2, atol=1e-3)
        assert np.isfinite(rows[1][1]).all()


@pytest.mark.parametrize("features", ["groups", "numbers"])
def test_people_in_chunks_on_the_device(features):
    rows = example_rows(400, 3, seed=0)
    rows = torch.stack([rows, rows + example_groups(400, seed=1)])
    sensitive = (
        example_groups(400, seed=1) if features == "groups" else example_rows(400, 2, seed=2)
    )
    sensitive = SensitiveFeatures.of(sensitive.numpy())
    found = []
    for device in ("cpu", "cuda"):
        prototype = torch.zeros(0, device=device).double()
        criterion = Invariant(chunk_size=50).criterion(sensitive, prototype)
        assert len(criterion.places) == 8
        value, gradient = criterion.value_and_gradient(rows.to(device))
        assert value.device.type == gradient.device.type == device
        deviations = criterion.deviations(rows[1].to(device))
        found.append((value.cpu(), gradient.cpu(), deviations.cpu()))
    (value, gradient, deviations), cuda = found
    torch.testing.assert_close(cuda[0], value, rtol=1e-3, atol=1e-8)
    assert float((cuda[1] - gradient).norm() / gradient.norm()) < 1e-3
    torch.testing.assert_close(cuda[2], deviations, rtol=1e-3, atol=0.01)


def test_many_people_with_missing_entries_fit_on_the_device():
    random = np.random.default_rng(0)
    tensor = random.standard_normal((60_000, 4, 5))
    tensor[random.random(tensor.shape) < 0.8] = np.nan
    marks = TensorData.from_array(tensor).to_sparse()
    model = FairCP(8, method="none", ridge=1.0, max_iter=2, tol=0, n_init=4, device="cuda")
    with pytest.warns(ParafairWarning, match="no observed entries for"):
        model.fit(marks)
    assert np.isfinite(model.fit_.residual)


def test_sums_over_entries_are_the_same_every_time():
    data = datasets.synthetic(0, shape=(300, 40, 30), rank=4)
    tensor = data.tensor.copy()
    tensor[np.random.default_rng(0).uniform(size=tensor.shape) < 0.8] = np.nan
    entries = TensorData.from_array(tensor).to_sparse().to("cuda").observations
    factors = [example_rows(n, 4, seed=n)[None].cuda() for n in tensor.shape]
    for mode in range(3):
        first, second = (entries.sums(factors) for _ in range(2))
        assert torch.equal(first.target(mode), second.target(mode))
        assert torch.equal(first.gram(mode).whole(), second.gram(mode).whole())


@pytest.mark.parametrize("rank", [1, 5, 16, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_fused_sums_over_entries_agree_with_plain_pytorch(rank, dtype, monkeypatch):
    shape, generator = (3000, 40, 700), torch.Generator().manual_seed(0)
    # A few rows have most of the entries.
    indices = torch.stack(
        [(n * torch.rand(200_000, generator=generator) ** 3).long() for n in shape]
    )
    values = torch.randn(200_000, generator=generator, dtype=dtype)
    factors = [
        torch.stack([example_rows(n, rank, seed=s) for s in (1, 2)]).to(dtype) for n in shape
    ]
    digits = (
        {"rtol": 1e-4, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    )
    for mode in range(3):
        plain = Segments.of(indices, values, shape=shape, mode=mode)
        own = Segments.of(indices.cuda(), values.cuda(), shape=shape, mode=mode)
        there = [factor.cuda() for factor in factors]
        monkeypatch.setattr("parafair.algebra.segments.add_segments", None)  # not by plain PyTorch
        found, (error, slopes) = own.target(there), own.errors(there)
        assert torch.equal(own.target(there), found)
        monkeypatch.undo()
        torch.testing.assert_close(found.cpu(), plain.target(factors), **digits)
        expected = plain.errors(factors)
        torch.testing.assert_close(error.cpu(), expected[0], rtol=digits["rtol"], atol=0)
        torch.testing.assert_close(slopes.cpu(), expected[1], **digits)


@pytest.mark.skipif(not torch.distributed.is_nccl_available(), reason="no nccl")
@pytest.mark.parametrize("method", ["none", "hsic", "invariant"])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_process_group_of_nccl_finds_the_fit_of_one_process(tmp_path, monkeypatch, method, share):
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, 1500)
    tensor = random.normal(size=(1500, 6, 5)) + groups[:, None, None]
    tensor[random.random(tensor.shape) < share] = np.nan
    kind = Invariant(5.0, chunk_size=100) if method == "invariant" else method
    options = {"method": kind, "ridge": 1.0, "max_iter": 4, "tol": 0, "device": "cuda"}
    expected = FairCP(2, **options).fit(tensor, sensitive_features=groups)
    with shared_by_one(tmp_path, "nccl", monkeypatch) as (group, teams):
        found = FairCP(2, **options).fit(tensor, sensitive_features=groups, process_group=group)
        assert teams[0].messages > 0
    assert found.cp_.factors[0].is_cuda
    # Chunks are compared in single precision, and a fit amplifies rounding.
    digits = 1e-3 if method == "invariant" else 1e-8
    assert found.fit_.residual == pytest.approx(expected.fit_.residual, rel=digits)
    np.testing.assert_allclose(found.embedding_, expected.embedding_, rtol=digits, atol=digits)


def test_certificates_agree_with_the_cpu():
    rows = np.random.default_rng(0).standard_normal((3000, 4))
    groups = np.arange(3000) % 3
    rows[groups == 1, 0] += 1
    released = rows + np.random.default_rng(1).standard_normal(rows.shape)
    cpu, cuda = (
        certify_rows(rows, groups, noise=1.0, released=released, draws=3000, device=device)
        for device in ("cpu", "cuda")
    )
    for one, other in zip(cpu.statements, cuda.statements, strict=True):
        assert other.upper == pytest.approx(one.upper, abs=1e-9)
    for first, second in zip(cpu.exposures, cuda.exposures, strict=True):
        assert second.largest == pytest.approx(first.largest, abs=1e-6)


def test_groups_move_to_the_same_places():
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(3000, 4, generator=generator, dtype=torch.float64)
    groups = (torch.arange(3000) % 3 > 0).long()
    points[groups == 1] = 2 * points[groups == 1] + 1
    there = move_together(points.cuda(), groups.cuda())
    torch.testing.assert_close(there.cpu(), move_together(points, groups), rtol=0, atol=1e-6)
