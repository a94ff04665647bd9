"""The contract of the default method: it ends at chance, neither above nor below."""

import numpy as np
import pytest
import torch

from parafair import FairCP, Interrupted, ParafairWarning, Status, audit, datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Criterion
from parafair.dependence.whitening import Standardized
from tests.reference.kinds import KINDS, draw, mean_shift, zero_inflated

# Attackers that find most in little time; the others run in the slow tests.
QUICK = ("linear", "kernel-vote", "forest")


def fit(kind, seed, strength, *, n=200, independent=False, **settings):
    tensor, groups, rank = draw(kind, seed, n, independent=independent)
    options = {"tol": 1e-4, "n_init": 2, "max_iter": 5000} | settings
    model = FairCP(rank, strength=strength, random_state=seed, **options)
    return model.fit(tensor, sensitive_features=groups), groups


def off_chance(result):
    return [
        (row.model, row.input, round(row.value, 3))
        for row in result.scores
        if row.above_chance or row.below_chance
    ]


def statistics(model):
    features = model.training_.features
    rows = model.fit_.noiseless
    return Criterion(SensitiveFeatures(features.columns), rows.flatten()[:0]).deviations(rows)


@pytest.mark.slow
def test_people_of_random_groups_stay_unrecognizable():
    model, groups = fit(zero_inflated, 0, 300.0, n=120, independent=True, tol=1e-3, n_init=1)
    result = audit(model.embedding_, sensitive_features=groups, attackers=QUICK, permutations=1)
    assert not off_chance(result)
    low, high = result.leakage_interval
    assert low <= 0 <= high


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.1, 1.0, 300.0, 10_000.0])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_strength_makes_people_of_random_groups_recognizable(kind, seed, strength):
    model, groups = fit(kind, seed, strength, n=300, independent=True)
    result = audit(model.embedding_, sensitive_features=groups, permutations=1)
    assert not off_chance(result)
    low, high = result.leakage_interval
    assert low <= 0 <= high


@pytest.mark.slow
def test_pressing_harder_ends_at_chance_and_not_below():
    for strength in (300.0, 30_000.0):
        model, _ = fit(mean_shift, 0, strength, n=60, tol=1e-3, n_init=1)
        found = statistics(model)
        # Independent rows have statistics between about -3 and 3 standard deviations.
        assert float(found.abs().max()) < 2
        assert float(found.mean()) > -0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_statistic_is_pressed_below_its_range_under_independence(kind):
    for strength in (10.0, 1000.0, 100_000.0):
        model, _ = fit(kind, 3, strength, n=150)
        assert float(statistics(model).min()) > -3.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_ten_seeds_end_at_the_same_objective(kind):
    tensor, groups, rank = draw(kind, 0, 120)
    objectives = []
    for seed in range(10):
        model = FairCP(rank, strength=300.0, random_state=seed, n_init=8, tol=1e-5, max_iter=4000)
        model.fit(tensor, sensitive_features=groups)
        objectives.append(model.fit_.before_noise.objective)
    assert np.ptp(objectives) < 0.01 * min(objectives)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_number_of_threads_changes_nothing(kind):
    tensor, groups, rank = draw(kind, 0, 120)
    residuals, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            model = FairCP(rank, random_state=0).fit(tensor, sensitive_features=groups)
            residuals.append(model.fit_.before_noise.residual)
    finally:
        torch.set_num_threads(before)
    assert residuals[1] == residuals[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_random_features_of_new_people_are_not_written_into_their_rows(kind):
    """One audit in twenty finds something by chance: two of four do in one case of seventy."""
    audits = [audit_of_random_features(kind, seed) for seed in range(4)]
    assert sum(bool(off_chance(known)) for known, _ in audits) <= 1
    # Few people and no penalty of their own: among themselves they may differ a little.
    assert np.mean([among.leakage for _, among in audits]) < 0.1


def audit_of_random_features(kind, seed):
    tensor, _, rank = draw(kind, seed, 600)
    groups = np.random.default_rng(100 + seed).integers(0, 2, 600)
    model = FairCP(rank, tol=1e-4, random_state=seed)
    model.fit(tensor[:300], sensitive_features=groups[:300])
    rows = model.transform(tensor[300:], sensitive_features=groups[300:])
    settings = {"attackers": ("neighbors", "forest", "kernel-vote"), "permutations": 1}
    known = audit(
        model.embedding_,
        sensitive_features=groups[:300],
        new_embedding=rows,
        new_sensitive_features=groups[300:],
        **settings,
    )
    return known, audit(rows, sensitive_features=groups[300:], **settings)


@pytest.mark.slow
def test_the_default_fit_converges():
    model, _ = fit(mean_shift, 0, None, n=100, tol=3e-5)
    assert model.fit_.status.name == "CONVERGED"
    assert model.record_.strength == 300


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (datasets.synthetic, {"rank": 8}),
        (datasets.marks, {"rank": 2, "center": True, "ridge": 1}),
    ],
    ids=["synthetic", "marks"],
)
def test_the_default_fit_of_generated_data_converges(data, settings, seed):
    found = data(seed)
    model = FairCP(**settings).fit(found.tensor, sensitive_features=found.sensitive_features)
    assert model.fit_.status is Status.CONVERGED


