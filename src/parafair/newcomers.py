"""New people: embeddings with all other factors fixed, and with the criterion if it is known.

A person's row minimizes their own part of the training's objective: the squared error of their
entries, plus what they would add to the criterion while everybody else stays where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.losses import SharedBlock
from parafair.quadratic import QuadraticForm
from parafair.sensitive import SensitiveFeatures
from parafair.solvers.majorize import Point, majorize
from parafair.witness import BoundWitness, Witness

MOST_STEPS = 200
# People whose objective falls by less than this share of itself in a step are done.
TOLERANCE = 1e-5
# Pairs of new and trained people looked at together.
BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class Scaled:
    """A witness function times the strength of the training."""

    witness: BoundWitness
    scale: float

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each person, shape (people,)."""
        return self.scale * self.witness.value(factor)

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return values and gradients at whitened rows, shape (people, 1, rank)."""
        value, gradient = self.witness.value_and_gradient(factor)
        return self.scale * value, self.scale * gradient

    def take(self, people: Tensor) -> Scaled:
        """Return the function of some people."""
        bound = BoundWitness(self.witness.witness, self.witness.coordinates[people])
        return Scaled(bound, self.scale)


def fit_rows(target: Tensor, gram: Tensor) -> Tensor:
    """Return the rows that fit best, shape (people, rank); arguments as in `fair_rows`."""
    block = _block(target, gram, entries=1)
    return block.minimizer(QuadraticForm.zero(block.target)).squeeze(-2)


def fair_rows(
    target: Tensor,
    gram: Tensor,
    *,
    entries: int,
    witness: Witness,
    scale: float,
    features: SensitiveFeatures,
) -> Tensor:
    """Return rows that fit and do not stand out from people with other features.

    Args:
        target: ``M`` of the new people, shape (people, rank).
        gram: ``G``, shape (rank, rank), or (people, rank, rank) for each person.
        entries: Number of entries of the training, whose mean was minimized.
        witness: The witness function of the training.
        scale: What its criterion was multiplied by.
        features: The new people's features, in terms of those of the training.
    """
    trained = witness.trained
    mean, basis = witness.rows.double().mean(0), trained.basis
    block = _block(target.double(), gram.double(), entries)
    # In whitened coordinates: a = mean + z basis.
    shifted = block.target - (mean @ block.gram).unsqueeze(-2)
    block = SharedBlock(shifted, block.gram, 0.0, entries)
    block = block.change_basis(basis.expand(len(target), -1, -1))
    term = Scaled(witness.bind(features), scale)
    rows = _begin(block, term, trained.whitened)
    rows = _descend(block, term, rows)
    return (mean + rows.squeeze(-2) @ basis).to(target)


def _block(target: Tensor, gram: Tensor, entries: int) -> SharedBlock:
    """Return the loss of each person as a member of a batch, with one row each."""
    people, rank = target.shape
    return SharedBlock(target.unsqueeze(-2), gram.expand(people, rank, rank), 0.0, entries)


def _begin(block: SharedBlock, term: Scaled, trained: Tensor) -> Tensor:
    """Return the best of the fitting row and all rows of the training, (people, 1, rank).

    The function has many hollows where trained people are; a descent finds the nearest only.
    """
    own = block.minimizer(QuadraticForm.zero(block.target))
    best_value, best = _losses(block, own).squeeze(-1) + term.value(own), own.clone()
    squares = torch.einsum("jr,js->jrs", trained, trained).flatten(1)
    coordinates = term.witness.coordinates
    # The witness function is linear in the features.
    heights = [
        BoundWitness(term.witness.witness, unit.expand(len(trained), -1)).value(trained[:, None])
        for unit in torch.eye(coordinates.shape[1]).to(coordinates)
    ]
    weighted = term.scale * torch.stack(heights)
    everybody = torch.arange(len(own), device=own.device)
    for some in everybody.split(max(1, BLOCK // len(trained))):
        values = block.gram[some].flatten(1) @ squares.mT
        values = (values - 2 * block.target[some].squeeze(-2) @ trained.mT) / block.entries
        value, place = (values + coordinates[some] @ weighted).min(1)
        better = value < best_value[some]
        best[some[better]] = trained[place[better]].unsqueeze(-2)
    return best


def _losses(block: SharedBlock, rows: Tensor) -> Tensor:
    """Return the part of the loss that depends on the rows, shape (people, 1)."""
    return ((rows @ block.gram - 2 * block.target) * rows).sum(-1) / block.entries


def _descend(block: SharedBlock, term: Scaled, rows: Tensor) -> Tensor:
    """Take majorize-minimize steps; people who are done leave the batch."""
    running = torch.arange(len(rows), device=rows.device)
    rows = rows.clone()
    point = Point(rows, *term.value_and_gradient(rows))
    loss = _losses(block, rows).squeeze(-1)
    curvature = (block.gram.diagonal(dim1=-2, dim2=-1).mean(-1) / block.entries).clamp_min(
        torch.finfo(rows.dtype).tiny
    )
    for _ in range(MOST_STEPS):
        before = loss + point.value
        point, curvature, accepted = majorize(block, term, point, curvature)
        rows[running] = point.factor
        loss = _losses(block, point.factor).squeeze(-1)
        gained = before - (loss + point.value)
        going = (accepted & (gained > TOLERANCE * (loss.abs() + point.value.abs()))).nonzero()
        going = going.flatten()
        if not len(going):
            break
        running, loss, curvature = running[going], loss[going], curvature[going] / 2
        block, term = block.take(going), term.take(going)
        point = Point(*(part[going] for part in point))
    return rows
