import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import parafair

HOME = Path(parafair.__file__)


def imported_by(code, *names):
    """Those of some modules that a program has imported at its end, in a process of its own."""
    ending = (
        f"import atexit, json, sys\nloaded = lambda: [n for n in {names} if n in sys.modules]\n"
    )
    ending += "atexit.register(lambda: print('LOADED', json.dumps(loaded())))\n"
    found = subprocess.run(
        [sys.executable, "-c", ending + code],
        capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(HOME.parents[1])},
    )  # fmt: skip
    *_, last = found.stdout.splitlines()
    return json.loads(last.removeprefix("LOADED"))


def test_importing_parafair_imports_nothing_that_takes_time():
    slow = ("torch", "sklearn", "scipy", "numpy", "pandas", "matplotlib", "rich", "typer")
    assert not imported_by("import parafair; dir(parafair); parafair.__version__", *slow)


@pytest.mark.slow
def test_a_fit_needs_no_optional_package_no_attackers_and_no_page():
    code = """
from parafair import FairCP
model = FairCP(rank=1, method="hsic", strength=1.0, max_iter=2, tol=0)
model.fit([[1.0, 2.0], [2.0, 1.0], [0.0, 3.0]], sensitive_features=["a", "b", "a"])
"""
    others = ("matplotlib", "typer", "ot", "fairlearn", "pytest", "IPython")
    heavy = ("decomposition", "ensemble", "metrics", "model_selection", "neighbors", "svm")
    models = tuple(f"sklearn.{name}" for name in heavy)
    parts = ("report", "paper", "testing", "frontiers", "audits.attackers", "guarantees.certifying")
    own = tuple(f"parafair.{name}" for name in parts)
    assert not imported_by(code, *others, *models, *own)


@pytest.mark.parametrize("package", [parafair, parafair.audits, parafair.guarantees])
def test_names_for_type_checkers_for_python_and_in_all_agree(package):
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    typed = {
        alias.name: (node.module or "").removeprefix(package.__name__).removeprefix(".")
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: module for module, names in package._NAMES.items() for name in names}
    assert {name: module for name, module in typed.items() if module} == homes
    assert set(typed) - {"__version__"} == set(package.__all__)


@pytest.mark.parametrize(
    ("package", "names"),
    [
        (parafair, parafair.__all__),
        (parafair.dependence, ["chunks"]),
        (parafair.audits, [*parafair.audits.__all__, "networks"]),
    ],
)
def test_names_can_be_completed_and_others_are_refused(package, names):
    assert set(names) <= set(dir(package))
    assert all(hasattr(package, name) for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
