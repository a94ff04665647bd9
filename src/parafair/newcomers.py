"""New people: embeddings with all other factors fixed, and with the criterion if it is known.

New people's rows minimize their part of the training's objective: the squared error of their
entries, plus the criterion of everybody, those of the training held where they are. They are
embedded together. One by one, each would go where people with other features happen to be a little
denser, all of them to the same places, and stand out there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.criterion import Criterion, Standardized
from parafair.losses import Block, block_of
from parafair.quadratic import QuadraticForm
from parafair.solvers.decompose import WEAKER
from parafair.solvers.majorize import Point, majorize

MOST_STEPS = 200
# They are done when the objective falls by less than this share of itself in a step.
TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class NewcomerTerm:
    """A multiple of the criterion of everybody, as a function of the new people's whitened rows.

    Attributes:
        criterion: The criterion, those of the training first.
        trained: The rows of the training, shape (n, rank).
        unwhiten: The way from whitened rows to rows, shape (rank, rank).
        scale: The multiple.
    """

    criterion: Criterion
    trained: Tensor
    unwhiten: Tensor
    scale: float

    def value(self, factor: Tensor) -> Tensor:
        """Return the value, shape (1,)."""
        return self.value_and_gradient(factor)[0]

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient in the new rows, shape (1, people, rank)."""
        rows = self.trained.mean(0) + factor @ self.unwhiten
        everybody = torch.cat([self.trained.expand(len(rows), -1, -1), rows], -2)
        value, gradient = self.criterion.value_and_gradient(everybody)
        new = gradient[:, len(self.trained) :] @ self.unwhiten.mT
        return self.scale * value, self.scale * new


def fit_rows(target: Tensor, gram: Tensor) -> Tensor:
    """Return the rows that fit best, shape (people, rank); arguments as in `fair_rows`."""
    block = block_of(target[None], gram[None], norm_squared=0.0, entries=1, ridge=None)
    return block.minimizer(QuadraticForm.zero(target))[0]


def fair_rows(
    target: Tensor,
    gram: Tensor,
    *,
    norm_squared: float,
    entries: int,
    criterion: Criterion,
    trained: Tensor,
    scale: float,
) -> Tensor:
    """Return rows that fit and leave the criterion of everybody small.

    Args:
        target: ``M`` of the new people, shape (people, rank).
        gram: ``G``, shape (rank, rank), or (people, rank, rank) for each person.
        norm_squared: The squares of the new people's entries.
        entries: Number of entries of the training and of the new people.
        criterion: The criterion of everybody, those of the training first.
        trained: The rows of the training, shape (n, rank).
        scale: What the criterion was multiplied by.
    """
    mean, basis = trained.mean(0), Standardized.of(trained).basis.to(trained)
    # In whitened coordinates: a = mean + z basis.
    image = (gram.expand(len(target), -1, -1) * mean).sum(-1)
    constant = norm_squared + float(((image - 2 * target) * mean).sum())
    block = block_of(
        (target - image)[None], gram[None], norm_squared=constant, entries=entries, ridge=None
    )
    block = block.change_basis(basis[None])
    rows = block.minimizer(QuadraticForm.zero(target))
    for share in (*WEAKER, 1.0):
        rows = _descend(block, NewcomerTerm(criterion, trained, basis, share * scale), rows)
    return mean + rows[0] @ basis


def _descend(block: Block, term: NewcomerTerm, rows: Tensor) -> Tensor:
    """Take majorize-minimize steps until little is gained."""
    point = Point(rows, *term.value_and_gradient(rows))
    # Moving one of n people by 1 changes about this much.
    curvature = point.value / (len(term.trained) + rows.shape[-2])
    after = block.value(point.factor) + point.value
    for _ in range(MOST_STEPS):
        before = after
        point, curvature, accepted = majorize(block, term, point, curvature)
        after = block.value(point.factor) + point.value
        if not accepted or before - after <= TOLERANCE * after:
            break
        curvature = curvature / 2
    return point.factor
