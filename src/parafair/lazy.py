"""Names that are imported when they are first used, so that `import parafair` is fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any


def attach(
    package: str, names: Mapping[str, Iterable[str]], modules: Iterable[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Args:
        package: Its name.
        names: The names that each module of the package gives to it.
        modules: Modules of the package that are its attributes.
    """
    homes = {name: module for module, given in names.items() for name in given}
    known = frozenset(modules)

    def get(name: str) -> Any:
        if name in homes:
            found = getattr(import_module(f"{package}.{homes[name]}"), name)
        elif name in known:
            found = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)  # from now on it is an ordinary name
        return found

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *known})

    return get, names_of


def attach_modules(
    package: str, names: Mapping[str, Iterable[str]] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the same for a package whose other names are all its modules."""
    found = [module.name for module in iter_modules(sys.modules[package].__path__)]
    return attach(package, names, found)
