"""Sums over the people of all processes."""

import numpy as np
import pytest
import torch

from parafair import FairCP
from parafair.errors import ParafairWarning, TeamError
from parafair.penalties import Invariant
from parafair.team import ALONE, GroupChannel, Share, Team, _together, team_of

from .one_process import shared_by_one
from .processes import together

ROWS = torch.arange(14.0, dtype=torch.float64, device="cpu").reshape(7, 2)


def totals(group):
    team = team_of(group)
    places = np.array([[0, 3, 4], [1, 2, 5, 6]][team.rank])
    share = Share(team, 7, places)
    own = share.own(ROWS)
    mean, count = team.mean(own)
    return {
        "sum": team.sum(own.sum(0)),
        "sums": team.sums([own.sum(0), own.sum(0).float()]),
        "largest": team.largest(own.amax(0)),
        "mean": mean,
        "count": [count, team.count(len(own)), team.add(float(len(own)))],
        "whole": share.whole(own),
        "agreed": team.agree(own[:1]),
        "told": team.tell(f"process {team.rank}"),
        "own": own,  # unchanged by all that
        "traffic": (team.messages, team.bytes),
    }


def test_sums_are_over_the_people_of_all_processes(tmp_path):
    found = together(tmp_path, 2, totals)
    for rank, process in enumerate(found):
        assert torch.equal(process["sum"], ROWS.sum(0))
        assert torch.equal(process["sums"][0], ROWS.sum(0))
        assert torch.equal(process["sums"][1], ROWS.sum(0).float())
        assert torch.equal(process["largest"], ROWS.amax(0))
        assert torch.equal(process["mean"], ROWS.mean(0, keepdim=True))
        assert process["count"] == [7, 7, 7.0]
        assert torch.equal(process["whole"], ROWS)
        assert torch.equal(process["agreed"], ROWS[:1])
        assert process["told"] == ["process 0", "process 1"]
        assert torch.equal(process["own"], ROWS[[[0, 3, 4], [1, 2, 5, 6]][rank]])
    assert found[0]["traffic"] == found[1]["traffic"]


def test_a_team_of_one_adds_nothing():
    assert team_of(None) is ALONE
    assert (ALONE.rank, ALONE.size) == (0, 1)
    assert ALONE.sum(ROWS) is ROWS
    assert ALONE.tell("here") == ["here"]
    assert ALONE.messages == 0


@pytest.mark.parametrize("method", ["none", "invariant"])
def test_a_process_that_shares_with_nobody_finds_the_fit_of_one(tmp_path, monkeypatch, method):
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, 400)
    tensor = random.normal(size=(400, 5, 4)) + groups[:, None, None]
    kind = Invariant(5.0, chunk_size=50) if method == "invariant" else method
    options = {"method": kind, "max_iter": 2, "tol": 0, "n_init": 1}
    expected = FairCP(2, **options).fit(tensor, sensitive_features=groups)
    with shared_by_one(tmp_path, "gloo", monkeypatch) as (group, teams):
        found = FairCP(2, **options).fit(tensor, sensitive_features=groups, process_group=group)
        assert teams[0].messages > 0
    digits = 1e-3 if method == "invariant" else 1e-9
    np.testing.assert_allclose(found.embedding_, expected.embedding_, rtol=digits, atol=digits)


def test_two_processes_on_one_gpu_are_told_so():
    class Channel(GroupChannel):
        def add(self, part):
            with _together():
                raise RuntimeError("NCCL error: invalid usage\nDuplicate GPU detected : rank 0")

    with pytest.raises(TeamError, match="two processes of this fit use the same GPU"):
        Team(Channel(None)).add(1.0)


def test_a_lost_process_is_told_without_the_code_of_gloo():
    lost = (
        "[/source/gloo/tcp/pair.cc:537] Read error [127.0.0.1]:17: Connection reset by peer. Maybe"
    )
    expected = (
        r"cannot be reached \(Read error \[127.0.0.1\]:17: Connection reset by peer\); its own"
    )
    with pytest.raises(TeamError, match=expected), _together():
        raise RuntimeError(lost)


def test_a_forgotten_group_of_torchrun_is_a_warning(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert team_of(None) is ALONE
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(ParafairWarning, match="one of 2 processes .*init_process_group"):
        assert team_of(None) is ALONE
