"""What a data set holds, and the registry that lists every data set by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import numpy as np
from numpy.typing import NDArray

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.data.view import feature_parts, tensor_parts
from parafair.datasets.files import Source
from parafair.display import paragraph, view

if TYPE_CHECKING:
    import pandas

P = ParamSpec("P")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A tensor and the sensitive features of the people along one of its modes.

    Attributes:
        name: Short name.
        about: What it is and where it comes from, in a sentence or two.
        tensor: The data: an array, or `TensorData` if entries are missing.
        sensitive_features: One entry or row per index of `mode`: an array or a data frame.
        mode: The sensitive mode.
        modes: Names of the modes; by default those of `tensor`, or mode_0, mode_1, ...
        labels: Labels of each mode, one per index; by default those of `tensor`, or 0, 1, ...
        target: What a downstream model predicts, one value per index of `mode`; None if the data
            has none.
        times: When each entry was made, in the order of ``tensor.cells``; None if it is not known.
    """

    name: str
    about: str
    tensor: NDArray[Any] | TensorData
    sensitive_features: NDArray[Any] | pandas.DataFrame
    mode: int = 0
    modes: tuple[str, ...] = ()
    labels: tuple[NDArray[Any], ...] = ()
    target: NDArray[Any] | pandas.Series | None = None
    times: NDArray[Any] | None = None

    def __repr__(self) -> str:
        sizes = zip(self.tensor.shape, self.modes, strict=True)
        text = " x ".join(f"{size:,} {name}" for size, name in sizes)
        return f"Dataset({self.name}: {text}, people along {self.modes[self.mode]})"

    def _repr_html_(self) -> str:
        data = TensorData.from_array(self.tensor)
        data = replace(data, modes=self.modes, labels=self.labels)
        try:
            features = SensitiveFeatures.of(self.sensitive_features, missing="exclude")
        except ValueError as error:  # a fit refuses them as well
            parts = [*tensor_parts(data), paragraph(str(error))]
        else:
            parts = [*tensor_parts(data), *feature_parts(features)]
        return view(repr(self), paragraph(self.about), *parts)

    def __post_init__(self) -> None:
        own = self.tensor if isinstance(self.tensor, TensorData) else None
        shape = self.tensor.shape
        names = own.modes if own else tuple(f"mode_{mode}" for mode in range(len(shape)))
        labels = own.labels if own else tuple(np.arange(size) for size in shape)
        object.__setattr__(self, "modes", self.modes or names)
        object.__setattr__(self, "labels", self.labels or labels)


class Option(NamedTuple):
    """An argument of a data set's function.

    Attributes:
        name: Its name.
        default: Its default value, which also shows its type; None for a folder.
        about: Its description in the docstring.
    """

    name: str
    default: Any
    about: str


@dataclass(frozen=True)
class Entry:
    """A registered data set.

    Attributes:
        load: The function that returns it. It needs no arguments if its files are available.
        about: What it is, available without loading it.
        source: Its files; None for generated data.
    """

    load: Callable[..., Dataset]
    about: str
    source: Source | None = None

    @property
    def options(self) -> tuple[Option, ...]:
        """The arguments of `load`, from its signature and its docstring."""
        described = _described_arguments(inspect.getdoc(self.load) or "")
        parameters = inspect.signature(self.load).parameters.values()
        return tuple(Option(p.name, p.default, described.get(p.name, "")) for p in parameters)


# Every data set by name; `register` fills it.
DATASETS: dict[str, Entry] = {}


def register(
    about: str, source: Source | None = None
) -> Callable[[Callable[P, Dataset]], Callable[P, Dataset]]:
    """Return a decorator that adds a function to `DATASETS`, under its own name.

    Args:
        about: What the data set is, in a sentence or two.
        source: Its files; None for generated data.
    """

    def add(load: Callable[P, Dataset]) -> Callable[P, Dataset]:
        name = load.__name__
        if name in DATASETS:
            raise ValueError(
                f"a data set named {name!r} is already registered; rename the function"
            )
        DATASETS[name] = Entry(load, about, source)
        return load

    return add


def _described_arguments(docstring: str) -> dict[str, str]:
    """Return the descriptions in the section "Args" of a docstring in Google style."""
    found: dict[str, str] = {}
    name = ""
    for line in docstring.partition("\nArgs:\n")[2].splitlines():
        if not line.startswith(" "):
            break
        if not line.startswith(" " * 8):
            name, _, line = line.strip().partition(":")
        found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found
