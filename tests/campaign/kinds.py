"""Folders of all kinds: those of `samples`, models with more parts, sorted data, checkpoints."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from parafair import Certificate, FairCP, FairTucker, TensorData, certify, datasets
from parafair.data.parquet import ParquetSource
from parafair.encoders import Learned
from parafair.errors import Interrupted, ParafairWarning
from parafair.model.tucker import load_model
from parafair.penalties import SlicedTransport
from parafair.solvers.checkpoints import CURRENT_FILE, FORMAT, Journal
from parafair.storage import read_json, write_json
from parafair.stored import read_record
from parafair.team import ALONE
from tests.campaign.samples import (
    QUICK,
    RANK,
    SAMPLES,
    SHAPE,
    Sample,
    people_of,
    run,
    see_frontier,
    see_model,
    write_data,
)

FEW = {"max_iter": 3, "tol": 0.0}


def _fitted(model: FairCP | FairTucker, seed: int, **more: Any) -> Any:
    data = datasets.synthetic(seed, shape=SHAPE, rank=RANK)
    return model.fit(data.tensor, sensitive_features=data.sensitive_features, **more)


def write_tucker(folder: Path, seed: int) -> None:
    """Save a Tucker model."""
    _fitted(FairTucker((2, 2, 2), strength=1.0, random_state=seed, **FEW), seed).save(folder)


def see_tucker(folder: Path) -> Any:
    """Return everything that a Tucker model has."""
    model = load_model(folder)
    found = (model.fit_, model.record_, model.training_, model.cp_)
    return model.get_params(deep=False), found, model.embedding_


def write_sided(folder: Path, seed: int) -> None:
    """Save a model of side information, with its certificate."""
    side = np.random.default_rng(seed).normal(size=(SHAPE[0], 3))
    model = FairCP(RANK, strength=1.0, noise=0.5, random_state=seed, **FEW)
    certify(_fitted(model, seed, side=side), draws=100)
    model.save(folder)


def write_encoded(folder: Path, seed: int) -> None:
    """Save a model with an encoder."""
    encoder = Learned(hidden=2, steps=2)
    _fitted(FairCP(RANK, encoder=encoder, random_state=seed, **FEW), seed).save(folder)


def see_more(folder: Path) -> Any:
    """Return everything that a model with more parts has."""
    model = FairCP.load(folder)
    names = ("certificate_", "encoder_", "side_factor_")
    return see_model(folder), [getattr(model, name, None) for name in names]


def write_mapped(folder: Path, seed: int) -> None:
    """Save a model with the map that new people follow."""
    method = SlicedTransport(rotations=2, knots=4)
    model = _fitted(FairCP(RANK, method=method, random_state=seed, **FEW), seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)  # the map leads to rows without noise
        model.save(folder)


def see_mapped(folder: Path) -> Any:
    """Return everything that a model with a map has, and rows of new people."""
    new = datasets.synthetic(9, shape=SHAPE, rank=RANK)
    # The device of a record may be that of another machine, so its use is no reading.
    model = FairCP.load(folder).set_params(device=None)
    return see_model(folder), model.transform(new.tensor, sensitive_features=new.sensitive_features)


def write_certificate(folder: Path, seed: int) -> None:
    """Write the certificate of a model into a folder of its own."""
    folder.mkdir()
    model = FairCP(RANK, strength=1.0, noise=0.5, random_state=seed, **FEW)
    certify(_fitted(model, seed), draws=100).write(folder / "certificate.json")


def see_certificate(folder: Path) -> Any:
    """Return the certificate in a folder."""
    return Certificate.read(folder / "certificate.json")


def write_certified_frontier(folder: Path, seed: int) -> None:
    """Write a frontier of two noises, with certificates."""
    data = write_data(folder.with_name(f"data of {folder.name}"), seed)
    sweep = ("--strengths", "0.5,1", "--noises", "0.2,1", *QUICK)
    run("frontier", *people_of(data), *sweep, "--out", folder)


def write_table(folder: Path, seed: int) -> Path:
    """Write a table of entries as Parquet files in a folder."""
    folder.mkdir()
    tensor = datasets.synthetic(seed, shape=SHAPE, rank=RANK).tensor
    table = TensorData.from_array(tensor, modes=["who", "what", "when"]).to_table()
    table["who"] = [f"p{number:02}" for number in table["who"]]
    for number in range(2):
        table.iloc[number::2].to_parquet(folder / f"{number}.parquet", index=False)
    return folder


SORT = ("--modes", "who,what,when", "--value", "value")


def write_sorted(folder: Path, seed: int) -> None:
    """Sort entries, as `parafair sort` does."""
    table = write_table(folder.with_name(f"table of {folder.name}"), seed)
    run("sort", table, *SORT, "--out", folder)


@dataclass(frozen=True)
class Sorted:
    """Everything that a sorted folder holds."""

    modes: tuple[str, ...]
    shape: tuple[int, ...]
    norm_squared: float
    labels: list[list[Any]]
    counts: list[Any]
    columns: list[Any]


def see_sorted(folder: Path) -> Any:
    """Return everything that a fit reads of a sorted folder."""
    source = ParquetSource(folder)
    order = len(source.modes)
    return Sorted(
        source.modes,
        source.shape,
        source.norm_squared,
        [labels.tolist() for labels in source.labels],
        [source.counts(mode) for mode in range(order)],
        source.read(0, len(source.sizes), range(order + 1)),
    )


def write_checkpoint(folder: Path, seed: int) -> None:
    """Leave the checkpoint of a fit that was interrupted in its second solve."""
    done = []

    def interrupt(*_: object) -> None:
        done.append(1)
        if len(done) == 3:
            raise KeyboardInterrupt

    model = FairCP(RANK, method="hsic", n_init=2, max_iter=5, tol=0.0, random_state=seed)
    try:
        _fitted(model, seed, checkpoint=folder, on_iteration=interrupt)
    except Interrupted:
        settings = read_record(folder / CURRENT_FILE, file_format=FORMAT)["settings"]
        write_json(_settings_of(folder), settings)
        return
    raise RuntimeError("the fit was not interrupted")


def _settings_of(folder: Path) -> Path:
    """The settings of the fit that continues from a checkpoint."""
    return folder.with_name(f"settings of {folder.name}.json")


def see_checkpoint(folder: Path) -> Any:
    """Return everything that a fit reads of a checkpoint."""
    current = folder / CURRENT_FILE
    if not current.exists():  # as after a kill during the first checkpoint
        raise FileNotFoundError(f"{current} is missing, so a fit begins anew")
    settings = read_json(_settings_of(folder))
    journal = Journal(folder, seconds=1.0, team=ALONE, settings=settings)
    journal.read(torch.device("cpu"))
    return journal.number, journal._done, journal._running


KINDS = {
    **SAMPLES,
    "Tucker model": Sample(write_tucker, see_tucker),
    "model with side information": Sample(write_sided, see_more),
    "model with an encoder": Sample(write_encoded, see_more),
    "model with a map": Sample(write_mapped, see_mapped),
    "certificate": Sample(write_certificate, see_certificate),
    "certified frontier": Sample(write_certified_frontier, see_frontier),
    "sorted": Sample(write_sorted, see_sorted),
    "checkpoint": Sample(write_checkpoint, see_checkpoint),
}
