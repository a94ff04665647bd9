"""Commands that are imported when they are run: the help needs neither torch nor scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup

# The commands in the order of work: the module of each, and the first sentence of its help.
COMMANDS = {
    "datasets": (
        "data",
        "List the data sets, or write one as tensor.npy (entries.csv if sparse) and sensitive.csv.",
    ),
    "sort": ("sorting", "Sort entries by person, for fits to data that is larger than memory."),
    "fit": (
        "fitting",
        "Decompose a tensor and write the embedding, the factors and a record of the fit.",
    ),
    "tune": ("tuning", "Try several settings and write the best as `parafair fit` would."),
    "audit": ("auditing", "Measure what an embedding reveals about sensitive features."),
    "frontier": (
        "frontiers",
        "Fit at many strengths at once, audit every fit, and show what each level costs.",
    ),
    "pick": (
        "frontiers",
        "Write the passing fit of a frontier with the smallest residual, as `parafair fit` would.",
    ),
    "report": (
        "frontiers",
        "Write a page with the frontier, every fit behind it and what was achieved.",
    ),
    "parity-limit": ("limits", "Compute the least residual that parity allows to any model."),
    "predict": ("predicting", "Predict any cells, observed or missing."),
    "recommend": (
        "recommending",
        "Recommend to each person the cells with the highest predictions.",
    ),
    "transform": ("predicting", "Embed new people, with all other factors fixed."),
    "certify": ("certifying", "Bound what every attacker learns from an embedding with noise."),
    "reproduce": (
        "reproducing",
        "Reproduce the figures of the paper, with a verdict on each of its claims.",
    ),
}

# Commands whose module was imported; `parafair.cli.command` puts them here.
LOADED: dict[str, Any] = {}


class Commands(Mapping[str, Any]):
    """All commands by name; a command is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        module, _ = COMMANDS[name]
        import_module(f"parafair.cli.{module}")
        return LOADED[name]

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class PlainCommand(TyperCommand):
    """A command whose help shows no type for options that take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, --help too."""
        return [_without_type(parameter) for parameter in super().get_params(ctx)]


class LazyGroup(TyperGroup):
    """The command `parafair`, whose help lists commands that are not imported."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, --help too."""
        return [_without_type(parameter) for parameter in super().get_params(ctx)]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in order."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the first sentence of each command."""
        listing = copy(self)
        listing.commands = {
            name: TyperCommand(name, help=text, rich_markup_mode=self.rich_markup_mode)
            for name, (_, text) in COMMANDS.items()
        }
        super(LazyGroup, listing).format_help(ctx, formatter)


def _without_type(parameter: Any) -> Any:
    if getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    return parameter
