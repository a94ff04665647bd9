"""Methods of a fitted model: embed new people, save."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from parafair.arguments import flag, to_numpy
from parafair.data.arrays import has_labels, is_sparse
from parafair.data.checks import as_data, check_scale
from parafair.data.devices import check_device, resolve_dtype
from parafair.data.handed_over import HandedOver
from parafair.data.modes import is_labeled
from parafair.data.raw_features import check_index
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.side_columns import match_index
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import Encoder
from parafair.encoders.filling import encode_new
from parafair.encoders.result import encoder_of
from parafair.guarantees.certificate import CERTIFICATE_FILE, Certificate
from parafair.guarantees.releases import Release
from parafair.losses import is_squared
from parafair.model.exact import check_held_out, new_release, people_to_certify, training_release
from parafair.model.fitted_side import FittedSide
from parafair.model.mapping import MappingCP
from parafair.model.matrices import as_frame, validate_matrix
from parafair.model.methods import Method
from parafair.model.noise import Noise, warn_of_exact
from parafair.model.notices import (
    read_new_features,
    warn_empty_people,
    warn_of_contents,
    warn_of_leaks,
    warn_without_features,
)
from parafair.model.out_of_sample import refining_penalty
from parafair.model.predicting import PredictingCP
from parafair.model.record import Record
from parafair.model.side import NewSide, observed_of
from parafair.model.training import Training
from parafair.model.trials import Selection
from parafair.penalties import Penalty
from parafair.solvers.result import Fit, best
from parafair.storage import new_folder

M = TypeVar("M")


class FittedCP(
    FittedSide,
    MappingCP,
    PredictingCP,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The part of `FairCP` that is used after the fit.

    Attributes:
        embedding_: One row per person, shape (n, rank).
        cp_: Weights and factors.
        n_iter_: Number of iterations.
        reconstruction_err_: Frobenius norm of the residual, or the square root of the deviance.
        ridge_: The ridge, given or selected.
        fit_: The best fit.
        fits_: All fits.
        record_: Requested and resolved settings.
        training_: Metadata of the training data.
        encoder_: The map from entries to rows without the group; None if the method has none.
        certificate_: What `certify` has found about the training people, if it was called.
    """

    method: str | Method
    strength: float | Literal["auto"] | None
    noise: float | None
    mode: int | str
    device: str | torch.device | None
    dtype: str | torch.dtype | None
    embedding_: NDArray[Any]
    n_iter_: int
    reconstruction_err_: float
    ridge_: float
    fit_: Fit
    fits_: tuple[Fit, ...]
    record_: Record
    encoder_: Encoder | None
    certificate_: Certificate

    def transform(
        self, X: Any, *, sensitive_features: Any = None, side: Any = None, refine: bool = False
    ) -> NDArray[Any]:
        """Return embeddings of new people, with the other factors fixed.

        A model with an encoder (`encoder_`) uses it for people without sensitive features. Of
        people with categorical features, the rows of a learned encoder, noise included, then move
        to the same quantile of all groups, by a map that follows from `embedding_`: this hides what
        the encoder has left. The encoder of a method such as "fair-pca" ignores the group, so with
        sensitive features these models use the same encoder. `certify` of new people is about rows
        of the encoder.

        New people of the method "sliced-transport" with features follow the map of the training
        people.

        With other models, each row is the best fit to the person's entries, which may reveal the
        features; there is a warning unless method is "none". With sensitive features, it is shifted
        like a training neighbor with the same features: the nearest one, or with noise one that is
        drawn among the nearest. That hides less than `refine` does: audit the rows. If the model
        has noise, neighbors and shifts have it too, so a saved model needs no rows without noise,
        and new people get noise of their own, of the same size. All of it depends on
        ``random_state``, the training data and the person's entries alone, so a person's row does
        not depend on the other people in X; but people with equal entries in one X have noise of
        their own. People without entries get the mean training row. An encoder that was learned
        from complete entries sees the model's predictions where entries of X are missing.

        For the training people use `embedding_`: `transform` of their entries draws other noise, so
        these rows differ, although the exact rows of an encoder are the same. Publish one of both:
        the mean of two releases has less noise than a certificate assumes.

        Args:
            X: A tensor with the shape of the training data except along `mode`. Labels of a
                `TensorData` are matched with the training labels.
            sensitive_features: One row per new person, with the training columns.
            side: Side information of the new people, as in `fit`, for a model that was fitted with
                some; people without entries in X get rows from it alone.
            refine: Whether to then minimize the training objective jointly over the rows of X, with
                all other factors fixed; noise is added afterwards. It lowers what attackers find
                above chance, but may match people across groups, which puts attackers below chance:
                audit the result. It needs a few hundred people and a scale-free penalty such as
                "invariant".
        """
        check_is_fitted(self)
        data = self._validate(X)
        features = None
        if sensitive_features is not None:
            check_index(sensitive_features, X)
            features = read_new_features(self.training_, data, sensitive_features)
        penalty = None
        if flag("refine", refine):
            penalty = self.adapted(refining_penalty(self.method, self.record_.strength, features))
        if not self._encodes(features):
            if features is not None and self.encoder_ is None:
                warn_without_features(features, data, self.training_.mode)
            if self.method != "none" and (features is None or self.fit_.shifts is None):
                warn_of_leaks(features)
        more = self._read_side(match_index(side, X), data)
        warn_empty_people(data, self.training_.mode, more)
        moves = self._map_of(features) if penalty is None else None
        rows = self._embed(data, features if moves is None else None, penalty, more)
        rows = self._add_noise(rows, data, more)
        if moves is not None and features is not None:
            rows = self._move_by_map(rows, data, features, moves)
        found: NDArray[Any] = self._labeled(np.asarray(rows.cpu()), data.modes, data.labels)
        return found

    def adapted(self, method: M) -> M:
        """Return a method as this kind of model uses it; raise if it cannot."""
        return method

    @property
    def has_exact_rows(self) -> bool:
        """Whether the model has its training people's rows without noise."""
        return self.fit_.noiseless is not None or self.training_.mode not in self.fit_.noise

    def exact_release(
        self, X: Any = None, sensitive_features: Any = None, side: Any = None
    ) -> Release:
        """Return rows without noise and the noise, as `parafair.certify` needs them.

        These are as confidential as the training data. A model that was saved without exact rows
        has none of its training people, and this is an error; those of new people are computed.

        Args:
            X: Entries of new people, as in `transform`; None for the training people.
            sensitive_features: Features of the new people; with X only.
            side: Side information of the new people, as in `transform`. A model that was fitted
                with some needs it: nothing is certified about rows that are made otherwise.
        """
        check_is_fitted(self)
        if X is None:
            given = {"sensitive_features were": sensitive_features, "side was": side}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"{name} given without X_new; omit it for the training people, of whom the "
                        "model has it, or pass the new people's entries"
                    )
            return training_release(self)
        check_index(sensitive_features, X)
        data = self._validate(X)
        if sensitive_features is None:
            raise ValueError(
                "sensitive_features of the new people are missing; pass one row per person of X_new"
            )
        features = read_new_features(self.training_, data, sensitive_features)
        # Whoever has an encoder uses it for people whose features are not known.
        encodes = self.encoder_ is not None
        if not encodes:
            warn_without_features(features, data, self.training_.mode)
        more = self._required_side(match_index(side, X), data)
        people = people_to_certify(self.training_, data, features, more)
        note = check_held_out(self.training_, data.take(self.training_.mode, people))
        rows = self._embed(data, None if encodes else features, None, more)
        return new_release(self, people, rows=rows, features=features, side=more, note=note)

    def _labeled(
        self, rows: NDArray[Any], modes: Sequence[str], labels: Sequence[NDArray[Any]]
    ) -> Any:
        """Return rows as a data frame with labels of people, if `set_output` asks for it."""
        if not is_labeled(modes, labels):
            return rows
        mode = self.training_.mode
        return as_frame(self, rows, labels[mode], self.get_feature_names_out(), modes[mode])

    def score(self, X: Any, y: Any = None) -> float:
        """Return the explained share of the sum of squares of new people's entries.

        1 is a perfect fit, 0 is as good as predicting zero. With a loss other than "squared", it is
        the explained share of the deviance, and 0 is as good as the best constant. The other
        factors are those of `cp_`. With an encoder the rows are those of `transform`, with noise.
        Other models have the rows that fit the entries of X best, without penalty and noise.

        Args:
            X: Data of new people, as in `transform`.
            y: Ignored; for compatibility with scikit-learn.
        """
        check_is_fitted(self)
        given = self._validate(X)
        data = self.training_.center(given)
        check_scale(data)
        rows = self._embed(given, None, None)
        if self.encoder_ is not None:
            rows = self._add_noise(rows, given)
        factors = self._factors(rows)
        factors[self.training_.mode] = rows
        if not is_squared(self.training_.loss):
            return 1 - self.training_.new_rows(data, factors).ratio(rows)
        norm = float(torch.linalg.vector_norm(data.entries, dtype=torch.float64))
        return 1 - data.observations.residual_squared(factors) / norm**2

    def _encodes(self, features: SensitiveFeatures | None) -> bool:
        """Whether people with these features, or None, get the rows of the encoder."""
        return self.encoder_ is not None and (features is None or self.fit_.shifts is None)

    def _embed(
        self,
        data: TensorData,
        features: SensitiveFeatures | None,
        penalty: Penalty | None,
        side: NewSide | None = None,
    ) -> Tensor:
        """Return rows of new people without noise."""
        if self.encoder_ is None:
            return self._least_squares(data, features, penalty, side)
        encoded = encode_new(self.encoder_, self.training_.center(data), self.fit_)
        if features is None or self._encodes(features):
            return encoded
        rows = self._least_squares(data, features, penalty)
        if features.has_features is not None:
            lacking = torch.from_numpy(~features.has_features).to(rows.device)
            rows[lacking] = encoded[lacking]
        return rows

    def _least_squares(
        self,
        data: TensorData,
        features: SensitiveFeatures | None,
        penalty: Penalty | None,
        side: NewSide | None = None,
    ) -> Tensor:
        factors, shifts = self._factors(data.values), self.fit_.shifts
        moves = self.fit_.moves
        if moves is not None and features is not None:
            rows = self._least_squares(data, None, None, side)
            return self._move_by_map(rows, data, features, moves)
        return self.training_.embed(
            data,
            factors,
            shifts=None if shifts is None else shifts.to(data.values),
            features=features,
            penalty=penalty,
            side=side,
            noise=self.record_.noise if self.training_.mode in self.fit_.noise else 0.0,
        )

    def _factors(self, prototype: Tensor) -> list[Tensor]:
        """Return the factors with the dtype and device of a tensor."""
        return [factor.to(prototype) for factor in self.cp_.factors]

    def _add_noise(self, rows: Tensor, data: TensorData, side: NewSide | None = None) -> Tensor:
        """Return rows of new people with noise of their own, if the training rows have noise.

        The data is as it was given: offsets differ in the last bit between machines.
        """
        mode = self.training_.mode
        if mode not in self.fit_.noise:
            return rows
        matrix = self.fit_.noise[mode].to(rows.device)
        noise = Noise.of_record(self.record_, self.training_.secret)
        table = None if side is None else side.data
        zeros = self.training_.absent == "zero"
        added = noise.of_new_people(data, mode, matrix, table, zeros=zeros).to(rows)
        # Nothing is known of people without entries: they have the mean of the released rows.
        empty = observed_of(data, mode, side) == 0
        return rows + added.masked_fill(empty[:, None], 0.0)

    def save(
        self, folder: str | Path, *, overwrite: bool = False, keep_exact: bool = False
    ) -> None:
        """Write the fitted model into a new folder, completely or not at all.

        The folder contains the released rows, their noise's covariance, what `transform` needs of
        the training people, with noise too, and the certificate, if `certify` has made one. It has
        no rows without noise, but the training people's sensitive features, and with the method
        "kernel-perez-suay" entries of theirs, which a warning says: publish `embedding_`, not the
        folder.
        Factors that were given as `init` are stored as they were given.

        Args:
            folder: The folder.
            overwrite: Whether to replace a folder of the same name.
            keep_exact: Whether to store the rows without noise too, for another `certify`.
        """
        check_is_fitted(self)
        with new_folder(folder, overwrite=overwrite) as target:
            self.write(target, keep_exact=flag("keep_exact", keep_exact))
        warn_of_contents(self.fit_, stacklevel=2)
        if keep_exact:
            warn_of_exact(self.fit_, stacklevel=2)

    def write(self, folder: Path, *, keep_exact: bool = False) -> None:
        """Write the files of the fitted model into an existing folder; see `save`."""
        self.fit_.write(folder, keep_exact=keep_exact)
        self.training_.write(folder, keep_exact=keep_exact)
        self.record_.write(folder)
        if hasattr(self, "certificate_"):
            self.certificate_.write(folder / CERTIFICATE_FILE)

    def keep_certificate(self, certificate: Certificate) -> None:
        """Set `certificate_`, which `save` writes; `certify` does it for the training people."""
        self.certificate_ = certificate

    @property
    def _n_features_out(self) -> int:
        return self.cp_.rank

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validate(self, X: Any, training: Training | None = None) -> TensorData:
        """Return data of new people with the dtype and on the device of the model."""
        axes = training or self.training_
        data = axes.align(self._as_given(X, reset=False).to(self.device, self.dtype), axes.shape)
        axes.check_new(data.shape)
        return data

    def _as_given(self, X: Any, *, reset: bool) -> TensorData:
        """Return the data as a `TensorData`, with scikit-learn's bookkeeping for matrices."""
        if isinstance(X, HandedOver):
            X = X.take()
        known = isinstance(X, (Tensor, TensorData, np.ma.MaskedArray))
        first = isinstance(self.mode, Integral) and self.mode == 0
        if first and not (known or is_sparse(X) or has_labels(X)):
            order = getattr(X, "ndim", None)
            if not isinstance(order, int):
                order = to_numpy(X, "X").ndim
            if order <= 2:
                X = validate_matrix(self, X, reset=reset)
        check_device(self.device)
        resolve_dtype(self.dtype)
        return as_data(X)

    def _keep(self, fits: Sequence[Fit], record: Record, training: Training) -> None:
        """Set the attributes of a fitted model."""
        self._map = None
        self.training_ = training
        self.record_ = record
        self.fits_ = tuple(fits)
        self.fit_ = best(self.fits_)
        self.encoder_ = encoder_of(self.fit_)
        self.cp_ = self.fit_.cp
        self.n_iter_ = self.fit_.n_iter
        self.ridge_ = record.ridge
        self.reconstruction_err_ = (self.fit_.history[-1].loss * training.entries) ** 0.5
        self.embedding_ = np.asarray(self.cp_.factors[training.mode].cpu())
        if self.fit_.side is not None:
            self.side_factor_ = np.asarray(self.fit_.side.cpu())
        if record.trials:
            self.selection_ = Selection(self.fit_, record.strength, record.noise, record.trials)
