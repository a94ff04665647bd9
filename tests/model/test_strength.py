import warnings

import numpy as np
import pytest

from parafair import ConvergenceWarning, FairCP, Interrupted, ParafairWarning
from parafair.audits import panel
from parafair.audits.measures import residual_fit
from parafair.model import strength as strength_module

RANDOM = np.random.default_rng(0)
GROUPS = np.repeat([0, 1], 60)
PEOPLE = RANDOM.standard_normal((120, 3)) + np.outer(GROUPS, [2.0, 0.0, 0.0])
MATRIX = PEOPLE @ RANDOM.standard_normal((3, 9))


def automatic(**settings):
    model = FairCP(3, strength="auto", random_state=0, tol=1e-4, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(MATRIX, sensitive_features=GROUPS)


@pytest.fixture(scope="module")
def model():
    # The quick attackers alone: the others need most of the time.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strength_module, "panel", lambda stage: panel("quick"))
        return automatic(max_leakage=0.15)


def test_a_loaded_model_knows_how_its_strength_was_found(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model").selection_
    assert loaded.trials == model.selection_.trials
    assert (loaded.strength, loaded.passed) == (
        model.selection_.strength,
        model.selection_.passed,
    )


def test_the_least_residual_that_passes_is_chosen(model):
    passed = [trial for trial in model.selection_.trials if trial.clear]
    chosen = min(passed, key=lambda trial: trial.residual)
    assert model.selection_.passed
    assert chosen.criterion <= chosen.null
    assert chosen.leakage <= 0.15
    assert model.selection_.strength == chosen.strength
    assert model.fit_.residual == chosen.residual


def test_dependence_is_removed_and_costs_something(model):
    gap = model.embedding_[GROUPS == 1].mean(0) - model.embedding_[GROUPS == 0].mean(0)
    assert (abs(gap) / model.embedding_.std(0)).max() < 0.5
    assert model.fit_.residual > 0.05


def test_the_path_is_recorded(model):
    assert model.record_.strength == model.selection_.strength
    assert model.record_.trials == model.selection_.trials


@pytest.mark.slow
def test_a_looser_target_costs_less(model):
    loose = automatic(max_leakage=0.3)
    assert loose.fit_.residual <= model.fit_.residual


def verdicts(monkeypatch, *said):
    """Let the audits of a path say this after the plain fit leaks; the last again and again."""
    left = ["leaks", *said]

    def audited(*_):
        verdict = left.pop(0) if len(left) > 1 else left[0]
        matched = verdict == "below chance"
        leakage = {"leaks": 0.3, "below chance": 0.1, "passes": 0.0}[verdict]
        return strength_module._Audited(
            leakage,
            "leaks" if matched else verdict,
            clear=verdict == "passes",
            coarse=verdict == "leaks",
            matched=matched,
        )

    monkeypatch.setattr(strength_module, "_audit_in_stages", audited)
    monkeypatch.setattr(strength_module, "FIRST_STRENGTH", 10.0)


def test_a_plain_fit_that_passes_is_kept(monkeypatch):
    verdicts(monkeypatch, "leaks")
    monkeypatch.setattr(
        strength_module,
        "_audit_in_stages",
        lambda *_: strength_module._Audited(0.0, "passes", clear=True, coarse=False),
    )
    model = FairCP(3, strength="auto", random_state=0, tol=1e-3)
    model.fit(MATRIX, sensitive_features=GROUPS)
    assert [trial.strength for trial in model.selection_.trials] == [0.0]
    assert model.selection_.strength == 0
    plain = FairCP(3, method="none", random_state=0, tol=1e-3).fit(MATRIX)
    assert model.fit_.residual == pytest.approx(plain.fit_.residual, abs=1e-3)


def test_a_path_without_success_says_so(monkeypatch):
    verdicts(monkeypatch, "leaks")
    monkeypatch.setattr(strength_module, "LAST_STRENGTH", 20.0)
    model = FairCP(3, strength="auto", random_state=0, tol=1e-3)
    with pytest.warns(ConvergenceWarning, match="no strength passed the audit at max_leakage"):
        model.fit(MATRIX, sensitive_features=GROUPS)
    assert not model.selection_.passed
    assert model.embedding_.shape == (120, 3)


def test_over_matched_people_end_the_path(monkeypatch):
    verdicts(monkeypatch, "leaks", "below chance")
    monkeypatch.setattr(strength_module, "NOISES", ())
    model = FairCP(3, strength="auto", random_state=0, tol=1e-3)
    with pytest.warns(ConvergenceWarning, match=r"ended at strength .* \(leaks\)"):
        model.fit(MATRIX, sensitive_features=GROUPS)
    found = [trial.matched for trial in model.selection_.trials if trial.leakage is not None]
    assert found == [False, False, True, True]
    assert "leaks (below chance)" in str(model.selection_.trials[-1])


def test_noise_ends_over_matching(monkeypatch):
    verdicts(monkeypatch, "below chance", "below chance", "passes", "leaks")
    monkeypatch.setattr(strength_module, "LAST_STRENGTH", 10.0)
    model = FairCP(3, strength="auto", random_state=0, tol=1e-3)
    model.fit(MATRIX, sensitive_features=GROUPS)
    plain, first, second, third = model.selection_.trials
    assert (plain.strength, plain.noise) == (0, 0)
    # The first is the default of the method.
    assert (first.noise, second.noise, third.noise) == (0.1, 0.15, 0.2)
    assert model.selection_.noise == third.noise
    assert first.residual < second.residual < third.residual
    # The record is of the strength that was chosen.
    penalty = third.strength * third.criterion * (MATRIX**2).mean()
    assert model.fit_.history[-1].penalty == pytest.approx(penalty)
    assert model.fit_.residual == third.residual
    assert third.residual == pytest.approx(residual_fit(MATRIX, model.cp_))


def test_a_given_noise_is_the_smallest_that_is_tried(monkeypatch):
    verdicts(monkeypatch, "below chance", "passes", "leaks")
    monkeypatch.setattr(strength_module, "LAST_STRENGTH", 10.0)
    model = FairCP(3, strength="auto", noise=0.25, random_state=0, tol=1e-3)
    model.fit(MATRIX, sensitive_features=GROUPS)
    assert [trial.noise for trial in model.selection_.trials] == [0.25, 0.25, 0.3]
    assert model.record_.noise == model.selection_.noise == 0.3
    assert model.fit_.noise_cost > 0


def test_no_noise_is_warned_of_if_none_was_selected(monkeypatch):
    monkeypatch.setattr(strength_module, "LAST_STRENGTH", 10.0)
    model = FairCP(3, strength="auto", noise=0, random_state=0, tol=1e-3)
    verdicts(monkeypatch, "passes", "leaks")
    with pytest.warns(ParafairWarning, match="with noise=0, differences far below") as warned:
        model.fit(MATRIX, sensitive_features=GROUPS)
    assert len(warned) == 1
    verdicts(monkeypatch, "below chance", "passes", "leaks")
    model.fit(MATRIX, sensitive_features=GROUPS)  # no warning: noise was selected
    assert model.record_.noise == strength_module.NOISES[0]


@pytest.mark.filterwarnings("ignore:with noise=0")
@pytest.mark.parametrize("noise", [None, 0.0])
def test_new_people_are_refined_under_the_chosen_strength(monkeypatch, tmp_path, noise):
    verdicts(monkeypatch, "passes", "leaks")
    monkeypatch.setattr(strength_module, "LAST_STRENGTH", 10.0)
    model = FairCP(3, strength="auto", noise=noise, random_state=0, tol=1e-3)
    model.fit(MATRIX, sensitive_features=GROUPS)
    model.save(tmp_path / "model")
    again = FairCP.load(tmp_path / "model")
    assert again.selection_.noise == model.selection_.noise
    assert (model.selection_.noise > 0) == (noise is None)
    people = np.random.default_rng(0).integers(0, 120, 250)
    new, theirs = MATRIX[people] + 0.01, GROUPS[people]
    shifted = model.transform(new, sensitive_features=theirs)
    np.testing.assert_allclose(again.transform(new, sensitive_features=theirs), shifted)
    refined = model.transform(new, sensitive_features=theirs, refine=True)
    assert not np.allclose(refined, shifted)
    np.testing.assert_allclose(
        again.transform(new, sensitive_features=theirs, refine=True), refined
    )


def test_interrupting_keeps_the_last_strength():
    def stop(number, objective):
        if number == 3:
            raise KeyboardInterrupt

    model = FairCP(3, strength="auto", random_state=0)
    with pytest.raises(Interrupted, match=r"interrupted after \d+ iterations"):
        model.fit(MATRIX, sensitive_features=GROUPS, on_iteration=stop)
    assert model.embedding_.shape == (120, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": "automatic"}, "strength must be a number, 'auto' or None"),
        (
            {"strength": "auto", "method": "khsic"},
            "strength='auto' needs a penalty with a `criterion`, such as method='invariant'",
        ),
        ({"strength": "auto", "max_leakage": -0.1}, "max_leakage must be a number from 0 to 1"),
        ({"strength": "auto", "max_leakage": "x"}, "max_leakage must be a number from 0 to 1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        FairCP(3, **settings).fit(MATRIX, sensitive_features=GROUPS)


def test_trials_and_audits_are_shown_as_they_happen(capsys, monkeypatch):
    monkeypatch.setattr(strength_module, "STAGES", strength_module.STAGES[:1])
    seen = []
    model = FairCP(3, strength="auto", tol=1e-2, verbose=1, max_leakage=0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(
            MATRIX,
            sensitive_features=GROUPS,
            on_trial=seen.append,
            on_audit=lambda *done: seen.append(done),
        )
    printed = capsys.readouterr().out
    assert all(str(trial) in printed for trial in model.selection_.trials)
    audits = [done for done in seen if isinstance(done, tuple)]
    assert f"audit: 1 of {audits[0][1]} attackers" in printed
    assert audits[0][0] == 1
    assert (audits[0][1], audits[0][1]) in audits
    assert seen.index(audits[0]) < len(seen) - 1  # the trial that it belongs to comes after it
