"""Whether the arrays of a stored fit belong together."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor

# Data of a larger norm is refused, so no factor has larger entries.
LARGEST = 1e80


def check_factors(
    cp: CPTensor,
    *,
    rows: Mapping[str, Tensor | None],
    side: Tensor | None,
    intercepts: Tensor | None,
) -> None:
    """Raise unless factors are matrices, to which other arrays belong.

    Args:
        cp: The factors.
        rows: Arrays that have the shape of a factor, by name; None for those that the fit lacks.
        side: The factor of the side information, or None.
        intercepts: Its intercepts, or None.
    """
    if not cp.rank or {factor.ndim for factor in cp.factors} != {2}:
        raise ValueError("its factors have no components, or are no matrices")
    for name, found in rows.items():
        if found is not None and found.shape not in {factor.shape for factor in cp.factors}:
            raise ValueError(f"its {name} rows have the shape {tuple(found.shape)} of no factor")
    if side is not None and (side.ndim != 2 or side.shape[1] != cp.rank):
        raise ValueError(
            f"its factor of side information has the shape {tuple(side.shape)}, not "
            f"(columns, {cp.rank})"
        )
    if intercepts is not None and (side is None or intercepts.shape != side.shape[:1]):
        raise ValueError(
            f"its intercepts of side information have the shape {tuple(intercepts.shape)}, not "
            "one number for each of its columns"
        )


def check_modes(cp: CPTensor, *, noise: Mapping[int, Tensor], rows: Mapping[int, Tensor]) -> None:
    """Raise unless matrices of noise and rows before noise belong to factors."""
    for mode, found in noise.items():
        known = mode in range(len(cp.factors)) and found.shape == (cp.rank, cp.rank)
        square = found.ndim == 2 and found.shape[0] == found.shape[1]
        if not known and not (square and mode >= len(cp.factors) == 2):
            raise ValueError(
                f"its noise of mode {mode} has the shape {tuple(found.shape)}, not "
                f"{(cp.rank, cp.rank)}, or there is no such mode"
            )
    for mode, found in rows.items():
        known = mode in range(len(cp.factors)) and found.shape == cp.factors[mode].shape
        if not known and not _may_be_basis(cp, mode, found):
            raise ValueError(
                f"its rows before noise of mode {mode} have the shape {tuple(found.shape)}, which "
                "its factor does not have"
            )


def _may_be_basis(cp: CPTensor, mode: int, rows: Tensor) -> bool:
    """Whether rows may be those of a basis: a fit's file has the number of cells alone."""
    sized = rows.ndim == 2 and rows.numel() > 0 and len(cp.factors[-1]) % len(rows) == 0
    return bool(sized and mode >= len(cp.factors) == 2)
