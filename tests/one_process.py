"""A process group of one process whose people are shared out nevertheless, as those of many are."""

from contextlib import contextmanager

import torch
from torch import distributed

from parafair.team import GroupChannel, Team


@contextmanager
def shared_by_one(folder, backend, monkeypatch):
    """Yield a process group of this process alone, whose sums all go through its backend.

    Args:
        folder: An empty folder.
        backend: "gloo" or "nccl".
        monkeypatch: That of pytest.
    """
    device = torch.device("cuda", 0) if backend == "nccl" else torch.device("cpu")
    teams = []

    def team(group):
        teams.append(Team(None if group is None else GroupChannel(group), device))
        return teams[-1]

    distributed.init_process_group(backend, f"file://{folder / 'group'}", rank=0, world_size=1)
    monkeypatch.setattr("parafair.model.fair_model.team_of", team)
    try:
        yield distributed.group.WORLD, teams
    finally:
        distributed.destroy_process_group()
