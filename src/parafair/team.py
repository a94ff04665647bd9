"""Processes that fit one model together: each has some of the people, and sums are over all.

A fit needs few sums over people, and their sizes do not depend on how many people there are. Every
function that forms one takes a team. A team of one adds nothing, and is the default everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from parafair.errors import ParafairWarning, TeamError, warn
from parafair.failures import reason_of
from parafair.torchrun import process_count

T = TypeVar("T")


class Channel(Protocol):
    """How the processes of a team exchange numbers; all of them call the same things in order."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0 on."""

    @property
    def size(self) -> int:
        """How many processes there are."""

    def add(self, part: Tensor) -> None:
        """Replace a tensor by the sum over all processes."""

    def maximum(self, part: Tensor) -> None:
        """Replace a tensor by the largest of all processes, entry by entry."""

    def collect(self, part: Tensor) -> list[Tensor]:
        """Return the tensors of all processes, which have the same shape."""

    def of_first(self, value: Any) -> Any:
        """Return the value of process 0, in each process."""


@dataclass(frozen=True, eq=False)
class GroupChannel:
    """A process group of torch: gloo between CPUs, nccl between GPUs.

    Attributes:
        group: The process group.
    """

    group: Any

    @property
    def rank(self) -> int:
        """The number of this process."""
        return distributed.get_rank(self.group)

    @property
    def size(self) -> int:
        """How many processes there are."""
        return distributed.get_world_size(self.group)

    def add(self, part: Tensor) -> None:
        """Replace a tensor by the sum over all processes."""
        with _together(self.group):
            distributed.all_reduce(part, group=self.group)

    def maximum(self, part: Tensor) -> None:
        """Replace a tensor by the largest of all processes."""
        with _together(self.group):
            distributed.all_reduce(part, op=distributed.ReduceOp.MAX, group=self.group)

    def collect(self, part: Tensor) -> list[Tensor]:
        """Return the tensors of all processes."""
        found = [torch.empty_like(part) for _ in range(self.size)]
        with _together(self.group):
            distributed.all_gather(found, part.contiguous(), group=self.group)
        return found

    def of_first(self, value: Any) -> Any:
        """Return the value of process 0, in each process."""
        found = [value]
        with _together(self.group):
            source = distributed.get_global_rank(self.group, 0)
            distributed.broadcast_object_list(found, source, group=self.group)
        return found[0]


@contextmanager
def _together(group: Any = None) -> Iterator[None]:
    """Say what it means if the processes of a group lose each other."""
    try:
        yield
    except RuntimeError as error:
        if "Duplicate GPU" in str(error):
            raise TeamError(
                "two processes of this fit use the same GPU, which nccl refuses; call "
                "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before "
                "init_process_group, start as many processes as there are GPUs, or use the "
                "backend 'gloo'"
            ) from error
        told = reason_of(group)
        if told:
            raise TeamError(
                f"another process of this fit has ended, {told}. This process ends too; start all "
                "of them again, and with a checkpoint the fit continues there"
            ) from error
        # Without the line of code of gloo before it, and its guesses after it.
        reason = re.sub(r"^\[[^\]]*\] *", "", str(error).strip()).splitlines()[0].split(". ")[0]
        raise TeamError(
            f"another process of this fit has ended or cannot be reached ({reason}); its own "
            "message says why. Start all of them again; with a checkpoint, the fit continues there"
        ) from error


