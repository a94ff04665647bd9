"""The ridge that data with missing entries selects."""

import numpy as np
import pytest

from parafair import FairCP, ParafairWarning, TensorData, split_cells, tune
from parafair.data.centering import Offsets
from parafair.model.ridge import grid_for, select_ridge


def ratings(*, signal=0.5, noise=0.8, people=200, items=150, seed=0):
    """10 to 20 ratings per person: offsets of the items, three components and noise."""
    random = np.random.default_rng(seed)
    tastes = random.normal(size=(people, 3)) @ random.normal(size=(items, 3)).T / 3**0.5
    full = 3.5 + 0.4 * random.normal(size=items) + signal * tastes
    full += noise * random.normal(size=full.shape)
    rated = random.random(full.shape).argsort(1) < random.integers(10, 21, size=(people, 1))
    return TensorData.from_array(np.where(rated, full, np.nan))


def rmse(split, predicted):
    return float(np.sqrt(np.mean((predicted - split.test.entries.numpy()) ** 2)))


@pytest.mark.parametrize("signal", [0.0, 1.0])
@pytest.mark.parametrize("rank", [2, 5, 10, 20])
def test_the_default_never_loses_to_the_offsets_and_is_near_the_best(rank, signal):
    split = split_cells(ratings(signal=signal), test_size=0.2, random_state=1)
    alone = rmse(split, Offsets.of(split.train, 0).at(split.test.cells).numpy())

    def error(ridge):
        model = FairCP(rank, method="none", center=True, ridge=ridge).fit(split.train)
        return rmse(split, model.predict(split.test))

    default, best = error("auto"), min(map(error, [100, 30, 10]))
    assert default < 1.005 * alone
    assert default < 1.05 * best
    if signal == 1:
        assert default < 0.97 * alone


def test_complete_data_has_no_ridge_and_a_given_ridge_is_kept():
    complete = np.random.default_rng(0).random((12, 5, 4))
    assert FairCP(2, method="none", tol=1e-2).fit(complete).ridge_ == 0
    missing = ratings(people=30, items=20)
    assert FairCP(2, method="none", center=True, ridge=7, tol=1e-2).fit(missing).ridge_ == 7


def test_the_selection_can_be_repeated_is_stored_and_is_shown(tmp_path, capsys):
    data = ratings(signal=1.0, people=60, items=40)
    model = FairCP(2, method="none", center=True, random_state=3, tol=1e-2, verbose=1).fit(data)
    assert f"ridge {model.ridge_:g} of " in capsys.readouterr().out
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    assert (loaded.ridge, loaded.ridge_) == ("auto", model.ridge_)
    assert loaded.set_params(verbose=0).fit(data).ridge_ == model.ridge_ > 0


def test_data_with_little_noise_is_hardly_shrunk():
    random = np.random.default_rng(0)
    factors = [random.random((size, 2)) for size in (12, 6, 5)]
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    tensor[random.random(tensor.shape) < 0.1] = np.nan
    selection = select_ridge(
        TensorData.from_array(tensor), 2, 0, center=False, loss="squared", seed=0
    )
    assert selection.ridge < 0.5
    assert selection.rmse < 0.1 * selection.offsets_rmse


def test_a_model_that_cannot_beat_the_offsets_says_so():
    with pytest.warns(ParafairWarning, match="predicted worse than by offsets alone"):
        FairCP(2, method="none", tol=1e-2).fit(ratings(signal=0.0))


def test_too_few_entries_to_hold_any_out_have_a_fixed_ridge():
    data = TensorData.from_array(np.where(np.eye(4), 1 + np.arange(4.0), np.nan))
    assert FairCP(1, method="none", tol=1e-2).fit(data).ridge_ == 3


def test_the_grid_spans_shrinking_to_nothing_and_not_at_all():
    grid = grid_for(15)
    assert grid[:3] == [3000, 1000, 300]
    assert grid[-2:] == [0.03, 0]


def test_tune_fits_all_entries_with_the_ridge_that_was_compared():
    tuning = tune(
        FairCP(method="none", center=True, tol=1e-2),
        ratings(people=60, items=40),
        grid={"rank": [1, 2]},
    )
    assert tuning.model.ridge_ == tuning.best.ridge > 0
    assert list(tuning.to_frame()["ridge"]) == [c.ridge for c in tuning.candidates]


@pytest.mark.parametrize("ridge", [None, "much", [1, 2], np.ones(2)])
def test_other_words_for_a_ridge_are_refused(ridge):
    with pytest.raises(
        ValueError, match="ridge, if it is not 'auto', must be a finite number of at least 0, got"
    ):
        FairCP(2, method="none", ridge=ridge).fit(np.ones((4, 3)))


def test_ctrl_c_while_the_ridge_is_selected_is_no_result(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    model = FairCP(2, method="none", center=True)
    monkeypatch.setattr("parafair.solvers.block.BlockDescent.step", interrupt)
    with pytest.raises(KeyboardInterrupt, match="while the ridge was selected") as caught:
        model.fit(ratings(people=30, items=20))
    assert type(caught.value) is KeyboardInterrupt
    assert not hasattr(model, "fit_")


def test_one_held_out_entry_is_enough_to_select_a_ridge():
    data = np.random.default_rng(2).normal(size=(4, 2))
    data[np.random.default_rng(0).random((4, 2)) < 0.2] = np.nan
    selected = select_ridge(TensorData.from_array(data), 1, 0, center=False, loss="squared", seed=0)
    assert selected.ridge == min(dict(selected.tried), key=dict(selected.tried).get)
