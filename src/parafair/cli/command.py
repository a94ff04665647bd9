"""Commands: functions whose parameters are groups of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import typer

from parafair.cli.lazy import LOADED, PlainCommand
from parafair.cli.options import TYPED
from parafair.cli.shell import readable_errors
from parafair.cli.wording import PARAMETERS
from parafair.interrupts import Interruptible
from parafair.torchrun import process_count

# What click calls the source of an option that was typed.
TYPED_HERE = "COMMANDLINE"
# Commands that several processes run together; any other would do its work several times.
TOGETHER = ("fit", "frontier")

F = TypeVar("F", bound=Callable[..., None])


def command(name: str, *, more: Mapping[str, Any] | None = None) -> Callable[[F], F]:
    """Return a decorator that makes a command of a function.

    A parameter whose type is a dataclass stands for the options that are its fields. Their
    defaults are those of the parameter's default, if it has one, or else of the fields.

    Args:
        name: What users type.
        more: Options that are known only now, as annotated types by name, None by default; the
            function takes those that were given as ``**options``.
    """

    def add(function: F) -> F:
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        checked = function if name in TOGETHER else _alone(name, function)
        alone.command(name=name, cls=PlainCommand)(_noting(flatten(checked, more or {})))
        LOADED[name] = typer.main.get_command(alone)
        return function

    return add


def flatten(function: Callable[..., None], more: Mapping[str, Any]) -> Callable[..., None]:
    """Return a function with one parameter for each option; see `command`."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type] = {}
    flat: list[Parameter] = []
    for parameter in signature(function).parameters.values():
        kind = hints.get(parameter.name)
        if parameter.kind is Parameter.VAR_KEYWORD:
            flat += [_option(key, type_, None) for key, type_ in more.items()]
        elif isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            flat += _fields(kind, parameter.default)
        else:
            flat.append(_option(parameter.name, kind, parameter.default))

    def run(**given: Any) -> None:
        arguments = dict(given)
        for key in more:
            if arguments[key] is None:
                del arguments[key]
        for group, kind in groups.items():
            arguments[group] = kind(
                **{field.name: arguments.pop(field.name) for field in fields(kind)}
            )
        with readable_errors(), Interruptible():
            _check_paths(given)
            function(**arguments)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _check_paths(given: Mapping[str, Any]) -> None:
    """Raise unless every path is one that the system can look up, before any work."""
    from parafair.arguments import as_path  # takes as long as NumPy

    for name, value in given.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, Path):
                as_path(name, each)


def _alone(name: str, function: F) -> F:
    """Return a command that raises if torchrun started several processes of it."""

    @wraps(function)
    def checked(**given: Any) -> None:
        count = process_count()
        if count > 1:
            raise ValueError(
                f"torchrun started {count} processes, but `parafair {name}` is for one; start it "
                f"without torchrun, which is for {' and '.join(TOGETHER)}"
            )
        function(**given)

    return checked  # type: ignore[return-value]


def _noting(run: Callable[..., None]) -> Callable[..., None]:
    """Return the same command, which notes its parameters and which of them were typed."""

    def noting(context: typer.Context, **given: Any) -> None:
        sources = {name: context.get_parameter_source(name) for name in given}
        typed = (name for name, source in sources.items() if source and source.name == TYPED_HERE)
        noted = TYPED.set(frozenset(typed)), PARAMETERS.set(tuple(context.command.params))
        try:
            run(**given)
        finally:
            TYPED.reset(noted[0])
            PARAMETERS.reset(noted[1])

    noting.__name__, noting.__doc__ = run.__name__, run.__doc__
    first = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    found = [first, *signature(run).parameters.values()]
    noting.__signature__ = Signature(found)  # type: ignore[attr-defined]
    noting.__annotations__ = {parameter.name: parameter.annotation for parameter in found}
    return noting


def _fields(kind: type, defaults: Any) -> list[Parameter]:
    """Return the options of a group, with the defaults of an instance if one is given."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        default = Parameter.empty if field.default is MISSING else field.default
        if defaults is not Parameter.empty:
            default = getattr(defaults, field.name)
        found.append(_option(field.name, hints[field.name], default))
    return found


def _option(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
