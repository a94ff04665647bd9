"""Imports point one way: a module uses only what is listed before it."""

import ast
from pathlib import Path

import pytest

import parafair

SOURCE = Path(parafair.__file__).parent

# Modules on the same line do not import each other.
LAYERS = [
    {"errors", "records"},
    {"storage"},
    {"algebra"},
    {"data"},
    {"datasets", "dependence"},
    {"penalties"},
    {"solvers"},
    {"audits", "guarantees", "testing"},
    {"model"},
    {"frontiers"},
    {"report"},
    {"paper"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def family(path):
    """The module or sub-package of parafair that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """The parts of parafair that a file imports, except for type checking."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.ImportFrom) or node.level:
            continue
        root, _, rest = (node.module or "").partition(".")
        if root != "parafair":
            continue
        if rest:
            yield rest.split(".")[0]
        else:
            names = {alias.name for alias in node.names}
            yield from (name if name in LEVEL else "__init__" for name in names)


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    own = family(path)
    assert own in LEVEL, f"say in LAYERS where {own} belongs"
    for other in imported(path):
        if other != own:
            assert LEVEL[other] < LEVEL[own], f"{own} must not import {other}"


def test_the_check_sees_imports():
    assert "penalties" in set(imported(SOURCE / "solvers" / "problem.py"))
    assert "solvers" not in set(imported(SOURCE / "errors.py"))  # for type checking only


def test_no_module_is_called_utils_and_none_unpickles():
    assert not [path for path in FILES if "util" in path.stem]
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text
        assert "torch.load" not in text
        assert "allow_pickle=True" not in text
