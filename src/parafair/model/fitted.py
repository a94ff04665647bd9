"""What a fitted model does: embed new people, predict cells, be saved."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, reconstruct
from parafair.algebra.observed import entries_of, values_at
from parafair.data.arrays import has_labels, is_sparse
from parafair.data.checks import as_data, as_tensor, check_device, resolve_dtype
from parafair.data.labels import preview
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import ParafairWarning
from parafair.model.training import Training
from parafair.penalties import Invariant, Penalty
from parafair.penalties.postprocessing import Postprocessing
from parafair.penalties.registry import resolve_method
from parafair.solvers.result import Fit, best
from parafair.storage import new_folder


class FittedCP(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The half of `FairCP` that works after the fit, and knows nothing of how it was made.

    Attributes:
        embedding_: One row per person, shape (n, rank).
        cp_: Weights and factors.
        fit_: The best fit.
        fits_: All fits.
        training_: What is remembered of the data.
    """

    method: str | Penalty | Postprocessing
    strength: float | Literal["auto"] | None
    mode: int | str
    device: str | torch.device | None
    dtype: str | torch.dtype | None
    embedding_: NDArray[Any]
    cp_: CPTensor
    fit_: Fit
    fits_: tuple[Fit, ...]
    training_: Training

    def transform(self, X: Any, sensitive_features: Any = None) -> NDArray[Any]:
        """Return embeddings of new people, with the other factors fixed.

        A row is the one that fits the person's entries best. With sensitive features it is moved as
        the penalty moved somebody of the training: the one with the same features whose entries put
        her nearest. With method "invariant" (but not if "auto" chose noise), 200 new people or more
        then settle: they minimize what the training did, among themselves. The people of the
        training come out where they are, or nearly. Of people without entries it is the mean of the
        training.

        Args:
            X: A tensor with the shape of the training data except along `mode`. Labels of a
                `TensorData` are matched with those of the training.
            sensitive_features: One row per new person, with the columns of the training.
        """
        check_is_fitted(self)
        tensor = self._validate(X, reset=False)
        training = self.training_
        features = None
        if sensitive_features is not None:
            features = self._read_newcomers(tensor, sensitive_features)
        if self.method != "none" and (features is None or self.fit_.plain is None):
            remedy = "pass sensitive_features" if features is None else "fit again with FairCP"
            warnings.warn(
                "transform fits new people without regard to fairness, so these embeddings may "
                f"reveal the sensitive features; {remedy}, or audit them before use",
                ParafairWarning,
                stacklevel=2,
            )
        empty = int((entries_of(tensor).counts(training.mode) == 0).sum())
        if empty:
            people = tensor.shape[training.mode]
            warnings.warn(
                f"nothing was observed of {empty} of {people} new people; their rows are the mean "
                "of the training",
                ParafairWarning,
                stacklevel=2,
            )
        if training.offsets is not None:
            tensor = training.offsets.subtract(tensor)
        values = tensor.values if isinstance(tensor, TensorData) else tensor
        factors = [factor.to(values) for factor in self.cp_.factors]
        plain = None if self.fit_.plain is None else self.fit_.plain.to(values)
        rows = training.embed(
            tensor, factors, plain=plain, features=features, penalty=self._penalty()
        )
        return np.asarray(rows.cpu())

    def _read_newcomers(
        self, tensor: Tensor | TensorData, sensitive_features: Any
    ) -> SensitiveFeatures:
        """Return features of new people in terms of the training's; warn of those not known."""
        training = self.training_
        if training.features is None:
            raise ValueError(
                "the model was fitted without sensitive features; leave out sensitive_features"
            )
        features = training.features.read(sensitive_features)
        people = tensor.shape[training.mode]
        if len(features) != people:
            raise ValueError(
                f"sensitive_features has {len(features)} rows but X has {people} people; pass "
                "one row per person, in the same order"
            )
        if features.has_features is not None:
            labels = np.arange(people)
            if isinstance(tensor, TensorData):
                labels = np.asarray(tensor.labels[training.mode])
            names = labels[~features.has_features]
            warnings.warn(
                f"{len(names)} of {people} new people are not known ({preview(names)}): they are "
                "embedded by their entries alone, so their rows may reveal the sensitive features",
                ParafairWarning,
                stacklevel=3,
            )
        return features

    def _has_cells(self) -> bool:
        """Tell whether `predict` makes sense; where it does not, scikit-learn must not find it."""
        check_is_fitted(self)
        training, shape = self.training_, self.cp_.shape
        if len(shape) == 2 and training.labels is None and training.entries == prod(shape):
            raise AttributeError(
                "predict is for tensors, and for matrices with missing entries or labels; of a "
                "complete matrix use inverse_transform(embedding_)"
            )
        return True

    @available_if(_has_cells)  # type: ignore[untyped-decorator]
    def predict(self, cells: Any) -> NDArray[Any]:
        """Return the model's values of any cells, those that were missing too.

        Not there for a complete matrix, of which scikit-learn would expect one value per row.

        Args:
            cells: One row per cell: whole numbers, the positions in each mode, of shape (count,
                order); or a data frame with a column of labels for each mode of a `TensorData`.
        """
        check_is_fitted(self)
        indices = self.training_.find_cells(cells, self.cp_.shape)
        factors = [factor.cpu() for factor in self.cp_.factors]
        found = values_at(indices, factors).double()
        if self.training_.offsets is not None:
            found = found + self.training_.offsets.at(indices)
        return found.numpy()

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the tensor that embeddings stand for, people along `mode`."""
        check_is_fitted(self)
        embedding = as_tensor(X, name="X")
        if embedding.ndim != 2 or embedding.shape[1] != self.cp_.rank:
            raise ValueError(
                f"X must have {self.cp_.rank} columns, one per component; got shape "
                f"{tuple(embedding.shape)}"
            )
        factors = [factor.to(embedding) for factor in self.cp_.factors]
        factors[self.training_.mode] = embedding
        tensor = reconstruct(factors)
        if self.training_.offsets is not None:
            tensor = tensor + self.training_.offsets.dense(tensor)
        return np.asarray(tensor.cpu())

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model into a new folder, whole or not at all.

        The sensitive features of the training are part of it: `transform` needs them.
        """
        check_is_fitted(self)
        with new_folder(folder, overwrite=overwrite) as target:
            self.write(target)

    def write(self, folder: Path) -> None:
        """Write the files of the fitted model into an existing folder."""
        self.fit_.write(folder)
        self.training_.write(folder)

    @property
    def _n_features_out(self) -> int:
        return self.cp_.rank

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validate(self, X: Any, *, reset: bool) -> Tensor | TensorData:
        """Return the data as a tensor, with scikit-learn's bookkeeping for matrices."""
        dtype = resolve_dtype(self.dtype)
        check_device(self.device)
        if reset and hasattr(self, "n_features_in_"):
            del self.n_features_in_  # of an earlier fit to a matrix
        known = isinstance(X, (Tensor, TensorData, np.ma.MaskedArray))
        if not (known or is_sparse(X) or has_labels(X)) and self.mode == 0:
            order = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
            if order <= 2:
                # Our own check of the entries says where the first bad one is.
                allowed = (np.float64, np.float32)
                X = validate_data(self, X, reset=reset, dtype=allowed, ensure_all_finite=False)
        tensor = as_data(X, dtype=dtype, device=self.device)
        if not reset:
            if isinstance(tensor, TensorData):
                tensor = self.training_.align(tensor, self.cp_.shape)
            self._check_shape(tuple(tensor.shape))
        return tensor

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise unless data of new people fits the model."""
        trained, people = self.cp_.shape, self.training_.mode
        if len(shape) != len(trained) or any(
            have != want
            for mode, (have, want) in enumerate(zip(shape, trained, strict=True))
            if mode != people
        ):
            expected = (*trained[:people], "people", *trained[people + 1 :])
            raise ValueError(f"X must have shape {expected}, got {shape}")

    def _penalty(self) -> Invariant | None:
        """Return the penalty under which new people settle.

        None if they are only moved: with another method, and where the training was given noise,
        which is part of its moves but which settling would take away.
        """
        strength = None if isinstance(self.strength, str) else self.strength
        penalty, settings = resolve_method(self.method, strength), self.fit_.settings
        if not isinstance(penalty, Invariant) or settings.get("noise", 0.0) != 0:
            return None
        found = settings["method"]["strength"] if self.strength == "auto" else penalty.strength
        return replace(penalty, strength=found)

    def _keep(self, fits: Sequence[Fit], settings: Mapping[str, Any], training: Training) -> None:
        """Set the attributes of a fitted model."""
        self.training_ = training
        self.fits_ = tuple(replace(fit, settings=settings) for fit in fits)
        self.fit_ = best(self.fits_)
        self.cp_ = self.fit_.cp
        self.embedding_ = np.asarray(self.cp_.factors[self.training_.mode].cpu())
