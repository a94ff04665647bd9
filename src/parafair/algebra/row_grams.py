"""Gram matrices of single rows: formed, used and dropped for some rows at a time.

With missing entries every row of a factor has a Gram matrix of its own. Together they are far
larger than the factor, so no operation needs all of them at once. They are symmetric, and only
their upper triangles are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from parafair.algebra.devices import tile_of

# Numbers in the upper triangles that are formed at once, for each member of a batch: on a CPU,
# what is computed from them must fit into the cache.
FORMED = {"cpu": 2**17, "cuda": 2**26}

# Up to this many numbers, triangles are kept and not formed again when they are used again.
KEPT = {"cpu": 2**22, "cuda": 2**26}

# Copies of the triangles of a part that are held at once: full matrices are twice as large.
COPIES = 8

Form = Callable[[slice], Tensor]


@dataclass(frozen=True, eq=False)
class RowGrams:
    """One Gram matrix for each row of a factor.

    Attributes:
        form: Returns the upper triangles of some rows, shape (batch, rows, pairs), in the order of
            `pair_products`.
        like: An empty tensor with the dtype and device of the matrices.
        shape: That of the factor, (batch, n, rank).
        keep: Whether triangles are kept, if all of them are few.
    """

    form: Form
    like: Tensor
    shape: tuple[int, int, int]
    keep: bool = True
    _kept: dict[tuple[int, int], Tensor] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, triangles: Tensor, rank: int) -> RowGrams:
        """Return the matrices with given upper triangles, shape (batch, n, pairs)."""
        shape = (*triangles.shape[:2], rank)
        return cls(lambda rows: triangles[:, rows], triangles[:0], shape, keep=False)

    @property
    def rank(self) -> int:
        """The size of the matrices."""
        return self.shape[-1]

    def parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield some rows at a time, and their upper triangles, which must not be changed."""
        n, at_once = self.shape[1], max(1, tile_of(FORMED, self.like) // self._pairs)
        for begin in range(0, n, at_once):
            rows = slice(begin, min(begin + at_once, n))
            yield rows, self._part(rows)

    @property
    def _pairs(self) -> int:
        return self.rank * (self.rank + 1) // 2

    def _part(self, rows: slice) -> Tensor:
        """Return the upper triangles of some rows, formed or kept."""
        found = self._kept.get((rows.start, rows.stop))
        if found is None:
            found = self.form(rows)
            batch, n, _ = self.shape
            if self.keep and batch * n * self._pairs <= tile_of(KEPT, self.like):
                self._kept[rows.start, rows.stop] = found
        return found

    def matrices(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield some rows at a time, and their matrices, shape (batch, rows, rank, rank)."""
        return ((rows, from_pairs(part, self.rank)) for rows, part in self.parts())

    def changed(self, change: Callable[[Tensor], Tensor], *, batch: int | None = None) -> RowGrams:
        """Return the matrices after a change of their triangles, for each part at its time.

        Args:
            change: The change.
            batch: The number of members after it; None if it stays.
        """
        shape = (self.shape[0] if batch is None else batch, *self.shape[1:])
        return RowGrams(lambda rows: change(self._part(rows)), self.like, shape, keep=False)

    def plus(self, diagonal: Tensor) -> RowGrams:
        """Return the matrices with more on their diagonals, shape (batch, rank)."""
        places = _diagonal(self.rank, self.like.device)
        return self.changed(lambda part: part.index_add(-1, places, _rows(diagonal, part)))

    def take(self, members: Tensor) -> RowGrams:
        """Return the matrices of some members of the batch."""
        return self.changed(lambda part: part[members], batch=len(members))

    def change_basis(self, basis: Tensor) -> RowGrams:
        """Return ``B G B.T`` for a basis ``B`` of shape (batch, rank, rank)."""
        first, second = torch.triu_indices(self.rank, self.rank, device=self.like.device)
        one, two = basis[:, first][:, :, first], basis[:, second][:, :, second]
        cross = basis[:, first][:, :, second] * basis[:, second][:, :, first]
        # From the pair (r, s) of the old columns to the pair (i, j) of the new ones.
        wide = (one * two + cross * (first != second)).mT
        return self.changed(lambda part: part @ wide)

    def mean(self) -> Tensor:
        """Return the mean matrix, shape (batch, rank, rank)."""
        total = self.like.new_zeros(self.shape[0], self._pairs)
        for _, part in self.parts():
            total += part.sum(1)
        return from_pairs(total / self.shape[1], self.rank)

    def whole(self) -> Tensor:
        """Return all upper triangles, shape (batch, n, pairs)."""
        return torch.cat([part for _, part in self.parts()], 1)

    def products(self, factor: Tensor) -> Tensor:
        """Return ``G_i a_i`` for every row of a factor, shape (batch, n, rank)."""
        found = torch.empty_like(factor)
        for rows, gram in self.matrices():
            found[..., rows, :] = times(gram, factor[..., rows, :])
        return found

    def squares(self, factor: Tensor) -> Tensor:
        """Return the sum of ``a_i G_i a_i`` over all rows, in double precision, (batch,)."""
        first, second = torch.triu_indices(self.rank, self.rank, device=self.like.device)
        twice = 1 + (first != second).double()
        total = factor.new_zeros(self.shape[0], dtype=torch.float64)
        for rows, part in self.parts():
            own = pair_products(factor[..., rows, :].double())
            total += (part.double() * own).sum(1) @ twice
        return total


def add_grams(first: Tensor | RowGrams, second: Tensor | RowGrams) -> Tensor | RowGrams:
    """Return the sums of two matrices for each row; of one, if each is the same for all rows."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first + second.to(first)
    if isinstance(first, RowGrams) and isinstance(second, RowGrams):
        one, two = first, second
        return RowGrams(
            lambda rows: one._part(rows) + two._part(rows).to(one.like), one.like, one.shape
        )
    rowwise, shared = (first, second) if isinstance(first, RowGrams) else (second, first)
    assert isinstance(rowwise, RowGrams)
    assert isinstance(shared, Tensor)
    places = torch.triu_indices(rowwise.rank, rowwise.rank, device=shared.device)
    pairs = shared[:, places[0], places[1]].unsqueeze(1)
    return rowwise.changed(lambda part: part + pairs.to(part))


def working_memory(rank: int, rows: int) -> int:
    """Return about how many numbers the Gram matrices of rows take, per member of a batch."""
    pairs = rank * (rank + 1) // 2
    return min(rows * pairs, KEPT["cpu"]) + COPIES * min(rows * pairs, FORMED["cpu"])


def times(matrices: Tensor, rows: Tensor) -> Tensor:
    """Return ``G_i a_i`` for every row, shape (..., n, rank)."""
    return (matrices * rows.unsqueeze(-2)).sum(-1)


def solve_rows(triangles: Tensor, right: Tensor) -> Tensor:
    """Solve a positive definite system for each row; the solution is zero in flat directions.

    A Cholesky decomposition of all rows at once, entry by entry: for small matrices this is
    several times as fast as one call per matrix.

    Args:
        triangles: Upper triangles of the matrices, shape (batch, n, pairs).
        right: Right-hand sides, shape (batch, n, rank).
    """
    rank = right.shape[-1]
    # Rows become columns, next to each other in memory.
    upper = triangles.flatten(0, -2).mT.contiguous()[places_of(rank, triangles.device)]
    left, roots = right.flatten(0, -2).mT.clone(memory_format=torch.contiguous_format), []
    sound = torch.ones_like(left[0], dtype=torch.bool)
    for r in range(rank):
        sound &= upper[r, r] > 0
        roots.append(upper[r, r].rsqrt())
        left[r] *= roots[r]
        column = upper[r, r + 1 :].mul_(roots[r])
        left[r + 1 :].addcmul_(column, left[r], value=-1)
        upper[r + 1 :, r + 1 :].addcmul_(column.unsqueeze(1), column, value=-1)
    for r in reversed(range(rank)):
        left[r] -= (upper[r, r + 1 :] * left[r + 1 :]).sum(0)
        left[r] *= roots[r]
    solution = left.mT.reshape(right.shape)
    failed = ~sound.reshape(right.shape[:-1])
    if failed.any():
        # Too few entries in a row and no ridge: use the minimum-norm solution.
        where = failed.nonzero(as_tuple=True)
        singular = from_pairs(triangles[where], rank)
        finite = torch.isfinite(singular).flatten(1).all(-1)[:, None, None]
        inverse = torch.linalg.pinv(singular.where(finite, 0.0), hermitian=True)
        found = (inverse @ right[where].unsqueeze(-1)).where(finite, torch.nan)
        solution[where] = found.squeeze(-1)
    return solution


def pair_products(factor: Tensor) -> Tensor:
    """Return the products of all pairs of columns, shape (..., n, rank (rank + 1) / 2)."""
    rank = factor.shape[-1]
    return torch.cat([factor[..., r : r + 1] * factor[..., r:] for r in range(rank)], -1)


def from_pairs(sums: Tensor, rank: int) -> Tensor:
    """Return symmetric matrices from their upper triangles, ordered as in `pair_products`."""
    return sums[..., places_of(rank, sums.device)]


@lru_cache
def places_of(rank: int, device: torch.device) -> Tensor:
    """Return the place of each entry of a symmetric matrix in its upper triangle."""
    first, second = torch.triu_indices(rank, rank, device=device)
    place = torch.empty(rank, rank, dtype=torch.long, device=device)
    place[first, second] = place[second, first] = torch.arange(len(first), device=device)
    return place


def _diagonal(rank: int, device: torch.device) -> Tensor:
    """Return the places of the diagonal in an upper triangle."""
    return places_of(rank, device).diagonal()


def _rows(diagonal: Tensor, part: Tensor) -> Tensor:
    """Return the same diagonal for every row of a part."""
    return diagonal.unsqueeze(-2).expand(*part.shape[:-1], diagonal.shape[-1])
