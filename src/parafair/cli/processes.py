"""Commands that several processes run together, started by torchrun."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import distributed

from parafair.cli.options import COMPUTE, defaults, is_given, option
from parafair.model.estimator import FairCP
from parafair.solvers.checkpoints import CURRENT_FILE
from parafair.team import PATIENCE
from parafair.torchrun import process_count

FIT = defaults(FairCP.fit)


@dataclass(frozen=True)
class CheckpointOptions:
    """Where a long fit stores its state."""

    checkpoint: Annotated[
        Path | None,
        option(
            COMPUTE,
            "Folder for checkpoints of a long fit, which continues from one that is there. It has "
            "rows without noise, and is removed when the fit is complete.",
        ),
    ] = FIT["checkpoint"]
    checkpoint_minutes: Annotated[
        float, option(COMPUTE, "Minutes from one checkpoint to the next.")
    ] = FIT["checkpoint_minutes"]

    def settings(self) -> dict[str, Any]:
        """Return arguments of `FairCP.fit`; raise for minutes without a checkpoint."""
        if self.checkpoint is None and is_given("checkpoint_minutes"):
            raise ValueError(
                "--checkpoint-minutes is for fits with a checkpoint; add --checkpoint FOLDER, or "
                "leave it out"
            )
        return dict(vars(self))

    def check_apart(self, out: Path) -> None:
        """Raise if the checkpoint and the result would be in one folder, or one in the other."""
        if self.checkpoint is None:
            return
        own, other = self.checkpoint.resolve(), out.resolve()
        if own.is_relative_to(other) or other.is_relative_to(own):
            raise ValueError(
                f"--checkpoint {self.checkpoint} and --out {out} must be different folders, and "
                "neither in the other: the checkpoint is removed when the fit is complete"
            )

    def after_interruption(self) -> str:
        """Return what can be said about the checkpoint after Ctrl-C; empty without one."""
        if self.checkpoint is None or not (self.checkpoint / CURRENT_FILE).exists():
            return ""
        return f"the checkpoint in {self.checkpoint} stays"


@contextmanager
def process_group(device: str | None) -> Iterator[Any]:
    """Yield the process group of torchrun; None without torchrun.

    Only process 0 prints results (`prints_results`) and writes files.

    Args:
        device: The device of the fit: nccl is between GPUs, gloo between CPUs.
    """
    if process_count() < 2:
        yield None
        return
    distributed.init_process_group(_backend_for(device), timeout=PATIENCE)
    signal.signal(signal.SIGINT, _interrupt_once)
    try:
        yield distributed.group.WORLD
    finally:
        distributed.destroy_process_group()


def _backend_for(device: str | None) -> str:
    """Return how processes exchange sums; those on GPUs get one GPU each.

    Args:
        device: The device of the fit.

    Raises:
        ValueError: If there are not as many GPUs as processes on this machine, or no nccl.
    """
    if device is None or not device.startswith("cuda"):
        return "gloo"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", process_count()))
    if device != "cuda" and here > 1:
        raise ValueError(
            f"--device {device} is one GPU, but torchrun started {here} processes on this machine, "
            "and nccl needs one GPU for each; use --device cuda, which gives each its own"
        )
    if not distributed.is_nccl_available():
        raise ValueError(
            "--device cuda with several processes needs nccl, which this build of torch does not "
            "have; install one with CUDA, or use --device cpu, where gloo takes its place"
        )
    found = torch.cuda.device_count()
    if found < here:
        raise ValueError(
            f"--device cuda needs one GPU for each of the {here} processes that torchrun started "
            f"on this machine, which has {found}; use --nproc-per-node {max(1, found)}, or "
            "--device cpu"
        )
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return "nccl"


def _interrupt_once(*_: object) -> None:
    """Interrupt this process; torchrun passes on a Ctrl-C that the terminal has already sent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def writes_files(group: Any) -> bool:
    """Tell whether this is the process that writes files."""
    return group is None or distributed.get_rank(group) == 0
