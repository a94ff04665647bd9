"""A fitted encoder as a file of plain NumPy arrays, with the noise of the model.

The certificate of a model is about rows with noise. So the exported map includes it: its noise is
that of `transform`, a function of the person's entries and of a key in the file. Embedding a person
again, here or with the model, gives the same row, and nothing averages out; but people with equal
entries in one call have noise of their own.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from parafair.algebra.devices import identity
from parafair.arguments import as_path, flag, instance_of
from parafair.data.devices import resolve_dtype
from parafair.encoders.base import Encoder
from parafair.encoders.learned import LearnedEncoder
from parafair.encoders.linear import LinearEncoder
from parafair.model.draws import words_of_cells
from parafair.model.fitted import FittedCP
from parafair.model.noise import Noise
from parafair.storage import check_new_file, write_bytes

# Readers compare it: a file of another format needs another reader.
FORMAT = 1


def export_encoder(model: FittedCP, path: str | Path, *, overwrite: bool = False) -> None:
    """Write the encoder of a model and its noise as an .npz file that needs NumPy alone.

    ``examples/apply_encoder.py`` reads it: it gives the rows of `transform`, noise included. With
    entries ``x`` of a person, all modes but that of the people unfolded, the row is

        z = (x - mean) @ weights + constant
        z @ skip + offset + silu(z @ hidden + bias) @ output + normal(x) @ noise,

    where ``normal(x)`` follows from the entries, ``cells`` and ``last``. ``labels_M`` are the
    labels of mode M, in the order of the columns. The file has no rows of training people. It has
    the key of the noise: keep it as you keep the model. Whoever has it and a person's entries knows
    that person's noise.

    Args:
        model: A fitted model with an encoder of complete entries: ``encoder="linear"`` or
            "network" fitted to data without missing entries, or a method such as "fair-pca". Its
            zeros must be stored: see `TensorData.to_dense`.
        path: The file; its name must end with .npz.
        overwrite: Whether to replace a file of the same name.
    """
    instance_of("model", model, FittedCP, "pass a fitted FairCP")
    check_is_fitted(model)
    target = as_path("path", path)
    if target.suffix != ".npz":
        raise ValueError(f"path must end with .npz, got {target.name!r}; choose another name")
    check_new_file(target, overwrite=flag("overwrite", overwrite))
    if resolve_dtype(model.dtype) == torch.float32:
        raise ValueError(
            "model must not round entries to single precision, which the exported encoder does "
            f"not do, got dtype={model.dtype!r}; fit again without dtype"
        )
    if model.training_.absent == "zero":
        raise ValueError(
            "model must be fitted to data that stores its zeros, because the noise of the exported "
            "encoder follows from all entries, got a model of data with absent='zero'; fit "
            "data.to_dense()"
        )
    arrays = {"format": np.array(FORMAT), **_of_encoder(model), **_of_noise(model)}
    for mode, labels in enumerate(model.training_.labels):
        if mode != model.training_.mode:
            arrays[f"labels_{mode}"] = labels
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    write_bytes(target, stream.getvalue(), overwrite=overwrite)


def _of_encoder(model: FittedCP) -> dict[str, NDArray[Any]]:
    """Return the arrays of the encoder; offsets of the model are part of its mean."""
    linear, parameters = _take_apart(model.encoder_)
    mean, training = linear.mean, model.training_
    if training.offsets is not None:
        shape = [1 if mode == training.mode else size for mode, size in enumerate(training.shape)]
        offsets = training.offsets.dense(mean.new_zeros(shape)).expand(shape)
        mean = mean + offsets.movedim(training.mode, 0).flatten()
    found = {"mean": mean, "weights": linear.weights, "constant": linear.constant, **parameters}
    return {name: tensor.double().cpu().numpy() for name, tensor in found.items()}


def _take_apart(encoder: Encoder | None) -> tuple[LinearEncoder, dict[str, torch.Tensor]]:
    """Return the linear map of an encoder and what follows it; raise if it has none."""
    learned = encoder if isinstance(encoder, LearnedEncoder) else None
    linear = encoder if learned is None else learned.inputs
    if not isinstance(linear, LinearEncoder):
        got = "no encoder" if encoder is None else f"{encoder!r} of {linear!r}"
        raise ValueError(
            f"model must have an encoder of complete entries, got {got}; fit with "
            "encoder='linear' or encoder='network' to data without missing entries, or save the "
            "model and use FairCP.load"
        )
    rank, like = len(linear.constant), linear.constant
    parts: tuple[torch.Tensor, ...]
    if learned is None:
        parts = (
            identity(rank, like),
            like.new_zeros(rank),
            like.new_zeros(rank, 0),
            like.new_zeros(0),
            like.new_zeros(0, rank),
        )
    else:
        parts = learned.parameters
    return linear, dict(zip(("skip", "offset", "hidden", "bias", "output"), parts, strict=True))


def _of_noise(model: FittedCP) -> dict[str, NDArray[Any]]:
    """Return the arrays of the noise; the matrix is zero if the model has none."""
    training, rank = model.training_, model.cp_.rank
    matrix = model.fit_.noise.get(training.mode)
    key = Noise.of_record(model.record_, training.secret).key_of_new_people(rank)
    cells, last = words_of_cells(training.shape, training.mode, key=key)
    noise = np.zeros((rank, rank)) if matrix is None else matrix.double().cpu().numpy()
    return {"cells": cells, "last": last, "noise": noise}
