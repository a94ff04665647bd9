"""One version, lower bounds that are tried, workflows that run what exists, files of the wheel."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = SETTINGS["project"]


def constraints(name):
    """The versions in a file of constraints, by package."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if "==" in line)


def lower_bounds():
    """All packages that users or tests may need, with their lower bounds."""
    extras = [each for extra in PROJECT["optional-dependencies"].values() for each in extra]
    tests = SETTINGS["dependency-groups"]["test"]
    for requirement in [*PROJECT["dependencies"], *extras, *tests]:
        found = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement)
        if found:
            yield found[1].lower(), found[2]
        else:
            assert requirement.startswith("parafair["), requirement


def test_the_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.M) == [PROJECT["version"]]


def test_the_version_is_written_nowhere_else():
    quoted = f'"{PROJECT["version"]}"'
    assert not [p for p in (ROOT / "src").rglob("*.py") if quoted in p.read_text("utf-8")]


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = constraints("constraints-oldest.txt")
    for package, bound in lower_bounds():
        if package in ("playwright", "pytest-xdist"):  # they run the tests, and are not tested
            continue
        parts = oldest[package].split(".")
        assert parts[: bound.count(".") + 1] == bound.split("."), (package, bound, oldest[package])


def test_ci_uses_versions_that_users_may_have():
    current = constraints("constraints.txt")
    for package, bound in lower_bounds():
        numbers = [[int(n) for n in re.findall(r"\d+", v)] for v in (current[package], bound)]
        assert numbers[0] >= numbers[1], (package, bound, current[package])


def test_the_package_has_code_its_types_and_the_report_page_and_nothing_else():
    package = ROOT / "src" / "parafair"
    assert SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/parafair"]
    files = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}
    other = {p.as_posix() for p in files if p.suffix not in (".py", ".pyc")}
    page = {name for name in other if name.startswith("report/page/")}
    assert other - page == {"py.typed"}
    assert {"report/page/page.html", "report/page/page.css", "report/page/page.js"} <= page
    assert {Path(name).suffix for name in page} == {".html", ".css", ".js"}


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/**/*.yml")), ids=lambda path: path.name)
def test_workflows_and_templates_can_be_read(path):
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    found = yaml.safe_load(path.read_text("utf-8"))
    for job in found.get("jobs", {}).values():
        for step in job["steps"]:
            assert "uses" in step or "run" in step
            # What a workflow runs exists.
            for target in re.findall(r"^make ([\w-]+)", step.get("run", "")):
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.M)
            for script in re.findall(r"(?:python|bash) ([\w./]+/\w[\w.]*)", step.get("run", "")):
                assert (ROOT / script).is_file(), script


def test_only_the_last_job_of_a_release_may_publish():
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert release["permissions"] == {"contents": "read"}
    writes = {name for name, job in release["jobs"].items() if "permissions" in job}
    assert writes == {"publish"}
    publish = release["jobs"]["publish"]
    assert (publish["needs"], publish["environment"]) == (["try", "extras"], "release")
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets" not in (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
