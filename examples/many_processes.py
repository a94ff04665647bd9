"""Fit one model with two processes, each of which has half of the people.

Run it as it is, or start the processes yourself, on one machine or on many:

    torchrun --nproc-per-node 2 examples/many_processes.py
"""

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from torch import distributed

from parafair import FairCP
from parafair.errors import ConvergenceWarning
from parafair.penalties import Invariant

PEOPLE = 900


def data():
    """Return a tensor of people, tests and terms, and a group of each person."""
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, PEOPLE)
    people = random.normal(size=(PEOPLE, 2)) + groups[:, None]
    tensor = np.einsum("ir,jr,kr->ijk", people, *random.normal(size=(2, 5, 2)))
    return tensor + 0.3 * random.normal(size=tensor.shape), np.array(["a", "b"])[groups]


def fit():
    """Fit with all processes of torchrun; all of them have the whole model afterwards."""
    distributed.init_process_group("gloo")  # "nccl" for GPUs
    tensor, groups = data()
    # Every process keeps the entries and rows of some people. These are compared in chunks, and a
    # process needs 8 of them: small chunks, because this data is small.
    model = FairCP(rank=2, method=Invariant(strength=10, chunk_size=50), max_iter=20)
    warnings.simplefilter("ignore", ConvergenceWarning)  # 20 iterations are few
    model.fit(
        tensor,
        sensitive_features=groups,
        process_group=distributed.group.WORLD,
        checkpoint=Path(tempfile.gettempdir()) / f"parafair-{os.environ['TORCHELASTIC_RUN_ID']}",
        checkpoint_minutes=5,
    )
    if distributed.get_rank() == 0:
        print(f"{distributed.get_world_size()} processes: {model.fit_!r}")
        print(f"the embedding of all people: {model.embedding_.shape}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        fit()
    else:
        command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
        subprocess.run([sys.executable, "-m", *command], check=True)
