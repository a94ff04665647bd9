import numpy as np
import pytest

from parafair import ConvergenceWarning, FairCP, ParafairWarning, TensorData, split_cells, tune
from parafair.audits import ATTACKERS, Verdict, audit, panel
from parafair.data.splits import fold_cells
from parafair.model.tuning import default_grid
from parafair.penalties import Invariant

N = 120


@pytest.fixture
def one_attacker(monkeypatch):
    """Audit with the fastest attacker alone."""
    monkeypatch.setattr("parafair.model.tuning.panel", lambda stage: ("linear",))


@pytest.fixture(scope="module")
def marks():
    """A tensor of rank 3 with noise and holes, whose people show their group in one component."""
    random = np.random.default_rng(0)
    groups = np.arange(N) % 2
    people = random.standard_normal((N, 3))
    people[:, 0] += 4 * groups
    others = [random.standard_normal((size, 3)) for size in (12, 10)]
    tensor = np.einsum("ir,jr,kr->ijk", people, *others)
    tensor += 0.5 * random.standard_normal(tensor.shape)
    tensor[random.random(tensor.shape) < 0.5] = np.nan
    return tensor, groups.astype(str)


def test_the_rank_of_the_data_predicts_best(marks):
    tensor, _ = marks
    seen = []
    model = FairCP(method="none", random_state=0)
    tuning = tune(
        model, tensor, grid={"rank": [1, 3, 8], "ridge": [0.0, 3.0]}, on_candidate=seen.append
    )
    assert tuning.best.settings["rank"] == 3
    assert tuning.best.rmse == min(candidate.rmse for candidate in tuning.candidates)
    assert tuning.verdict is None
    assert tuple(seen) == tuning.candidates
    assert len(tuning.candidates) == 6
    # The model is fitted to everything, with the settings that were chosen.
    again = FairCP(3, method="none", ridge=tuning.best.settings["ridge"], random_state=0)
    np.testing.assert_allclose(tuning.model.embedding_, again.fit(tensor).embedding_)
    assert not hasattr(model, "fit_")
    frame = tuning.to_frame()
    assert list(frame["rank"]) == [c.settings["rank"] for c in tuning.candidates]
    assert frame["chosen"].sum() == 1


@pytest.mark.slow
def test_the_least_error_among_the_fair_ones(marks, one_attacker):
    tensor, groups = marks
    model = FairCP(3, random_state=0, tol=1e-3, n_init=1, ridge=1.0)
    tuning = tune(
        model,
        tensor,
        grid={"strength": [0.01, 10.0, 20.0]},
        sensitive_features=groups,
        max_leakage=0.2,
    )
    weak, *strong = tuning.candidates
    assert weak.rmse < min(candidate.rmse for candidate in strong)
    assert weak.leakage > 0.2
    assert weak.verdict is Verdict.LEAKS
    assert tuning.verdict is Verdict.PASSES
    assert tuning.best.verdict is Verdict.PASSES
    # Audits went from the least error on and stopped at the first that passed.
    audited = [c for c in tuning.candidates if c.verdict is not None]
    assert tuning.best.rmse == max(c.rmse for c in audited)


def test_the_audit_asks_all_attackers_but_the_slow_ones(marks, monkeypatch):
    asked = []

    def quickly(*arguments, attackers, **settings):
        asked.append(attackers)
        return audit(*arguments, **settings, attackers=["linear"], repeats=1)

    monkeypatch.setattr("parafair.model.tuning.audit", quickly)
    tensor, groups = marks
    tune(
        FairCP(3, random_state=0, max_iter=5, tol=0, n_init=1, ridge=1.0),
        tensor,
        grid={"strength": [20.0]},
        sensitive_features=groups,
        max_leakage=0.3,
    )
    # The candidate, and the model fitted to all entries.
    assert asked == [panel("thorough")] * 2
    slow = set(ATTACKERS) - set(panel("thorough"))
    assert {ATTACKERS[name].stage for name in slow} == {"slow"}


def test_several_strengths_without_an_audit_are_warned_of(marks):
    tensor, groups = marks
    model = FairCP(2, random_state=0, max_iter=5, tol=0, n_init=1, ridge=1.0)
    with pytest.warns(ParafairWarning, match="error alone selects the weakest"):
        tune(model, tensor, grid={"strength": [0.1, 5.0]}, sensitive_features=groups)


def test_none_passes_is_said(marks, one_attacker):
    tensor, groups = marks
    with pytest.warns(
        ConvergenceWarning, match="the selected settings, fitted to all entries, do not pass"
    ):
        tuning = tune(
            FairCP(3, random_state=0, tol=1e-3, n_init=1, ridge=1.0),
            tensor,
            grid={"method": [Invariant(0.01), "none"]},
            sensitive_features=groups,
            max_leakage=0.01,
        )
    assert tuning.verdict is Verdict.LEAKS
    assert tuning.to_list()[0]["method"]["name"] == "Invariant"


