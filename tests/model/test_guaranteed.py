from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import ConvergenceWarning, FairCP, Interrupted, audit, certify, datasets
from parafair.audits import Verdict
from parafair.penalties import Transport

DATA = datasets.synthetic(0, shape=(80, 8, 6), rank=3)
X, GROUPS = DATA.tensor, DATA.sensitive_features
SETTINGS = {"rank": 3, "strength": "auto", "random_state": 0, "n_init": 1, "tol": 1e-3}


def fitted(guarantee, tensor=X, features=GROUPS, **settings):
    calls = {name: settings.pop(name) for name in ("held_out", "on_trial") if name in settings}
    model = FairCP(**{**SETTINGS, "guarantee": guarantee, **settings})
    return model.fit(tensor, sensitive_features=features, **calls)


@pytest.fixture(scope="module")
def released():
    return fitted("release")


def test_what_is_released_is_certified(released):
    assert released.selection_.passed
    assert certify(released, random_state=5).leakage("release") <= 0.05 + 1e-9
    (trial,) = released.selection_.trials
    assert trial.certified <= 0.05
    assert trial.verdict == released.selection_.verdict == "certified"
    assert str(trial).startswith("shared places, noise 0.05: residual ")
    assert released.record_.strength is None


def test_less_leakage_costs_more(released):
    exact = fitted("release", max_leakage=0.0)
    assert certify(exact).leakage("release") == pytest.approx(0, abs=1e-9)
    assert released.fit_.residual < exact.fit_.residual


@pytest.mark.parametrize("sizes", [(50, 30), (40, 21, 19)])
def test_uneven_groups_are_certified(sizes):
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    model = fitted("release", features=groups)
    assert certify(model).leakage("release") <= 0.05 + 1e-9


def test_several_columns_are_certified_jointly():
    features = np.column_stack([GROUPS, np.arange(80) % 2])
    certificate = certify(fitted("release", features=features))
    assert len({statement.column for statement in certificate.statements}) == 3
    assert certificate.leakage("release") <= 0.05 + 1e-9


def test_the_same_seed_gives_the_same_fit(released):
    assert np.array_equal(fitted("release").embedding_, released.embedding_)


def test_people_with_other_numbers_share_places():
    numbers = np.random.default_rng(0).standard_normal(80)
    model = fitted("release", features=numbers)
    assert model.record_.strength is None
    assert model.record_.noise == 0.05
    assert model.fit_.residual < 1
    assert certify(model).leakage("release") <= 0.05


def test_a_feature_is_not_revealed_by_more_than_combinations_are():
    random = np.random.default_rng(0)
    one = np.arange(80) < 20
    features = np.column_stack([one, random.permutation(80) < 37])
    model = fitted("release", X + 3.0 * one[:, None, None], features)
    assert model.record_.noise == 0.05
    for statement in certify(model).statements:
        if statement.kind == "release":
            assert statement.upper <= 0.05 + 1e-9


@pytest.mark.slow
def test_numbers_with_too_many_combinations_get_noise(monkeypatch):
    monkeypatch.setattr("parafair.model.guaranteed.MOST_GROUPS", 3)
    numbers = np.random.default_rng(0).standard_normal(80)
    model = fitted("release", features=numbers, max_leakage=0.3)
    assert model.record_.strength > 0
    assert model.record_.noise > 0.05
    assert certify(model).leakage("release") <= 0.3


def test_a_model_is_stored_with_its_trials(released, tmp_path):
    released.save(tmp_path / "model")
    found = FairCP.load(tmp_path / "model")
    assert found.guarantee == "release"
    assert found.selection_.trials == released.selection_.trials
    assert found.selection_.strength is None


def test_new_people_are_shifted_but_not_refined(released):
    rows = released.transform(X[:5], sensitive_features=GROUPS[:5])
    assert rows.shape == (5, 3)
    with pytest.raises(ValueError, match="people share places instead; omit refine"):
        released.transform(X, sensitive_features=GROUPS, refine=True)


def test_an_audit_and_a_certificate(monkeypatch):
    audited = []

    def judge(self, released, trial, rounds):
        audited.append(trial.noise)
        assert ("quick", 10) in rounds
        verdict = "passes" if trial.noise > 0.15 else "leaks"
        return type(trial)(**{**vars(trial), "verdict": verdict, "leakage": 0.01, "panel": "slow"})

    monkeypatch.setattr("parafair.model.strength.Search.audited", judge)
    model = fitted(("audit", "release"))
    assert audited == pytest.approx([0.05 * 2 ** (k / 2) for k in range(5)])
    assert model.record_.noise == pytest.approx(0.2)
    assert model.selection_.verdict == "passes"


def test_what_no_noise_hides_is_said(monkeypatch):
    def judge(self, released, trial, rounds):
        leakage = 0.07 if trial.noise < 0.3 else 0.09
        return replace(trial, verdict="leaks", leakage=leakage, panel="slow")

    monkeypatch.setattr("parafair.model.strength.Search.audited", judge)
    expected = (
        r"with noise 0.05, certifies 0.0\d* but leaks 0.07 in the audit. Try a larger max_leak"
    )
    with pytest.warns(ConvergenceWarning, match=expected):
        model = fitted(("audit", "release"))
    assert model.selection_.chosen.leakage == 0.07


