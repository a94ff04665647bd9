"""Several processes fit what one does: penalties on scores, signs, and every loss."""

import warnings

import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData
from parafair.losses import LOSSES

from ..processes import together

PEOPLE = 60
random = np.random.default_rng(0)
# Almost sorted: the second of two processes has nobody of the first group.
GROUPS = np.array(["a", "b", "c"])[np.arange(PEOPLE) // 21]
SOME = SensitiveFeatures.of(
    np.where(np.isin(np.arange(PEOPLE), [1, 30, 55]), None, GROUPS), missing="exclude"
)
MEAN = np.einsum(
    "ir,jr,kr->ijk",
    random.random((PEOPLE, 2)) + (GROUPS == "a")[:, None],
    random.random((5, 2)),
    random.random((4, 2)),
)
ENTRIES = {
    "numbers": MEAN + 0.1 * random.normal(size=MEAN.shape),
    "counts": random.poisson(MEAN).astype(float),
    "events": (random.random(MEAN.shape) < MEAN / MEAN.max()).astype(float),
}
MISSING = random.random(MEAN.shape) < 0.3
MISSING[[3, 50]] = True  # people without entries
SCORES = ("mean-matching", "bhattacharyya", "mutual-information")
STORED = ("complete", "masked", "sparse")


def data_of(entries, stored):
    """The entries as a stored tensor; some are missing if it is not complete."""
    if stored == "complete":
        return entries
    if stored == "masked":
        return np.where(MISSING, np.nan, entries)
    found = (np.argwhere(~MISSING).T, entries[~MISSING], entries.shape)
    return TensorData.from_array(torch.sparse_coo_tensor(*found, check_invariants=True))


def fit_of(entries, group, stored="complete", groups=GROUPS, **settings):
    """Factors and objective after some iterations, of one process or of several."""
    X = data_of(entries, stored)
    ridge = 0.0 if stored == "complete" else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairCP(2, max_iter=5, tol=0.0, ridge=ridge, random_state=0, **settings)
        model.fit(X, sensitive_features=groups, process_group=group)
    return [*(factor.numpy() for factor in model.cp_.factors), np.array(model.fit_.objective)]


def check_same(folder, size, fits, tolerance=1e-7):
    """Raise unless several processes find what one finds, for each of some fits."""

    def work(group):
        return [fit_of(entries, group, **settings) for entries, settings in fits]

    expected = work(None)
    for process in together(folder, size, work):
        assert not isinstance(process, BaseException), process
        for found, one in zip(process, expected, strict=True):
            for own, other in zip(found, one, strict=True):
                assert np.abs(own - other).max() <= tolerance * np.abs(other).max()


def test_scores_are_compared_among_the_people_of_all_processes(tmp_path):
    entries = ENTRIES["numbers"]
    fits = [
        (entries, {"method": "mean-matching", "strength": 5.0}),
        (entries, {"method": "mutual-information", "center": True, "stored": "masked"}),
        (entries, {"method": "bhattacharyya", "stored": "sparse", "groups": SOME}),
    ]
    check_same(tmp_path, 2, fits)


@pytest.mark.slow
@pytest.mark.parametrize("method", SCORES)
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("loss", ["squared", "poisson", "poisson-identity"])
def test_penalties_on_scores_with_three_processes(tmp_path, method, stored, loss):
    entries = ENTRIES["numbers" if loss == "squared" else "counts"]
    settings = {"method": method, "strength": 5.0, "stored": stored, "loss": loss}
    check_same(tmp_path, 3, [(entries, settings)])


def entries_for(loss):
    """Entries that a loss allows."""
    return next(
        entries
        for entries in (ENTRIES["events"], ENTRIES["counts"], np.abs(ENTRIES["numbers"]) + 0.1)
        if loss.accepts(torch.from_numpy(entries)).all()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_with_two_processes(tmp_path, name):
    entries = entries_for(LOSSES[name])
    fits = [
        (entries, {"method": method, "loss": name, "stored": stored, "solver": solver})
        for method, solver in (("none", "block"), ("none", "lbfgs"), ("hsic", "block"))
        for stored in STORED
    ]
    check_same(tmp_path, 2, fits)


def test_a_process_whose_people_have_no_events_begins_where_the_others_do(tmp_path):
    counts = ENTRIES["counts"].copy()
    counts[40:] = 0.0
    fits = [
        (counts, {"method": "none", "loss": "poisson", "solver": "lbfgs"}),
        (counts, {"method": "none", "loss": "poisson-identity"}),
    ]
    check_same(tmp_path, 2, fits)


@pytest.mark.slow
@pytest.mark.parametrize("modes", [True, (0,), (1,)], ids=str)
@pytest.mark.parametrize("method", ["none", "hsic", "fatr", "mean-matching"])
def test_non_negative_factors_with_three_processes(tmp_path, modes, method):
    fits = [
        (np.abs(ENTRIES["numbers"]), {"method": method, "non_negative": modes, "stored": stored})
        for stored in STORED
    ]
    check_same(tmp_path, 3, fits)


def message_of(group, X, groups, **settings):
    try:
        FairCP(2, **settings).fit(X, sensitive_features=groups, process_group=group)
    except ValueError as error:
        return str(error)
    return "fitted"


def test_what_penalties_and_signs_do_not_allow_is_said_by_all_processes(tmp_path):
    below = np.abs(ENTRIES["numbers"])
    below[58, 1, 3] = -1.0

    def work(group):
        numbers = message_of(group, below, np.arange(PEOPLE) / 7, method="mean-matching")
        signs = message_of(group, below, GROUPS, method="none", non_negative=True)
        return numbers, signs

    for numbers, signs in together(tmp_path, 2, work):
        assert "MeanMatching compares groups, but sensitive feature" in numbers
        assert "got -1 at mode_0 58, mode_1 1, mode_2 3" in signs
        assert signs.endswith("(found by process 1)")
