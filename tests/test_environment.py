import tomllib
from pathlib import Path

import parafair
from parafair.environment import installed_version

ROOT = Path(__file__).parents[1]


def test_all_dependencies_are_listed(capsys):
    parafair.show_versions()
    printed = capsys.readouterr().out
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for requirement in settings["dependencies"]:
        package = requirement.partition(">")[0]
        assert f" {package}: {installed_version(package)}\n" in printed
    assert f" parafair: {parafair.__version__}\n" in printed
    assert [part.split(":")[0] for part in printed.split("\n\n")] == [
        "System",
        "Packages",
        "Numeric libraries",
    ]


def test_a_package_that_is_not_there_is_named():
    assert installed_version("no-such-package-anywhere") == "not installed"
