import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from parafair.algebra import cells, row_grams, segments
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.row_grams import RowGrams, pair_products, solve_rows
from parafair.data.tensor_data import TensorData
from parafair.solvers import BlockDescent, Stop, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.sweep import Sweep
from parafair.testing import example_rows
from tests.conftest import small_problem


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation returned."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(one, torch.Tensor):
                self.numbers = max(self.numbers, one.numel())
        return found


def few_marks(people, *, storage="sparse"):
    """Five marks in 20 cells for each person."""
    generator = torch.Generator().manual_seed(0)
    tensor = torch.randn(people, 5, 4, generator=generator, dtype=torch.float64)
    tensor[torch.rand(tensor.shape, generator=generator) < 0.75] = torch.nan
    data = TensorData.from_array(tensor)
    return data.to_sparse() if storage == "sparse" else data


def test_solutions_are_those_of_each_system_alone():
    rows = example_rows(50, 4, seed=0).reshape(10, 5, 4)
    matrices = rows.mT @ rows
    right = example_rows(10, 4, seed=1)
    first, second = torch.triu_indices(4, 4)
    found = solve_rows(matrices[:, first, second][None], right[None])
    torch.testing.assert_close(found[0], torch.linalg.solve(matrices, right))


def test_flat_directions_get_the_solution_of_minimum_norm():
    rows = example_rows(3, 4, seed=0)
    grams = pair_products(rows)[None]
    found = solve_rows(grams, rows[None])
    # With G = w w.T and the right-hand side w, it is w / |w|^2.
    torch.testing.assert_close(found[0], rows / rows.square().sum(1, keepdim=True))


@pytest.mark.parametrize("storage", ["masked", "sparse"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("kept", [0, 2**20])
def test_parts_of_any_size_give_the_same_result(monkeypatch, storage, ridge, kept):
    problem = small_problem(storage=storage, ridge=ridge)
    factors = [example_rows(n, problem.rank, seed=n)[None] for n in problem.shape]
    form = QuadraticForm.from_columns(example_rows(problem.shape[0], 2, seed=5))
    basis = example_rows(problem.rank, problem.rank, seed=3)[None]

    def results():
        block, factor = Sweep(problem, factors).block(0), factors[0]
        weight = torch.tensor([0.2], dtype=torch.float64)
        return [
            block.value(factor),
            block.minimizer(form),
            block.improve(factor),
            block.best_mean(factor),
            block.best_multiple(factor),
            block.curvature(form),
            block.minimize_columns(factor),
            block.descend(factor, form, step=weight, count=3),
            block.change_basis(basis).proximal(factor, factor, weight),
            block.take(torch.tensor([0])).mean_gram,
        ]

    whole = results()
    monkeypatch.setattr(row_grams, "KEPT", {"cpu": kept})
    for rows in (1, 7):
        pairs = problem.rank * (problem.rank + 1) // 2
        monkeypatch.setattr(row_grams, "FORMED", {"cpu": rows * pairs})
        for found, expected in zip(results(), whole, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("storage", ["masked", "sparse", "sparse, by segment"])
def test_no_tensor_has_a_matrix_for_every_person(monkeypatch, storage):
    people, rank = 4000, 10
    monkeypatch.setattr(row_grams, "KEPT", {"cpu": 0})
    monkeypatch.setattr(row_grams, "FORMED", {"cpu": 2**13})
    monkeypatch.setattr(cells, "PIECE", 128)
    monkeypatch.setattr(segments, "HELD", {"cpu": 2**15})
    if storage == "sparse, by segment":
        monkeypatch.setattr(cells, "MOST_CELLS", 0)
    data = few_marks(people, storage=storage.partition(",")[0])
    problem = Problem(data, rank, ridge=1.0)
    starts = make_starts(problem, "uniform", count=1, seed=0)
    with LargestTensor() as largest:
        solve_batch(problem, BlockDescent(), starts=starts, stop=Stop(max_iter=2))
        problem.value_and_gradients(starts)
    # The data has 20 cells per person, and a matrix has 100 entries.
    assert largest.numbers < people * rank * rank / 2


def test_kept_triangles_are_formed_once():
    calls = []

    def form(rows):
        calls.append(rows)
        return torch.ones(1, rows.stop - rows.start, 3)

    grams = RowGrams(form, torch.zeros(0), (1, 5, 2))
    for _ in range(3):
        list(grams.plus(torch.ones(1, 2)).parts())
    assert len(calls) == 1
