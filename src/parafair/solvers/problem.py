"""The problem a solver works on: data, rank and penalty, all checked once."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, product_of
from parafair.algebra.least_squares import Block, block_of
from parafair.algebra.observed import Entries, entries_of
from parafair.data.checks import check_tensor
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import BoundPenalty, Invariant, Penalty, restrict_rows, scale_strength
from parafair.penalties.base import check_multiplier

# Of data with missing entries, unless every row has so many entries for each component that it
# needs none; see `Problem.ridge` for its units.
DEFAULT_RIDGE = 3.0
PLENTY = 10

# Below this many roundings of ||X||^2, the squared residual must be computed from the entries.
CANCELLATION = 1e3


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimized, for each member of a batch; float64, shape (batch,).

    Attributes:
        loss: ``||X - model||**2 / |X|`` over the observed entries.
        penalty: The penalty, its strength included, and the ridge.
        residual: ``||X - model|| / ||X||`` over the observed entries.
    """

    loss: Tensor
    penalty: Tensor
    residual: Tensor

    @property
    def value(self) -> Tensor:
        """Loss plus penalty."""
        return self.loss + self.penalty

    def take(self, members: Tensor) -> Objective:
        """Return the objective of some members."""
        return Objective(self.loss[members], self.penalty[members], self.residual[members])

    def put(self, members: Tensor, other: Objective) -> Objective:
        """Return this objective with some members replaced by those of another."""
        return Objective(
            self.loss.index_copy(0, members, other.loss),
            self.penalty.index_copy(0, members, other.penalty),
            self.residual.index_copy(0, members, other.residual),
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize ``||X - [[A, B, ...]]||**2 / |X| + penalty(A, S)`` over the factors.

    Sums are over the observed entries, ``|X|`` is their number. A ridge adds
    ``ridge * ||A_r||**2 * mean(B_r**2) * mean(C_r**2) * ... / |X|`` for each component ``r``: what
    it is worth at `ridge` more entries of each person that are zero. Unlike the squares of the
    factors, that does not depend on which of them carries the scale.

    Attributes:
        tensor: The data ``X``, of order 2 or more; NaN is a missing entry.
        rank: Number of components.
        mode: The sensitive mode, that of ``A``.
        penalty: Settings of the penalty, or None for a plain CP decomposition.
        sensitive: One row per index of `mode`; needed by a penalty.
        ridge: Keeps rows with few entries from fitting them at any price: a person's row is held
            back as by this many entries that are zero.
        also: Sensitive features of other modes, by mode, under the same penalty; it must be
            invariant, for only one mode can carry the scale.
        strengths: A strength for each member of a batch, shape (batch,), instead of the
            penalty's; see `with_strengths`.
    """

    tensor: Tensor | TensorData
    rank: int
    mode: int = 0
    penalty: Penalty | None = None
    sensitive: SensitiveFeatures | None = None
    ridge: float = 0.0
    other_sensitive: Mapping[int, SensitiveFeatures] = field(default_factory=dict)
    strengths: Tensor | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_tensor(self.tensor)
        check_rank(self.rank, self.shape)
        check_mode(self.mode, self.order)
        check_multiplier("ridge", self.ridge)
        if self.penalty is not None and self.sensitive is None:
            raise ValueError(
                f"the penalty {self.penalty!r} needs sensitive features, but none were given; pass "
                "one row per person, or use method='none' for a plain decomposition"
            )
        if self.other_sensitive and not isinstance(self.penalty, Invariant):
            raise ValueError(
                "sensitive features of several modes need method='invariant', got "
                f"{self.penalty!r}: other penalties depend on the scale, which only one mode can "
                "carry"
            )
        given = {
            **self.other_sensitive,
            **({} if self.sensitive is None else {self.mode: self.sensitive}),
        }
        for mode, features in given.items():
            check_mode(mode, self.order)
            if len(features) != self.shape[mode]:
                raise ValueError(
                    f"sensitive_features has {len(features)} rows but mode {mode} of the tensor "
                    f"has {self.shape[mode]}; pass one row per index, in the same order"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(self.tensor.shape)

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @cached_property
    def entries(self) -> Entries:
        """The observed entries."""
        return entries_of(self.tensor)

    @property
    def count(self) -> int:
        """``|X|``, the number of observed entries."""
        return self.entries.values.numel()

    @property
    def like(self) -> Tensor:
        """A tensor without entries, of the data's precision and where the data is."""
        return self.entries.values.flatten()[:0]

    @cached_property
    def norm_squared(self) -> float:
        """``||X||**2`` over the observed entries."""
        return float(torch.linalg.vector_norm(self.entries.values, dtype=torch.float64)) ** 2

    @cached_property
    def term(self) -> BoundPenalty | None:
        """The penalty bound to the sensitive features; a function of ``A``."""
        if self.penalty is None or self.sensitive is None:
            return None
        return self.terms[self.mode]

    @cached_property
    def terms(self) -> dict[int, BoundPenalty]:
        """The penalty bound to the sensitive features of each mode that has some."""
        if self.penalty is None or self.sensitive is None:
            return {}
        if self.strengths is None:
            return self._bind(self.penalty)
        weights = self.strengths
        return {
            mode: scale_strength(term, weights)
            for mode, term in self._terms_of_strength_one.items()
        }

    @cached_property
    def _terms_of_strength_one(self) -> dict[int, BoundPenalty]:
        assert self.penalty is not None
        return self._bind(replace(self.penalty, strength=1.0))  # type: ignore[type-var]

    def _bind(self, penalty: Penalty) -> dict[int, BoundPenalty]:
        assert self.sensitive is not None
        found = {}
        for mode, sensitive in {self.mode: self.sensitive, **self.other_sensitive}.items():
            rows, features = self._examine(mode, sensitive)
            term = penalty.bind(features, self.entries.values)
            found[mode] = term if rows is None else restrict_rows(term, rows, self.shape[mode])
        return found

    def penalties(self, factors: Factors) -> Tensor | None:
        """Return the sum of the penalties of all modes, shape (batch,); None without any."""
        values = [term.value(factors[mode]) for mode, term in self.terms.items()]
        return torch.stack(values).sum(0) if values else None

    @cached_property
    def empty(self) -> dict[int, Tensor]:
        """For each mode, the positions without any observed entry."""
        counts = (self.entries.counts(mode) for mode in range(self.order))
        return {mode: (count == 0).nonzero().flatten() for mode, count in enumerate(counts)}

    @property
    def penalized(self) -> Tensor | None:
        """Positions of the people whose dependence counts; None if that is everybody.

        Left out are those whose features are not known and those of whom nothing was observed.
        """
        return self._penalized[0]

    @property
    def features(self) -> SensitiveFeatures:
        """The sensitive features of the people examined."""
        assert self._penalized[1] is not None
        return self._penalized[1]

    @cached_property
    def _penalized(self) -> tuple[Tensor | None, SensitiveFeatures | None]:
        if self.sensitive is None:
            empty = len(self.empty[self.mode]) > 0
            return (self._present(self.mode).nonzero().flatten() if empty else None), None
        return self._examine(self.mode, self.sensitive)

    def _present(self, mode: int) -> Tensor:
        present = torch.ones(self.shape[mode], dtype=torch.bool, device=self.like.device)
        present[self.empty[mode]] = False
        return present

    def _examine(
        self, mode: int, sensitive: SensitiveFeatures
    ) -> tuple[Tensor | None, SensitiveFeatures]:
        """Return the positions that count in a mode, None for all, and their features."""
        counted = self._present(mode)
        if sensitive.has_features is not None:
            counted &= torch.from_numpy(sensitive.has_features).to(counted.device)
        if counted.all():
            return None, sensitive
        rows = counted.nonzero().flatten()
        features = sensitive.take(rows.cpu().numpy())
        for column in features.columns:
            if len(np.unique(column.values)) < 2:
                raise ValueError(
                    f"sensitive feature {column.name!r} is the same for all people of whom "
                    "something was observed, so nothing can depend on it; drop the column, or add "
                    "people"
                )
        return rows, features

    def penalized_rows(self, factor: Tensor) -> Tensor:
        """Return the rows of the people examined, shape (..., people, rank)."""
        return factor if self.penalized is None else factor[..., self.penalized, :]

    def with_strengths(self, strengths: Tensor) -> Problem:
        """Return this problem for a batch whose members differ in strength.

        What was computed for this one serves the new one too: the tensor is not read again.
        """
        if self.penalty is None:
            raise ValueError("strengths need a penalty, but the problem has none")
        # Shared by all copies from now on.
        self._terms_of_strength_one, self.norm_squared  # noqa: B018
        return self._with(strengths)

    def take(self, members: Tensor) -> Problem:
        """Return the problem of some members of a batch."""
        return self if self.strengths is None else self._with(self.strengths[members])

    def _with(self, strengths: Tensor) -> Problem:
        other = copy(self)
        object.__setattr__(other, "strengths", strengths)
        for name in ("term", "terms"):
            other.__dict__.pop(name, None)
        return other

    def evaluate(self, factors: Factors) -> Objective:
        """Judge factors of shape (batch, size, rank), whoever found them."""
        block = Sweep(self, factors).block(self.mode)
        value = block.value(factors[self.mode])
        return self.objective(factors, value, self.penalties(factors))

    def objective(self, factors: Factors, value: Tensor, penalty: Tensor | None) -> Objective:
        """Complete an objective from the value of a block, loss and ridge, and a penalty.

        Where the fit is so good that the algebra has cancelled all digits of the loss, it is
        computed again from the entries.
        """
        held_back = torch.zeros_like(value)
        if self.ridge:
            sizes = product_of([factor.double().square().mean(-2) for factor in factors])
            held_back = self.ridge * self.shape[self.mode] / self.count * sizes.sum(-1)
        loss = value - held_back
        floor = CANCELLATION * torch.finfo(self.like.dtype).eps
        close = (loss * self.count < floor * self.norm_squared).nonzero().flatten()
        if len(close):
            loss = loss.clone()
            for member in close.tolist():
                error = self.entries.residual_squared([factor[member] for factor in factors])
                loss[member] = error / self.count
        penalty = torch.zeros_like(loss) if penalty is None else penalty.double()
        return Objective(loss, penalty + held_back, (loss * self.count / self.norm_squared).sqrt())


class Sweep:
    """One pass over the modes: gives the function of each block."""

    def __init__(self, problem: Problem, factors: Factors) -> None:
        self.problem = problem
        self.factors = list(factors)
        self._sums = problem.entries.sums(factors)

    def block(self, mode: int) -> Block:
        """Return loss and ridge as a function of the factor of `mode`, the others as they are."""
        return block_of(
            self._sums.target(mode),
            self._sums.gram(mode),
            norm_squared=self.problem.norm_squared,
            entries=self.problem.count,
            ridge=ridge_diagonal(self.factors, mode, self.problem.mode, self.problem.ridge),
        )

    def replace(self, mode: int, factor: Tensor) -> None:
        """Put a new factor in place."""
        self.factors[mode] = factor
        self._sums.replace(mode, factor)


def ridge_diagonal(factors: Factors, mode: int, people: int, ridge: float) -> Tensor | None:
    """Return what a ridge adds to the diagonal of the Gram matrices of a mode, (..., rank)."""
    if not ridge:
        return None
    others = [f.square().mean(-2) for other, f in enumerate(factors) if other != mode]
    share = factors[people].shape[-2] / factors[mode].shape[-2]
    return ridge * share * product_of(others)


def check_rank(rank: int, shape: tuple[int, ...]) -> None:
    """Raise unless a decomposition of this rank makes sense."""
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise ValueError(f"rank must be a whole number of at least 1, got {rank!r}")
    most = prod(shape) // max(shape)
    if rank > most:
        raise ValueError(
            f"rank must be at most {most} for shape {shape}, got {rank}: any tensor of this shape "
            f"is a sum of {most} components; lower rank"
        )


def find_mode(tensor: Tensor | TensorData, mode: int | str) -> int:
    """Return the number of a mode that may be given by name."""
    if isinstance(tensor, TensorData):
        return tensor.find_mode(mode)
    if isinstance(mode, str):
        raise ValueError(
            f"mode={mode!r} is a name, but the data has no names of modes; give its number, or the "
            "data as a TensorData"
        )
    check_mode(mode, tensor.ndim)
    return int(mode)


def resolve_ridge(ridge: float | None, tensor: Tensor | TensorData, rank: int) -> float:
    """Return the ridge; None is 0 where every row has plenty of entries, else `DEFAULT_RIDGE`."""
    if ridge is not None:
        check_multiplier("ridge", ridge)
        return float(ridge)
    entries = entries_of(tensor)
    if entries.values.numel() == prod(tensor.shape):
        return 0.0
    counts = torch.cat([entries.counts(mode) for mode in range(len(tensor.shape))])
    present = counts[counts > 0]
    plenty = bool((present >= PLENTY * rank).all())
    return 0.0 if plenty else DEFAULT_RIDGE


def check_mode(mode: int, order: int) -> None:
    """Raise unless the tensor has this mode."""
    if isinstance(mode, bool) or not isinstance(mode, (int, np.integer)) or not 0 <= mode < order:
        raise ValueError(
            f"mode must be between 0 and {order - 1} for a tensor of order {order}, got {mode!r}"
        )