def test_noise_at_shared_places_costs_the_same_in_every_direction(released):
    first, second = (factor.mT @ factor for factor in released.cp_.factors[1:])
    matrix = released.fit_.noise[0]
    costs = torch.linalg.eigvalsh(matrix @ (first * second) @ matrix.mT)
    spread = torch.cov(released.fit_.noiseless.mT, correction=0)
    whole = 0.05**2 * (spread * first * second).sum()
    torch.testing.assert_close(costs, (whole / 3).expand(3), rtol=1e-6, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_an_audit_with_another_seed_passes_too(seed):
    data = datasets.synthetic(seed)
    model = FairCP(8, strength="auto", guarantee=("audit", "release"), random_state=seed)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    assert model.selection_.passed
    assert model.fit_.residual <= 0.622
    result = audit(model.embedding_, sensitive_features=data.sensitive_features, random_state=11)
    assert result.verdict(0.05) is Verdict.PASSES


def test_a_given_noise_is_the_smallest(released):
    model = fitted("release", noise=0.3)
    assert model.record_.noise == 0.3
    assert model.fit_.residual > released.fit_.residual


def people(n, seed):
    random = np.random.default_rng(seed)
    groups = random.integers(0, 2, n)
    rows = random.standard_normal((n, 2)) + 0.3 * groups[:, None]
    other = np.random.default_rng(9).standard_normal((2, 6))
    return rows @ other + 0.1 * random.standard_normal((n, 6)), groups


@pytest.mark.slow
def test_held_out_people_certify_a_population():
    matrix, groups = people(300, 0)
    later, theirs = people(3000, 1)
    model = fitted("population", matrix, groups, rank=2, held_out=(later, theirs), max_leakage=0.1)
    assert model.selection_.passed
    found = certify(model, *people(3000, 2)).statements[0]
    assert found.kind == "population"
    assert found.estimate < 0.1


def test_what_cannot_be_reached_is_said():
    matrix, groups = people(100, 0)
    with pytest.warns(ConvergenceWarning, match="the nearest trial, with noise") as warned:
        model = fitted(
            "population", matrix, groups, rank=2, held_out=people(30, 1), max_leakage=0.01
        )
    assert "more people or held-out people" in str(warned[0].message)
    assert not model.selection_.passed
    assert model.selection_.verdict == "not certified"


def test_an_interruption_leaves_the_plain_decomposition():
    def stop(trial):
        raise KeyboardInterrupt

    model = FairCP(**SETTINGS, guarantee="release")
    with pytest.raises(Interrupted, match="that of a plain decomposition"):
        model.fit(X, sensitive_features=GROUPS, on_trial=stop)
    assert len(model.embedding_) == 80


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"guarantee": "all"}, "guarantee must be one of audit, release, population; got 'all'"),
        ({"guarantee": ()}, "guarantee must name at least one of audit, release, population"),
        ({"guarantee": 3}, "guarantee must be"),
        ({"guarantee": "release", "strength": 3.0}, "is for strength='auto', but strength=3.0"),
        ({"guarantee": ("release", "population")}, "cannot name both 'release' and 'population'"),
        ({"guarantee": "release", "noise": 0}, "needs noise, but noise=0: nothing can be"),
        ({"guarantee": "population"}, r"needs people who are not in X, as held_out=\(entries"),
    ],
)
def test_what_cannot_be_guaranteed_is_refused(settings, message):
    model = FairCP(**{**SETTINGS, **settings})
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(X, sensitive_features=GROUPS)


def test_held_out_people_are_for_a_population():
    with pytest.raises(ValueError, match="held_out is for strength='auto' with guarantee="):
        FairCP(**SETTINGS).fit(X, sensitive_features=GROUPS, held_out=(X, GROUPS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, later: X, "held_out: 100 of the 100 people of held_out have the same entries"),
        (lambda X, later: (later[0], np.zeros(30)), "held_out: sensitive feature '.*' has nobody"),
        (
            lambda X, later: (later[0], (np.arange(30) == 3).astype(int)),
            "held_out: sensitive feature .* has one person in the group",
        ),
        (lambda X, later: (later[0], later[1][:-1]), "held_out: sensitive"),
        (
            lambda X, later: (later[0][:, :-1], later[1]),
            "held_out: X must be a matrix of numbers with one row",
        ),
    ],
)
def test_wrong_held_out_people_are_refused_by_name_before_anything_is_fitted(
    change, message, monkeypatch
):
    def fail(*_, **__):
        raise AssertionError("something was fitted")

    monkeypatch.setattr("parafair.model.task.Task.fit_plain", fail)
    monkeypatch.setattr("parafair.model.task.Task.fit", fail)
    training, later = people(100, 0), people(30, 1)
    with pytest.raises(ValueError, match=message) as refused:
        fitted("population", *training, rank=2, held_out=change(training, later))
    assert "X_new" not in str(refused.value)


def test_shared_places_are_a_method_too():
    model = FairCP(3, method=Transport(leakage=0.02), noise=0.1, random_state=0)
    model.fit(X, sensitive_features=GROUPS)
    assert certify(model).leakage("release") <= 0.02 + 1e-9
    rows = np.unique(np.round(np.asarray(model.fit_.noiseless), 9), axis=0)
    assert len(rows) < 45