@pytest.mark.slow
def test_single_precision_ends_at_the_same_residual():
    tensor, groups, rank = draw(mean_shift, 0, 100)
    fits = [
        FairCP(rank, dtype=dtype, n_init=2).fit(tensor, sensitive_features=groups).fit_
        for dtype in ("float32", "float64")
    ]
    # Rounding changes the path of the solver, and on these data not where it ends. Noise follows
    # the last bit.
    one, other = (fit.before_noise.residual for fit in fits)
    assert one == pytest.approx(other, rel=0.01)


def test_an_interrupted_plain_stage_is_recorded_as_plain(tmp_path):
    def stop(number, objective):
        raise KeyboardInterrupt

    tensor = np.random.default_rng(0).standard_normal((40, 6, 5))
    model = FairCP(2, n_init=1)
    message = "interrupted after 1 iterations: the embedding is that of a plain decomposition"
    with pytest.raises(Interrupted, match=message):
        model.fit(tensor, sensitive_features=np.arange(40) % 2, on_iteration=stop)
    assert (model.record_.strength, model.record_.noise) == (0, 0)
    assert model.fit_.noiseless is None
    assert "interrupted" in repr(model.fit_)
    model.save(tmp_path / "model")
    with pytest.warns(
        ParafairWarning, match="was interrupted after 1 iterations: its embedding is"
    ):
        loaded = FairCP.load(tmp_path / "model")
    assert loaded.fit_.status is Status.INTERRUPTED


@pytest.mark.filterwarnings("ignore:with noise=0")
def test_a_loaded_fit_that_was_interrupted_warns_once(tmp_path):
    def stop(number, objective):
        if number == 3:
            raise KeyboardInterrupt

    tensor, groups = np.random.default_rng(0).standard_normal((40, 6, 5)), np.arange(40) % 2
    model = FairCP(2, method="hsic", noise=0.0)
    with pytest.raises(Interrupted, match="interrupted after 3 iterations"):
        model.fit(tensor, sensitive_features=groups, on_iteration=stop)
    model.save(tmp_path / "model")
    message = (
        "was interrupted after 3 iterations: it may reveal more, .*; audit it, or fit it again"
    )
    with pytest.warns(ParafairWarning, match=message) as caught:
        loaded = FairCP.load(tmp_path / "model")
    assert len(caught) == 1
    loaded.predict([[0, 0, 0]])  # warnings are errors here


def test_noise_cannot_be_drawn_again_without_the_data():
    # The seed is a default that everybody knows.
    random = np.random.default_rng(0)
    tensor, groups = random.standard_normal((60, 6, 5)), np.arange(60) % 2
    model = FairCP(2, tol=1e-2, n_init=1).fit(tensor, sensitive_features=groups)
    noise = model.embedding_ - np.asarray(model.fit_.noiseless)
    basis = np.asarray(Standardized.of(model.fit_.noiseless).basis)
    whitened = noise @ np.linalg.inv(basis) / 0.1
    for seed in (np.random.SeedSequence(0, spawn_key=(0,)), 0):
        guess = np.random.default_rng(seed).standard_normal((60, 2))
        assert abs(np.corrcoef(guess.ravel(), whitened.ravel())[0, 1]) < 0.4
