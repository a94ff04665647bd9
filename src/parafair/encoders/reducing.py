"""From entries to a fit whose rows are those of an encoder.

A matrix ``X`` becomes ``A B.T`` with ``A`` the rows of the encoder and ``B`` by least squares. For
a tensor the encoder gives rows ``Z``, and the people's factor is ``A = Z T``: the best one whose
columns are in the span of ``Z``, together with the other factors. With an orthonormal basis ``Q``
of that span, these are the factors of the small tensor ``Q.T X``: Carroll, Pruzansky and Kruskal,
"CANDELINC", 1980. The encoder is followed by ``T``, so ``A`` is what it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.algebra.quadratic import QuadraticForm
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import ComposableEncoder, Reduction
from parafair.encoders.result import EncodedFit
from parafair.encoders.unfolding import unfold
from parafair.errors import Interrupted
from parafair.solvers.fitting import fill_empty
from parafair.solvers.loop import OnFit, OnIteration, Solver, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Iteration, Status, Stop
from parafair.solvers.sweep import Sweep


def reduce(
    problem: Problem,
    reduction: Reduction,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[EncodedFit, ...]:
    """Return one fit per start; all of them have rows of the same span.

    People without sensitive features get a row, but the encoder is computed from the others. People
    without entries get the mean row.

    Args:
        problem: What to decompose, with sensitive features and without a penalty.
        reduction: The method.
        solver: The solver, for a tensor of more than two modes.
        starts: One factor (batch, size, rank) per mode.
        stop: When a member stops.
        on_iteration: Called after each iteration, as in `solve_batch`.
        on_fit: Called with the position of a member and its fit as soon as it is finished.

    Raises:
        ValueError: If an entry of a person with entries is missing.
    """
    begin = perf_counter()
    task = _Reducing.of(problem, reduction)
    finished: dict[int, EncodedFit] = {}

    def finish(member: int, fit: Fit) -> None:
        finished[member] = task.expanded(fit, seconds)
        if on_fit is not None:
            on_fit(member, finished[member])

    if problem.order == 2:
        fit = task.matrix_fit(begin)
        for member in range(len(starts[0])):
            finished[member] = fit
            if on_fit is not None:
                on_fit(member, fit)
        return tuple(finished.values())
    seconds = perf_counter() - begin
    try:
        solve_batch(
            task.small,
            solver,
            starts=task.compressed(starts),
            stop=stop,
            on_iteration=on_iteration,
            on_fit=finish,
        )
    except Interrupted as interruption:
        raise Interrupted(task.expanded(interruption.fit, seconds)) from interruption
    return tuple(finished[member] for member in range(len(starts[0])))


@dataclass(frozen=True, eq=False)
class _Reducing:
    """A problem of which an encoder has been computed.

    Attributes:
        problem: The problem.
        present: Positions of the people with entries; None for everybody.
        data: Their entries.
        encoder: The encoder.
        basis: An orthonormal basis of the span of its rows, shape (people, rank), float64.
        triangle: Its rows are `basis` times this.
    """

    problem: Problem
    present: Tensor | None
    data: TensorData
    encoder: ComposableEncoder
    basis: Tensor
    triangle: Tensor

    @classmethod
    def of(cls, problem: Problem, reduction: Reduction) -> _Reducing:
        mode, empty = problem.mode, problem.empty[problem.mode]
        data, present = problem.data, None
        if len(empty):
            counts = problem.observations.counts(mode)
            present = (counts > 0).nonzero().flatten()
            data = data.take(mode, present.cpu().numpy())
        entries = unfold(data, mode)
        known = problem.penalized
        if known is not None and present is not None:
            known = torch.searchsorted(present, known)
        encoder = reduction.encoder_for(
            entries if known is None else entries[known],
            problem.penalized_features,
            rank=problem.rank,
            mode=mode,
        )
        rows = encoder.encode(data).double()
        return cls(problem, present, data, encoder, *torch.linalg.qr(rows))

    def matrix_fit(self, begin: float) -> EncodedFit:
        """Return the fit of a matrix: the other factor by least squares."""
        other = 1 - self.problem.mode
        rows = self.encoder.encode(self.data)
        factors = [rows, rows]
        factors[other] = rows.new_zeros(self.data.shape[other], rows.shape[1])
        plain = replace(self.problem, data=self.data, sensitive=None)
        batch = [factor.unsqueeze(0) for factor in factors]
        block = Sweep(plain, batch).block(other)
        factors[other] = block.minimizer(QuadraticForm.zero(batch[other]))[0]
        judged = plain.evaluate([factor.unsqueeze(0) for factor in factors])
        last = Iteration.of(judged, perf_counter() - begin)
        fit = Fit(CPTensor.from_factors(factors), Status.CONVERGED, (last,))
        return self._completed(fit, self.encoder)

    @cached_property
    def small(self) -> Problem:
        """The problem of the small tensor."""
        mode, values = self.problem.mode, self.data.to_dense().values
        small = torch.tensordot(self.basis.to(values), values, ([0], [mode])).movedim(0, mode)
        return replace(self.problem, data=TensorData(small.contiguous()), sensitive=None)

    def compressed(self, starts: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return starts for the small tensor."""
        found, mode = list(starts), self.problem.mode
        people = found[mode] if self.present is None else found[mode][:, self.present]
        found[mode] = self.basis.to(people).mT @ people
        return tuple(found)

    def expanded(self, fit: Fit, seconds: float) -> EncodedFit:
        """Return a fit of the small tensor as one of the given tensor.

        Args:
            fit: The fit.
            seconds: Time before it began.
        """
        mode, factors = self.problem.mode, list(fit.cp.factors)
        matrix = torch.linalg.solve_triangular(
            self.triangle, factors[mode].to(self.triangle), upper=True
        )
        encoder = self.encoder.then(matrix)
        factors[mode] = encoder.encode(self.data)
        history = tuple(self._of_everything(entry, seconds) for entry in fit.history)
        cp = CPTensor.from_factors(factors)
        return self._completed(replace(fit, cp=cp, history=history), encoder)

    def _of_everything(self, entry: Iteration, seconds: float) -> Iteration:
        """Return an entry of the history with the part of the data that is not in the span."""
        norm, count = self.problem.norm_squared, self.problem.count
        share = self.small.count / count
        loss = entry.loss * share + max(0.0, norm - self.small.norm_squared) / count
        return Iteration(
            objective=loss + entry.penalty * share,
            loss=loss,
            penalty=entry.penalty * share,
            residual=(loss * count / norm) ** 0.5,
            seconds=entry.seconds + seconds,
        )

    def _completed(self, fit: Fit, encoder: ComposableEncoder) -> EncodedFit:
        """Return a fit of the people with entries as one of everybody."""
        if self.present is not None:
            factors, mode = list(fit.cp.factors), self.problem.mode
            rows = factors[mode].new_zeros(self.problem.shape[mode], fit.cp.rank)
            factors[mode] = rows.index_copy(0, self.present, factors[mode])
            cp = fill_empty(self.problem, CPTensor.from_factors(factors))
            fit = replace(fit, cp=cp)
        return EncodedFit.of(fit, encoder)
