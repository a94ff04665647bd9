"""Tucker decompositions with sensitive features of several modes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairTucker, SensitiveFeatures, TensorData
from parafair.dependence.criterion import Criterion
from parafair.penalties import Invariant
from parafair.solvers import BlockDescent
from parafair.solvers.init import make_starts
from parafair.solvers.lbfgs import evaluate
from parafair.solvers.parameters import to_factors, to_parameters
from tests.model.conftest import check_gradients, tucker_problem

SHAPE, RANKS = (60, 40, 6), (3, 3, 2)
PEOPLE = np.arange(60) % 2
ITEMS = np.arange(40) // 2 % 2
BOTH = {0: PEOPLE, 1: ITEMS}
QUICK = {"strength": 30.0, "max_iter": 60, "tol": 1e-3}


@pytest.fixture(scope="module")
def tensor():
    """A Tucker tensor with 5 % noise; a column of people and one of items depend on groups."""
    random = np.random.default_rng(0)
    factors = [random.normal(size=pair) for pair in zip(SHAPE, RANKS, strict=True)]
    factors[0][:, 0] += 2.0 * PEOPLE
    factors[1][:, 1] += 2.0 * ITEMS
    tensor = np.einsum("abc,ia,jb,kc->ijk", random.normal(size=RANKS), *factors)
    return tensor + 0.05 * tensor.std() * random.normal(size=SHAPE)


@pytest.fixture(scope="module")
def model(tensor):
    return FairTucker(RANKS, **QUICK).fit(tensor, sensitive_features=BOTH)


def problem_of(tensor, items=ITEMS, penalty=None, modes=(2,)):
    penalty = Invariant(3.0, rotation_free=True) if penalty is None else penalty
    others = dict.fromkeys(modes, SensitiveFeatures.of(items))
    return tucker_problem(tensor, RANKS, penalty, PEOPLE, others)


def dependence(rows, groups):
    """The criterion's statistics in standard deviations: about 1 without dependence."""
    rows = torch.as_tensor(rows)
    criterion = Criterion(SensitiveFeatures.of(groups), rows.flatten()[:0], rotation_free=True)
    return float(criterion.deviations(rows).square().mean().sqrt())


def test_gradients_in_all_parameters_match_finite_differences(tensor):
    holes = np.where(np.random.default_rng(1).random(SHAPE) < 0.2, np.nan, tensor)
    holes[:, 4] = np.nan  # an item without entries, which is not penalized
    problem = problem_of(holes)
    vector, found = check_gradients(problem)
    # Both modes are part of the penalty.
    alone = replace(problem, other_sensitive={})
    without = evaluate(alone, vector).objective.penalty
    assert (found.objective.penalty > 1.01 * without).all()


def test_the_penalty_does_not_depend_on_the_bases_that_a_factor_is_written_in(tensor):
    problem = problem_of(tensor)
    starts = make_starts(problem, "normal", count=1, seed=0)
    rows, *bases, core = to_parameters(starts, problem.structure)
    mix = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.5, 3.0], [1.0, 0.0, 1.0]]).double()
    wide = core.unflatten(1, RANKS[1:])
    other = torch.einsum("ab,nbcr->nacr", torch.linalg.inv(mix), wide).flatten(1, 2)
    mixed = (rows, bases[0] @ mix, bases[1], other)
    torch.testing.assert_close(to_factors(mixed, problem.structure)[1], starts[1])
    values = [
        problem.penalty_and_gradients((rows, *bases, core))[0],
        problem.penalty_and_gradients(mixed)[0],
        problem.evaluate(starts).penalty - problem._held_back(starts),
    ]
    torch.testing.assert_close(values[1], values[0], rtol=1e-4, atol=0)
    torch.testing.assert_close(values[2], values[0].double(), rtol=1e-6, atol=0)


def test_the_penalty_lowers_the_dependence_of_every_sensitive_mode(tensor, model):
    one = FairTucker(RANKS, **QUICK).fit(tensor, sensitive_features=PEOPLE)
    assert dependence(one.tucker_.factors[1], ITEMS) > 5
    exact = model.fit_
    assert dependence(exact.noiseless, PEOPLE) < 1.5
    assert dependence(exact.noiseless_others[2], ITEMS) < 1.5
    assert one.fit_.residual < exact.residual < 1
    values = np.array([entry.objective for entry in exact.history[: model.n_iter_]])
    assert (np.diff(values) <= 1e-12 * values[:-1]).all()


