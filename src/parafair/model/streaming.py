"""Fits to data that is streamed from files: what they support, their memory and their start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import size_text
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.streamed import StreamedData, drawn_people
from parafair.data.tensor_data import TensorData
from parafair.dependence.chunks import CHUNK_PEOPLE, chunk_count, parts_of_chunks
from parafair.errors import Interrupted
from parafair.losses import is_squared
from parafair.penalties import ScorePenalty, Transport
from parafair.penalties.base import moves_scale
from parafair.penalties.postprocessing import MappedPostprocessing
from parafair.solvers import LBFGS, decompose_plain
from parafair.solvers.init import RANDOM_INITS, make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.sampling import agreed, least_squares_rows
from parafair.solvers.sharing import gather_entries, gather_people
from parafair.team import Team

if TYPE_CHECKING:
    from parafair.model.preparation import Settings
    from parafair.solvers.loop import OnIteration
    from parafair.solvers.result import Fit

# People in memory to whom the ridge is selected and the start is fitted.
SAMPLE = 20_000

# Memory of a fit, in bytes: Python and its libraries; an entry of a tile, of which one is in use
# and one is read; an entry of the sample; and labels and counts of a person. These are estimates
# that measured peaks stay below; see tests/model/test_streaming.py.
BASE, PER_TILED, PER_SAMPLED, PER_PERSON = 600 * 10**6, 220, 300, 64

# Copies of the people's rows that are held at once, without and with the earlier steps of L-BFGS,
# and further ones of the criterion; and copies of everybody's rows, if several processes put them
# together at the end.
ROW_COPIES, LBFGS_COPIES, CRITERION_COPIES, GATHERED_COPIES = 14, 12, 30, 8


@dataclass(frozen=True)
class MemoryPlan:
    """How much memory a fit to streamed data needs, in bytes.

    Attributes:
        base: Python and its libraries.
        rows: Rows of people: factors, gradients, earlier steps; of the largest share of a process.
        people: Labels and counts of everybody, and their rows if processes put them together.
        sample: People in memory where a fit begins.
        least_tile: Two tiles of one row group each, the largest.
    """

    base: int
    rows: int
    people: int
    sample: int
    least_tile: int

    @classmethod
    def of(
        cls, settings: Settings, data: StreamedData, rank: int, *, share: float = 1.0
    ) -> MemoryPlan:
        """Return the plan of a fit.

        Args:
            settings: Those of the model.
            data: The data of everybody.
            rank: The number of components.
            share: The largest share of the people that a process has.
        """
        n, number = data.shape[0], data.like.element_size()
        copies = ROW_COPIES
        if isinstance(settings.solver, LBFGS):
            # Its earlier steps, with their changes of the gradient, before and after an update.
            copies = LBFGS_COPIES + 4 * settings.solver.memory
        if moves_scale(settings.penalty):
            copies += CRITERION_COPIES
        others = copies * sum(data.shape[1:]) * rank * number
        sampled = min(n, SAMPLE) * data.observed // n
        gathered = 0 if share == 1 else GATHERED_COPIES * n * rank * number
        return cls(
            BASE,
            int(share * copies * n * rank * number) + others,
            PER_PERSON * n + gathered,
            PER_SAMPLED * sampled,
            2 * PER_TILED * int(data.source.sizes.max()),
        )

    @property
    def least(self) -> int:
        """The memory without which the fit does not run."""
        # The sample is gone before the first pass, and tiles are there in every pass.
        return self.base + self.people + self.rows + max(self.sample, self.least_tile)

    def tile(self, memory: int) -> int:
        """Return the number of entries of a tile."""
        free = memory - self.base - self.people - self.rows
        return free // (2 * PER_TILED)

    def __str__(self) -> str:
        return (
            f"{size_text(self.rows)} for rows of people, {size_text(self.people)} for their "
            f"labels, {size_text(max(self.sample, self.least_tile))} for entries and "
            f"{size_text(self.base)} for Python"
        )


def check_stream(
    settings: Settings,
    data: StreamedData,
    mode: int,
    *,
    features: SensitiveFeatures | None = None,
    side: bool = False,
    processes: int = 1,
) -> StreamedData:
    """Return streamed data with tiles of the right size; raise if a fit does not support it.

    Args:
        settings: Those of the model.
        data: The data.
        mode: The mode of the people.
        features: Their sensitive features; None without any.
        side: Whether there is side information.
        processes: How many processes fit the model together.
    """
    model = settings.model
    refused = {
        f"mode {data.modes[mode]!r}; people are the first mode": mode != 0,
        f"loss={model.loss!r}": not is_squared(settings.loss),
        f"method={model.method!r}": settings.reduction is not None
        or isinstance(settings.penalty, ScorePenalty)
        or isinstance(settings.postprocessing, (Transport, MappedPostprocessing)),
        f"encoder={model.encoder!r}": settings.encoder is not None,
        f"non_negative={model.non_negative!r}": bool(model.non_negative),
        type(model).__name__: model.structured,
        "side information": side,
        f"init={model.init!r}": isinstance(model.init, str) and model.init not in RANDOM_INITS,
    }
    for what, found in refused.items():
        if found:
            raise ValueError(
                f"streamed data does not support {what}; use FairCP with squared errors and "
                "method='none', 'invariant', 'hsic' or 'fatr', or read the data into memory with "
                "TensorData.from_table"
            )
    if data.memory is None:
        return data
    share = _largest_share(settings, features, processes)
    plan = MemoryPlan.of(settings, data, model.rank, share=share)
    if data.memory < plan.least:
        raise MemoryError(
            f"memory={size_text(data.memory)} is too little for this fit, which needs "
            f"{size_text(plan.least)}{' in each process' * (processes > 1)}: {plan}; allow that "
            "much, lower the rank, or use dtype='float32'"
        )
    return data.with_tile(min(data.tile, plan.tile(data.memory)))


def sample_of(data: StreamedData, seed: int, team: Team) -> TensorData:
    """Return a random sample of people in memory, of whom each process reads some."""
    own, share = data.turn(team)
    return gather_entries(own, 0, share, drawn_people(data.shape[0], SAMPLE, seed))


def _largest_share(settings: Settings, features: SensitiveFeatures | None, processes: int) -> float:
    """Return the largest share of the people that a process has, if each has whole parts."""
    if processes == 1 or features is None or not moves_scale(settings.penalty):
        return 1 / processes
    size = getattr(settings.penalty, "chunk_size", CHUNK_PEOPLE)
    parts = int(parts_of_chunks(chunk_count(features.with_features(), size))[-1]) + 1
    return min(1.0, -(-parts // processes) / parts)


def sampled_start(
    problem: Problem, settings: Settings, seed: int, on_iteration: OnIteration | None = None
) -> tuple[Tensor, ...]:
    """Return a start, each (1, size, rank): a plain fit to a sample of the people of all processes.

    The sample has the other factors; everybody gets the least-squares row.

    Args:
        problem: The problem.
        settings: Those of the model.
        seed: The seed of the sample and of its random starts.
        on_iteration: Called after each iteration.

    Raises:
        Interrupted: On Ctrl-C, with the plain fit so far and rows for everybody.
    """
    assert isinstance(problem.data, StreamedData)
    init = settings.model.init
    assert isinstance(init, str)
    few = replace(
        problem,
        data=gather_people(problem, drawn_people(problem.shape[0], SAMPLE, seed)),
        penalty=None,
        sensitive=None,
        other_sensitive={},
        share=None,
    )
    try:
        (fit,) = decompose_plain(
            few,
            starts=make_starts(few, init, count=settings.n_init, seed=seed),
            each=settings.n_init,
            stop=settings.stop,
            on_iteration=on_iteration,
        )
    except Interrupted as interruption:
        factors = [factor[0] for factor in _everybody(problem, interruption.fit)]
        fit = replace(interruption.fit, cp=CPTensor.from_factors(factors))
        raise Interrupted(fit, strength=0.0) from interruption
    return _everybody(problem, fit if problem.share is None else agreed(fit, problem.team))


def _everybody(problem: Problem, fit: Fit) -> tuple[Tensor, ...]:
    """Return the factors of a fit to a sample with rows for everybody, each (1, size, rank)."""
    others = [factor[None] for factor in fit.cp.factors[1:]]
    return least_squares_rows(problem, others), *others