class Team:
    """The processes of a fit.

    Args:
        channel: How they exchange numbers; None for a process alone.
        device: Where tensors must be to be sent; None for where they are.
    """

    def __init__(self, channel: Channel | None = None, device: torch.device | None = None) -> None:
        self._channel = channel
        self._device = device
        self.messages = 0
        self.bytes = 0

    @property
    def rank(self) -> int:
        """The number of this process; process 0 writes files and prints."""
        return 0 if self._channel is None else self._channel.rank

    @property
    def size(self) -> int:
        """How many processes there are."""
        return 1 if self._channel is None else self._channel.size

    @property
    def is_alone(self) -> bool:
        """Whether this process has all people."""
        return self._channel is None

    def sum(self, part: Tensor) -> Tensor:
        """Return the sum over all processes, the same in each of them."""
        if self._channel is None:
            return part
        sent = self._sent(part)
        self._channel.add(sent)
        return sent.to(part.device)

    def sums(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums of several tensors by one message, in the widest of their dtypes."""
        if self._channel is None:
            return list(parts)
        wide = torch.float64 if any(p.dtype == torch.float64 for p in parts) else parts[0].dtype
        total = self.sum(torch.cat([part.flatten().to(wide) for part in parts]))
        found = total.split([part.numel() for part in parts])
        return [one.reshape(p.shape).to(p.dtype) for one, p in zip(found, parts, strict=True)]

    def largest(self, part: Tensor) -> Tensor:
        """Return the largest of all processes, entry by entry."""
        if self._channel is None:
            return part
        sent = self._sent(part)
        self._channel.maximum(sent)
        return sent.to(part.device)

    def count(self, own: int) -> int:
        """Return the sum of a whole number over all processes."""
        if self._channel is None:
            return own
        return int(self.sum(torch.tensor([own], dtype=torch.long, device="cpu")))

    def add(self, own: float) -> float:
        """Return the sum of a number over all processes."""
        if self._channel is None:
            return own
        return float(self.sum(torch.tensor([own], dtype=torch.float64, device="cpu")))

    def mean(self, rows: Tensor) -> tuple[Tensor, int]:
        """Return the mean of rows (..., n, rank) over all people, with n = 1, and their number."""
        if self._channel is None:
            return rows.mean(-2, keepdim=True), rows.shape[-2]
        own = torch.tensor([rows.shape[-2]], dtype=torch.float64, device=rows.device)
        total, n = self.sums([rows.sum(-2, keepdim=True), own])
        people = int(n)
        return total / people, people

    def collect(self, rows: Tensor) -> list[Tensor]:
        """Return tensors of all processes that may differ in their first dimension."""
        if self._channel is None:
            return [rows]
        mine = torch.tensor([len(rows)], dtype=torch.long, device="cpu")
        lengths = [int(one) for one in self._channel.collect(self._sent(mine))]
        filled = rows.new_zeros(max(lengths), *rows.shape[1:])
        filled[: len(rows)] = rows
        found = self._channel.collect(self._sent(filled))
        return [one[:n].to(rows.device) for one, n in zip(found, lengths, strict=True)]

    def collect_alike(self, part: Tensor) -> list[Tensor]:
        """Return tensors of all processes, of the same shape, by one message."""
        if self._channel is None:
            return [part]
        return [one.to(part.device) for one in self._channel.collect(self._sent(part))]

    def agree(self, part: Tensor) -> Tensor:
        """Return the tensor of process 0, in each process; all of them have the same shape."""
        return self.sum(part if self.rank == 0 else torch.zeros_like(part))

    def tell(self, text: str) -> list[str]:
        """Return the texts of all processes, in order."""
        data = torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)
        return [bytes(one.tolist()).decode().strip() for one in self.collect(data.clone())]

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Let all processes fail if one of them does, with what it found.

        What is checked must send no messages: some processes would wait for those that fail.
        """
        found: ValueError | None = None
        try:
            yield
        except ValueError as error:
            if self._channel is None:
                raise
            found = error
        if self._channel is None:
            return
        for rank, text in enumerate(self.tell("" if found is None else str(found))):
            if text:
                raise ValueError(f"{text} (found by process {rank})") from found

    def first(self, compute: Callable[[], T]) -> T:
        """Return what process 0 computes, or raise its error, in each process; the others wait.

        Args:
            compute: Sends no messages. What it returns must survive pickling.
        """
        if self._channel is None:
            return compute()
        result: Any = None
        failure: Exception | None = None
        if self.rank == 0:
            try:
                result = compute()
            except Exception as error:
                failure = error
        found, told = self._channel.of_first((result, failure))
        if told is not None:
            raise failure or told
        return found  # type: ignore[no-any-return]

    def _sent(self, part: Tensor) -> Tensor:
        """Return a copy that can be sent, and count it."""
        self.messages += 1
        self.bytes += part.numel() * part.element_size()
        return part.to(self._device or part.device, copy=True).contiguous()


ALONE = Team()

# How long a process waits for the others before it gives up: one of them may still read its data.
PATIENCE = timedelta(minutes=30)


def team_of(process_group: Any) -> Team:
    """Return the team of a process group of torch; None for this process alone.

    Args:
        process_group: As `torch.distributed.new_group` returns it, or
            ``torch.distributed.group.WORLD``.
    """
    if process_group is None:
        _warn_of_other_processes()
        return ALONE
    known = distributed.is_available() and distributed.is_initialized()
    if not known or not isinstance(process_group, distributed.ProcessGroup):
        raise TypeError(
            "process_group must be a process group of torch.distributed, such as "
            f"torch.distributed.group.WORLD, got {type(process_group).__name__}; call "
            "torch.distributed.init_process_group first, or leave process_group out"
        )
    if distributed.get_world_size(process_group) == 1:
        return ALONE
    cuda = "nccl" in str(distributed.get_backend(process_group))
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    return Team(GroupChannel(process_group), device)


def _warn_of_other_processes() -> None:
    """Warn if torchrun started several processes, and nobody made a group of them."""
    size = process_count()
    made = distributed.is_available() and distributed.is_initialized()
    if size > 1 and not made:
        warn(
            f"this is one of {size} processes that torchrun started, but it fits a model of its "
            "own; to fit one together, call torch.distributed.init_process_group and pass "
            "process_group=torch.distributed.group.WORLD",
            ParafairWarning,
            stacklevel=4,
        )


@dataclass(frozen=True, eq=False)
class Share:
    """The people of one process.

    Attributes:
        team: All processes.
        people: How many people all of them have together.
        places: The positions of the people of this process among all, in ascending order.
    """

    team: Team
    people: int
    places: NDArray[np.intp]

    def own(self, rows: Tensor) -> Tensor:
        """Return the rows of the people of this process, of rows (..., people, rank) of all."""
        return rows[..., torch.from_numpy(self.places).to(rows.device), :]

    def whole(self, rows: Tensor) -> Tensor:
        """Return the rows of all people, of those of this process, shape (n, ...)."""
        places = torch.from_numpy(self.places).to(rows.device)
        found = rows.new_empty(self.people, *rows.shape[1:])
        found[torch.cat(self.team.collect(places))] = torch.cat(self.team.collect(rows))
        return found
