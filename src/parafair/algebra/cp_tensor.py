"""CP tensors and their algebra; all functions broadcast over leading batch dimensions.

A factor has shape (..., size, rank). A tensor is either shared by the whole batch, with
exactly one dimension per factor, or has leading batch dimensions of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.devices import by_device
from parafair.arguments import instance_of, items
from parafair.display import table, view
from parafair.errors import shown

Factors = Sequence[Tensor]

# Slices of the first mode contracted at once.
SLICES = 32

# Up to this many entries in a slice of the first mode, the products of the other factors' rows are
# formed.
KHATRI_RAO = 1024


@dataclass(frozen=True, eq=False)
class CPTensor:
    """A sum of rank-one terms: ``sum_r weights[r] * outer(factors[0][:, r], ...)``.

    It unpacks like TensorLy's: ``weights, factors = cp``. These are torch tensors; with TensorLy's
    default backend use `to_numpy`.

    Attributes:
        weights: One weight per component, shape (..., rank).
        factors: One matrix per mode, each of shape (..., size, rank).
    """

    weights: Tensor
    factors: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        for name, parts in (("weights", [self.weights]), ("factors", self.factors)):
            for part in items(name, parts, "matrices"):
                instance_of(name, part, Tensor, "use torch.as_tensor")
        if any(factor.ndim < 2 for factor in self.factors) or not self.weights.ndim:
            raise ValueError(
                "factors must be matrices, one per mode, and weights a vector; got shapes "
                f"{[tuple(part.shape) for part in (self.weights, *self.factors)]}"
            )
        if len(self.factors) < 2:
            raise ValueError(
                f"factors must hold at least 2 matrices, one per mode; got {len(self.factors)}"
            )
        ranks = [factor.shape[-1] for factor in self.factors] + [self.weights.shape[-1]]
        if len(set(ranks)) > 1:
            raise ValueError(
                "factors and weights must agree on the rank (their last dimension); "
                f"got {ranks[:-1]} for the factors and {ranks[-1]} for the weights"
            )

    def __repr__(self) -> str:
        sizes = " x ".join(f"{factor.shape[-2]:,}" for factor in self.factors)
        dtype = str(self.weights.dtype).removeprefix("torch.")
        return f"CPTensor({sizes}, rank {self.weights.shape[-1]}, {dtype})"

    def _repr_html_(self) -> str:
        factors = enumerate(self.factors)
        rows = [[f"factor {mode}", " x ".join(map(str, factor.shape))] for mode, factor in factors]
        return view(repr(self), table(rows, header=["", "shape"]))

    @classmethod
    def from_factors(cls, factors: Factors) -> CPTensor:
        """Return a CP tensor with all weights one."""
        parts = items("factors", factors, "matrices, one per mode")
        if not parts or not isinstance(parts[0], Tensor) or parts[0].ndim < 2:
            raise TypeError(
                f"factors must be matrices of torch, one per mode, got {shown(factors)}; use "
                "torch.as_tensor"
            )
        first = parts[0]
        return cls(first.new_ones(*first.shape[:-2], first.shape[-1]), tuple(parts))

    def __iter__(self) -> Iterator[Tensor | list[Tensor]]:
        yield self.weights
        yield list(self.factors)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Tensor | list[Tensor]:
        return (self.weights, list(self.factors))[index]

    @property
    def rank(self) -> int:
        """Number of components."""
        return self.weights.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the full tensor, without batch dimensions."""
        return tuple(factor.shape[-2] for factor in self.factors)

    def to_numpy(self) -> tuple[NDArray[Any], list[NDArray[Any]]]:
        """Return weights and factors as NumPy arrays, as TensorLy and tlviz take them."""
        return self.weights.cpu().numpy(), [factor.cpu().numpy() for factor in self.factors]

    def reconstruct(self) -> Tensor:
        """Return the full tensor, shape ``(..., *shape)``."""
        first, *rest = self.factors
        return reconstruct([first * self.weights.unsqueeze(-2), *rest])


def khatri_rao(factors: Factors) -> Tensor:
    """Return the column-wise Kronecker product, shape (..., product of sizes, rank)."""
    product = factors[0]
    for factor in factors[1:]:
        product = (product.unsqueeze(-2) * factor.unsqueeze(-3)).flatten(-3, -2)
    return product


def reconstruct(factors: Factors) -> Tensor:
    """Return ``[[A, B, C, ...]]`` as a full tensor, shape (..., I, J, K, ...)."""
    flat = factors[0] @ khatri_rao(factors[1:]).mT
    return flat.reshape(*flat.shape[:-2], *(factor.shape[-2] for factor in factors))


