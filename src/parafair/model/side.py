"""Side information of a fitted model, and of the people it is applied to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.coupled import SHRINKAGE
from parafair.arguments import real_number
from parafair.data.column import Column
from parafair.data.labels import preview
from parafair.data.side_columns import SideColumns, read_side
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import Reduction
from parafair.errors import ParafairWarning, warn
from parafair.penalties import Penalty, ScorePenalty
from parafair.penalties.base import is_scale_free
from parafair.solvers import GradientBCD
from parafair.solvers.linked_table import FixedTable
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit
from parafair.solvers.side import Side

# A column of side information that explains this share of a sensitive feature nearly is the
# feature; people are compared in parts of this many.
PROXY, PART = 0.8, 10


@dataclass(frozen=True, eq=False)
class NewSide:
    """Side information of new people, and the factor of its columns.

    Attributes:
        side: Their table, like that of the training people.
        factor: The factor, shape (columns, rank).
        intercepts: Those of its columns; None without any.
        multiple: What an error of the table counts as, in the units of X.
        share: The share ``s`` of `parafair.algebra.coupled`, that of the training people.
    """

    side: Side
    factor: Tensor
    intercepts: Tensor | None
    multiple: float
    share: float

    @property
    def data(self) -> TensorData:
        """The table."""
        return self.side.data

    @property
    def counts(self) -> Tensor:
        """The number of known columns of each person, shape (people,)."""
        return self.data.observations.counts(0)

    def take(self, people: NDArray[np.intp]) -> NewSide:
        """Return the rows of some people."""
        return replace(self, side=self.side.take(people))

    def fixed(self) -> FixedTable:
        """Return the error of the table as a function of the rows of these people."""
        like, intercepts = self.data.values, self.intercepts
        return FixedTable(
            self.side.deviance,
            self.factor.to(like)[None],
            self.share,
            self.multiple,
            None if intercepts is None else intercepts.to(like)[None, :, None],
        )


def observed_of(data: TensorData, mode: int, side: NewSide | None) -> Tensor:
    """Return the number of entries of each person, those of side information included."""
    counts = data.observations.counts(mode)
    return counts if side is None else counts + side.counts


def check_side(method: object, encoder: object, solver: object) -> None:
    """Raise if something in a model cannot be used with side information.

    Args:
        method: The resolved method.
        encoder: The encoder, or None.
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
    elif isinstance(solver, GradientBCD):
        reason = "solver='gradient', the paper's algorithm; use solver='auto'"
    if reason:
        raise ValueError(f"side cannot be used with {reason}, or leave side out")


def side_of(table: TensorData, columns: SideColumns, weight: float = 1.0) -> Side:
    """Return side information as a fit sees it."""
    return Side(columns.standardize(table), weight, columns.loss)


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
        multiple: What an error of the table counts as, in the units of X.
        share: The share ``s`` of `parafair.algebra.coupled`.
    """

    columns: SideColumns
    multiple: float
    share: float

    @classmethod
    def of(cls, side: Side, columns: SideColumns, total: float) -> SideTraining:
        """Return what is stored about side information of a fit to a tensor with this total."""
        return cls(columns, side.multiple(total), side.share)

    def read(self, side: Any, data: TensorData, mode: int, fit: Fit) -> NewSide:
        """Return side information of new people.

        Args:
            side: As in `FairCP.fit`.
            data: Their entries.
            mode: The mode of the people.
            fit: The fit, which has the factor of the columns.
        """
        table = self.columns.align(read_side(side, data, mode))
        assert fit.side is not None
        own = side_of(table, self.columns)
        return NewSide(own, fit.side, fit.side_intercepts, self.multiple, self.share)

    def to_record(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {**self.columns.to_record(), "multiple": self.multiple, "share": self.share}

    @classmethod
    def from_record(cls, record: Any, *, classes: Iterable[type] = ()) -> SideTraining:
        """Return what `to_record` returned; `classes` are additional ones of the loss."""
        return cls(
            SideColumns.from_record(record, classes=classes),
            real_number("multiple", record["multiple"], least=0),
            # Models were saved before tables had losses.
            real_number("share", record.get("share", SHRINKAGE), least=0),
        )
