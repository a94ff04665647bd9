"""What several processes cannot fit together is refused, before any work."""

import numpy as np
import pytest
import torch
from torch import distributed

from parafair import FairCP, FairTucker, TensorData
from parafair.errors import TeamError

from ..processes import together

TENSOR = np.random.default_rng(0).normal(size=(40, 4, 3))
GROUPS = np.array(["a", "b"])[np.arange(40) % 2]

REFUSED = {
    "strength='auto'": FairCP(2, strength="auto"),
    "encoder='linear'": FairCP(2, encoder="linear"),
    "method='transport'": FairCP(2, method="transport"),
    "method='leace'": FairCP(2, method="leace"),
    "FairTucker; use FairCP, or leave process_group out": FairTucker((2, 2, 2)),
    "init='svd'": FairCP(2, method="none", init="svd"),
    "solver='gradient'": FairCP(2, method="none", solver="gradient"),
    "method='invariant'; leave solver out, or leave process_group": FairCP(2, solver="block"),
    "got KHSIC": FairCP(2, method="khsic"),
    "has 2 processes": FairCP(2),  # 40 people are one part
}


def message_of(model, group, **more):
    try:
        model.fit(TENSOR, sensitive_features=GROUPS, process_group=group, **more)
    except (ValueError, TeamError) as error:
        return f"{type(error).__name__}: {error}"
    return "fitted"


def test_what_needs_all_people_is_refused(tmp_path):
    def work(group):
        return [message_of(model, group) for model in REFUSED.values()]

    for messages in together(tmp_path, 2, work):
        for reason, message in zip(REFUSED, messages, strict=True):
            assert message.startswith("ValueError: process_group ")
            assert reason in message


def test_data_that_cannot_be_shared_is_refused_before_a_ridge_is_selected(tmp_path, monkeypatch):
    def work(group):
        monkeypatch.setattr("parafair.model.preparation.select_ridge", None)
        thin, model = np.where(TENSOR > 1, np.nan, TENSOR), FairCP(2, method="none")
        zeros = TensorData(torch.ones(3), torch.eye(3).long(), (40, 4, 3), absent="zero")
        found = []
        for data, side in ((thin, np.ones((40, 2))), (zeros, None)):
            try:
                model.fit(data, side=side, process_group=group)
            except ValueError as error:
                found.append(str(error))
        return found

    for side, zeros in together(tmp_path, 2, work):
        assert side.startswith("process_group does not support side;")
        assert zeros.startswith("process_group does not support absent='zero';")


def test_processes_that_differ_are_refused(tmp_path):
    def work(group):
        rank = distributed.get_rank(group)
        models = FairCP(2 + rank, method="none"), FairCP(2, method="none", random_state=None)
        return [message_of(model, group) for model in models]

    for rank, seed in together(tmp_path, 2, work):
        assert rank.startswith("TeamError: processes 0 and 1 differ (rank: 2 there, 3 now")
        assert "(seed: " in seed


def test_the_process_group_must_be_one():
    with pytest.raises(TypeError, match=r"process_group must be a process group .* got str"):
        FairCP(2, method="none").fit(TENSOR, process_group="gloo")


def test_a_process_without_people_of_a_group_takes_part(tmp_path):
    groups = np.array(["a", "b"])[(np.arange(40) < 4).astype(int)]  # in the first process alone

    def work(group):
        model = FairCP(2, method="hsic", max_iter=5, tol=0.0)
        return model.fit(TENSOR, sensitive_features=groups, process_group=group).embedding_

    expected = work(None)
    for found in together(tmp_path, 2, work):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_one_missing_entry_concerns_all_processes(tmp_path):
    tensor = TENSOR.copy()
    tensor[39, 0, 0] = np.nan  # in the last process alone

    def work(group):
        model = FairCP(2, method="hsic", max_iter=5, tol=0.0, ridge=0.0)
        return model.fit(tensor, sensitive_features=GROUPS, process_group=group).embedding_

    expected = work(None)
    for found in together(tmp_path, 2, work):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_process_that_fails_ends_the_others_with_a_message(tmp_path):
    def work(group):
        if distributed.get_rank(group) == 1:
            raise SystemExit("no disk")
        return message_of(FairCP(2, method="none"), group)

    found, _ = together(tmp_path, 2, work)
    assert "another process of this fit has ended or cannot be reached" in found


def test_features_of_other_modes_are_checked_in_each_process(tmp_path):
    random = np.random.default_rng(0)
    matrix, groups = random.normal(size=(40, 6)), np.array(["a", "b"] * 20)

    def work(group):
        features = {0: groups, 1: np.array(["c", "d"] * 3)}
        FairCP(2, method="hsic").fit(matrix, sensitive_features=features, process_group=group)

    for found in together(tmp_path, 2, work):
        assert isinstance(found, ValueError)
        assert "need a scale-free penalty" in str(found)
