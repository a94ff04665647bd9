"""The free parameters of a model's factors, which a solver of all factors at once moves.

They are the factors themselves, unless a factor is constrained to a set of low multilinear rank:
then they are its bases and its coordinates, after the rows of the people. The modes of such a
problem are the people, the cells, and then the modes that the cells are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.tucker_tensor import Multilinear
from parafair.arguments import instance_of


def check_structure(structure: Multilinear | None, shape: tuple[int, ...], mode: int) -> None:
    """Raise unless data is a matrix of people and cells that has this structure, if any."""
    if structure is None:
        return
    instance_of("structure", structure, Multilinear, "use Multilinear(sizes, ranks), or None")
    if mode or shape[1:] != (prod(structure.sizes),):
        raise ValueError(
            f"structure is for a matrix with people as mode 0 and {prod(structure.sizes)} columns, "
            f"but the shape is {shape} with people as mode {mode}; unfold the tensor by people"
        )


def parameter_shapes(
    shape: tuple[int, ...], rank: int, structure: Multilinear | None
) -> tuple[tuple[int, int], ...]:
    """Return the shape of each parameter, without the batch."""
    if structure is None:
        return tuple((size, rank) for size in shape)
    bases = zip(structure.sizes, structure.ranks, strict=True)
    return ((shape[0], rank), *bases, (prod(structure.ranks), rank))


def mode_of_basis(number: int) -> int:
    """Return the mode of a basis of a structure: after those of the people and of the cells."""
    return 2 + number


def parameter_of(mode: int, structure: Multilinear | None) -> int:
    """Return which parameter holds the rows of a mode; that of the cells has no rows of its own."""
    return mode if structure is None or mode == 0 else mode - 1


def to_parameters(factors: Factors, structure: Multilinear | None) -> tuple[Tensor, ...]:
    """Return the parameters of factors, each (batch, size, rank)."""
    if structure is None:
        return tuple(factors)
    bases, core = structure.split(factors[1])
    return (factors[0], *bases, core)


def to_factors(parameters: Factors, structure: Multilinear | None) -> tuple[Tensor, ...]:
    """Return the factors with these parameters."""
    if structure is None:
        return tuple(parameters)
    rows, *bases, core = parameters
    return (rows, structure.join(bases, core))


def pull_back(
    parameters: Factors, gradients: Factors, structure: Multilinear | None
) -> tuple[Tensor, ...]:
    """Return the gradients in the parameters from those in the factors."""
    if structure is None:
        return tuple(gradients)
    _, *bases, core = parameters
    for_bases, for_core = structure.pull(bases, core, gradients[1])
    return (gradients[0], *for_bases, for_core)


def flatten(factors: Factors) -> Tensor:
    """Return all parameters as one vector per member, shape (batch, N)."""
    return torch.cat([factor.flatten(1) for factor in factors], 1)


def unflatten(vector: Tensor, shapes: Sequence[tuple[int, int]]) -> tuple[Tensor, ...]:
    """Return the parameters of vectors (batch, N), each (batch, size, rank)."""
    parts = vector.split([size * rank for size, rank in shapes], 1)
    return tuple(part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True))