def test_what_is_held_out_does_not_decide_the_ridge():
    tensor = np.random.default_rng(0).standard_normal((12, 4, 3))  # complete: no ridge
    tuning = tune(FairCP(method="none", random_state=0), tensor, grid={"rank": np.arange(1, 3)})
    assert tuning.model.record_.ridge == 0
    assert tuning.to_list()[0]["rank"] == 1
    fit = FairCP(1, method="none", ridge=0.0, random_state=0)
    split = split_cells(TensorData.from_array(tensor), test_size=0.1, random_state=0)
    assert tuning.candidates[0].residual == pytest.approx(fit.fit(split.train).fit_.residual)


@pytest.mark.slow
def test_labels_and_processes_change_nothing(marks):
    tensor, _ = marks
    names = [f"person {i}" for i in range(N)]
    data = TensorData.from_array(tensor, modes=("who", "a", "b"), labels=[names, None, None])
    found = [
        tune(
            FairCP(method="none", mode=mode, random_state=0), X, grid={"rank": [1, 2]}, n_jobs=jobs
        ).candidates
        for X, mode, jobs in ((tensor, 0, 1), (data, "who", 2))
    ]
    for one, two in zip(*found, strict=True):
        assert one.rmse == pytest.approx(two.rmse)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid": {"rang": [1]}}, "a key of grid must be one of rank, method"),
        ({"grid": {"rank": [1]}, "max_leakage": 0.1}, "max_leakage=0.1 asks for an audit"),
        ({"grid": {"rank": [1]}, "max_leakage": float("nan")}, "max_leakage must be a number"),
        ({"grid": {"rank": [1]}, "validation": 1.5}, "validation must be a share"),
        ({"grid": {"rank": [1]}, "cv": 1}, "cv must be a whole number of at least 2"),
        ({"cv": 10**6}, "cv must be at most"),
        ({"grid": {"rank": [None]}}, "rank must be a whole number"),
        ({"grid": {"rank": []}}, "grid must name arguments of the model with values to try"),
        ({"grid": []}, "grid must name arguments of the model with values to try"),
    ],
)
def test_what_cannot_be_compared_is_refused(marks, settings, message):
    with pytest.raises(ValueError, match=message):
        tune(FairCP(method="none"), marks[0], **settings)


def test_folds_hold_out_every_entry_once_and_pool_their_errors(marks):
    data = TensorData.from_array(marks[0][:40])
    model = FairCP(2, method="none", random_state=0, tol=1e-2)
    tuning = tune(model, data, grid={"ridge": [1.0, 30.0]}, cv=3, random_state=4)
    squares = []
    for split in fold_cells(data, 3, random_state=4):
        fitted = FairCP(2, method="none", ridge=1.0, random_state=0, tol=1e-2).fit(split.train)
        squares.append((fitted.predict(split.test) - split.test.entries.numpy()) ** 2)
    candidate = tuning.candidates[0]
    assert candidate.rmse == pytest.approx(np.sqrt(np.concatenate(squares).mean()))
    assert candidate.rmse_std == pytest.approx(np.std([np.sqrt(own.mean()) for own in squares]))
    assert tuning.model.training_.entries == data.observed


def test_settings_are_compared_by_entries_of_ones_own(marks):
    data = TensorData.from_array(marks[0][:40], modes=("who", "what", "when"))
    split = split_cells(data, test_size=0.2, random_state=1)
    # Labels decide, not positions: the order of the people does not matter.
    own = split.test.to_sparse().take(0, np.arange(40)[::-1])
    model = FairCP(2, method="none", random_state=0, tol=1e-2)
    tuning = tune(model, split.train, grid={"ridge": [1.0, 30.0]}, validation=own)
    errors = tuning.model.predict(split.test) - split.test.entries.numpy()
    assert tuning.best.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert tuning.best.rmse_std is None
    assert tuning.model.training_.entries == split.train.observed
    with pytest.raises(ValueError, match=r"validation: \d+ of \d+ entries are in the data too"):
        tune(model, data, grid={"ridge": [1.0]}, validation=own)
    with pytest.raises(ValueError, match="cv=3 and validation data both say what to hold out"):
        tune(model, split.train, validation=own, cv=3)
    strange = TensorData.from_array([[[1.0, 2.0]]], modes=("who", "what", "when"),
                                    labels=([99], None, None))  # fmt: skip
    with pytest.raises(ValueError, match="validation: mode 'who' has no label 99"):
        tune(model, split.train, validation=strange)


def test_ridges_are_tried_by_default_in_a_geometric_sequence(marks):
    data = TensorData.from_array(marks[0][:40])
    ridges = default_grid(FairCP(2), data)["ridge"]
    positive = np.array(ridges[:-1])
    assert ridges[-1] == 0
    assert set((positive[:-1] / positive[1:]).round(2)) <= {3.0, 3.33}
    entries = data.observed / 40
    assert ridges[0] >= 10 * entries > ridges[2]
    model = FairCP(2, method="none", random_state=0, tol=1e-1)
    tuning = tune(model, data)
    assert [candidate.settings["ridge"] for candidate in tuning.candidates] == ridges
