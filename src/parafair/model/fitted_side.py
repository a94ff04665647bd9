"""Methods of a fitted model that are about side information."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from parafair.data.arrays import as_tensor
from parafair.data.tensor_data import TensorData
from parafair.model.matrices import as_frame
from parafair.model.side import NewSide, SideTraining

if TYPE_CHECKING:
    from parafair.model.training import Training
    from parafair.solvers.result import Fit


class FittedSide:
    """The part of a fitted model that uses side information.

    Attributes:
        embedding_: One row per person, shape (n, rank).
        side_factor_: The factor of the columns, shape (columns, rank); only with side information.
    """

    embedding_: NDArray[Any]
    side_factor_: NDArray[Any]
    fit_: Fit
    training_: Training

    def predict_side(self, rows: Any = None) -> Any:
        """Return the model's side information, shape (people, columns), in the units it had.

        These are expected values: probabilities, rates or means, by `side_loss`. They are a
        function of the rows: what these hide, they hide. With `set_output` of pandas, it is a
        data frame with the names of the columns.

        Args:
            rows: Embeddings of people, as `transform` returns them; None for the training people.
        """
        check_is_fitted(self)
        columns = self._side_training("rows predict none; fit it again with side=...").columns
        labels, index = columns.labels, None
        if rows is None:
            rows, index = self.embedding_, self.training_.labels[self.training_.mode]
        embedding = as_tensor(rows, name="rows").cpu().numpy()
        rank = self.side_factor_.shape[1]
        if embedding.ndim != 2 or embedding.shape[1] != rank:
            raise ValueError(
                f"rows must have {rank} columns, one per component; got shape {embedding.shape}"
            )
        model = embedding.astype(np.float64) @ self.side_factor_.T
        if self.fit_.side_intercepts is not None:
            model = model + np.asarray(self.fit_.side_intercepts.cpu())
        found = columns.restore(model)
        return as_frame(self, found, index, labels)

    def _side_training(self, remedy: str) -> SideTraining:
        """Return what is stored about side information; raise if there is none."""
        if self.training_.side is None:
            raise ValueError(f"the model was fitted without side information: {remedy}")
        return self.training_.side

    def _required_side(self, side: Any, data: TensorData) -> NewSide | None:
        """Return side information of new people; raise if the rows of others follow from it."""
        known = self.training_.side
        if side is None and known is not None and known.multiple:
            raise ValueError(
                "side is missing: the model was fitted with side information, so rows of new "
                "people follow from theirs too; pass side=..., with NaN where nothing is known"
            )
        return self._read_side(side, data)

    def _read_side(self, side: Any, data: TensorData) -> NewSide | None:
        """Return side information of new people; None if none is given, or it has no effect."""
        if side is None:
            return None
        remedy = "omit side, or fit it again with side=..."
        known = self._side_training(remedy)
        found = known.read(side, data, self.training_.mode, self.fit_)
        return found if known.multiple else None
