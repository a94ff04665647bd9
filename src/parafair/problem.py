"""The problem a solver works on: data, rank and penalty, all checked once."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parafair.errors import unknown_choice
from parafair.losses import SquaredErrorBlock
from parafair.penalties import Penalty, Term, weigh
from parafair.sensitive import SensitiveFeatures
from parafair.tensors import Factors, contract_first, cross_gram, gram, khatri_rao, mttkrp

# Below this many roundings of ||X||^2, the squared residual must be computed from the entries.
CANCELLATION = 1e3

DTYPES = {"float32": torch.float32, "float64": torch.float64}

# Entries of the reconstruction held at once when it must be computed.
RECONSTRUCTED_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimized, for each member of a batch; float64, shape (batch,).

    Attributes:
        loss: ``||X - model||**2 / |X|``.
        penalty: The penalty, its strength included.
        residual: ``||X - model|| / ||X||``.
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

    Attributes:
        tensor: The data ``X``, of order 2 or more.
        rank: Number of components.
        mode: The sensitive mode, that of ``A``.
        penalty: Settings of the penalty, or None for a plain CP decomposition.
        sensitive: One row per index of `mode`; needed by a penalty.
        strengths: A strength for each member of a batch, shape (batch,), instead of the
            penalty's; see `with_strengths`.
    """

    tensor: Tensor
    rank: int
    mode: int = 0
    penalty: Penalty | None = None
    sensitive: SensitiveFeatures | None = None
    strengths: Tensor | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_tensor(self.tensor)
        check_rank(self.rank, self.shape)
        check_mode(self.mode, self.order)
        if self.penalty is not None and self.sensitive is None:
            raise ValueError(
                f"the penalty {self.penalty!r} needs sensitive features, but none were given; pass "
                "one row per person, or use method='none' for a plain decomposition"
            )
        if self.sensitive is not None and len(self.sensitive) != self.shape[self.mode]:
            raise ValueError(
                f"sensitive_features has {len(self.sensitive)} rows but mode {self.mode} of the "
                f"tensor has {self.shape[self.mode]}; pass one row per index, in the same order"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(self.tensor.shape)

    @property
    def order(self) -> int:
        """Number of modes."""
        return self.tensor.ndim

    @cached_property
    def norm_squared(self) -> float:
        """``||X||**2``."""
        return float(torch.linalg.vector_norm(self.tensor, dtype=torch.float64)) ** 2

    @cached_property
    def term(self) -> Term | None:
        """The penalty bound to the sensitive features; a function of ``A``."""
        if self.penalty is None or self.sensitive is None:
            return None
        if self.strengths is None:
            return self.penalty.bind(self.sensitive, self.tensor)
        return weigh(self._term_of_strength_one, self.strengths)

    @cached_property
    def _term_of_strength_one(self) -> Term:
        assert self.penalty is not None
        assert self.sensitive is not None
        penalty = replace(self.penalty, strength=1.0)  # type: ignore[type-var]
        return penalty.bind(self.sensitive, self.tensor)

    def with_strengths(self, strengths: Tensor) -> Problem:
        """Return this problem for a batch whose members differ in strength.

        What was computed for this one serves the new one too: the tensor is not read again.
        """
        if self.penalty is None:
            raise ValueError("strengths need a penalty, but the problem has none")
        self._term_of_strength_one  # noqa: B018  shared by all copies from now on
        return self._with(strengths)

    def take(self, members: Tensor) -> Problem:
        """Return the problem of some members of a batch."""
        return self if self.strengths is None else self._with(self.strengths[members])

    def _with(self, strengths: Tensor) -> Problem:
        other = copy(self)
        object.__setattr__(other, "strengths", strengths)
        other.__dict__.pop("term", None)
        return other

    def evaluate(self, factors: Factors) -> Objective:
        """Judge factors of shape (batch, size, rank), whoever found them."""
        block = Sweep(self, factors).block(self.mode)
        factor = factors[self.mode]
        penalty = None if self.term is None else self.term.value(factor)
        return self.objective(factors, block.value(factor), penalty)

    def objective(self, factors: Factors, loss: Tensor, penalty: Tensor | None) -> Objective:
        """Complete an objective from a loss found by algebra and a penalty.

        Where the fit is so good that the algebra has cancelled all digits of the loss, it is
        computed again from the entries.
        """
        floor = CANCELLATION * torch.finfo(self.tensor.dtype).eps
        entries = prod(self.shape)
        close = (loss * entries < floor * self.norm_squared).nonzero().flatten()
        if len(close):
            loss = loss.clone()
            for member in close.tolist():
                loss[member] = residual_squared(self.tensor, [f[member] for f in factors]) / entries
        penalty = torch.zeros_like(loss) if penalty is None else penalty.double()
        return Objective(loss, penalty, (loss * entries / self.norm_squared).sqrt())


class Sweep:
    """One pass over the modes: gives the loss of each block, reading the tensor twice.

    The contraction with mode 0 serves every later mode until the factor of mode 0 changes.
    """

    def __init__(self, problem: Problem, factors: Factors) -> None:
        self.problem = problem
        self.factors = list(factors)
        self._grams = [gram(factor) for factor in factors]
        self._first: Tensor | None = None

    def block(self, mode: int) -> SquaredErrorBlock:
        """Return the loss as a function of the factor of `mode`, the others as they are now."""
        tensor = self.problem.tensor
        if mode > 0 and self._first is None:
            self._first = contract_first(tensor, self.factors[0], tensor.ndim)
        return SquaredErrorBlock(
            target=mttkrp(tensor, self.factors, mode, self._first),
            gram=cross_gram(self._grams, mode),
            norm_squared=self.problem.norm_squared,
            entries=tensor.numel(),
        )

    def replace(self, mode: int, factor: Tensor) -> None:
        """Put a new factor in place."""
        self.factors[mode] = factor
        self._grams[mode] = gram(factor)
        if mode == 0:
            self._first = None


def residual_squared(tensor: Tensor, factors: Sequence[Tensor]) -> float:
    """Return ``||X - [[A, B, ...]]||**2`` entry by entry, a few slices at a time."""
    others = khatri_rao(factors[1:]).mT
    rows = max(1, RECONSTRUCTED_ENTRIES // others.shape[-1])
    parts = zip(tensor.flatten(1).split(rows), factors[0].split(rows), strict=True)
    return sum(
        float(torch.linalg.vector_norm(x - a @ others, dtype=torch.float64)) ** 2 for x, a in parts
    )


def resolve_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    """Return a precision by its name, or as it is given."""
    found = DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if found is not None and found not in DTYPES.values():
        raise unknown_choice("dtype", dtype, DTYPES)
    return found  # type: ignore[return-value]


def check_device(device: str | torch.device | None) -> None:
    """Raise unless tensors can be made there."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device={device!r} cannot be used here ({str(error).splitlines()[0]}); use 'cpu', or "
            "None for where the data is"
        ) from error


def as_tensor(
    value: Any,
    *,
    name: str = "tensor",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Return an array, nested list or tensor as a floating point tensor with finite entries.

    Args:
        value: Numbers.
        name: What messages call it.
        dtype: torch.float32 or torch.float64; None keeps these two and makes the rest float64.
        device: Where to put it; None leaves it where it is.
    """
    if not isinstance(value, Tensor):
        if np.ma.is_masked(value):
            raise ValueError(
                f"{name} has masked entries; remove or impute them first, the mask would be lost"
            )
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"{name} must hold numbers, got an array of {array.dtype}; convert it first, for "
                "example with numpy.asarray(values, dtype=float)"
            )
        # torch takes neither foreign byte order, negative strides nor read-only memory.
        native = np.float32 if array.dtype == np.float32 else np.float64
        array = np.ascontiguousarray(array, native)
        value = torch.from_numpy(array if array.flags.writeable else array.copy())
    if value.is_complex():
        raise TypeError(f"{name} must hold real numbers, got {value.dtype}; split it into parts")
    if dtype is None:
        dtype = value.dtype if value.dtype == torch.float32 else torch.float64
    tensor: Tensor = value.detach().to(dtype=dtype, device=device).contiguous()
    check_finite(tensor, name)
    return tensor


def check_finite(tensor: Tensor, name: str = "tensor") -> float:
    """Return the norm; raise if an entry is NaN or infinite."""
    # The norm is undefined if any entry is, and needs no memory to find out.
    norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
    if isfinite(norm):
        return norm
    bad = ~torch.isfinite(tensor)
    if bad.any():
        where = tuple(bad.nonzero()[0].tolist())
        raise ValueError(
            f"{name} has {int(bad.sum())} NaN or infinite entries, the first at index {where}; "
            "remove or impute them first"
        )
    return norm


def check_tensor(tensor: Tensor) -> None:
    """Raise unless the tensor can be decomposed."""
    if tensor.ndim < 2:
        raise ValueError(
            f"tensor must have at least 2 modes, got shape {tuple(tensor.shape)}; for one vector "
            "there is nothing to decompose"
        )
    if 0 in tensor.shape:
        empty = list(tensor.shape).index(0)
        raise ValueError(
            f"tensor has an empty mode: shape {tuple(tensor.shape)}, mode {empty} has size 0; "
            "every mode needs at least one index"
        )
    norm, limits = check_finite(tensor), torch.finfo(tensor.dtype)
    if norm == 0 and not tensor.any():
        raise ValueError("tensor is zero everywhere; there is nothing to decompose")
    # Fourth powers of the norm occur on the way, in products of Gram matrices.
    least, most = limits.tiny**0.25, limits.max**0.25
    if not least < norm < most:
        raise ValueError(
            f"tensor has entries too large or too small for {limits.dtype}: its norm is "
            f"{norm:.2g}, expected {least:.0e} to {most:.0e}; rescale it"
        )


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


def check_mode(mode: int, order: int) -> None:
    """Raise unless the tensor has this mode."""
    if isinstance(mode, bool) or not isinstance(mode, (int, np.integer)) or not 0 <= mode < order:
        raise ValueError(
            f"mode must be between 0 and {order - 1} for a tensor of order {order}, got {mode!r}"
        )
