"""Side information of a fitted model, and of the people it is applied to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.coupled import Table
from parafair.algebra.row_grams import RowGrams
from parafair.arguments import real_number
from parafair.data.column import Column
from parafair.data.labels import preview
from parafair.data.side_columns import SideColumns, read_side
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import Reduction
from parafair.errors import ParafairWarning, warn
from parafair.losses import Loss, is_squared
from parafair.penalties import Penalty, ScorePenalty
from parafair.penalties.base import is_scale_free
from parafair.solvers import GradientBCD
from parafair.solvers.problem import Problem
from parafair.solvers.side import Side

# A column of side information that explains this share of a sensitive feature nearly is the
# feature; people are compared in parts of this many.
PROXY, PART = 0.8, 10


@dataclass(frozen=True, eq=False)
class NewSide:
    """Side information of new people, in the units of the tensor.

    Attributes:
        data: Their table, standardized like that of the training people.
        factor: The factor of its columns, shape (columns, rank).
    """

    data: TensorData
    factor: Tensor

    @property
    def counts(self) -> Tensor:
        """The number of known columns of each person, shape (people,)."""
        return self.data.observations.counts(0)

    def take(self, people: NDArray[np.intp]) -> NewSide:
        """Return the rows of some people."""
        return NewSide(self.data.take(0, people), self.factor)

    def sums(self, rows: Tensor) -> tuple[Tensor, Tensor | RowGrams, float]:
        """Return ``M`` and ``G`` of the rows of these people, and the sum of squares."""
        table = Table(self.data.observations)
        return *table.sums(rows, self.factor.double()[None]), table.norm_squared


def observed_of(data: TensorData, mode: int, side: NewSide | None) -> Tensor:
    """Return the number of entries of each person, those of side information included."""
    counts = data.observations.counts(mode)
    return counts if side is None else counts + side.counts


def check_side(method: object, encoder: object, loss: Loss, solver: object) -> None:
    """Raise if something in a model cannot be used with side information.

    Args:
        method: The resolved method.
        encoder: The encoder, or None.
        loss: The loss.
        solver: The solver.
    """
    reason = ""
    if encoder is not None:
        reason = "an encoder, which maps the entries of X alone to rows; leave encoder out"
    elif isinstance(method, Reduction):
        reason = "this method, whose rows are those of an encoder; use method='invariant'"
    elif isinstance(method, ScorePenalty):
        reason = "a method about predicted scores; use method='invariant'"
    elif isinstance(method, Penalty) and not is_scale_free(method):
        reason = (
            "a penalty that depends on the scale: it does not see columns that are small because X "
            "hardly uses them, and they may reveal all of side; use method='invariant', "
            "'transport' or 'none'"
        )
    elif not is_squared(loss):
        reason = f"loss={loss.name!r}; use loss='squared'"
    elif isinstance(solver, GradientBCD):
        reason = "solver='gradient', the paper's algorithm; use solver='auto'"
    if reason:
        raise ValueError(f"side cannot be used with {reason}, or leave side out")


def check_side_weight(weight: object) -> None:
    """Raise unless it is a weight of side information."""
    real_number("side_weight", weight, least=0)


def warn_of_proxies(problem: Problem, columns: SideColumns | None, *, stacklevel: int) -> None:
    """Warn about columns of side information that nearly are a sensitive feature."""
    if columns is None or problem.side is None or problem.sensitive is None:
        return
    table, known = problem.side.data, problem.sensitive.has_features
    known = np.ones(len(problem.sensitive), bool) if known is None else known
    rows, places = table.cells.cpu().numpy()
    values = table.entries.cpu().numpy()
    order = np.argsort(places, kind="stable")
    order = order[known[rows[order]]]
    parts = np.split(order, np.searchsorted(places[order], np.arange(1, len(columns))))
    encoded = np.cumsum(known) - 1  # the place of each person among those with features
    features = problem.sensitive.with_features()
    for feature in features.columns:
        codes = np.asarray(feature.encode(), np.float64)
        found = [
            label
            for label, part in zip(columns.labels, parts, strict=True)
            if _explained(values[part], codes[encoded[rows[part]]]) >= PROXY
        ]
        if found:
            warn(
                f"columns of side nearly determine the sensitive feature {feature.name!r} "
                f"({preview(found)}): without them the embedding has less to hide, and fits "
                "better; leave them out, unless they must be predicted",
                ParafairWarning,
                stacklevel=stacklevel + 1,
            )


def _explained(values: NDArray[np.float64], codes: NDArray[np.float64]) -> float:
    """Return how much of a feature's variance a column explains, people cut into parts by it.

    Args:
        values: The column, shape (people,).
        codes: The feature, encoded, shape (people, d).
    """
    if len(values) < 2 * PART:
        return 0.0
    parts = Column("", "numeric", values).bin(len(values) // PART).values
    codes = codes - codes.mean(0)
    total = float((codes**2).sum())
    sums = np.stack([np.bincount(parts, own) for own in codes.T], 1)
    explained = float((sums**2 / np.bincount(parts)[:, None]).sum())
    return explained / total if total else 0.0


@dataclass(frozen=True, eq=False)
class SideTraining:
    """What a fitted model stores about its side information.

    Attributes:
        columns: The columns.
        multiple: What a squared error of the standardized table counts as, in the units of X.
    """

    columns: SideColumns
    multiple: float

    @classmethod
    def of(cls, side: Side, columns: SideColumns, norm_squared: float) -> SideTraining:
        """Return what is stored about side information of a fit to a tensor with this norm."""
        return cls(columns, side.multiple(norm_squared))

    def read(self, side: Any, data: TensorData, mode: int, factor: Tensor) -> NewSide:
        """Return side information of new people.

        Args:
            side: As in `FairCP.fit`.
            data: Their entries.
            mode: The mode of the people.
            factor: The factor of the columns, for standardized numbers.
        """
        table = self.columns.standardize(self.columns.align(read_side(side, data, mode)))
        root = self.multiple**0.5
        scaled = table.with_values(table.values * root)
        return NewSide(scaled, factor.to(scaled.values) * root)

    def to_record(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {**self.columns.to_record(), "multiple": self.multiple}

    @classmethod
    def from_record(cls, record: Any) -> SideTraining:
        """Return what `to_record` returned."""
        return cls(
            SideColumns.from_record(record), real_number("multiple", record["multiple"], least=0)
        )
