"""Factors of a fitted model with their labels, as a Dataset of xarray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from parafair.arguments import instance_of
from parafair.data.xarrays import data_array, load_xarray
from parafair.model.fitted import FittedCP
from parafair.model.tucker import FairTucker

if TYPE_CHECKING:
    import xarray

NAME = "factors_to_xarray"


def factors_to_xarray(model: FittedCP) -> xarray.Dataset:
    """Return the factors of a fitted model with the names of its modes and their labels.

    For every mode there is ``factor_MODE``. That of the people has the released rows, as
    `embedding_` does: if the model has noise, they have it. A `FairCP` has one dimension
    ``component`` and the ``weights`` of the components. A `FairTucker` has a dimension
    ``component_MODE`` for every mode and a ``core``.

    Args:
        model: A fitted model.
    """
    instance_of("model", model, FittedCP, "pass a fitted FairCP or FairTucker")
    check_is_fitted(model)
    training = model.training_
    if isinstance(model, FairTucker):
        assert training.unfolding is not None
        modes, labels = training.unfolding.modes, training.unfolding.labels
        core, factors = model.tucker_.core, model.tucker_.factors
        components = [f"component_{name}" for name in modes]
        found = {"core": _array(core, components)}
    else:
        modes, labels = training.modes, training.labels
        weights, factors = model.cp_.weights, model.cp_.factors
        components = ["component"] * len(modes)
        found = {"weights": _array(weights, ["component"])}
    if set(modes) & {"component", *components}:
        raise ValueError(
            "the modes of model must not have the names of its components, got "
            f"{', '.join(modes)}; rename the mode with TensorData.from_array(X, modes=...) and fit "
            "again"
        )
    parts = zip(modes, components, factors, labels, strict=True)
    found |= {f"factor_{n}": _array(factor, [n, c], own) for n, c, factor, own in parts}
    return load_xarray(NAME).Dataset(found)  # type: ignore[no-any-return]


def _array(values: Tensor, dims: Sequence[str], *labels: NDArray[Any]) -> xarray.DataArray:
    """Return a tensor as an array of xarray."""
    return data_array(values.cpu().numpy(), dims, labels, for_what=NAME)
