"""A table of the same people with a loss of its own: its deviance at the factor that fits best.

As in `parafair.algebra.coupled`, but every column of the table is a regression of its own on the
people's rows, with the loss's link and an intercept. Their best values have no closed form: every
evaluation takes Newton's steps to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parafair.algebra.coupled import SHRINKAGE, unit_columns
from parafair.algebra.least_squares import Squares
from parafair.algebra.row_grams import RowGrams
from parafair.losses import has_link, is_squared
from parafair.solvers.deviance import Deviance
from parafair.solvers.rows import minimize_rows
from parafair.solvers.tangent import tangent_squares

# The share ``s`` of a loss with a link, over the curvature of the intercepts: on the scale of a
# link, people who are told apart without an error would have infinite numbers.
LINK_SHRINKAGE = 1e-2


@dataclass(frozen=True, eq=False)
class FixedTable:
    """A table whose factor is fixed: its error as a function of the people's rows.

    Attributes:
        deviance: The deviance of the table, in double precision; people are its mode 0. It has the
            intercepts.
        factor: ``D``, shape (batch, columns, rank), in double precision.
        share: The share ``s``.
        multiple: What the error is multiplied with.
        intercepts: Numbers of the columns, shape (batch, columns, 1); None for zeros.
    """

    deviance: Deviance
    factor: Tensor
    share: float
    multiple: float = 1.0
    intercepts: Tensor | None = None

    @property
    def fixed(self) -> list[Tensor]:
        """The intercepts as a further component; empty without any."""
        if self.intercepts is None:
            return []
        return [self.factor.new_ones(1, self.deviance.data.shape[0], 1), self.intercepts]

    @property
    def is_squared(self) -> bool:
        """Whether the loss is the squared error."""
        return is_squared(self.deviance.loss)

    @property
    def shrinkage(self) -> Tensor:
        """What is added to the diagonals of the Gram matrices, shape (batch, rank)."""
        return self.share * self.factor.square().sum(-2)

    def near(self, rows: Tensor, damping: Tensor | None = None) -> Squares:
        """Return weighted squares that touch the error at rows (batch, people, rank)."""
        factors = [rows.double(), self.factor]
        target, gram, constant = tangent_squares(
            self.deviance, factors, 0, damping, fixed=self.fixed
        )
        if isinstance(gram, RowGrams):
            grams: Tensor | RowGrams = gram.changed(lambda part: part * self.multiple)
            assert isinstance(grams, RowGrams)
            grams = grams.plus(self.shrinkage * self.multiple)
        else:
            grams = (gram + self.shrinkage.diag_embed()) * self.multiple
        return Squares(target * self.multiple, grams, constant * self.multiple)

    def value_and_slope(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the error in double precision, shape (batch,), and half its gradient."""
        exact, deviance = rows.double(), self.deviance
        value, slope, _ = deviance.entries.slope_and_grams(
            deviance.loss, None, [exact, self.factor], self.fixed, 0
        )
        held = self.shrinkage.unsqueeze(-2) * exact
        error = deviance.of_sum(value) + (held * exact).sum((-2, -1))
        return self.multiple * error, (self.multiple * (slope + held)).to(rows)

    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return half the error of each row, the slope of that, and triangles of its curvature."""
        exact, loss = rows.double(), self.deviance.loss
        value, slope, triangles = self.deviance.entries.of_rows(
            loss, loss.curvature, [exact, self.factor], self.fixed, 0
        )
        assert triangles is not None
        held = self.shrinkage.unsqueeze(-2) * exact
        curved = RowGrams.of(triangles, rows.shape[-1]).plus(self.shrinkage).whole()
        value = value + (held * exact).sum(-1) / 2
        found = (value, slope + held, curved)
        value, slope, curved = (self.multiple * part for part in found)
        return value, slope.to(rows), curved.to(rows)


@dataclass(frozen=True, eq=False)
class LinkedTable:
    """A table of people with any loss that has factors of both signs.

    Attributes:
        deviance: Its deviance, in double precision; people are its mode 0.
        multiple: What the error is multiplied with.
    """

    deviance: Deviance
    multiple: float = 1.0

    @cached_property
    def share(self) -> float:
        """The share ``s``."""
        if not has_link(self.deviance.loss):
            return SHRINKAGE
        curved = self.deviance.entries.margins(
            self.deviance.loss, [0 * self._none.fixed[0], self._none.factor], self._none.fixed
        )
        return LINK_SHRINKAGE * float(curved[0].sum()) / self.deviance.data.observed

    @property
    def monotone(self) -> bool:
        """Whether the squares of `near` lie nowhere below the error."""
        return self.deviance.loss.monotone

    @cached_property
    def total(self) -> float:
        """The error of the intercepts alone."""
        rows = 0 * self._none.fixed[0]
        return self.multiple * float(self._none.value_and_slope(rows)[0])

    @cached_property
    def _none(self) -> FixedTable:
        """The table with the best intercepts, and rows that explain nothing."""
        people, columns = self.deviance.data.shape
        design = self.deviance.data.values.new_ones(1, people, 1)
        begin = design.new_zeros(1, columns, 1)
        intercepts = minimize_rows(self.deviance, [design, begin], 1, ridge=None)
        return FixedTable(self.deviance, begin, 0.0, 1.0, intercepts)

    @property
    def counts(self) -> Tensor:
        """The number of observed entries of each person, shape (people,)."""
        return self.deviance.data.observations.counts(0)

    def factor(self, rows: Tensor) -> Tensor:
        """Return the best ``D`` for rows of people, shape (batch, columns, rank)."""
        return self.at(rows).factor

    def at(self, rows: Tensor) -> FixedTable:
        """Return the table with the factor and the intercepts that are best for rows, fixed."""
        unit, length = unit_columns(rows)
        # The intercepts are a further component, which is not shrunk.
        one = torch.ones_like(unit[..., :1]) / unit.shape[-2] ** 0.5
        design = torch.cat([unit, one], -1)
        alone = (self._none.fixed[1] / one[:1, :1]).expand(len(unit), -1, -1)
        begin = torch.cat([torch.zeros_like(alone).expand(-1, -1, unit.shape[-1]), alone], -1)
        shrinkage = torch.cat([self.share * unit.square().sum(-2), 0 * one[:, 0]], -1)
        found = minimize_rows(self.deviance, [design, begin], 1, ridge=shrinkage)
        factor, intercepts = found[..., :-1] / length, found[..., -1:] * one[:, :1]
        return FixedTable(self.deviance, factor, self.share, self.multiple, intercepts)

    def near(self, rows: Tensor, damping: Tensor | None = None) -> Squares:
        """Return weighted squares that touch the error at these rows."""
        return self.at(rows).near(rows, damping)

    def mean_gram(self, rows: Tensor) -> Tensor:
        """Return the mean of the Gram matrices, weighted by the loss's curvature."""
        _, _, triangles = self.at(rows).of_rows(rows)
        return RowGrams.of(triangles, rows.shape[-1]).mean()

    def value_and_slope(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the error in double precision, shape (batch,), and half its gradient."""
        return self.at(rows).value_and_slope(rows)

    def value(self, rows: Tensor) -> Tensor:
        """Return the error in double precision, shape (batch,)."""
        return self.value_and_slope(rows)[0]
