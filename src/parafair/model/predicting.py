"""Methods of a fitted model that predict: cells, whole tensors, recommendations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, reconstruct
from parafair.algebra.sparse import values_at
from parafair.arguments import one_of
from parafair.data.arrays import as_tensor
from parafair.losses import needs_non_negative
from parafair.model.matrices import wants_frames
from parafair.model.recommending import TRAINING, Recommender
from parafair.model.training import Training

# What to do with labels that the model does not have.
UNKNOWN = ("error", "offsets")


class PredictingCP:
    """The part of a fitted model that predicts."""

    cp_: CPTensor
    training_: Training

    def predict(self, cells: Any, *, unknown: str = "error") -> NDArray[Any]:
        """Return the model's values at any cells, observed or missing.

        With a loss that has a link they are means: probabilities, rates. They follow from `cp_`:
        rows with noise give predictions with noise.

        Args:
            cells: A data frame with one row per cell and one column of labels per mode; a
                `TensorData`, for its observed cells in the order of `TensorData.cells`; or
                positions in each mode, shape (count, order), if the model has no labels.
            unknown: What to do with cells of people or items that were not in the training data:
                "error", or predict them from the "offsets" alone: the mean, and the average
                deviations of those labels that were. It needs a model with ``center=True``.
        """
        check_is_fitted(self)
        allowed = self._allows_unknown(unknown)
        indices = self.training_.find_cells(cells, allow_unknown=allowed)
        factors = self._of_means([factor.cpu() for factor in self.cp_.factors])
        known = (indices >= 0).all(0)
        # The terms of components are 0 where the row of a factor is not known.
        found = values_at(indices.clamp_min(0), factors).double() * known
        if self.training_.offsets is not None:
            found = found + self.training_.offsets.at(indices)
        return self.training_.loss.mean(found).numpy()

    def recommend(
        self,
        people: Any = None,
        k: int = 10,
        *,
        given: Mapping[str, Any] | None = None,
        exclude: Any = TRAINING,
        unknown: str = "error",
    ) -> Any:
        """Return the k cells with the highest predictions for each person, without those rated.

        Of a matrix, people by items, these are items. Of a tensor they are combinations of labels
        of all other modes; `given` fixes some of them, so that the others are recommended. Cells
        with equal predictions are in the order of the labels.

        Args:
            people: A label, or a list of labels, in the order of the result; positions if the model
                has no labels. None for everybody.
            k: Number of recommendations. People with fewer cells left get fewer, with a warning.
            given: Labels of other modes that are fixed, by the name of the mode, such as
                ``{"day": "Sunday"}``.
            exclude: What is not recommended: "training" for the entries that the model was fitted
                to, None for nothing, or cells as in `predict`, such as all ratings in a
                `TensorData`, streamed ones too. A model that was loaded does not have its training
                entries. Streamed entries are those of the people asked for, read in one pass.
            unknown: "error" for people who were not in the training data, or recommend to them by
                the "offsets" alone, the same to all of them; it needs ``center=True``.

        Returns:
            `Recommendations` with labels and predictions, or a data frame with one row for each
            after ``set_output(transform="pandas")``.
        """
        check_is_fitted(self)
        allowed = self._allows_unknown(unknown)
        factors = self._of_means(list(self.cp_.factors))
        recommender = Recommender.of(self.training_, factors, people, allowed)
        found = recommender.best(k, given=given, exclude=exclude)
        return found.to_frame() if wants_frames(self) else found

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the reconstructed tensor for given embeddings, with people along `mode`.

        With a loss that has a link, it has means. The other factors are those of `cp_`.
        """
        check_is_fitted(self)
        embedding = as_tensor(X, name="X")
        if embedding.ndim != 2 or embedding.shape[1] != self.cp_.rank:
            raise ValueError(
                f"X must have {self.cp_.rank} columns, one per component; got shape "
                f"{tuple(embedding.shape)}"
            )
        factors = [factor.to(embedding) for factor in self.cp_.factors]
        factors[self.training_.mode] = embedding
        tensor = reconstruct(self._of_means(factors))
        if self.training_.offsets is not None:
            tensor = tensor + self.training_.offsets.dense(tensor)
        means = self.training_.loss.mean(tensor)
        return np.asarray(self.training_.fold(means).cpu())

    def _of_means(self, factors: list[Tensor]) -> list[Tensor]:
        """Return factors from which means follow: what noise made negative may be zero."""
        if not needs_non_negative(self.training_.loss):
            return factors
        return [factor.clamp_min(0.0) for factor in factors]

    def _allows_unknown(self, unknown: str) -> bool:
        """Whether labels that the model does not have are predicted from the offsets."""
        if one_of("unknown", unknown, UNKNOWN) == "error":
            return False
        if self.training_.offsets is None:
            raise ValueError(
                "unknown='offsets' needs a model with offsets, but this one has none; fit it with "
                "center=True"
            )
        return True
