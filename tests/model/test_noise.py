"""Noise of the embedding: its size, what it costs, and what an attacker learns in spite of it."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from parafair import (
    CPTensor,
    FairCP,
    Interrupted,
    ParafairWarning,
    SensitiveFeatures,
    TensorData,
    frontier,
    frontiers,
    tune,
)
from parafair.audits.measures import residual_fit
from parafair.audits.trials import auc
from parafair.data.splits import split_cells
from parafair.dependence.whitening import Standardized
from parafair.model.noise import Noise
from parafair.penalties import Invariant
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Iteration, Status
from parafair.testing import example_rows

PEOPLE, NEW, ITERATIONS = 300, 300, 10
GROUPS = SensitiveFeatures.of([0, 1] * 3)
POST = "moment-matching"


@pytest.fixture(scope="module")
def marks():
    """Marks of 600 people that do not depend on their groups; many people have the same marks."""
    random = np.random.default_rng(7)
    profiles = random.standard_normal((40, 3))[random.integers(0, 40, PEOPLE + NEW)]
    people = profiles * (random.random((PEOPLE + NEW, 1)) < 0.8)
    tensor = np.einsum("ir,jr,kr->ijk", people, *random.standard_normal((2, 7, 3)))
    tensor[:, 0, 0] += 0.02 * random.standard_normal(PEOPLE + NEW)
    return tensor, random.integers(0, 2, PEOPLE + NEW)


@pytest.fixture(scope="module")
def model(marks):
    tensor, groups = marks
    return fitted(tensor[:PEOPLE], groups[:PEOPLE])


def fitted(tensor, groups, **settings):
    settings = {"random_state": 3, "max_iter": ITERATIONS, "tol": 0, "n_init": 1, **settings}
    return FairCP(3, **settings).fit(tensor, sensitive_features=groups)


@pytest.fixture(scope="module")
def plain(marks):
    with pytest.warns(ParafairWarning, match="with noise=0, differences far below"):
        return fitted(marks[0][:PEOPLE], marks[1][:PEOPLE], noise=0)


def whitened(model, rows):
    """Rows in units of the standard deviation of the embedding before noise."""
    like = model.training_.penalized_rows(model.fit_.noiseless)
    return torch.linalg.solve(Standardized.of(like).basis, torch.as_tensor(rows), left=False)


def test_the_covariance_is_a_share_of_that_of_the_rows(model):
    added = model.cp_.factors[0] - model.fit_.noiseless
    found = whitened(model, added)
    # Variances of 300 draws have a relative standard deviation of (2 / 300)^(1/2) = 0.08 and
    # correlations one of 0.06, so these bounds are four of them.
    np.testing.assert_allclose(found.mT @ found / PEOPLE / 0.1**2, np.eye(3), atol=0.33)
    assert found.mean(0).abs().max() < 4 * 0.1 / PEOPLE**0.5
    covariance = torch.cov(model.fit_.noiseless.mT, correction=0)
    # Exactly so: it is the basis of the rows that the draws are multiplied with.
    basis = Standardized.of(model.fit_.noiseless).basis
    torch.testing.assert_close(basis.mT @ basis, covariance, rtol=1e-6, atol=1e-9)


def test_noise_is_added_to_the_fit_without_noise(model, plain):
    np.testing.assert_allclose(model.fit_.noiseless, plain.embedding_)
    np.testing.assert_allclose(model.cp_.factors[1], plain.cp_.factors[1])
    assert model.fit_.before_noise.objective == pytest.approx(plain.fit_.objective)
    assert model.n_iter_ == plain.n_iter_ == ITERATIONS
    assert (plain.fit_.noiseless, plain.fit_.noise_cost, plain.record_.noise) == (None, 0.0, 0.0)


def test_the_cost_is_the_difference_of_residuals(marks, model):
    tensor, fit = marks[0][:PEOPLE], model.fit_
    *others, before, after = fit.history
    assert len(others) == ITERATIONS
    assert fit.noise_cost == after.residual - before.residual > 0
    assert fit.residual == pytest.approx(residual_fit(tensor, model.cp_))
    factors = (fit.noiseless, *model.cp_.factors[1:])
    assert before.residual == pytest.approx(residual_fit(tensor, (model.cp_.weights, factors)))
    assert model.reconstruction_err_ == pytest.approx(fit.residual * np.linalg.norm(tensor))
    assert model.record_.noise == 0.1


def test_the_seed_decides_and_the_start_does_not(marks, model):
    tensor, groups = marks[0][:PEOPLE], marks[1][:PEOPLE]
    same = fitted(tensor, groups)
    np.testing.assert_array_equal(same.embedding_, model.embedding_)
    start = model.fit_.noiseless, *model.cp_.factors[1:]
    draws = []
    for seed in (3, 4):
        again = fitted(tensor, groups, init=start, max_iter=1, random_state=seed)
        draws.append(whitened(again, again.cp_.factors[0] - again.fit_.noiseless))
    first = whitened(model, model.cp_.factors[0] - model.fit_.noiseless)
    torch.testing.assert_close(draws[0], first)
    # Draws from another seed, and the initial factors of this one, are independent of the noise.
    random = torch.Generator().manual_seed(3)
    initial = torch.rand(PEOPLE, 3, generator=random, dtype=torch.float64)
    for other in (draws[1], initial, torch.randn(PEOPLE, 3, generator=random)):
        for column in range(3):
            pair = torch.stack([first[:, column], other[:, column].double()])
            assert abs(float(torch.corrcoef(pair)[0, 1])) < 4 / PEOPLE**0.5


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 0.1),
        ({"strength": 2.0}, 0.1),
        ({"method": Invariant(2.0)}, 0.1),
        ({"strength": 0.0}, 0.0),
        ({"method": Invariant(0.0)}, 0.0),
        ({"strength": 0.0, "noise": 0.0}, 0.0),
        ({"strength": 0.0, "noise": 0.2}, 0.2),
        ({"method": "khsic"}, 0.0),
        ({"method": "hsic", "noise": 0.3}, 0.3),
        ({"method": "none"}, 0.0),
        ({"method": "none", "noise": 0.3}, 0.3),
        ({"method": "moment-matching"}, 0.0),
        ({"method": "moment-matching", "noise": 1}, 1.0),
    ],
)
def test_every_method_has_its_default_and_takes_a_number(marks, settings, expected):
    model = fitted(marks[0][:40], marks[1][:40], max_iter=3, **settings)
    assert model.record_.noise == expected
    assert (model.fit_.noiseless is not None) == (expected > 0)
    assert (model.fit_.noise_cost != 0) == (expected > 0)
    assert len(model.fit_.history) == 4 + (expected > 0) + (settings.get("method") == POST)


@pytest.mark.parametrize("noise", [-0.1, 10.5, float("nan"), float("inf"), "auto", True, [0.1]])
def test_other_noise_is_refused(marks, noise):
    with pytest.raises(
        ValueError, match=r"noise must be a finite number .* got .*; it is a share of the standard"
    ):
        fitted(marks[0][:40], marks[1][:40], noise=noise)


def test_noise_needs_sensitive_features(marks):
    with pytest.raises(ValueError, match=r"noise=0\.1 is for embeddings with sensitive_features"):
        FairCP(3, method="none", noise=0.1).fit(marks[0][:40])
    FairCP(3, method="none", noise=0, tol=1e-2).fit(marks[0][:40])


def test_no_noise_is_warned_of_once(marks):
    tensor, groups = marks[0][:60], marks[1][:60]
    few = {"max_iter": 3, "tol": 0}
    with pytest.warns(ParafairWarning, match="Omit noise for the default of 0.1") as w:
        FairCP(2, noise=0, n_init=3, **few).fit(tensor, sensitive_features=groups)
    assert len(w) == 1
    assert w[0].filename == __file__
    with pytest.warns(ParafairWarning, match="with noise=0, differences far below") as w:
        run(FairCP(2, noise=0, **few), tensor, groups, strengths=[0.0, 1.0, 2.0])
    assert len(w) == 1
    assert w[0].filename == __file__
    with pytest.warns(ParafairWarning, match=r"with noise=0, differences .*\(3 of 3 fits\)") as w:
        tune(FairCP(2, noise=0, **few), tensor, grid={"rank": [1, 2]}, sensitive_features=groups)
    assert len(w) == 1
    run(FairCP(2, noise=0, **few), tensor, groups, strengths=[0.0])


def run(model, tensor, groups, **settings):
    return frontier(model, tensor, sensitive_features=groups, audits=None, limit=False, **settings)


def test_settings_are_parameters_of_scikit_learn():
    model = FairCP(2, noise=0.3)
    assert clone(model).get_params()["noise"] == 0.3
    assert model.set_params(noise=None).noise is None


def test_the_best_start_is_that_before_noise(marks):
    tensor, groups = marks[0][:60], marks[1][:60]
    model = fitted(tensor, groups, n_init=4, max_iter=5, noise=2.0)
    before = [fit.before_noise.objective for fit in model.fits_]
    assert model.fit_ is model.fits_[int(np.argmin(before))]
    assert all(fit.noiseless is not None for fit in model.fits_)


def test_an_interrupted_fit_has_noise(marks):
    def stop(number, objective):
        if float(objective.penalty.max()) > 0:  # after the plain decompositions
            raise KeyboardInterrupt

    model = FairCP(3, random_state=0, n_init=1)
    with pytest.raises(Interrupted, match="interrupted after") as raised:
        model.fit(marks[0][:60], sensitive_features=marks[1][:60], on_iteration=stop)
    assert raised.value.fit is model.fit_
    assert model.fit_.noise_cost > 0
    assert model.record_.noise == 0.1


def test_verbose_prints_the_cost(marks, capsys):
    model = fitted(marks[0][:60], marks[1][:60], max_iter=3, verbose=1)
    before, after = (entry.residual for entry in model.fit_.history[-2:])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"noise 0.1 of the spread: residual {before:.4f} -> {after:.4f}"


@pytest.mark.slow
def test_a_frontier_has_the_noise_of_its_models(marks, tmp_path):
    tensor, groups = marks[0][:80], marks[1][:80]
    few = {"max_iter": 5, "tol": 0, "n_init": 1}
    found = run(FairCP(3, **few), tensor, groups, strengths=[0.0, 2.0], seeds=[3, 5], out=tmp_path)
    settings = {"strength": 2.0, "max_iter": 5}
    singles = {seed: fitted(tensor, groups, random_state=seed, **settings) for seed in (3, 5)}
    for source in (found, frontiers.load(tmp_path)):
        assert [source.model(p).record_.noise for p in source.points] == [0, 0, 0.1, 0.1]
        for point in source.points[2:]:
            member = source.model(point)
            alone = singles[point.member.seed]
            # A batch differs from a single fit by rounding errors.
            np.testing.assert_allclose(member.embedding_, alone.embedding_, rtol=1e-5, atol=1e-6)
            assert point.fit.noise_cost == pytest.approx(alone.fit_.noise_cost, rel=1e-6)
            assert point.fit.objective == pytest.approx(alone.fit_.objective, rel=1e-6)
            rows = [m.transform(tensor, sensitive_features=groups) for m in (member, alone)]
            np.testing.assert_allclose(*rows, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"results with other settings \(.*noise"):
        run(FairCP(3, noise=0.2, **few), tensor, groups, strengths=[2.0], out=tmp_path)
    given = run(FairCP(3, noise=0.2, **few), tensor, groups, strengths=2)
    assert {given.model(point).record_.noise for point in given.points} == {0.2}
    free = run(FairCP(3, noise=9.0, **few), tensor, groups, strengths=2)
    # The strengths are found without noise.
    assert [p.member.strength for p in free.points] == [p.member.strength for p in given.points]


def test_every_sensitive_mode_has_noise_of_its_own(tmp_path):
    random = np.random.default_rng(0)
    groups, items = np.arange(90) % 2, np.arange(60) % 3
    tensor = np.einsum(
        "ir,jr,kr->ijk", *(random.standard_normal((size, 3)) for size in (90, 60, 8))
    )
    tensor[:, 4] = np.nan
    model = FairCP(3, max_iter=20, tol=0, ridge=0.0)
    with pytest.warns(ParafairWarning, match="no observed entries for 1 of 60 indices of mode 1"):
        model.fit(tensor, sensitive_features={0: groups, 1: items})
    fit = model.fit_
    assert list(fit.noiseless_others) == [1]
    added = model.cp_.factors[1] - fit.noiseless_others[1]
    others = np.delete(np.arange(60), 4)
    rows = fit.noiseless_others[1][others]
    found = torch.linalg.solve(Standardized.of(rows).basis, added[others], left=False)
    assert float(found.std()) == pytest.approx(0.1, rel=0.25)  # 180 draws: five deviations
    torch.testing.assert_close(model.cp_.factors[1][4], model.cp_.factors[1][others].mean(0))
    # New people are embedded, and scored, with the other factors as they were released.
    model.save(tmp_path / "model")
    again = FairCP.load(tmp_path / "model")
    new = tensor[:10]
    np.testing.assert_array_equal(
        again.transform(new, sensitive_features=groups[:10]),
        model.transform(new, sensitive_features=groups[:10]),
    )
    assert again.score(tensor) == model.score(tensor)
    released = [factor.numpy() for factor in model.cp_.factors[1:]]
    design = np.einsum("jr,kr->jkr", released[0][others], released[1]).reshape(-1, 3)
    entries = tensor[:, others].reshape(90, -1)
    left = np.linalg.norm(entries.T - design @ np.linalg.lstsq(design, entries.T, rcond=None)[0])
    assert model.score(tensor) == pytest.approx(1 - (left / np.linalg.norm(entries)) ** 2)


def test_people_without_entries_are_the_mean(marks):
    holed = marks[0][:80].copy()
    holed[[5, 9]] = np.nan
    model = FairCP(3, ridge=0.0, max_iter=20, tol=0)
    with pytest.warns(ParafairWarning, match="no observed entries for 2 of 80 indices of mode 0"):
        model.fit(holed, sensitive_features=marks[1][:80])
    others = np.delete(np.arange(80), [5, 9])
    expected = model.embedding_[others].mean(0)
    np.testing.assert_allclose(model.embedding_[[5, 9]], [expected, expected])
    with pytest.warns(ParafairWarning, match="2 of 80 new people have no observed entries"):
        new = model.transform(holed, sensitive_features=marks[1][:80])
    np.testing.assert_allclose(new[[5, 9]], [expected, expected])
    spread = whitened(model, model.cp_.factors[0][others] - model.fit_.noiseless[others])
    assert float(spread.std()) == pytest.approx(0.1, rel=0.2)


def test_people_without_features_have_noise_too(marks):
    features = SensitiveFeatures.of(
        [None if i % 10 == 0 else g for i, g in enumerate(marks[1][:PEOPLE])], missing="exclude"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)
        model = fitted(marks[0][:PEOPLE], features)
    added = whitened(model, model.cp_.factors[0] - model.fit_.noiseless)
    assert float(added[::10].std()) == pytest.approx(0.1, rel=0.4)  # 90 draws: five deviations
    assert float(added.std()) == pytest.approx(0.1, rel=0.15)


def test_a_constant_component_has_no_noise():
    factors = [example_rows(size, 2, seed=size) for size in (6, 5)]
    factors[0][:, 1] = 3.0
    problem = Problem(TensorData.from_array(factors[0] @ factors[1].mT), 2, sensitive=GROUPS)
    fit = Fit(CPTensor.from_factors(factors), Status.CONVERGED, (Iteration(0, 0, 0, 0, 0),))
    noisy = Noise(0.5, 0, "").release(problem, fit)
    changed = noisy.cp.factors[0] != noisy.noiseless
    assert changed[:, 0].all()
    assert not changed[:, 1].any()
    assert Noise(0.0, 0, "").release(problem, fit) is fit


def new_rows(model, tensor, groups, **settings):
    return model.transform(tensor[PEOPLE:], sensitive_features=groups[PEOPLE:], **settings)


def test_new_people_have_noise_of_the_same_size_that_is_their_own(marks, model, tmp_path):
    tensor, groups = marks
    rows = new_rows(model, tensor, groups)
    exact = model.exact_release(tensor[PEOPLE:], groups[PEOPLE:]).rows
    added = whitened(model, rows - exact.numpy())
    np.testing.assert_allclose(added.mT @ added / NEW / 0.1**2, np.eye(3), atol=0.33)
    some = np.arange(PEOPLE, PEOPLE + 7)[::-1]
    alone = model.transform(tensor[some], sensitive_features=groups[some])
    np.testing.assert_allclose(alone, rows[:7][::-1], rtol=1e-9, atol=1e-12)
    # Those who are embedded again have equal noise; people with equal entries do not.
    twice = model.transform(tensor[some[[0, 0]]], sensitive_features=groups[some[[0, 0]]])
    np.testing.assert_allclose(twice[0], alone[0], rtol=1e-9, atol=1e-12)
    assert not np.isclose(twice[0], twice[1]).any()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(new_rows(FairCP.load(tmp_path / "model"), tensor, groups), rows)


def test_new_people_without_features_have_the_same_resolution(marks, model, plain):
    new = marks[0][PEOPLE:]
    with pytest.warns(ParafairWarning, match="without regard to fairness"):
        rows, expected = model.transform(new), plain.transform(new)
    assert float(whitened(model, rows - expected).std()) == pytest.approx(0.1, rel=0.15)
    assert model.score(new) == pytest.approx(plain.score(new), rel=1e-9)


def attack(tensor, groups, *, refine=False, **settings):
    """The AUC of attackers who know the training rows, for the features given to new people."""
    model = fitted(tensor[:PEOPLE], groups[:PEOPLE], **settings)
    rows, given = new_rows(model, tensor, groups, refine=refine), groups[PEOPLE:] == 1
    attackers = (
        KNeighborsClassifier(1),
        KNeighborsClassifier(5),
        RandomForestClassifier(100, random_state=0),
    )
    for attacker in attackers:
        attacker.fit(model.embedding_, groups[:PEOPLE])
    return [auc(given, attacker.predict_proba(rows)[:, 1]) for attacker in attackers]


@pytest.mark.slow
@pytest.mark.parametrize("refine", [False, True])
def test_an_attacker_learns_nothing_of_the_features_that_new_people_are_given(refine):
    """The features are random, so whatever an attacker learns comes from the embedding itself.

    With 150 new people in each group, the AUC of an attacker who knows nothing has the standard
    deviation (301 / (12 * 150 * 150))^(1/2) = 0.033; the mean of three populations has 0.019. So
    the bound is 3.6 standard deviations.
    """
    found = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        factors = [random.standard_normal((size, 3)) for size in (PEOPLE + NEW, 7, 7)]
        tensor = np.einsum("ir,jr,kr->ijk", *factors)
        tensor += 0.3 * random.standard_normal(tensor.shape)
        groups = random.integers(0, 2, PEOPLE + NEW)
        found.append(attack(tensor, groups, refine=refine, random_state=seed, max_iter=10))
    np.testing.assert_allclose(np.mean(found, axis=0), 0.5, atol=0.07)


@pytest.mark.slow
def test_noise_hides_most_of_what_piles_of_equal_people_reveal(marks):
    """Without noise, a hair's breadth tells the nearest neighbor the group of a person in a pile.

    What remains is shifts about as large as the noise, which new people get from training people.
    """
    with pytest.warns(ParafairWarning, match="with noise=0, differences far below"):
        assert max(attack(*marks, noise=0)) > 0.9
    assert max(attack(*marks)) < 0.65


def test_held_out_entries_are_predicted_with_the_released_rows(marks):
    data = TensorData.from_array(marks[0][:80])
    split = split_cells(data, test_size=0.2, random_state=0)
    model = fitted(split.train, marks[1][:80], ridge=1.0)
    expected = model.cp_.reconstruct().numpy()[tuple(split.test.cells.numpy())]
    np.testing.assert_allclose(model.predict(split.test), expected)