def stack_factors(members: Iterable[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """Return the factors of several models as a batch, one (batch, size, rank) per mode."""
    return tuple(torch.stack(mode) for mode in zip(*members, strict=True))


def cross_gram(grams: Sequence[Tensor], mode: int) -> Tensor:
    """Return the entrywise product of the other Gram matrices, shape (..., rank, rank).

    With ``grams[m] = F_m.T @ F_m`` this is ``G``, the curvature of the squared error in
    the factor of `mode`.
    """
    return product_of([gram for other, gram in enumerate(grams) if other != mode])


def product_of(matrices: Sequence[Tensor]) -> Tensor:
    """Return the entrywise product."""
    product = matrices[0]
    for matrix in matrices[1:]:
        product = product * matrix
    return product


def gram(factor: Tensor) -> Tensor:
    """Return ``F.T @ F``, shape (..., rank, rank)."""
    return factor.mT @ factor


def contract_first(tensor: Tensor, factor: Tensor, order: int) -> Tensor:
    """Contract mode 0 with every column of its factor, shape (..., rank, J, K, ...).

    One such pass over the tensor is enough for `mttkrp` of every mode after the first.
    """
    sizes = tensor.shape[-order + 1 :]
    rows = tensor.reshape(*tensor.shape[:-order], tensor.shape[-order], prod(sizes))
    if tensor.ndim > order:
        flat = factor.mT @ rows
    else:
        # One wide product for the whole batch reads the tensor once. On a CPU, a few slices at a
        # time are contiguous in memory, which is faster than whole columns.
        wide = factor.mT.reshape(-1, factor.shape[-2])
        slices = by_device({"cpu": SLICES, "cuda": len(rows)}, rows)
        flat = wide[:, :slices] @ rows[:slices]
        for begin in range(slices, len(rows), slices):
            some = slice(begin, begin + slices)
            flat.addmm_(wide[:, some], rows[some])
        flat = flat.reshape(*factor.shape[:-2], factor.shape[-1], prod(sizes))
    return flat.reshape(*flat.shape[:-1], *sizes)


def mttkrp(tensor: Tensor, factors: Factors, mode: int, first: Tensor | None = None) -> Tensor:
    """Return the matricized tensor times the Khatri-Rao product of the other factors.

    This is ``M``, the inner products of the tensor with the model's rank-one slices; its
    shape is that of ``factors[mode]``. The tensor is never unfolded by copying.

    Args:
        tensor: Shape (I, J, ...), or with the batch dimensions of the factors in front.
        factors: One matrix per mode; the one of `mode` is not used.
        mode: The mode of the result.
        first: ``contract_first(tensor, factors[0], order)`` if already computed; for modes
            other than 0.
    """
    tensor, factors = _share_batch(tensor, factors)
    if mode == 0:
        return _mttkrp_first(tensor, factors)
    if first is None:
        first = contract_first(tensor, factors[0], len(factors))
    order = len(factors)
    # first has shape (..., rank, I_1, ..., I_last): contract the modes after `mode` from the
    # end and those before it from the front, each by a batched matrix-vector product.
    partial = first.expand(*factors[0].shape[:-2], *first.shape[-order:])
    for other in range(len(factors) - 1, mode, -1):
        column = factors[other].mT.unsqueeze(-1)
        flat = partial.reshape(*column.shape[:-2], -1, column.shape[-2])
        partial = (flat @ column).squeeze(-1)
    for other in range(1, mode):
        row = factors[other].mT.unsqueeze(-2)
        flat = partial.reshape(*row.shape[:-2], row.shape[-1], -1)
        partial = (row @ flat).squeeze(-2)
    return partial.reshape(*factors[mode].mT.shape).mT


def _share_batch(tensor: Tensor, factors: Factors) -> tuple[Tensor, Factors]:
    """Expand the factors, and a batched tensor, to the same batch dimensions."""
    order = len(factors)
    leads = [factor.shape[:-2] for factor in factors]
    if tensor.ndim == order and all(lead == leads[0] for lead in leads):
        return tensor, factors
    batch = torch.broadcast_shapes(tensor.shape[:-order], *leads)
    if tensor.ndim > order:
        tensor = tensor.expand(*batch, *tensor.shape[-order:])
    return tensor, [factor.expand(*batch, *factor.shape[-2:]) for factor in factors]


def _mttkrp_first(tensor: Tensor, factors: Factors) -> Tensor:
    """`mttkrp` for mode 0; the tensor is read once."""
    order, rank = len(factors), factors[0].shape[-1]
    batch = factors[-1].shape[:-2]
    if tensor.ndim > order:
        return _contract_last(tensor, factors[1:])
    # Members of the batch become columns: (size, batch * rank).
    others = [factor.movedim(-2, 0).reshape(factor.shape[-2], -1) for factor in factors[1:]]
    if prod(tensor.shape[1:]) <= KHATRI_RAO:
        partial = tensor.flatten(1) @ khatri_rao(others)
    elif order > 2 and tensor.device.type == "cpu":
        # Slice by slice: a product with few rows is faster than one with few columns.
        partial = others[0].mT.contiguous() @ tensor.flatten(2)
        for factor in reversed(others[1:]):
            blocks = partial.reshape(*partial.shape[:2], -1, len(factor))
            partial = (blocks * factor.mT.unsqueeze(1)).sum(-1)
        partial = partial.squeeze(-1)
    else:
        partial = _contract_last(tensor, others)
    return partial.reshape(-1, *batch, rank).movedim(0, -2)


def _contract_last(tensor: Tensor, others: Factors) -> Tensor:
    """Contract all modes but the first: the last with one product, then the middle ones."""
    partial = tensor.flatten(-len(others) - 1, -2) @ others[-1]
    for factor in reversed(others[:-1]):
        blocks = partial.reshape(*factor.shape[:-2], -1, *factor.shape[-2:])
        partial = (blocks * factor.unsqueeze(-3)).sum(-2)
    return partial
