"""What is held out to compare settings: a share of the entries, folds in turn, or given ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from parafair.arguments import whole_number
from parafair.data.modes import is_labeled
from parafair.data.randomness import RandomState
from parafair.data.splits import Split, align_entries, fold_cells, hold_out, split_cells
from parafair.data.tensor_data import TensorData
from parafair.errors import shown


def check_validation(validation: Any, cv: int | None) -> None:
    """Raise unless it is clear what to hold out."""
    if cv is not None:
        whole_number("cv", cv, least=2)
    if isinstance(validation, TensorData):
        if cv is not None:
            raise ValueError(
                f"cv={cv} and validation data both say what to hold out; give one of them"
            )
    elif not 0 < _share(validation) < 1:
        raise ValueError(
            "validation must be a share between 0 and 1, such as 0.1, or a TensorData of held-out "
            f"entries; got {shown(validation)}"
        )


def _share(value: Any) -> float:
    """Return a share, or 0 for what is none."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return float(value) if number else 0.0


def validation_splits(
    data: TensorData, validation: Any, cv: int | None, random_state: RandomState
) -> list[Split[TensorData]]:
    """Return the parts to fit and to predict, one pair for each fit of a candidate."""
    if cv is not None:
        return fold_cells(data, cv, random_state=random_state, name="cv")
    if not isinstance(validation, TensorData):
        return [split_cells(data, test_size=validation, random_state=random_state)]
    labeled = is_labeled(data.modes, data.labels) and is_labeled(
        validation.modes, validation.labels
    )
    try:
        test = align_entries(validation, data, labeled=labeled)
        return [Split(hold_out(data, test.cells), None, test)]
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error
