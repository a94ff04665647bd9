import re

import pytest

pytest.importorskip("typer")
from parafair.cli.lazy import COMMANDS, Commands
from tests.cli.conftest import run
from tests.test_lazy import imported_by


def test_the_help_lists_all_commands_in_the_order_of_work(working):
    names = [
        "datasets", "sort", "fit", "tune", "audit", "frontier", "pick", "report",
        "parity-limit", "predict", "recommend", "transform", "certify", "reproduce",
    ]  # fmt: skip
    assert re.findall(r"│ ([a-z][\w-]+) +[A-Z]", run("--help")) == names
    assert list(Commands()) == names


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_paragraph_of_the_help(name):
    first, *_ = (Commands()[name].help or "").split("\n\n")
    assert COMMANDS[name][1] == " ".join(first.split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_command_itself_imports_neither_torch_nor_scikit_learn(option):
    code = f"import sys; sys.argv = ['parafair', {option!r}]; from parafair.cli import app; app()"
    assert not imported_by(code, "torch", "sklearn", "numpy", "pandas", "parafair.errors")


def test_an_unknown_command_is_answered_with_the_nearest(working):
    assert "audit" in run("audti", code=2)
    code = "import sys; sys.argv = ['parafair', 'audti']; from parafair.cli import app; app()"
    assert not imported_by(code, "torch", "sklearn")
