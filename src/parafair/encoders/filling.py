"""Missing entries of new people, for encoders that need all entries."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor

from parafair.algebra.cp_tensor import Factors, reconstruct
from parafair.algebra.least_squares import squared_block
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.sparse import values_at
from parafair.data.tensor_data import TensorData
from parafair.dependence.whitening import spread_basis
from parafair.encoders.base import CompleteEncoder, Encoder
from parafair.encoders.result import encode_people
from parafair.solvers.result import Fit


def encode_new(encoder: Encoder, data: TensorData, fit: Fit) -> Tensor:
    """Return rows of new people without noise, shape (people, rank).

    If the encoder needs all entries, the model's predictions take the place of missing ones. People
    without any entries get the mean row of the fit.

    Args:
        encoder: The encoder of the fit.
        data: Entries of people, in the order of the model's labels and without its offsets.
        fit: The fit.
    """
    mode, fill = encoder.mode, None
    factors = [factor.to(data.values) for factor in fit.cp.factors]
    needs_all = isinstance(encoder, CompleteEncoder) and encoder.needs_all_entries
    if needs_all and data.observed < prod(data.shape):
        fill = Filling.of(factors, mode, error=fit.history[-1].loss).fill
    return encode_people(encoder, data, empty=factors[mode].mean(0), fill=fill)


@dataclass(frozen=True, eq=False)
class Filling:
    """Predictions of a person's missing entries from those that are there.

    With ``B`` the product of the other factors at a person's entries ``x``, the entries are
    predicted by the row ``a`` that minimizes

        ||x - B a||^2 + error * (a - m).T inverse(S) (a - m),

    the most likely row if rows have the mean ``m`` and the covariance ``S`` of the model's rows. A
    least-squares row alone would fit fewer entries than components exactly, and make up the others.

    Attributes:
        factors: The factors of the model, (size, rank) each.
        mode: The mode of the people.
        mean: ``m``, shape (rank,).
        basis: ``normal @ basis`` has the covariance ``S``, shape (rank, rank).
        error: The mean squared error of the model's predictions.
    """

    factors: Factors
    mode: int
    mean: Tensor
    basis: Tensor
    error: float

    @classmethod
    def of(cls, factors: Factors, mode: int, *, error: float) -> Filling:
        """Return the predictions of a model.

        Args:
            factors: Its factors.
            mode: The mode of the people.
            error: Its mean squared error.
        """
        rows = factors[mode]
        return cls(factors, mode, rows.mean(0), spread_basis(rows).to(rows), error)

    def fill(self, data: TensorData) -> TensorData:
        """Return data in which no entry is missing."""
        if data.observed == prod(data.shape):
            return data
        entries = data.to_sparse()
        cells = entries.cells
        filled = reconstruct(self._with_people(self.rows(entries)))
        filled[tuple(cells)] = entries.entries
        return TensorData(filled, None, data.shape, data.modes, data.labels)

    def rows(self, data: TensorData) -> Tensor:
        """Return the row of every person, shape (people, rank)."""
        people = data.shape[self.mode]
        expected = values_at(data.cells, self._with_people(self.mean.expand(people, -1)))
        left = TensorData(data.entries - expected, data.cells, data.shape)
        nobody = self.mean.new_zeros(people, len(self.mean))
        sums = left.observations.sums([each[None] for each in self._with_people(nobody)])
        block = squared_block(
            sums.target(self.mode), sums.gram(self.mode), norm_squared=0.0, entries=1, ridge=None
        ).change_basis(self.basis[None])
        zero = QuadraticForm.zero(nobody)
        found = block.minimizer(QuadraticForm(zero.directions, zero.values, self.error))[0]
        return self.mean + found @ self.basis

    def _with_people(self, rows: Tensor) -> list[Tensor]:
        """Return all factors, with these rows of people."""
        return [rows if mode == self.mode else own for mode, own in enumerate(self.factors)]
