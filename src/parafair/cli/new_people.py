"""New people, as the commands read them: entries with the modes of a run, and features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parafair.cli.inputs import Inputs
from parafair.cli.people import People, PeopleOptions
from parafair.cli.tensors import TensorOptions, error_prefix
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import missing_column
from parafair.model.training import Training


def read_new(tensor: TensorOptions, training: Training, inputs: Inputs) -> TensorData:
    """Read entries of new people with the modes of the model, in its order."""
    axes = training.axes
    known = axes.modes
    if tensor.is_table:
        tensor = replace(tensor, value=tensor.value or inputs.value)
    if tensor.has_labels:
        tensor = replace(
            tensor,
            duplicates=tensor.duplicates or inputs.duplicates,
            absent=tensor.absent or training.absent,
        )
    if axes.labeled and (tensor.modes is None or set(tensor.names) == set(known)):
        tensor = replace(tensor, modes=",".join(known))
    data = tensor.read()
    if data.order != len(known):
        raise ValueError(
            f"{tensor.tensor} has {data.order} modes but the model has {len(known)}: "
            f"{', '.join(known)}; give data with the same modes"
        )
    if tensor.has_labels or not axes.labeled:
        return data
    # An array has no labels: its indices are those of the model.
    axes.check_new(data.shape)
    labels = [data.labels[m] if m == axes.mode else own for m, own in enumerate(axes.labels)]
    with error_prefix(tensor.tensor):
        return replace(data, labels=tuple(labels))


def read_new_features(
    tensor: TensorOptions,
    people: PeopleOptions,
    data: TensorData,
    training: Training,
    inputs: Inputs,
) -> SensitiveFeatures:
    """Read the sensitive features of new people, matched by label where they have labels.

    Args:
        tensor: How their entries were read.
        people: The table of the people.
        data: Their entries.
        training: Metadata of the run.
        inputs: How the data of the run was read.
    """
    axes = training.axes
    name = axes.modes[axes.mode]
    names = [inputs.key, name, data.modes[axes.mode]] if tensor.has_labels else []
    found = People.read(inputs.complete(people), names=[each for each in names if each is not None])
    if tensor.has_labels:
        found.require_key(name)
    return _features(found, data.labels[axes.mode] if tensor.has_labels else None, training)


def _features(people: People, labels: Any, training: Training) -> SensitiveFeatures:
    """Return the sensitive features of new people, with the columns of the training."""
    if training.features is None:
        raise ValueError("the model was fitted without sensitive features; leave out --sensitive")
    for column in training.features.columns:
        if column.name not in people.table.columns:
            raise missing_column(people.path, column.name, map(str, people.table.columns))
    with error_prefix(people.path):
        features = training.features.read_table(
            people.table, key=people.key, labels=labels, missing=people.missing
        )
    if features.has_features is not None and not features.has_features.any():
        raise ValueError(
            f"{people.path} has no features of any new person; check --sensitive and --key, or "
            "leave out --sensitive to embed them by their entries alone"
        )
    return features
