"""The source distribution is the repository: its tests find every file they read."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tracked():
    """The files and folders at the top of the repository."""
    if not (ROOT / ".git").exists():  # a folder, or a file in a second working tree
        pytest.skip("this is not a git repository, so there is no list of its files")
    command = ["git", "-C", ROOT, "ls-files"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return {path.split("/")[0] for path in result.stdout.splitlines()}


def test_the_source_distribution_has_every_tracked_file():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {path.removeprefix("/") for path in included} == tracked()
