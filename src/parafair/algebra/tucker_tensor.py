"""Tucker tensors, and matrices whose columns are tensors of low multilinear rank.

With people in rows, a Tucker model of a tensor is ``U F.T``: rows ``U`` of people, and a matrix
``F`` whose columns are tensors over all other modes that share one basis in each of them. So it is
a decomposition of a matrix with a constraint on its second factor, the set of `Multilinear`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.display import table, view


@dataclass(frozen=True, eq=False)
class TuckerTensor:
    """A core multiplied by a matrix in every mode.

    It unpacks like TensorLy's: ``core, factors = tucker``.

    Attributes:
        core: Shape (ranks of all modes).
        factors: One matrix (size, rank) per mode.
    """

    core: Tensor
    factors: tuple[Tensor, ...]

    def __repr__(self) -> str:
        sizes = " x ".join(f"{len(factor):,}" for factor in self.factors)
        return f"TuckerTensor({sizes}, ranks {self.ranks})"

    def _repr_html_(self) -> str:
        factors = enumerate(self.factors)
        rows = [[f"factor {mode}", " x ".join(map(str, factor.shape))] for mode, factor in factors]
        rows.append(["core", " x ".join(map(str, self.ranks))])
        return view(repr(self), table(rows, header=["", "shape"]))

    def __iter__(self) -> Iterator[Tensor | list[Tensor]]:
        yield self.core
        yield list(self.factors)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Number of columns of each factor."""
        return tuple(self.core.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the full tensor."""
        return tuple(len(factor) for factor in self.factors)

    def reconstruct(self) -> Tensor:
        """Return the full tensor."""
        return multiply(self.core[None], [factor.mT[None] for factor in self.factors])[0]


@dataclass(frozen=True)
class Multilinear:
    """Matrices (batch, prod(sizes), rank) whose columns have a basis of few vectors in each mode.

    Attributes:
        sizes: Sizes of the modes.
        ranks: Number of basis vectors in each.
    """

    sizes: tuple[int, ...]
    ranks: tuple[int, ...]

    def split(self, factor: Tensor, passes: int = 0) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return orthonormal bases, and the coordinates of a matrix in them.

        The bases are the first left singular vectors of the unfoldings, each of what the bases
        before have left; then each is the best for the others, in some passes (HOOI). A matrix of
        this set is equal to `join` of the result. Any other is projected, nearly.

        Args:
            factor: Shape (batch, prod(sizes), rank).
            passes: Number of passes.

        Returns:
            One basis (batch, size, rank) per mode, and coordinates (batch, prod(ranks), rank).
        """
        tensor = factor.unflatten(1, self.sizes)
        bases: list[Tensor] = []
        left = tensor
        for mode, rank in enumerate(self.ranks):
            bases.append(leading(left, mode, rank))
            left = _multiply_mode(left, bases[-1], mode)
        return self.improve(factor, bases, passes)

    def improve(
        self, factor: Tensor, bases: Sequence[Tensor], passes: int
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return bases nearer to a matrix, and its coordinates in them; see `split`."""
        tensor, found = factor.unflatten(1, self.sizes), list(bases)
        for _ in range(passes):
            for mode, rank in enumerate(self.ranks):
                left = multiply(tensor, found, skip=mode)
                found[mode] = leading(left, mode, rank)
        return tuple(found), multiply(tensor, found).flatten(1, -2)

    def join(self, bases: Sequence[Tensor], core: Tensor) -> Tensor:
        """Return the matrix with these bases and coordinates."""
        tensor = core.unflatten(1, self.ranks)
        return multiply(tensor, [basis.mT for basis in bases]).flatten(1, -2)

    def pull(
        self, bases: Sequence[Tensor], core: Tensor, slope: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the gradients in bases and coordinates from that in the matrix."""
        along, wide = slope.unflatten(1, self.sizes), core.unflatten(1, self.ranks)
        others = [basis.mT for basis in bases]
        for_bases = []
        for mode in range(len(self.sizes)):
            own = multiply(wide, others, skip=mode).movedim(1 + mode, 1).flatten(2)
            for_bases.append(along.movedim(1 + mode, 1).flatten(2) @ own.mT)
        return tuple(for_bases), multiply(along, bases).flatten(1, -2)

    def project(self, factor: Tensor, passes: int = 2) -> Tensor:
        """Return a matrix of this set near the given one."""
        return self.join(*self.split(factor, passes))


def multiply(tensor: Tensor, matrices: Factors, *, skip: int | None = None) -> Tensor:
    """Multiply the modes of a tensor by matrices.

    Args:
        tensor: Shape (batch, sizes, ...); modes beyond the matrices stay as they are.
        matrices: One (batch, size, new size) for each of the first modes.
        skip: A mode that stays.
    """
    # Modes that shrink most come first.
    order = sorted(
        range(len(matrices)), key=lambda m: matrices[m].shape[-1] / matrices[m].shape[-2]
    )
    for mode in order:
        if mode != skip:
            tensor = _multiply_mode(tensor, matrices[mode], mode)
    return tensor


def _multiply_mode(tensor: Tensor, matrix: Tensor, mode: int) -> Tensor:
    """Multiply one mode by a matrix (batch, size, new size)."""
    before, after = tensor.shape[1 : 1 + mode], tensor.shape[2 + mode :]
    rows = tensor.reshape(len(tensor), prod(before), matrix.shape[-2], -1)
    found = matrix.mT.unsqueeze(1) @ rows
    return found.reshape(len(found), *before, matrix.shape[-1], *after)


def leading(tensor: Tensor, mode: int, count: int) -> Tensor:
    """Return the first left singular vectors of an unfolding, shape (batch, size, count)."""
    unfolded = tensor.movedim(1 + mode, 1).flatten(2)
    size, others = unfolded.shape[1:]
    if size <= others:
        vectors: Tensor = torch.linalg.eigh(unfolded @ unfolded.mT)[1].flip(-1)
        return vectors[..., :count]
    # A thin matrix: its right singular vectors are cheaper, and QR makes the left ones orthonormal.
    right = torch.linalg.eigh(unfolded.mT @ unfolded)[1].flip(-1)[..., :count]
    found: Tensor = torch.linalg.qr(unfolded @ right)[0]
    return found
