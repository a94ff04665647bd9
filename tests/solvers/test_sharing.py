"""Several processes compute what one does: same objective, same gradients, same fits."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import Problem, SensitiveFeatures, Stop, TensorData
from parafair.algebra.cp_tensor import reconstruct
from parafair.dependence.chunks import PART_CHUNKS, parts_of_chunks
from parafair.dependence.criterion import Criterion
from parafair.penalties import HSIC, KHSIC, Invariant, Orthogonality
from parafair.solvers.block import BlockDescent
from parafair.solvers.fitting import decompose, decompose_from
from parafair.solvers.init import make_starts
from parafair.solvers.lbfgs import LBFGS
from parafair.solvers.plain import decompose_plain
from parafair.solvers.sampling import rows_of
from parafair.solvers.sharing import gather_fit, gather_problem, share_problem
from parafair.team import ALONE, team_of

from ..processes import together

KINDS = ("complete", "masked", "sparse")
CHUNK = 50


class Double(Invariant):
    """The invariant criterion in double precision, to compare digits."""

    def criterion(self, sensitive, prototype):
        return Criterion(sensitive, prototype.flatten()[:0], self.chunk_size)


def problem_of(kind, penalty, *, people=1300, loss="squared", numeric=False):
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, people)
    factors = random.normal(size=(people, 2)) + groups[:, None], random.normal(size=(5, 2))
    tensor = np.einsum("ir,jr,kr->ijk", *factors, random.normal(size=(4, 2)))
    tensor += 0.3 * random.normal(size=tensor.shape)
    if loss == "bernoulli":
        tensor = (tensor > 0).astype(float)
    if kind != "complete":
        tensor[random.random(tensor.shape) < 0.3] = np.nan
        tensor[[7, 400]] = np.nan  # people without entries
    data = TensorData.from_array(tensor)
    values = random.normal(size=people) if numeric else np.array(["a", "b"])[groups]
    return Problem(
        data.to_sparse() if kind == "sparse" else data,
        2,
        penalty=penalty,
        sensitive=SensitiveFeatures.of(values),
        ridge=0.0 if kind == "complete" else 1.0,
        loss=loss,
    )


def shares(problem, group):
    return share_problem(problem, ALONE if group is None else team_of(group))


def near(problem):
    """Random factors, the same for every number of processes."""
    return make_starts(problem, "normal", count=2, seed=3)


def objective_and_gradients(problem, group, steps=3):
    """The objective, all gradients with rows of all people, and the objective after some steps."""
    own = shares(problem, group)
    objective, gradients, _ = own.value_and_gradients(near(own))
    values = [objective.value]
    if steps:
        state = LBFGS().init(own, near(own))
        for _ in range(steps):
            state = LBFGS().step(own, state)
            values.append(state.objective.value)
    rows = gradients[0]
    if own.share is not None:
        rows = own.share.whole(rows.movedim(1, 0)).movedim(0, 1)
    return torch.stack(values), rows, *gradients[1:]


def check_equal(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= tolerance * other.abs().max()


def test_two_processes_have_the_objective_and_the_gradients_of_one(tmp_path):
    problems = [problem_of(kind, Double(chunk_size=CHUNK), people=800) for kind in KINDS]

    def work(group):
        return [objective_and_gradients(problem, group, steps=0) for problem in problems]

    expected = work(None)
    for process in together(tmp_path, 2, work):
        for found, one in zip(process, expected, strict=True):
            check_equal(found, one, 1e-11)


@pytest.mark.slow
def test_single_precision_stays_single(tmp_path):
    whole = problem_of("complete", Invariant(chunk_size=CHUNK), people=800)
    problem = replace(whole, data=whole.data.to(dtype="float32"))
    expected = objective_and_gradients(problem, None)
    for found in together(tmp_path, 2, lambda group: objective_and_gradients(problem, group)):
        assert found[1].dtype == torch.float32
        check_equal(found, expected, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_three_processes_have_the_objective_and_the_gradients_of_one(tmp_path, kind):
    problem = problem_of(kind, Double(chunk_size=CHUNK), numeric=True)
    expected = objective_and_gradients(problem, None)
    for found in together(tmp_path, 3, lambda group: objective_and_gradients(problem, group)):
        check_equal(found, expected, 1e-9)


def fitted(problem, group):
    # Where the objective is flat, rounding decides between factors that differ by 1e-8.
    own, stop = shares(problem, group), Stop(max_iter=8)
    starts = make_starts(own, "uniform", count=2, seed=0)
    fits = decompose(own, BlockDescent(), starts=starts, stop=stop)
    return [gather_fit(own, fit) for fit in fits]


PENALTIES = {"none": None, "hsic": HSIC(100.0), "fatr": Orthogonality(1e-3, ridge=1e-4)}


FITS = [(kind, name, size) for kind in KINDS for name in PENALTIES for size in (2, 3)]
QUICK = ("masked", "hsic", 3)


@pytest.mark.parametrize(
    ("kind", "name", "size"),
    [pytest.param(*fit, marks=[pytest.mark.slow] * (fit != QUICK)) for fit in FITS],
)
def test_several_processes_find_the_fit_of_one(tmp_path, kind, name, size):
    problem = problem_of(kind, PENALTIES[name])
    expected = fitted(problem, None)
    for found in together(tmp_path, size, lambda group: fitted(problem, group)):
        for one, other in zip(found, expected, strict=True):
            assert one.n_iter == other.n_iter
            assert one.objective == pytest.approx(other.objective, rel=1e-10)
            check_equal(one.cp.factors, other.cp.factors, 1e-10)
            check_equal([one.plain], [other.plain], 1e-10)


@pytest.mark.slow
def test_another_loss_is_minimized_alike(tmp_path):
    problem = problem_of("masked", Double(chunk_size=CHUNK), loss="bernoulli")
    expected = objective_and_gradients(problem, None)
    for found in together(tmp_path, 2, lambda group: objective_and_gradients(problem, group)):
        check_equal(found, expected, 1e-8)


def from_plain(problem, group):
    own, stop = shares(problem, group), Stop(max_iter=10)
    starts = make_starts(own, "uniform", count=2, seed=0)
    plain = decompose_plain(own, starts=starts, stop=stop, each=2)
    (fit,) = decompose_from(own, LBFGS(), plain=plain, stop=stop)
    return gather_fit(own, fit)


@pytest.mark.slow
@pytest.mark.parametrize("people", [900, 4000])  # with a repair, and with a sample
def test_a_fit_with_the_criterion_takes_the_same_way(tmp_path, people):
    problem = problem_of("complete", Double(chunk_size=CHUNK), people=people)
    expected = from_plain(problem, None)
    for found in together(tmp_path, 2, lambda group: from_plain(problem, group)):
        assert found.n_iter == expected.n_iter
        # A fit amplifies rounding errors, by some orders of magnitude in its first iterations.
        assert found.objective == pytest.approx(expected.objective, rel=1e-5)


def plainly(problem, group):
    own = shares(problem, group)
    starts = make_starts(own, "uniform", count=2, seed=0)
    (fit,) = decompose_plain(own, starts=starts, stop=Stop(max_iter=100), each=2)
    return gather_fit(own, fit)


def test_plain_decompositions_of_many_people_are_those_of_one_process(tmp_path):
    # So many that their mode is compressed from the other side, in all processes together.
    problem = problem_of("complete", Double(chunk_size=CHUNK), people=2400)
    expected = plainly(problem, None)
    for found in together(tmp_path, 2, lambda group: plainly(problem, group)):
        assert found.objective == pytest.approx(expected.objective, rel=1e-6)
        check_equal([reconstruct(found.cp.factors)], [reconstruct(expected.cp.factors)], 1e-2)


def test_an_evaluation_takes_few_messages_whose_sizes_do_not_depend_on_the_people(tmp_path):
    problems = [problem_of("masked", Invariant(chunk_size=CHUNK), people=n) for n in (800, 1300)]

    def work(group):
        found = []
        for problem in problems:
            own = shares(problem, group)
            own.value_and_gradients(near(own))  # also computes what stays the same
            team = own.team
            before = team.messages, team.bytes
            own.value_and_gradients(near(own))
            found.append((team.messages - before[0], team.bytes - before[1]))
        return found

    for few, many in together(tmp_path, 2, work):
        assert few == many
        assert few[0] <= 15  # 11, and 4 of the ridge


def test_a_process_has_whole_parts_and_nothing_else():
    class One:
        rank, size, is_alone = 1, 3, False

    problem = problem_of("complete", Invariant(chunk_size=CHUNK))
    parts = problem.bound.parts.numpy()
    own = share_problem(problem, One())
    assert set(parts[own.share.places]) == {1}
    assert own.data.values.numel() == (parts == 1).sum() * 20
    assert own.shape == problem.shape
    assert len(own.data.labels[0]) == len(own.share.places)


def test_chunks_are_dealt_within_parts():
    criterion = problem_of("complete", Invariant(chunk_size=CHUNK)).bound.criterion
    for deal in (1, 2):
        other = criterion.with_deal(deal)
        assert not torch.equal(other.chunks, criterion.chunks)
        assert torch.equal(other.parts, criterion.parts)
    numbers = problem_of("complete", Invariant(chunk_size=CHUNK), numeric=True).bound.criterion
    assert torch.equal(numbers.with_deal(3).parts, numbers.parts)
    assert not torch.equal(numbers.with_deal(3).chunks, numbers.chunks)


@pytest.mark.parametrize("chunks", [1, 7, 8, 20, 33])
def test_every_part_has_enough_chunks(chunks):
    sizes = np.bincount(parts_of_chunks(chunks))
    assert len(sizes) == max(1, chunks // PART_CHUNKS)
    assert sizes.min() >= min(chunks, PART_CHUNKS)


def test_more_processes_than_parts_are_refused():
    class Four:
        rank, size, is_alone = 0, 4, False

    with pytest.raises(ValueError, match="process_group has 4 processes, but .* 3 parts"):
        share_problem(problem_of("complete", Invariant(chunk_size=CHUNK)), Four())


def test_a_penalty_over_all_pairs_is_refused():
    class Two:
        rank, size, is_alone = 0, 2, False

    with pytest.raises(ValueError, match="process_group is for penalties .* got KHSIC"):
        share_problem(problem_of("complete", KHSIC(1.0), people=40), Two())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_problem_can_be_gathered(tmp_path, kind):
    problem = problem_of(kind, Invariant(chunk_size=CHUNK))

    def work(group):
        own = shares(problem, group)
        rows = near(own)[0]
        return gather_problem(own).data, rows_of(own, rows, np.arange(5, 900, 7))

    for data, rows in together(tmp_path, 2, work):
        assert torch.equal(data.values.nan_to_num(9.0), problem.data.values.nan_to_num(9.0))
        assert data.indices is None or torch.equal(data.indices, problem.data.indices)
        assert torch.equal(rows, near(problem)[0][:, 5:900:7])
