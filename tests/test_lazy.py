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
def test_a_fit_needs_no_optional_package_and_no_page():
    code = "from parafair import FairCP"
    others = ("matplotlib", "typer", "ot", "fairlearn", "pytest", "IPython")
    assert not imported_by(code, *others, "parafair.report", "parafair.paper", "parafair.testing")


def test_names_for_type_checkers_for_python_and_in_all_agree():
    tree = ast.parse(HOME.read_text("utf-8"))
    typed = {
        alias.name: (node.module or "").removeprefix("parafair").removeprefix(".")
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: module for module, names in parafair._NAMES.items() for name in names}
    assert {name: module for name, module in typed.items() if module} == homes
    assert set(typed) - {"__version__"} == set(parafair.__all__)


@pytest.mark.parametrize(
    ("package", "names"), [(parafair, parafair.__all__), (parafair.dependence, ["chunks"])]
)
def test_names_can_be_completed_and_others_are_refused(package, names):
    assert set(names) <= set(dir(package))
    assert all(hasattr(package, name) for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
