"""The problem that a solver minimizes: data, rank and penalty, all checked once."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.coupled import Table
from parafair.algebra.cp_tensor import Factors
from parafair.algebra.observed import Observations
from parafair.algebra.shares import share_entries
from parafair.algebra.tucker_tensor import Multilinear
from parafair.arguments import instance_of, real_number
from parafair.data.centering import Offsets
from parafair.data.checks import check_scale
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.losses import Loss, is_squared, needs_non_negative, resolve_loss
from parafair.penalties import BoundPenalty, BoundScores, Penalty, ScorePenalty
from parafair.penalties.base import moves_scale
from parafair.penalties.bound import deal_chunks, is_in_chunks, scale_strength
from parafair.solvers.binding import bind_penalty, penalty_and_gradients, penalty_of
from parafair.solvers.deviance import Deviance, check_loss
from parafair.solvers.linked_table import FixedTable
from parafair.solvers.non_negative import check_non_negative, project
from parafair.solvers.objective import Objective
from parafair.solvers.parameters import check_structure, pull_back, to_factors
from parafair.solvers.penalized import PenalizedPeople, SharedPeople, check_sensitive
from parafair.solvers.ranks import check_rank
from parafair.solvers.ridge import ridge_diagonal, ridge_value
from parafair.solvers.scores import bind_scores, check_scores
from parafair.solvers.side import Side, check_side
from parafair.solvers.sweep import Sweep
from parafair.team import ALONE, Team

# Below this many rounding errors of ||X||^2, the squared residual is computed from the entries.
CANCELLATION = 1e3

# With fewer entries, single precision saves no time: most of it is not arithmetic.
LEAST_IN_SINGLE = 100_000


@dataclass(frozen=True, eq=False)
class Problem(PenalizedPeople):
    """Minimize ``||X - [[A, B, ...]]||**2 / |X| + penalty(A, S)`` over the factors.

    Sums are over the observed entries, ``|X|`` is their number. A ridge adds
    ``ridge * ||A_r||**2 * mean(B_r**2) * mean(C_r**2) * ... / |X|`` for each component ``r``: the
    squared error on `ridge` extra zero entries per person. Unlike the squared norms of the factors,
    this does not depend on which factor carries the scale.

    Another loss takes the place of the squared error by its deviance; see `parafair.losses`. A
    table of side information adds its own error; see `Side`.

    Attributes:
        data: The data ``X``.
        rank: Number of components.
        mode: The sensitive mode, that of ``A``.
        penalty: Settings of the penalty, or None for a plain CP decomposition.
        sensitive: One row per index of `mode`; required by a penalty.
        ridge: Shrinkage equal to this many extra zero entries per person; rows with few entries
            overfit less.
        other_sensitive: Sensitive features of other modes, by mode, with the same penalty. It must
            be a `ScaleFreePenalty`, because only one mode can carry the scale. The modes of a
            structure follow after those of people and cells, and their rows are those of its bases;
            see `parafair.solvers.parameters`.
        loss: One of `parafair.losses.LOSSES` by name, or an object of a loss, which it becomes.
        offsets: Part of a predicted score; None for nothing. They were subtracted from the data if
            the loss is the squared error, and are intercepts on the scale of its link otherwise.
        non_negative: The modes whose factors are non-negative. If all are, so must be the entries.
        structure: The set of the second factor of a matrix with people in its rows; None for any.
        side: Side information; needs a penalty that is scale-free, if any.
        share: The people of this process, of whom the data is; see `parafair.solvers.sharing`.
        strengths: A strength for each member of a batch, shape (batch,), instead of the
            penalty's; see `with_strengths`.
    """

    data: TensorData
    rank: int
    mode: int = 0
    penalty: Penalty | ScorePenalty | None = None
    sensitive: SensitiveFeatures | None = None
    ridge: float = 0.0
    other_sensitive: Mapping[int, SensitiveFeatures] = field(default_factory=dict)
    loss: Loss = "squared"  # type: ignore[assignment]
    offsets: Offsets | None = None
    non_negative: tuple[int, ...] = ()
    structure: Multilinear | None = None
    side: Side | None = None
    share: SharedPeople | None = None
    strengths: Tensor | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        instance_of("data", self.data, TensorData, "use TensorData.from_array")
        if self.share is not None:
            instance_of("share", self.share, SharedPeople, "use sharing.share_problem, or None")
            check_sensitive(self)  # all else was checked for the people of all processes
            check_scores(self)
            return
        check_scale(self.data)
        check_rank(self.rank, self.shape)
        self.data.find_mode(self.mode)
        check_structure(self.structure, self.shape, self.mode)
        real_number("ridge", self.ridge, least=0)
        object.__setattr__(self, "loss", resolve_loss(self.loss))
        check_loss(self.loss, self.deviance)
        check_non_negative(self.data, self.non_negative)
        check_sensitive(self)
        check_scores(self)
        check_side(self)

    @property
    def is_squared(self) -> bool:
        """Whether the loss is the squared error."""
        return is_squared(self.loss)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes, the people of all processes included."""
        if self.share is None:
            return self.data.shape
        before, after = self.data.shape[: self.mode], self.data.shape[self.mode + 1 :]
        return (*before, self.share.people, *after)

    @property
    def team(self) -> Team:
        """All processes that solve this problem."""
        return ALONE if self.share is None else self.share.team

    @property
    def teams(self) -> tuple[Team, ...]:
        """For each mode, the processes that have some of its rows."""
        return tuple(self.team if mode == self.mode else ALONE for mode in range(self.order))

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def constrained(self) -> bool:
        """Whether a factor is constrained, so that blocks have no exact minimizers."""
        return bool(self.non_negative) or self.structure is not None

    @cached_property
    def observations(self) -> Observations:
        """The observed entries of the people of this process."""
        own, complete = self.data.observations, self.count == prod(self.shape)
        return own if self.share is None else share_entries(own, self.mode, self.team, complete)

    @cached_property
    def count(self) -> int:
        """``|X|``, the number of observed entries, with zeros that are not listed."""
        return self.team.count(self.data.observed)

    @property
    def prototype(self) -> Tensor:
        """An empty tensor with the dtype and device of the data."""
        return self.observations.like

    @cached_property
    def norm_squared(self) -> float:
        """``||X||**2`` over the observed entries."""
        return self.team.add(self.own_norm_squared)

    @property
    def own_norm_squared(self) -> float:
        """The same of this process."""
        return self.observations.norm_squared

    @cached_property
    def table(self) -> Table | None:
        """The side information in the units of the data; None if it has no effect."""
        return None if self.side is None else self.side.scaled(self.total)

    @property
    def cautious(self) -> bool:
        """Whether steps of blocks need a check: weighted squares take the place of the loss."""
        return not self.is_squared or (self.table is not None and not self.table.monotone)

    @cached_property
    def total(self) -> float:
        """The loss of all entries if nothing is explained.

        That is ``||X||**2``, or the deviance of the best constant.
        """
        return self.norm_squared if self.is_squared else self.deviance.null

    @cached_property
    def deviance(self) -> Deviance:
        """The deviance of models, for a loss that is no squared error."""
        return Deviance(self.loss, self.data, self.offsets, self.mode, self.team)

    @property
    def bound(self) -> BoundPenalty | None:
        """The penalty bound to the sensitive features, if it is a function of ``A``."""
        return self.bound_by_mode.get(self.mode)

    @cached_property
    def bound_by_mode(self) -> dict[int, BoundPenalty]:
        """The bound penalty of each mode with sensitive features."""
        if not isinstance(self.penalty, Penalty) or self.sensitive is None:
            return {}
        if self.strengths is None:
            return bind_penalty(self, self.penalty)
        return {
            mode: scale_strength(bound, self.strengths)
            for mode, bound in self._bound_at_strength_one.items()
        }

    @cached_property
    def _bound_at_strength_one(self) -> dict[int, BoundPenalty]:
        assert isinstance(self.penalty, Penalty)
        return bind_penalty(self, replace(self.penalty, strength=1.0))  # type: ignore[type-var]

    @property
    def scores(self) -> BoundScores | None:
        """The penalty bound to the predicted scores, if it is a function of all factors."""
        if not isinstance(self.penalty, ScorePenalty):
            return None
        if self.strengths is None:
            return self._bound_scores
        return self._bound_scores.with_strengths(self.strengths)

    @cached_property
    def _bound_scores(self) -> BoundScores:
        assert isinstance(self.penalty, ScorePenalty)
        return bind_scores(self, self.penalty)

    def penalty_of(self, factors: Factors) -> Tensor | None:
        """Return the sum of the penalties of all modes, shape (batch,); None without any."""
        return penalty_of(self, factors)

    def with_strengths(self, strengths: Tensor) -> Problem:
        """Return this problem for a batch whose members differ in strength; sums are shared."""
        if self.penalty is None:
            raise ValueError("strengths need a penalty, but the problem has none")
        # Computed now, so that all copies share them.
        self.scores or self._bound_at_strength_one, self.total, self.table  # noqa: B018
        if moves_scale(self.penalty):
            self._single  # noqa: B018
        return self._with(strengths)

    @property
    def in_chunks(self) -> bool:
        """Whether a penalty compares people in several chunks."""
        return any(map(is_in_chunks, self.bound_by_mode.values()))

    @property
    def people_in_chunks(self) -> bool:
        """Whether that of the people does."""
        bound = self.bound_by_mode.get(self.mode)
        return bound is not None and is_in_chunks(bound)

    def with_deal(self, deal: int) -> Problem:
        """Return this problem with chunks of other people."""
        other, names = copy(self), {"bound_by_mode", "_bound_at_strength_one"}
        for name in names & set(self.__dict__):
            other.__dict__[name] = deal_chunks(getattr(self, name), deal)
        return other

    def take(self, members: Tensor) -> Problem:
        """Return the problem of some members of a batch."""
        return self if self.strengths is None else self._with(self.strengths[members])

    def of_people(self, places: NDArray[Any], sensitive: SensitiveFeatures) -> Problem:
        """Return the problem of some people alone, with their sensitive features."""
        return replace(
            self,
            data=self.data.take(self.mode, places),
            sensitive=sensitive,
            side=None if self.side is None else self.side.take(places),
        )

    def _with(self, strengths: Tensor) -> Problem:
        other = copy(self)
        object.__setattr__(other, "strengths", strengths)
        other.__dict__.pop("bound_by_mode", None)
        return other

    @property
    def single(self) -> Problem:
        """This problem in single precision; itself if it has that, or would not gain from it."""
        single = self._single
        if single is None or self.strengths is None:
            return single or self
        return single.with_strengths(self.strengths)

    @cached_property
    def _single(self) -> Problem | None:
        limits, norm = torch.finfo(torch.float32), self.norm_squared**0.5
        # As in check_scale.
        sized = limits.tiny**0.25 < norm < limits.max**0.25
        if self.prototype.dtype != torch.float64 or not sized or self.count < LEAST_IN_SINGLE:
            return None
        return replace(self, data=self.data.to(dtype=torch.float32))

    def evaluate(self, factors: Factors) -> Objective:
        """Return the objective of factors of shape (batch, size, rank), from any source."""
        # What noise has made negative counts as zero if the loss allows nothing else.
        if needs_non_negative(self.loss):
            factors = project(self.non_negative, factors)
        return self.objective(factors, self.loss_of(factors), self.penalty_of(factors))

    def loss_of(self, factors: Factors) -> Tensor:
        """Return loss and ridge in double precision, shape (batch,)."""
        if self.is_squared:
            sweep = Sweep(self, factors)
            return sweep.value(sweep.block(self.mode), self.mode)
        return self.deviance.value(factors) / self.count + self._held_back(factors)

    def value_and_gradients(
        self, parameters: Factors
    ) -> tuple[Objective, tuple[Tensor, ...], dict[int, Tensor]]:
        """Return the objective, its gradients, and the part of the penalties in these by parameter.

        For squared errors, the gradient in the factor ``A`` of a mode is ``2 (A G - M) / |X|``. The
        ridge, the side information and the penalties of all modes are included.

        Args:
            parameters: Each (batch, size, rank); the factors, unless one of them has a structure.
        """
        factors = to_factors(parameters, self.structure)
        value, gradients = self.loss_and_gradients(factors)
        side = self.add_side(factors, gradients)
        found = pull_back(parameters, gradients, self.structure)
        penalty, slopes = self.penalty_and_gradients(parameters)
        for place, slope in slopes.items():
            found[place].add_(slope)
        return self.objective(factors, value, penalty, side), found, slopes

    def loss_and_gradients(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return loss and ridge in double precision, shape (batch,), and their gradients."""
        if self.is_squared:
            error, slopes = self.observations.error_and_slopes(factors)
        else:
            error, slopes = self.deviance.value_and_slopes(factors)
        gradients = [slope * (2 / self.count) for slope in slopes]
        for mode, factor in enumerate(factors):
            ridge = ridge_diagonal(factors, mode, self.mode, self.ridge, self.team)
            if ridge is not None:
                gradients[mode] += factor * (ridge * (2 / self.count)).unsqueeze(-2)
        return error / self.count + self._held_back(factors), gradients

    def add_side(self, factors: Factors, gradients: list[Tensor]) -> Tensor | None:
        """Add the gradient of the side information; return its error, None if it has no effect."""
        if self.table is None:
            return None
        error, slope = self.table.value_and_slope(factors[self.mode])
        gradients[self.mode] += slope * (2 / self.count)
        return error / self.count

    def side_at(self, rows: Tensor) -> FixedTable | None:
        """Return the side information with the factor that is best for rows (batch, n, rank)."""
        if self.side is None or self.table is None:
            return None
        return self.side.at(rows, self.side.multiple(self.total))

    def penalty_and_gradients(self, parameters: Factors) -> tuple[Tensor | None, dict[int, Tensor]]:
        """Return the sum of the penalties, None without any, and its gradients by parameter."""
        return penalty_and_gradients(self, parameters)

    def _held_back(self, factors: Factors) -> Tensor:
        """Return the value of the ridge in double precision, shape (batch,)."""
        return ridge_value(factors, self.mode, self.ridge, self.team) / self.count

    def objective(
        self, factors: Factors, value: Tensor, penalty: Tensor | None, side: Tensor | None = None
    ) -> Objective:
        """Return the objective, given loss and ridge, the penalty, and the side's error if known.

        If the fit is so close that the loss is only rounding error, it is computed again from the
        entries.
        """
        held_back, table = self._held_back(factors), self.table
        if side is None:
            side = torch.zeros_like(held_back)
            side = side if table is None else table.value(factors[self.mode]) / self.count
        loss = value - held_back
        penalty = torch.zeros_like(loss) if penalty is None else penalty.double()
        if not self.is_squared:
            return Objective(loss, penalty + held_back, loss * self.count / self.total, side)
        floor = CANCELLATION * torch.finfo(self.prototype.dtype).eps
        size = self.norm_squared + (0.0 if table is None else table.total)
        close = (loss * self.count < floor * size).nonzero().flatten()
        if len(close):
            loss = loss.clone()
            for member in close.tolist():
                error = self.observations.residual_squared([factor[member] for factor in factors])
                loss[member] = error / self.count
        residual = (loss * self.count / self.norm_squared).sqrt()
        return Objective(loss, penalty + held_back, residual, side)
