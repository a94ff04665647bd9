"""The witness function: what one more person would add to the criterion, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parafair.criterion import (
    COMPONENT,
    ISOTROPIC_SHARE,
    Criterion,
    ExactSums,
    Standardized,
    column_samples,
    isotropic_kernel,
    spectrum_of,
    waves,
)
from parafair.kernels import Gaussians
from parafair.sensitive import SensitiveFeatures

# Pairs of people, or of people and frequencies, looked at together.
BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class Witness:
    """``2 / n**2 * sum_j L(s, s_j) k(z, z_j)`` over the people a model was trained with.

    It is what one more person, with whitened row ``z`` and features ``s``, adds to the criterion
    while everybody else stays: low where people with other features are.

    Attributes:
        criterion: The criterion of the training.
        rows: The embedding of the training, shape (n, rank).
    """

    criterion: Criterion
    rows: Tensor

    @cached_property
    def trained(self) -> Standardized:
        """The people of the training, standardized."""
        return Standardized.of(self.rows)

    @cached_property
    def row_images(self) -> tuple[Tensor, Tensor]:
        """What whole rows of the trained people look like to Fourier features."""
        return self._images(self.trained.whitened, isotropic_kernel(self.rows.shape[-1]))

    @cached_property
    def column_images(self) -> tuple[Tensor, Tensor]:
        """The same of their single columns."""
        return self._images(column_samples(self.trained), COMPONENT)

    def _images(self, trained: Tensor, kernel: Gaussians) -> tuple[Tensor, Tensor]:
        """Return the features times the waves of the trained people, two of shape (..., r, f)."""
        thin = self.criterion.thin.to(trained)
        frequencies, powers = spectrum_of(kernel, trained)
        most = _at_once(trained, len(powers))
        shape = (*trained.shape[:-2], thin.shape[1], len(powers))
        cosines, sines = trained.new_zeros(shape), trained.new_zeros(shape)
        for some, features in zip(trained.split(most, -2), thin.split(most), strict=True):
            cosine, sine = waves(some, frequencies)
            cosines += features.mT @ cosine
            sines += features.mT @ sine
        return cosines * powers, sines * powers

    def bind(self, features: SensitiveFeatures) -> BoundWitness:
        """Return the function of some new people."""
        return BoundWitness(self, self.criterion.coordinates(features).to(self.trained.whitened))


@dataclass(frozen=True, eq=False)
class BoundWitness:
    """The witness function of new people; every person is a member of a batch.

    Attributes:
        witness: The function for any features.
        coordinates: The people's features, shape (people, r).
    """

    witness: Witness
    coordinates: Tensor

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each person, shape (people,)."""
        return self.value_and_gradient(factor)[0]

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return values and gradients at whitened rows, shape (people, 1, rank)."""
        rows, trained = factor.squeeze(-2).to(self.coordinates), self.witness.trained
        whole, for_rows = self._whole(rows)
        to_columns = (trained.vectors * trained.scales.unsqueeze(-2)) @ trained.vectors.mT
        columns = torch.cat([rows @ to_columns, rows], -1).mT.unsqueeze(-1)
        single, slopes = self._by_waves(columns, COMPONENT, self.witness.column_images)
        for_columns, for_whitened = slopes.squeeze(-1).mT.chunk(2, -1)
        share = (1 - ISOTROPIC_SHARE) / len(columns)
        value = ISOTROPIC_SHARE * whole + share * single.sum(0)
        gradient = ISOTROPIC_SHARE * for_rows + share * (for_whitened + for_columns @ to_columns.mT)
        unit = 2 / self.witness.criterion.reference(rows.shape[-1])
        return (unit * value).to(factor), (unit * gradient).unsqueeze(-2).to(factor)

    def _whole(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the part of whole rows, as the training saw it."""
        kernel = isotropic_kernel(rows.shape[-1])
        if not isinstance(self.witness.criterion.sums, ExactSums):
            return self._by_waves(rows, kernel, self.witness.row_images)
        trained = self.witness.trained.whitened
        thin = self.witness.criterion.thin.to(trained)
        most = max(1, BLOCK // len(trained))
        parts = [
            kernel.by_row(some, trained, features @ thin.mT)
            for some, features in zip(rows.split(most), self.coordinates.split(most), strict=True)
        ]
        values, gradients = zip(*parts, strict=True)
        return torch.cat(values), torch.cat(gradients)

    def _by_waves(
        self, sample: Tensor, kernel: Gaussians, images: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the sum over the trained people for each row of samples (..., people, d)."""
        frequencies, powers = spectrum_of(kernel, sample)
        most = _at_once(sample, len(powers))
        values, gradients = [], []
        for some, own in zip(sample.split(most, -2), self.coordinates.split(most), strict=True):
            cosine, sine = waves(some, frequencies)
            along, across = own @ images[0], own @ images[1]
            values.append((cosine * along + sine * across).sum(-1))
            gradients.append((cosine * across - sine * along) @ frequencies.mT)
        return torch.cat(values, -1), torch.cat(gradients, -2)


def _at_once(sample: Tensor, width: int) -> int:
    return max(1, BLOCK // (width * sample[..., 0, 0].numel()))
