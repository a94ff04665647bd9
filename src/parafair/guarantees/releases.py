"""What is certified: exact rows, the noise that is added to them, and the people's features.

A released row is ``a_i + eps @ noise`` with ``eps`` standard normal. In units of the noise it is
``z_i + eps``, so everything else in this package works with rows ``z``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.data.arrays import as_tensor
from parafair.data.raw_features import check_index
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import shown

# Rounding of the released numbers must be this small against the noise.
MOST_ROUNDING = 0.01
# Singular values below this share of the largest are zero.
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Release:
    """Exact rows of people, their features, and the noise of the release.

    Attributes:
        rows: Rows without noise, shape (n, rank).
        noise: The matrix that standard normal rows are multiplied with, shape (rank, rank).
        features: Sensitive features of these people, none missing.
        released: The rows that were released, shape (n, rank); None if they are not known.
        held_out: Whether neither the rows nor the noise depend on these people: they are a sample
            of a population, and the map from entries to rows was fixed before.
        training: The features of the training people, by which numbers of held-out people are cut
            into groups; None if they are not known.
        places: Positions of these people among everybody; None for everybody.
        everybody: Number of people with a row, also those without features.
        notes: Sentences on who is left out.
    """

    rows: Tensor
    noise: Tensor
    features: SensitiveFeatures
    released: Tensor | None = None
    held_out: bool = False
    training: SensitiveFeatures | None = None
    places: NDArray[np.intp] | None = None
    everybody: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or not self.rows.numel():
            raise ValueError(
                f"rows must have shape (people, columns), got {tuple(self.rows.shape)}; pass one "
                "row per person"
            )
        if not bool(torch.isfinite(self.rows).all()):
            raise ValueError(
                "rows have entries that are NaN or infinite, of which nothing can be certified; "
                "leave these people out, or fit again"
            )
        if len(self.features) != len(self.rows):
            raise ValueError(
                f"sensitive_features has {len(self.features)} rows but there are {len(self.rows)} "
                "people; pass one row per person, in the same order"
            )

    def in_units_of_noise(self, releases: int = 1) -> Tensor:
        """Return rows ``z`` such that the released rows are ``z`` plus standard normal noise.

        T independent releases of the same rows tell as much as one with the noise divided by
        ``sqrt(T)``: their mean is sufficient. Directions without noise are left out if the rows are
        equal there; otherwise they reveal everything and an error is raised.

        Args:
            releases: The number T of releases.
        """
        rows, noise = self.rows.double(), self.noise.double()
        scales = noise.abs().amax(0)
        varies = (rows != rows[:1]).any(0)
        if bool(((scales == 0) & varies).any()):
            column = int(((scales == 0) & varies).nonzero()[0])
            raise _no_noise_somewhere(f"column {column}")
        kept = scales > 0
        if not bool(kept.any()):  # all rows are equal
            return rows.new_zeros(len(rows), 1)
        # In units of their own noise, columns of any size have equal weight below.
        exact = rows[:, kept] / scales[kept]
        _, values, right = torch.linalg.svd(noise[:, kept] / scales[kept], full_matrices=True)
        values = torch.nn.functional.pad(values, (0, int(kept.sum()) - len(values)))
        noisy = values > RANK_TOLERANCE * values.max()
        self._check_rounding(exact, values[noisy].min())
        centered = exact - exact.mean(0)
        turned = centered @ right.mT
        flat = turned[:, ~noisy]
        if flat.numel() and float(flat.abs().max()) > 1e-9 * float(centered.abs().max()):
            raise _no_noise_somewhere("a combination of columns")
        found: Tensor = turned[:, noisy] / values[noisy] * sqrt(releases)
        return found

    def _check_rounding(self, exact: Tensor, least: Tensor) -> None:
        """Raise if the noise is not large against the rounding of released numbers."""
        rounding = torch.finfo(self.rows.dtype).eps * exact.abs().max() / least
        if not float(rounding) <= MOST_ROUNDING:
            raise ValueError(
                "noise underflows: in some direction it is not larger than the rounding error of "
                f"rows in {str(self.rows.dtype).removeprefix('torch.')}, so what is released is "
                "not Gaussian; use more noise, float64, or a lower rank if columns are collinear"
            )


def _no_noise_somewhere(where: str) -> ValueError:
    return ValueError(
        f"noise is zero in {where}, in which the rows differ, so the release reveals it exactly "
        "and nothing can be certified; use noise with a covariance of full rank, such as "
        "FairCP(noise=0.1)"
    )


def as_noise(noise: Any, rows: Tensor) -> Tensor:
    """Return the noise as a matrix on the device of the rows, shape (rank, rank).

    Args:
        noise: A matrix; or a number, the standard deviation in every column; or one for each.
        rows: The rows it is added to, shape (n, rank).
    """
    rank = rows.shape[1]
    if noise is None or (isinstance(noise, Real) and not isinstance(noise, bool)):
        scale = float(noise) if noise is not None else 0.0
        if not isfinite(scale) or scale < 0:
            raise ValueError(f"noise must be a finite number of at least 0, got {shown(noise)}")
        return scale * torch.eye(rank, dtype=torch.float64, device=rows.device)
    matrix = as_tensor(noise, name="noise", dtype=torch.float64).detach().to(rows.device)
    if matrix.shape not in ((rank,), (rank, rank)):
        raise ValueError(
            f"noise must be a number, {rank} numbers, or a matrix of shape {(rank, rank)} that "
            f"standard normal rows are multiplied with, got {shown(noise)}"
        )
    if matrix.ndim == 1 and bool((matrix < 0).any()):
        raise ValueError(
            f"noise must be standard deviations of at least 0, got {float(matrix.min()):g} in "
            f"column {int(matrix.argmin())}; pass one for each column, or a matrix"
        )
    return torch.diag(matrix) if matrix.ndim == 1 else matrix


def read_people(rows: Any, sensitive_features: Any) -> tuple[Tensor, SensitiveFeatures]:
    """Return rows and features of people as a caller gives them; raise unless they fit together."""
    check_index(sensitive_features, rows)
    exact = as_tensor(rows, name="rows").detach()
    if exact.ndim != 2 or not exact.numel():
        raise ValueError(
            f"rows must have shape (people, columns), got {tuple(exact.shape)}; pass one row per "
            "person"
        )
    features = SensitiveFeatures.of(sensitive_features)
    if features.has_features is not None:
        raise ValueError(
            f"sensitive_features must be known, but {(~features.has_features).sum()} of "
            f"{len(features)} people have none; leave these people out of rows and features"
        )
    if len(features) != len(exact):
        raise ValueError(
            f"sensitive_features has {len(features)} rows but there are {len(exact)} people; pass "
            "one row per person, in the same order"
        )
    return exact, features
