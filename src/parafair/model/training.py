"""What a fitted model remembers of its data: enough to predict and to embed new people."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.observed import Entries, entries_of
from parafair.data.centering import Offsets
from parafair.data.labels import as_labels, locate
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import ConvergenceWarning, missing_column
from parafair.model.out_of_sample import can_settle, fit_rows, nearest_trained, refine
from parafair.penalties import Invariant
from parafair.solvers.problem import Problem, ridge_diagonal
from parafair.storage import read_json, write_json

MODEL_FILE = "model.json"
FORMAT = 2


@dataclass(frozen=True, eq=False)
class Training:
    """The side of the data that is not in the factors.

    Attributes:
        mode: The mode of the people.
        modes: Names of the modes; None if the data had none.
        labels: Labels of every mode; None if the data had none.
        offsets: What was subtracted from the data; None for nothing.
        features: Sensitive features of the people examined; None without any.
        penalized: Their positions; None for everybody.
        entries: Number of observed entries.
        ridge: The ridge.
    """

    mode: int
    modes: tuple[str, ...] | None
    labels: tuple[NDArray[Any], ...] | None
    offsets: Offsets | None
    features: SensitiveFeatures | None
    penalized: NDArray[np.intp] | None
    entries: int
    ridge: float

    @classmethod
    def of(cls, problem: Problem, offsets: Offsets | None) -> Training:
        """Remember a problem that was solved."""
        data = problem.tensor if isinstance(problem.tensor, TensorData) else None
        examined = problem.penalized
        return cls(
            mode=problem.mode,
            modes=data.modes if data else None,
            labels=data.labels if data else None,
            offsets=offsets,
            features=problem.features if problem.sensitive else None,
            penalized=None if examined is None else examined.cpu().numpy(),
            entries=problem.count,
            ridge=problem.ridge,
        )

    def align(self, data: TensorData, shape: tuple[int, ...]) -> TensorData:
        """Return data of other people with the labels of the other modes in the model's places.

        Args:
            data: The data; of the other modes it may lack labels, but not have new ones.
            shape: Shape of the model.
        """
        if self.labels is None or self.modes is None or data.order != len(shape):
            return data
        if set(data.modes) == set(self.modes) and data.modes != self.modes:
            raise ValueError(
                f"X has the modes {', '.join(data.modes)} but the model was trained with "
                f"{', '.join(self.modes)}; give them in the same order"
            )
        sparse, sizes, labels = data.to_sparse(), list(data.shape), list(data.labels)
        indices = sparse.cells.clone()
        for mode, (trained, name) in enumerate(zip(self.labels, self.modes, strict=True)):
            if mode != self.mode:
                places = torch.from_numpy(locate(data.labels[mode], trained, name))
                indices[mode] = places.to(indices.device)[indices[mode]]
                sizes[mode], labels[mode] = shape[mode], trained
        return TensorData(sparse.entries, indices, tuple(sizes), self.modes, tuple(labels))

    def find_cells(self, cells: Any, shape: tuple[int, ...]) -> Tensor:
        """Return positions of cells, shape (order, count), given as such or by their labels."""
        names = getattr(cells, "columns", None)
        if self.modes is not None and self.labels is not None and names is not None:
            for name in self.modes:
                if name not in names:
                    raise missing_column("cells", name, map(str, names))
            places = [
                locate(as_labels(np.asarray(cells[name]), name), own, name)
                for name, own in zip(self.modes, self.labels, strict=True)
            ]
            return torch.from_numpy(np.stack(places))
        indices = np.asarray(cells)
        if indices.ndim != 2 or indices.shape[1] != len(shape) or indices.dtype.kind not in "iu":
            raise ValueError(
                f"cells must have one row per cell with {len(shape)} whole numbers, its position "
                f"in each mode; got {indices.dtype} of shape {indices.shape}"
            )
        outside = ((indices < 0) | (indices >= np.array(shape))).any(1)
        if outside.any():
            first = tuple(indices[outside][0].tolist())
            raise ValueError(f"cells must lie inside shape {shape}, got {first}")
        return torch.from_numpy(np.ascontiguousarray(indices.T, dtype=np.int64))

    def embed(
        self,
        tensor: Tensor | TensorData,
        factors: Factors,
        *,
        plain: Tensor | None,
        features: SensitiveFeatures | None,
        penalty: Invariant | None,
    ) -> Tensor:
        """Return rows of new people, moved as those of the training were if features are given.

        Args:
            tensor: Their entries, offsets subtracted.
            factors: The factors of the model.
            plain: The rows that fit the people of the training best, all other factors fixed.
            features: Features of the new people, in terms of those of the training.
            penalty: Under which they settle among themselves, if they are many.
        """
        target, gram, entries = self._sums(tensor, factors)
        counts = entries.counts(self.mode)
        rows, trained = fit_rows(target, gram), factors[self.mode]
        if plain is not None and features is not None:
            known = (
                np.ones(len(rows), dtype=bool)
                if features.has_features is None
                else features.has_features
            )
            some = np.flatnonzero(known & (counts > 0).cpu().numpy())
            theirs = features.take(some)
            rows[some] += self._shifts(rows[some], theirs, trained=trained, plain=plain)
            if penalty is not None and can_settle(theirs):
                data = tensor if isinstance(tensor, TensorData) else TensorData.from_array(tensor)
                target, gram, entries = self._sums(data.take(self.mode, some), factors)
                norm = torch.linalg.vector_norm(entries.values, dtype=torch.float64)
                rows[some], settled = refine(
                    rows[some],
                    target=target,
                    gram=gram,
                    norm_squared=float(norm) ** 2,
                    entries=entries.values.numel(),
                    term=penalty.bind(theirs, entries.values),
                )
                if not settled:
                    warnings.warn(
                        f"{len(some)} new people were still moving when their rows were taken; "
                        "audit them before use",
                        ConvergenceWarning,
                        stacklevel=3,
                    )
        # As in the training: where nothing was observed, the mean.
        rows[counts == 0] = trained.mean(0)
        return rows

    def _sums(
        self, tensor: Tensor | TensorData, factors: Factors
    ) -> tuple[Tensor, Tensor, Entries]:
        """Return ``M`` and ``G`` of new people, the ridge included, and their entries."""
        others = [factor.unsqueeze(0) for factor in factors]
        others[self.mode] = factors[0].new_zeros(1, tensor.shape[self.mode], factors[0].shape[-1])
        entries = entries_of(tensor)
        sums = entries.sums(others)
        target, gram = sums.target(self.mode)[0], sums.gram(self.mode)[0].clone()
        added = ridge_diagonal(factors, self.mode, self.mode, self.ridge)
        if added is not None:
            gram.diagonal(dim1=-2, dim2=-1).add_(added)
        return target, gram, entries

    def _shifts(
        self, rows: Tensor, features: SensitiveFeatures, *, trained: Tensor, plain: Tensor
    ) -> Tensor:
        """Return how people of the training like these were moved from their plain rows."""
        assert self.features is not None
        if self.penalized is not None:
            trained, plain = trained[self.penalized], plain[self.penalized]
        alike = nearest_trained(rows, features, plain=plain, trained_features=self.features)
        return (trained - plain)[alike]

    def write(self, folder: Path) -> None:
        """Write it into an existing folder."""
        offsets, features = self.offsets, self.features
        record = {
            "format": FORMAT,
            "mode": self.mode,
            "modes": self.modes,
            "labels": self.labels and [labels.tolist() for labels in self.labels],
            "offsets": offsets
            and {
                "mean": offsets.mean,
                "by_mode": {str(mode): v.tolist() for mode, v in offsets.by_mode.items()},
            },
            "features": features and features.to_list(),
            "penalized": None if self.penalized is None else self.penalized.tolist(),
            "entries": self.entries,
            "ridge": self.ridge,
        }
        write_json(folder / MODEL_FILE, record, indent=None)

    @classmethod
    def read(cls, folder: Path) -> Training:
        """Read what `write` wrote."""
        record = read_json(folder / MODEL_FILE)
        if record.pop("format", None) != FORMAT:
            raise ValueError(
                f"{folder / MODEL_FILE} was written by another version of parafair; this one reads "
                f"format {FORMAT}: fit again or install the version that wrote it"
            )
        try:
            found = cls(**record)
            labels, offsets, features = found.labels, record["offsets"], record["features"]
            return replace(
                found,
                modes=found.modes and tuple(found.modes),
                labels=labels and tuple(np.asarray(entry) for entry in labels),
                offsets=offsets and _offsets(offsets),
                features=features and SensitiveFeatures.from_list(features),
                penalized=None if found.penalized is None else np.asarray(found.penalized, np.intp),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{folder / MODEL_FILE} does not hold a complete model ({error}); fit again"
            ) from error


def _offsets(record: dict[str, Any]) -> Offsets:
    vectors = record["by_mode"].items()
    by_mode = {int(m): torch.tensor(v, dtype=torch.float64) for m, v in vectors}
    return Offsets(record["mean"], by_mode)
