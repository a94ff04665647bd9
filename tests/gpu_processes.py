"""Fits by a process group on one GPU: nccl with one process, gloo with several."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from parafair import FairCP
from parafair.penalties import Invariant
from parafair.team import ALONE, GroupChannel, Team

METHODS = {"none": "none", "hsic": "hsic", "invariant": Invariant(20.0, chunk_size=250)}


@dataclass(frozen=True)
class GroupFit:
    """A fit that each process of a group runs; it survives pickling.

    Attributes:
        method: One of `METHODS`.
        missing: The share of entries that are missing.
        people: Number of people.
        device: The device of the fit.
        max_iter: Iterations.
    """

    method: str
    missing: float
    people: int = 4000
    device: str = "cuda"
    max_iter: int = 5

    def __call__(self, group):
        """Return residual, embedding, seconds and messages; None fits with this process alone."""
        team, nccl = ALONE, False
        if group is not None:
            nccl = "nccl" in str(torch.distributed.get_backend(group))
            # A group of one process is no team for `fit`: here its sums travel nevertheless.
            team = Team(
                GroupChannel(group), torch.device("cuda", 0) if nccl else torch.device("cpu")
            )
        import parafair.model.fair_model as module

        before, module.team_of = module.team_of, lambda _: team
        try:
            tensor, groups = self.data()
            model = FairCP(
                4,
                method=METHODS[self.method],
                ridge=1.0,
                n_init=1,  # rough fits are in single precision
                max_iter=self.max_iter,
                tol=0.0,
                random_state=0,
                device=self.device,
            )
            begin = perf_counter()
            model.fit(tensor, sensitive_features=groups, process_group=group)
            seconds = perf_counter() - begin
        finally:
            module.team_of = before
        return model.fit_.residual, model.embedding_, seconds, team.messages

    def data(self):
        """Return a tensor of people and groups that differ, the same in every process."""
        random = np.random.default_rng(0)
        groups = random.integers(0, 2, self.people)
        rows = random.normal(size=(self.people, 4)) + groups[:, None] * random.normal(size=4)
        others = random.normal(size=(2, 10, 4))
        tensor = np.einsum("ir,jr,kr->ijk", rows, *others, optimize=True)
        tensor += 0.3 * random.normal(size=tensor.shape)
        tensor[random.random(tensor.shape) < self.missing] = np.nan
        return tensor, groups
