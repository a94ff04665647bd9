"""Small folders of every kind that parafair writes, and everything that reading them returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from typer.testing import CliRunner

from parafair import FairCP, datasets
from parafair.audits import Audit
from parafair.cli import app
from parafair.cli.embeddings import read_embedding
from parafair.cli.inputs import Inputs
from parafair.cli.people import People, PeopleOptions
from parafair.cli.tensors import TensorOptions
from parafair.frontiers import load as load_frontier
from parafair.stored import read_record, reading

SHAPE, RANK = (16, 4, 3), 2
SMALL = ("--rank", RANK, "--max-iter", 3, "--tol", 0)
QUICK = ("--attackers", "linear", "--repeats", 1, "--folds", 2, "--permutations", 9)
STRENGTHS = "0.1,1"


def run(*arguments: Any) -> str:
    """Run a command that must succeed; return what it printed."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exit_code:
        raise RuntimeError(f"parafair {' '.join(map(str, arguments))}: {done.output}")
    return done.output


def people_of(data: Path) -> tuple[Any, ...]:
    """The tensor and the people of a data set, as options."""
    people = ("--sensitive", data / "sensitive.csv", "--key", "person")
    return (data / "tensor.npy", *people, *SMALL)


def write_data(folder: Path, seed: int) -> Path:
    """Write a data set, as `parafair datasets` does."""
    shape = ",".join(map(str, SHAPE))
    run("datasets", "synthetic", "--shape", shape, "--seed", seed, "--out", folder)
    return folder


def small_model(seed: int) -> FairCP:
    """Return a fitted model with everything that a model can have."""
    data = datasets.synthetic(seed, shape=SHAPE, rank=RANK)
    model = FairCP(RANK, strength=1.0, center=True, max_iter=3, tol=0, random_state=seed)
    return model.fit(data.tensor, sensitive_features=data.sensitive_features)


def _model(folder: Path, seed: int) -> None:
    small_model(seed).save(folder)


def _run(folder: Path, seed: int) -> None:
    data = write_data(folder.with_name(f"data of {folder.name}"), seed)
    run("fit", *people_of(data), "--strength", 1, "--test-size", 0.2, "--out", folder)


def _tuning(folder: Path, seed: int) -> None:
    data = write_data(folder.with_name(f"data of {folder.name}"), seed)
    run("tune", *people_of(data), "--strength", "0.1,1", "--out", folder)


def _frontier(folder: Path, seed: int) -> None:
    data = write_data(folder.with_name(f"data of {folder.name}"), seed)
    sweep = ("--methods", "invariant,none", "--strengths", STRENGTHS, "--test-size", 0.2)
    run("frontier", *people_of(data), *sweep, *QUICK, "--out", folder)


def _audit(folder: Path, seed: int) -> None:
    folder.mkdir()
    data = datasets.synthetic(seed, shape=SHAPE, rank=RANK)
    rows = folder.with_name(f"rows of {folder.name}.npy")
    np.save(rows, small_model(seed).embedding_)
    people = folder.with_name(f"people of {folder.name}.csv")
    lines = ["group", *map(str, data.sensitive_features)]
    people.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run("audit", rows, "--sensitive", people, *QUICK, "--json", folder / "audit.json")


def see_model(folder: Path) -> Any:
    """Return everything that a model has."""
    model = FairCP.load(folder)
    return model.get_params(deep=False), model.fit_, model.record_, model.training_


def see_run(folder: Path) -> Any:
    """Return everything that the commands read of a run."""
    return read_embedding(folder, None), Inputs.read(folder), see_model(folder)


def see_frontier(folder: Path) -> Any:
    """Return everything that the commands read of a frontier."""
    return load_frontier(folder), Inputs.read(folder)


def see_audit(folder: Path) -> Any:
    """Return an audit that a command wrote into a folder."""
    return see_audit_file(folder / "audit.json")


def see_audit_file(file: Path) -> Any:
    """Return an audit that a command wrote."""
    with reading(file):
        return Audit.from_dict(read_record(file))


def see_data(folder: Path) -> Any:
    """Return the tensor and the people of a data set."""
    tensor = TensorOptions(folder / "tensor.npy").read()
    people = People.read(PeopleOptions(sensitive=folder / "sensitive.csv", key="person"))
    return tensor, {str(name): column.to_numpy() for name, column in people.table.items()}


@dataclass(frozen=True)
class Sample:
    """A kind of folder.

    Attributes:
        write: Writes one; another seed gives another one.
        see: Returns everything that reading it returns.
    """

    write: Callable[[Path, int], Any]
    see: Callable[[Path], Any]


SAMPLES = {
    "model": Sample(_model, see_model),
    "run": Sample(_run, see_run),
    "tuning": Sample(_tuning, see_run),
    "frontier": Sample(_frontier, see_frontier),
    "audit": Sample(_audit, see_audit),
    "data": Sample(write_data, see_data),
}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all plain values inside an object, with their places."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        yield f"{name} shape and dtype", f"{value.shape} {value.dtype}"
        value = value.ravel().tolist()
    if isinstance(value, Enum):
        yield name, value.name
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from leaves(entry, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        yield f"{name} length", len(value)
        for number, entry in enumerate(value):
            yield from leaves(entry, f"{name}[{number}]")
    else:
        yield name, value


def difference(first: Any, second: Any, *, rounding: float = 0.0) -> str:
    """Return the first place where two objects differ, or "".

    Args:
        first: An object.
        second: Another one.
        rounding: Relative rounding to allow. If it is positive, times are not compared either.
    """
    mine, theirs = dict(leaves(first)), dict(leaves(second))
    for name in {**mine, **theirs}:
        if rounding and name.endswith(".seconds"):
            continue
        a, b = mine.get(name, "nothing"), theirs.get(name, "nothing")
        if isinstance(a, float) and isinstance(b, float):
            if a == b or (a != a and b != b) or isclose(a, b, rel_tol=rounding, abs_tol=rounding):
                continue
        elif type(a) is type(b) and (a == b or not isinstance(a, (int, str, bool, type(None)))):
            continue
        return f"{name}: {str(a)[:60]} and {str(b)[:60]}"
    return ""