def test_every_sensitive_mode_has_noise_of_its_own(model):
    basis, matrix = model.fit_.noiseless_others[2], model.fit_.noise[2]
    assert matrix.shape == (3, 3)
    # The noise is that share of the spread of the rows, whichever basis they are written in.
    centered = basis - basis.mean(0)
    share = torch.linalg.solve(centered.mT @ centered / len(basis), matrix.mT @ matrix)
    torch.testing.assert_close(share, 0.01 * torch.eye(3).double(), rtol=1e-3, atol=1e-5)
    # What is released is the subspace of the noisy basis.
    noisy = model.tucker_.factors[1]
    moved = basis - noisy @ (noisy.mT @ basis)
    assert 0.03 < float(moved.norm() / basis.norm()) < 0.3


def test_a_saved_model_is_the_same(model, tensor, tmp_path):
    model.save(tmp_path / "model")
    loaded = FairTucker.load(tmp_path / "model")
    for mode, matrix in model.fit_.noise.items():
        torch.testing.assert_close(loaded.fit_.noise[mode], matrix, rtol=0, atol=0)
    assert sorted(loaded.fit_.noise) == [0, 2]
    assert not loaded.fit_.noiseless_others
    torch.testing.assert_close(loaded.tucker_.factors[1], model.tucker_.factors[1])
    rows = [m.transform(tensor[:4], sensitive_features=PEOPLE[:4]) for m in (model, loaded)]
    np.testing.assert_array_equal(*rows)
    with pytest.warns(UserWarning, match="contains the rows without noise"):
        model.save(tmp_path / "exact", keep_exact=True)
    again = FairTucker.load(tmp_path / "exact").fit_
    torch.testing.assert_close(again.noiseless_others[2], model.fit_.noiseless_others[2])


def test_noise_of_other_shapes_is_refused(model):
    for mode in (1, 3, 4):
        with pytest.raises(ValueError, match=f"its noise of mode {mode} has the shape"):
            model.training_.check_noise({mode: model.fit_.noise[2]})


def test_people_may_be_any_mode_and_modes_have_names(tensor, model):
    data = TensorData.from_array(np.moveaxis(tensor, 0, 2), modes=("item", "day", "who"))
    moved = FairTucker((3, 2, 3), mode="who", **QUICK)
    moved.fit(data, sensitive_features={"item": ITEMS, "who": PEOPLE})
    assert list(moved.fit_.noiseless_others) == [2]
    assert len(moved.fit_.noiseless_others[2]) == 40
    assert moved.fit_.before_noise.residual == pytest.approx(
        model.fit_.before_noise.residual, rel=1e-2
    )
    assert dependence(moved.fit_.noiseless_others[2], ITEMS) < 1.5


def test_counts_have_several_sensitive_modes_too(tensor):
    random = np.random.default_rng(0)
    counts = random.poisson(np.exp((tensor / tensor.std()).clip(-4, 3)))
    model = FairTucker(RANKS, loss="poisson", center=True, **QUICK)
    model.fit(counts, sensitive_features={0: PEOPLE, 2: np.arange(6) % 2})
    assert model.fit_.residual < 1
    assert sorted(model.fit_.noise) == [0, 3]


def test_what_cannot_be_is_refused(tensor):
    with pytest.raises(ValueError, match="solver='block' supports one sensitive mode of a Tucker"):
        FairTucker(RANKS, solver="block").fit(tensor, sensitive_features=BOTH)
    with pytest.raises(ValueError, match="has 60 rows but mode 2 of the tensor has 40"):
        problem_of(tensor, items=PEOPLE)
    with pytest.raises(ValueError, match="has 60 rows but mode 1 of the tensor has 40"):
        FairTucker(RANKS).fit(tensor, sensitive_features={0: PEOPLE, 1: PEOPLE})
    with pytest.raises(ValueError, match="penalty that does not depend on rotations"):
        problem_of(tensor, penalty=Invariant(3.0))
    with pytest.raises(
        ValueError, match="mode 4 of a structure has no rows that a penalty is about"
    ):
        problem_of(tensor, modes=(4,))
    with pytest.raises(ValueError, match="method='transport' supports one sensitive mode"):
        FairTucker(RANKS, method="transport").fit(tensor, sensitive_features=BOTH)
    problem = problem_of(tensor)
    with pytest.raises(ValueError, match="solver='block' supports one sensitive mode"):
        BlockDescent().init(problem, make_starts(problem, "normal", count=1, seed=0))
