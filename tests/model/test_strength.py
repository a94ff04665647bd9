import warnings

import numpy as np
import pytest

from parafair import ConvergenceWarning, FairCP, Interrupted, ParafairWarning, audit
from parafair.audits import Verdict, panel
from parafair.audits.measures import residual_fit
from parafair.model import strength as strength_module
from parafair.penalties import Invariant

RANDOM = np.random.default_rng(0)
GROUPS = np.repeat([0, 1], 60)
PEOPLE = RANDOM.standard_normal((120, 3)) + np.outer(GROUPS, [2.0, 0.0, 0.0])
MATRIX = PEOPLE @ RANDOM.standard_normal((3, 9))


def automatic(features=GROUPS, **settings):
    options = {"tol": 1e-2, "n_init": 1, "random_state": 0} | settings
    model = FairCP(3, strength="auto", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(MATRIX, sensitive_features=features)


@pytest.fixture(scope="module")
def model():
    # The quick attackers alone: the others need most of the time.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parafair.audits.panel", lambda stage: panel("quick"))
        return automatic(max_leakage=0.15, tol=1e-3)


def test_a_loaded_model_knows_how_its_strength_was_found(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model").selection_
    assert loaded.trials == model.selection_.trials
    assert (loaded.strength, loaded.passed, loaded.verdict) == (
        model.selection_.strength,
        model.selection_.passed,
        "passes",
    )


def test_the_first_strength_that_passes_is_chosen(model):
    *before, chosen = model.selection_.trials
    assert not any(trial.passes for trial in before)
    assert chosen.passes
    assert chosen.leakage <= 0.15
    assert chosen.deviation <= strength_module.AT_CHANCE
    assert model.selection_.strength == chosen.strength
    assert model.fit_.residual == chosen.residual


def test_rough_fits_lead_to_chance_and_are_not_audited(model):
    plain, *path = model.selection_.trials
    assert (plain.strength, plain.noise) == (0, 0)
    rough = [trial for trial in path if trial.leakage is None]
    assert rough[0].strength == strength_module.FIRST_STRENGTH < 1
    assert len(rough) > 2
    assert all(trial.verdict == "not audited" for trial in rough)
    deviations = [trial.deviation for trial in rough]
    assert deviations[-1] < deviations[0]


def test_dependence_is_removed_and_costs_something(model):
    gap = model.embedding_[GROUPS == 1].mean(0) - model.embedding_[GROUPS == 0].mean(0)
    assert (abs(gap) / model.embedding_.std(0)).max() < 0.5
    assert model.fit_.residual > 0.05


def test_the_record_is_of_the_chosen_strength(model):
    chosen = model.selection_.trials[-1]
    assert model.record_.strength == model.selection_.strength == chosen.strength
    assert model.record_.trials == model.selection_.trials
    assert model.record_.noise == model.selection_.noise == chosen.noise == 0.1
    assert model.fit_.residual == pytest.approx(residual_fit(MATRIX, model.cp_))


def test_the_fit_is_that_of_the_strength_given_as_a_number(model):
    same = FairCP(3, strength=model.selection_.strength, tol=1e-3, n_init=1, random_state=0)
    same.fit(MATRIX, sensitive_features=GROUPS)
    np.testing.assert_allclose(same.embedding_, model.embedding_)


@pytest.mark.slow
def test_the_choice_passes_the_audit_of_a_user():
    chosen = automatic(tol=3e-5, n_init="auto")
    assert chosen.selection_.passed
    result = audit(chosen.embedding_, sensitive_features=GROUPS)
    assert result.verdict(0.05) is Verdict.PASSES


def test_independent_features_keep_the_plain_fit(monkeypatch):
    monkeypatch.setattr(strength_module, "STAGES", strength_module.STAGES[:1])
    independent = np.random.default_rng(5).permutation(GROUPS)
    found = automatic(independent, max_leakage=0.1)
    assert [trial.strength for trial in found.selection_.trials] == [0]
    assert found.selection_.noise == 0
    plain = FairCP(3, method="none", random_state=0, tol=1e-3).fit(MATRIX)
    assert found.fit_.residual == pytest.approx(plain.fit_.residual, abs=1e-3)


class Said:
    """An audit that says this."""

    def __init__(self, verdict, leakage):
        self._verdict, self.leakage = verdict, leakage

    def verdict(self, max_leakage):
        return self._verdict


def say(monkeypatch, *leakages):
    """Let the audits of penalized fits find these leakages, one after the other; 0 passes."""
    left = list(leakages)

    def audited(*_, **__):
        # What passes the quick attackers is audited by all.
        leakage = left.pop(0) if left[0] else 0.0
        return Said(Verdict.LEAKS if leakage else Verdict.PASSES, leakage)

    monkeypatch.setattr("parafair.audits.audit", audited)
    monkeypatch.setattr(strength_module, "FIRST_STRENGTH", 30.0)


def test_a_larger_strength_and_more_noise_are_audited_until_one_passes(monkeypatch):
    say(monkeypatch, 0.3, 0.2, 0.2, 0.0)
    found = automatic(tol=1e-3).selection_
    audited = [trial for trial in found.trials if trial.leakage is not None]
    first = audited[0].strength
    tried = [(trial.strength / first, trial.noise) for trial in audited]
    assert tried == [(1, 0.1), (4, 0.1), (16, 0.1), (16, 0.2)]
    assert (found.strength, found.noise) == (16 * first, 0.2)
    assert found.verdict == "passes"


@pytest.mark.slow
def test_a_search_without_success_says_so_and_keeps_the_least_leakage(monkeypatch):
    say(monkeypatch, 0.3, 0.1, 0.2, 0.3, 0.3)
    model = FairCP(3, strength="auto", random_state=0, tol=1e-2, n_init=1)
    with pytest.warns(ConvergenceWarning, match="no strength passed the audit at max_leakage"):
        model.fit(MATRIX, sensitive_features=GROUPS)
    assert not model.selection_.passed
    audited = [trial for trial in model.selection_.trials if trial.leakage is not None]
    assert len(audited) == len(strength_module.AUDITED)
    assert model.selection_.strength == audited[1].strength
    assert model.embedding_.shape == (120, 3)


@pytest.mark.slow
def test_leakages_are_compared_among_trials_that_all_attackers_have_audited(monkeypatch):
    # The second trial passes the quick attackers, and all of them find more than they did before.
    quick, thorough = iter([0.1, 0.0, 0.1, 0.1, 0.1]), iter([0.2])

    def audited(*_, attackers, **__):
        leakage = next(quick if attackers == panel("quick") else thorough)
        return Said(Verdict.LEAKS if leakage else Verdict.PASSES, leakage)

    monkeypatch.setattr("parafair.audits.audit", audited)
    monkeypatch.setattr(strength_module, "FIRST_STRENGTH", 30.0)
    model = FairCP(3, strength="auto", random_state=0, tol=1e-2, n_init=1)
    with pytest.warns(ConvergenceWarning, match="that were audited by the most attackers"):
        model.fit(MATRIX, sensitive_features=GROUPS)
    found = [trial for trial in model.selection_.trials if trial.panel is not None]
    assert [trial.panel for trial in found] == ["quick", "slow", "quick", "quick", "quick"]
    assert model.selection_.strength == found[1].strength
    assert [trial.leakage for trial in found] == [0.1, 0.2, 0.1, 0.1, 0.1]


def test_iterations_of_all_trials_are_numbered_one_after_the_other(monkeypatch):
    say(monkeypatch, 0.3, 0.0)
    numbers = []
    model = FairCP(3, strength="auto", random_state=0, tol=1e-2, n_init=1)
    model.fit(
        MATRIX, sensitive_features=GROUPS, on_iteration=lambda number, _: numbers.append(number)
    )
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > model.n_iter_


def test_the_penalty_is_bound_once_in_each_precision(monkeypatch):
    say(monkeypatch, 0.3, 0.3, 0.0)
    bound, bind = [], Invariant.bind

    def note(self, sensitive, tensor):
        bound.append(tensor.dtype)
        return bind(self, sensitive, tensor)

    monkeypatch.setattr(Invariant, "bind", note)
    monkeypatch.setattr("parafair.solvers.problem.LEAST_IN_SINGLE", 0)
    automatic()
    assert sorted(map(str, bound)) == ["torch.float32", "torch.float64"]


def test_many_people_are_sampled_on_the_way(monkeypatch):
    say(monkeypatch, 0.0)
    monkeypatch.setattr("parafair.model.strength.MOST_ON_THE_WAY", 80)
    found = automatic(tol=1e-3)
    plain, *rough, last = found.selection_.trials
    assert plain.people is None
    assert rough
    assert {trial.people for trial in rough} == {80}
    assert "(80 people)" in str(rough[0])
    assert last.people is None
    assert last.passes
    assert len(found.embedding_) == len(MATRIX)


def test_many_people_get_more_noise_before_a_stronger_fit(monkeypatch):
    say(monkeypatch, 0.3, 0.3, 0.0)
    monkeypatch.setattr("parafair.model.strength.MOST_ON_THE_WAY", 80)
    monkeypatch.setattr("parafair.model.strength.AT_CHANCE", 100.0)
    found = automatic().selection_
    audited = [trial for trial in found.trials if trial.leakage is not None]
    assert len({trial.strength for trial in audited}) == 1
    assert [trial.noise for trial in audited] == [0.1, 0.2, 0.4]
    assert found.passed


def test_interrupting_with_a_sample_leaves_the_plain_decomposition(monkeypatch):
    monkeypatch.setattr("parafair.model.strength.MOST_ON_THE_WAY", 80)

    def stop(trial):
        if trial.strength:
            raise KeyboardInterrupt

    model = FairCP(3, strength="auto", random_state=0, n_init=1, tol=1e-3)
    with pytest.raises(Interrupted, match="that of a plain decomposition"):
        model.fit(MATRIX, sensitive_features=GROUPS, on_trial=stop)
    assert len(model.embedding_) == len(MATRIX)


def test_a_given_noise_is_that_of_every_trial(monkeypatch):
    say(monkeypatch, 0.0)
    found = automatic(noise=0.25)
    assert {trial.noise for trial in found.selection_.trials} == {0.25}
    assert found.record_.noise == found.selection_.noise == 0.25
    assert found.fit_.noiseless is not None


def test_no_noise_is_warned_of(monkeypatch):
    say(monkeypatch, 0.0)
    model = FairCP(3, strength="auto", noise=0, random_state=0, tol=1e-3, n_init=1)
    with pytest.warns(ParafairWarning, match="with noise=0, differences far below") as warned:
        model.fit(MATRIX, sensitive_features=GROUPS)
    assert len(warned) == 1


@pytest.mark.filterwarnings("ignore:with noise=0")
@pytest.mark.parametrize("noise", [None, pytest.param(0.0, marks=pytest.mark.slow)])
def test_new_people_are_refined_under_the_chosen_strength(monkeypatch, tmp_path, noise):
    say(monkeypatch, 0.0)
    model = automatic(noise=noise)
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

    model = FairCP(3, strength="auto", random_state=0, n_init=1)
    with pytest.raises(Interrupted, match=r"interrupted after \d+ iterations"):
        model.fit(MATRIX, sensitive_features=GROUPS, on_iteration=stop)
    assert model.embedding_.shape == (120, 3)


def test_interrupting_an_audit_keeps_the_last_strength():
    def stop(trial):
        if trial.strength:
            raise KeyboardInterrupt

    model = FairCP(3, strength="auto", random_state=0, n_init=1, tol=1e-3)
    with pytest.raises(Interrupted, match=r"interrupted after \d+ iterations at strength 0\.0625"):
        model.fit(MATRIX, sensitive_features=GROUPS, on_trial=stop)
    assert model.record_.strength == strength_module.FIRST_STRENGTH
    assert model.record_.noise == 0.1
    # The noise was added once.
    assert model.fit_.residual == pytest.approx(residual_fit(MATRIX, model.cp_))
    noise = model.embedding_ - np.asarray(model.fit_.noiseless)
    spread = np.asarray(model.fit_.noiseless).std(0)
    np.testing.assert_allclose(noise.std(0) / spread, 0.1, rtol=0.3)


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


@pytest.mark.slow
def test_trials_and_audits_are_shown_as_they_happen(capsys, monkeypatch):
    monkeypatch.setattr(strength_module, "STAGES", strength_module.STAGES[:1])
    seen = []
    model = FairCP(3, strength="auto", tol=1e-2, n_init=1, verbose=1, max_leakage=0.4)
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


def test_what_an_audit_refuses_is_refused_before_any_fit(monkeypatch):
    monkeypatch.setattr("parafair.model.preparation.Task.fit_plain", None)  # no fit begins
    tensor = np.random.default_rng(0).random((12, 4, 3))
    with pytest.raises(ValueError, match="group 'b' of sensitive feature .* only one member"):
        FairCP(2, strength="auto").fit(tensor, sensitive_features=["a"] * 11 + ["b"])
    with pytest.raises(ValueError, match="sensitive_features has 3 rows, but an audit needs"):
        FairCP(2, strength="auto").fit(tensor[:3], sensitive_features=["a", "b", "b"])
