"""A call of the campaign: what is called, with which sorts of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

from tests.campaign import namespace
from tests.campaign.arguments import SORTS
from tests.campaign.processes import PROCESSES
from tests.campaign.values import Sort

# Arguments that are not given: scikit-learn's y does nothing.
IGNORED = {"self", "cls", "y"}

# Other names of arguments in messages: parts of them, which say more than the whole.
SAID = {
    "sensitive_features": ("sensitive feature", "columns"),
    "features": ("sensitive feature", "sensitive_features"),
    "table": ("sensitive feature", "column", "columns", "mode", "path"),
    "path": ("folder", "file"),
    "out": ("folder",),
    "X": ("array", "mode"),
    "array": ("X",),
    "new_sensitive_features": ("sensitive feature",),
    "data": ("X",),
    "X_test": ("X",),
    "X_new": ("X", "array", "mode"),
    "audits": tuple(signature(namespace.audit).parameters),
    "grid": tuple(signature(namespace.FairCP).parameters),
    "model": tuple(signature(namespace.FairCP).parameters),
    "values": ("X",),
}


@dataclass(frozen=True)
class Target:
    """A call with arguments to be drawn.

    Attributes:
        name: Its name in the table.
        template: Its source, with a place for the arguments of each of `callables`.
        callables: What is called, for the names of the arguments and which are required.
        sorts: Sorts of arguments that are not the sort of their name.
        usual: Arguments that are given with another probability than `OPTIONAL`.
        weight: How often it is called, relative to others.
    """

    name: str
    template: str
    callables: tuple[Callable[..., Any], ...]
    sorts: Mapping[str, Sort] = field(default_factory=dict)
    usual: Mapping[str, float] = field(default_factory=dict)
    weight: float = 1.0

    def parameters(self, place: int) -> dict[str, Parameter]:
        """The parameters of one of the callables that the campaign has values for."""
        found = signature(self.callables[place]).parameters.values()
        named = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        return {p.name: p for p in found if p.kind in named and p.name not in IGNORED}

    def names(self, place: int) -> list[str]:
        """What a message may call the arguments."""
        return [said for name in self.parameters(place) for said in (name, *SAID.get(name, ()))]

    def sort(self, name: str) -> Sort:
        """The sort of an argument."""
        return self.sorts.get(name) or PROCESSES.get(name) or SORTS[name]


def of(
    name: str,
    /,
    *callables: Any,
    template: str = "",
    weight: float = 1.0,
    usual: Any = None,
    **sorts: Sort,
) -> Target:
    """A target whose template follows from its name, unless it is given."""
    found = callables or (resolve(name),)
    return Target(name, template or f"{name}({{}})", found, sorts, usual or {}, weight)


def resolve(name: str) -> Any:
    first, *rest = name.split(".")
    found = getattr(namespace, first)
    for part in rest:
        found = getattr(found, part)
    return found
