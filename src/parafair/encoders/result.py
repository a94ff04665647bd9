"""The result of a fit with an encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from parafair.data.tensor_data import TensorData
from parafair.encoders.base import Encoder
from parafair.encoders.files import read_encoder, write_encoder
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EncodedFit(Fit):
    """A fit with an encoder for people whose sensitive features are not known.

    A fit without plain rows and shifts, as those of a reduction, has no map that knows the group:
    new people with sensitive features get the row of the encoder too.

    Attributes:
        encoder: The encoder.
    """

    encoder: Encoder

    @classmethod
    def of(cls, fit: Fit, encoder: Encoder) -> Self:
        """Return a fit with an encoder."""
        known = {field.name: getattr(fit, field.name) for field in fields(Fit)}
        return cls(**known, encoder=encoder)

    def with_plain(self, problem: Problem) -> Fit:
        """Return this fit with its plain rows, if it had any before."""
        return self if self.plain is None else super().with_plain(problem)

    def write(self, folder: Path, *, keep_exact: bool = False) -> None:
        """Write the files of the fit and of its encoder into an existing folder."""
        super().write(folder, keep_exact=keep_exact)
        write_encoder(folder, self.encoder)


def load_fit(folder: Path, *, classes: Iterable[type] = ()) -> Fit:
    """Return the fit in a folder, with its encoder if it has one.

    Args:
        folder: The folder of the model.
        classes: Additional classes that the encoder may have.
    """
    fit = Fit.load(folder)
    encoder = read_encoder(folder, fit.cp.shape, fit.cp.rank, classes=classes)
    return fit if encoder is None else EncodedFit.of(fit, encoder)


def encode_people(
    encoder: Encoder,
    data: TensorData,
    *,
    empty: Tensor,
    fill: Callable[[TensorData], TensorData] | None = None,
) -> Tensor:
    """Return one row per person, shape (people, rank).

    Args:
        encoder: The encoder.
        data: Entries of people, in the order of the model's labels and without its offsets.
        empty: The row of people without any entries.
        fill: Fills in the missing entries of people who have some; None to leave them out.
    """
    present = data.observed_per(encoder.mode) > 0
    if not present.any():
        return empty.repeat(len(present), 1)
    there = data if present.all() else data.take(encoder.mode, present)
    found = encoder.encode(there if fill is None else fill(there))
    if present.all():
        return found
    rows = empty.to(found).expand(len(present), found.shape[1]).clone()
    rows[torch.from_numpy(present).to(rows.device)] = found
    return rows


def encoder_of(fit: Fit) -> Encoder | None:
    """Return the encoder of a fit; None if it has none."""
    return fit.encoder if isinstance(fit, EncodedFit) else None
