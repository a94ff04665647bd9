import joblib
import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData, frontier, split_cells
from parafair.audits.evaluation import evaluate_predictions
from parafair.data.sensitive import SensitiveFeatures
from parafair.frontiers import plan, run
from parafair.frontiers.folder import load
from parafair.frontiers.point import Member
from parafair.frontiers.strengths import refined_strengths
from parafair.penalties import HSIC, KHSIC, Invariant, Orthogonality
from parafair.solvers import BlockDescent, GradientBCD, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from tests.frontiers.conftest import CAREFUL, GROUPS, MATRIX, QUICK, small

from parafair.solvers.result import Status, Stop  # isort: skip


@pytest.mark.parametrize("solver", [BlockDescent(), GradientBCD((0.05, 0.05), inner_steps=5)])
@pytest.mark.parametrize(
    "penalty",
    [HSIC(), KHSIC(), Orthogonality(ridge=0.1), Invariant()],
    ids=lambda p: type(p).__name__,
)
def test_a_member_of_a_batch_equals_a_batch_of_one(penalty, solver):
    from dataclasses import replace

    tensor, sensitive = TensorData.from_array(MATRIX), SensitiveFeatures.of(GROUPS)
    problem = Problem(tensor, 3, 0, penalty, sensitive)
    strengths = torch.tensor([0.0, 0.5, 5.0, 50.0], dtype=torch.float64)
    starts = make_starts(problem, "uniform", count=4, seed=0)
    stop = Stop(max_iter=6, tol=0)
    together = solve_batch(problem.with_strengths(strengths), solver, starts=starts, stop=stop)
    for i, fit in enumerate(together):
        alone = replace(problem, penalty=replace(penalty, strength=float(strengths[i])))
        start = tuple(factor[i : i + 1] for factor in starts)
        expected = solve_batch(alone, solver, starts=start, stop=stop)[0]
        assert fit.objective == pytest.approx(expected.objective, rel=1e-9)
        for one, other in zip(fit.cp.factors, expected.cp.factors, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_removal_of_converged_members_changes_nothing():
    tensor, sensitive = TensorData.from_array(MATRIX), SensitiveFeatures.of(GROUPS)
    problem = Problem(tensor, 3, 0, Invariant(), sensitive)
    starts = make_starts(problem, "uniform", count=3, seed=0)
    strengths = torch.tensor([0.001, 1.0, 100.0], dtype=torch.float64)
    batch = problem.with_strengths(strengths)
    stop = Stop(max_iter=16, tol=1e-3)
    fits = solve_batch(batch, BlockDescent(), starts=starts, stop=stop)
    assert len({fit.n_iter for fit in fits}) > 1, "all members took the same number of iterations"
    for member, fit in enumerate(fits):
        longer = Stop(max_iter=fit.n_iter, tol=0)
        same = solve_batch(batch, BlockDescent(), starts=starts, stop=longer)[member]
        assert same.objective == pytest.approx(fit.objective, rel=1e-6)


def test_a_point_is_the_fit_of_the_same_model(curve):
    model = FairCP(3, strength=3.0, random_state=1, tol=1e-2, n_init=1)
    model.fit(MATRIX, sensitive_features=GROUPS)
    (alone,) = small(strengths=(3.0,), seeds=(1,), audits=None).points
    assert model.fit_.residual == pytest.approx(alone.residual, rel=1e-6)
    # Among other strengths it is at least as good, because fits are exchanged.
    point = next(p for p in curve.points if p.member == Member("invariant", 3.0, 1, 0.1))
    objectives = [fit.before_noise.objective for fit in (point.fit, model.fit_)]
    assert objectives[0] <= objectives[1] * (1 + 1e-6)


def test_a_member_that_diverges_leaves_the_others_alone():
    wild = GradientBCD((1.0, 1.0), inner_steps=50, cap=False)
    model = {"method": "hsic", "solver": wild, "max_iter": 3, "tol": 0}
    with np.errstate(all="ignore"):
        found = small(model=model, strengths=(0.0, 1e12), audits=None)
    status = {point.member.strength: point.fit.status for point in found.points}
    assert status[1e12] is Status.DIVERGED
    alone = small(model=model, strengths=(0.0,), audits=None)
    assert found.points[0].fit.status is alone.points[0].fit.status
    assert found.points[0].residual == pytest.approx(alone.points[0].residual, nan_ok=True)


@pytest.mark.slow
def test_strengths_are_found_from_the_data():
    rough = {"tol": 1e-2, "n_init": 1}
    found = small(strengths=5, audits=None, model=rough)
    residuals = [point.fit.before_noise.residual for point in found.points]
    plain = FairCP(3, method="none", random_state=0).fit(MATRIX).fit_.residual
    assert len(found) == 5
    assert residuals[0] < plain + 0.1
    assert residuals[-1] > residuals[0] + 0.1
    # Other units of the data ask for the same strengths.
    settings = {"strengths": 5, "audits": None, "limit": False}
    scaled = frontier(FairCP(3, **rough), 1000 * MATRIX, sensitive_features=GROUPS, **settings)
    first = [point.member.strength for point in found.points]
    assert [point.member.strength for point in scaled.points] == pytest.approx(first, rel=1e-2)


def test_batches_are_split_when_memory_is_short(monkeypatch, curve):
    sizes = []
    whole = run._fit_batch

    def counted(common, members, *rest):
        sizes.append(len(members))
        return whole(common, members, *rest)

    monkeypatch.setattr(plan, "BATCH_BYTES", 1)
    monkeypatch.setattr(run, "_fit_batch", counted)
    found = small(strengths=(0.3, 3.0), audits=None)
    assert sizes == [1, 1]
    for point in found.points:
        same = next(p for p in curve.points if p.member == point.member)
        assert point.residual == pytest.approx(same.residual, rel=1e-3)


@pytest.mark.slow
def test_processes_give_the_same(curve):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        found = small(strengths=(0.3, 3.0), audits=CAREFUL)
    for point in found.points:
        same = next(p for p in curve.points if p.member == point.member)
        assert point.residual == pytest.approx(same.residual, rel=1e-3)
        assert point.leakage == pytest.approx(same.leakage, abs=0.1)


def test_methods_without_strength_have_one_point_per_seed():
    found = small(model={"method": "correlation-removal"}, seeds=(3, 5))
    assert [point.member for point in found.points] == [
        Member("correlation-removal", None, 3),
        Member("correlation-removal", None, 5),
    ]


def test_the_limit_of_numbers_is_that_of_exact_parity_alone():
    pytest.importorskip("ot")
    ages = np.linspace(0, 1, 60) ** 2
    model = FairCP(2, max_iter=3, tol=0, n_init=1)
    found = frontier(model, MATRIX, sensitive_features=ages, strengths=(1.0,), audits=None)
    ((leakage, residual),) = found.limit
    assert leakage == 0
    assert 0 < residual < 1


def test_progress_is_told():
    told = []
    small(on_progress=lambda *news: told.append(news))
    assert told[-1] == ("audits", 2, 2)
    assert ("fits", 2, 2) in told


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strengths": 1}, "strengths must be a whole number from 2"),
        ({"strengths": ()}, "strengths must be one or more distinct numbers"),
        ({"strengths": (1.0, 1.0)}, "strengths must be one or more distinct numbers"),
        ({"strengths": (-1.0,)}, "each of strengths must be a finite number of at least 0"),
        ({"seeds": 0}, "seeds must be a whole number from 1"),
        ({"seeds": (1, 1)}, "seeds must be one or more distinct whole numbers"),
        ({"model": {"method": "fair"}}, "method must be one of invariant, .*; got 'fair'"),
        (
            {"model": {"solver": "sgd"}},
            "solver must be one of auto, block, lbfgs, gradient; got 'sgd'",
        ),
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
        (
            {"audits": {"attackers": ["nobody"]}},
            "every name in attackers must be one of .*'nobody'",
        ),
        ({"audits": {"attacker": ["linear"]}}, "a key of audits must be one of .*attackers"),
        ({"audits": {"folds": 100}}, "folds must be a whole number from 2 to 20, got 100"),
        ({"audits": {"permutations": 0}}, "permutations must be a whole number of at least 1"),
        ({"model": {"device": "nowhere"}}, "device='nowhere' cannot be used here"),
        ({"model": {"dtype": "float16"}}, "dtype must be one of float32, float64"),
        ({"strengths": 4.0}, "strengths must be a list of strengths, or their number"),
        ({"name": "../x"}, "name must be a valid folder name"),
        (
            {"model": {"method": "hsic", "n_init": 2}},
            "n_init must be 1 in a frontier, got 2; use seeds instead",
        ),
        ({"model": {"strength": "auto"}}, "strength='auto' cannot be used in a frontier"),
        ({"model": {"init": [MATRIX]}}, "init must be a name in a frontier"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        small(**settings)


def test_settings_may_be_numpy_numbers(tmp_path):
    found = small(rank=np.int64(3), model={"max_iter": np.int64(5), "tol": 0.0}, out=tmp_path)
    assert len(found) == 2
    solver = GradientBCD([0.01, 0.01], inner_steps=np.int64(3))
    small(model={"method": "hsic", "solver": solver, "max_iter": 2, "tol": 0.0}, out=tmp_path)


def test_a_penalty_must_be_a_dataclass():
    class Plain:
        strength = 1.0

        def bind(self, sensitive, tensor):
            raise AssertionError("used")

    with pytest.raises(TypeError, match="method must be a dataclass"):
        small(model={"method": Plain()})


def test_refinement_ends_where_nothing_new_is_left():
    residuals = {1.0: 0.1, 1.001: 0.9}
    assert refined_strengths(residuals, [1.0, 1.001], 10) == ()
    # A strength that diverged is not tried again.
    assert refined_strengths({0.1: 0.1, 10.0: 0.9}, [0.1, 1.0, 10.0], 10) == ()
    assert refined_strengths({1.0: 0.1, 4.0: 0.2, 16.0: 0.9}, [1.0, 4.0, 16.0], 4) == (8.0,)


@pytest.mark.slow
def test_few_strengths_span_the_range_too():
    found = small(strengths=2, audits=None, model={"tol": 1e-2})
    low, high = (point.member.strength for point in found.points)
    assert high > 1000 * low


def test_a_start_beyond_numbers_does_not_fail_the_batch():
    tensor, sensitive = TensorData.from_array(MATRIX), SensitiveFeatures.of(GROUPS)
    problem = Problem(tensor, 3, 0, HSIC(), sensitive)
    starts = make_starts(problem, "uniform", count=2, seed=0)
    starts[0][1] *= 1e200
    solver = GradientBCD((0.01, 0.01), inner_steps=2)
    good, bad = solve_batch(problem, solver, starts=starts, stop=Stop(2, 0))
    assert bad.status is Status.DIVERGED
    assert good.status is Status.OUT_OF_ITERATIONS


def sparse_example():
    """A third of the entries missing, one person without any and one who is not known."""
    values = MATRIX.copy()
    values[np.random.default_rng(2).random(values.shape) < 0.3] = np.nan
    values[5] = np.nan
    data = TensorData.from_array(values, modes=("person", "thing"))
    known = np.arange(60) != 7
    groups = SensitiveFeatures.of(np.where(known, GROUPS, None), missing="exclude")
    return split_cells(data, test_size=0.1), groups


def test_held_out_entries_are_predicted_by_every_fit(tmp_path):
    split, groups = sparse_example()
    start = FairCP(2, center=True, max_iter=30, n_init=1)
    settings = {"sensitive_features": groups, "strengths": (0.1,), "audits": QUICK}
    found = frontier(start, split.train, X_test=split.test, out=tmp_path, **settings)
    (point,) = found.points
    model = found.model(point)
    expected = evaluate_predictions(
        split.test, model.predict(split.test), sensitive_features=groups
    )
    assert point.evaluation == expected
    row = found.rows()[0]
    assert row["rmse"] == expected.value("rmse")
    both = [expected.value("rmse", name, feature="sensitive") for name in "ab"]
    assert row["rmse_gap"] == pytest.approx(abs(both[0] - both[1]))
    assert row["ks"] == expected.value("KS", feature="sensitive")
    read = load(tmp_path)
    assert read.rows() == found.rows()
    assert read.baseline == found.baseline
    assert read.baseline.value("rmse") > row["rmse"]
    with pytest.raises(ValueError, match=r"holds results with other settings \(test: "):
        frontier(start, split.train, out=tmp_path, **settings)


def test_coverage_counts_what_there_is(tmp_path):
    split, groups = sparse_example()
    settings = {"sensitive_features": groups, "strengths": (0.1,), "audits": None}
    model = FairCP(2, max_iter=3)
    found = frontier(model, split.train, X_test=split.test, out=tmp_path, **settings).coverage
    counts = split.train.observed_per(0)
    assert found.per_person == (0, np.median(counts), counts.max())
    assert (found.observed, found.held_out) == (split.train.observed, split.test.observed)
    assert (found.empty, found.unknown, found.mode) == ((1, 0), 1, 0)
    assert found.modes == ("person", "thing")
    assert load(tmp_path).coverage == found
    complete = small(strengths=(0.1,), audits=None).coverage
    assert (complete.share, complete.modes) == (1.0, ("mode_0", "mode_1"))


def test_held_out_entries_must_be_of_the_same_tensor():
    split, groups = sparse_example()
    part = split.test.take(1, [0, 1])
    with pytest.raises(ValueError, match=r"X_test must have the shape of X, \(60, 8\)"):
        frontier(FairCP(2), split.train, sensitive_features=groups, X_test=part)


def test_a_frontier_of_predicted_scores(tmp_path):
    """Strengths scale to the data; larger ones make the scores of the groups more alike."""
    split, groups = sparse_example()
    start = FairCP(2, method="mean-matching", center=True, max_iter=30, n_init=1)
    found = frontier(
        start,
        split.train,
        X_test=split.test,
        out=tmp_path,
        sensitive_features=groups,
        strengths=3,
        seeds=1,
        audits=QUICK,
    )
    terms = []
    for point in sorted(found.points, key=lambda point: point.member.strength):
        model = found.model(point)
        scores = model.predict(split.train)
        people = groups.columns[0].values[split.train.cells[0].numpy()]
        # One person belongs to no group.
        terms.append(abs(float(scores[people == 0].mean() - scores[people == 1].mean())))
        assert model.record_.noise == 0
    assert terms[0] > terms[1] >= terms[2] - 1e-9
    assert terms[2] < 1e-6
    assert load(tmp_path).rows() == found.rows()
