"""Every dotted name on the pages and in docstrings can be reached after `import parafair`."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
DOTTED = re.compile(r"(?<![\w./-])parafair(?:\.[A-Za-z_]\w*)+")
# A data set that a page tells the reader to write.
TO_BE_WRITTEN = {
    "parafair.audits.bayes",
    "parafair.datasets.visits",
    "parafair.penalties.equal_means",
}
OF_A_CLASS = re.compile(r"(?<![\w.])[A-Z]\w+\.[a-z_]\w*")

# Runs by itself, so that no import but that of parafair helps. Reads names and prints those that
# lead nowhere; a name without "parafair." is an attribute of a class anywhere in the package.
RESOLVE = """
import json, sys
import parafair

for name in parafair.__all__:  # they are imported when they are first used
    getattr(parafair, name)
classes = {}
for module in [m for name, m in sys.modules.items() if name.split(".")[0] == "parafair"]:
    for name, found in vars(module).items():
        if isinstance(found, type) and found.__module__.startswith("parafair"):
            classes.setdefault(name, set()).add(found)

def has(found, part):
    bases = getattr(found, "__mro__", ())
    # Fields of a dataclass without a default are only annotated.
    return hasattr(found, part) or any(part in getattr(b, "__annotations__", ()) for b in bases)

def leads_somewhere(path):
    first, *parts = path.split(".")
    if first != "parafair":
        return first not in classes or any(has(found, parts[0]) for found in classes[first])
    found = parafair
    for part in parts:
        if not has(found, part):
            return False
        found = getattr(found, part, None)
    return True

print(json.dumps([path for path in json.load(sys.stdin) if not leads_somewhere(path)]))
"""


def names_in(text):
    """The dotted names of a text."""
    return {*DOTTED.findall(text), *OF_A_CLASS.findall(text)}


def on_a_page(path):
    """The dotted names on a page, in code or in prose."""
    text = path.read_text("utf-8")
    found = set(DOTTED.findall(text))
    for code in re.findall(r"```python\n(.*?)```|`([^`\n]+)`", text, re.S):
        found |= names_in("".join(code))
    return found


def in_the_reference(path):
    """What the page of the API asks for: modules, and the members listed for them."""
    for entry in re.split(r"^::: ", path.read_text("utf-8"), flags=re.M)[1:]:
        module = entry.split()[0]
        yield module
        for members in re.findall(r"^ +members: \[(.*)\]$", entry, re.M):
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", members))
        for members in re.findall(r"^ +inherited_members: \[(.*)\]$", entry, re.M):
            yield from (f"parafair.FairCP.{name}" for name in re.findall(r"\w+", members))


def in_the_changelog(path):
    """The dotted names of the changelog, without the old ones in its tables."""
    for line in path.read_text("utf-8").splitlines():
        new = line.split("|")[2] if line.startswith("|") else line
        yield from names_in(new)
        # `parafair.a.b`, `.c` stands for parafair.a.c too.
        for first, others in re.findall(r"`(parafair[\w.]+)`((?:, `\.\w+`)+)", new):
            package = first.rpartition(".")[0]
            yield from (package + other for other in re.findall(r"\.\w+", others))


def in_docstrings():
    """The dotted names in the docstrings of the package."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield from names_in(ast.get_docstring(node) or "")


@pytest.fixture(scope="module")
def places():
    """Each dotted name, with the places where it stands."""
    found = {}
    sources = {page.relative_to(ROOT).as_posix(): on_a_page(page) for page in PAGES}
    sources["the members in docs/api.md"] = in_the_reference(ROOT / "docs" / "api.md")
    sources["CHANGELOG.md"] = in_the_changelog(ROOT / "CHANGELOG.md")
    sources["docstrings"] = in_docstrings()
    for place, names in sources.items():
        for name in names:
            found.setdefault(name, set()).add(place)
    return found


# Two names that lead somewhere and two that do not, to see that the check tells them apart.
GOOD, BAD = {"parafair.FairCP.fit", "Fit.cp"}, {"parafair.nothing", "FairCP.nothing"}


@pytest.fixture(scope="module")
def lost(places):
    """The names that lead nowhere."""
    names = sorted((places.keys() - TO_BE_WRITTEN) | GOOD | BAD)
    command = [sys.executable, "-c", RESOLVE]
    done = subprocess.run(
        command, input=json.dumps(names), capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_every_documented_name_can_be_reached(places, lost):
    found = {name: sorted(places[name]) for name in sorted(lost - BAD)}
    assert not found, (
        f"documented, but not there after `import parafair`: {found}; correct the page, or import "
        "the module in the __init__.py of its package"
    )


def test_the_check_sees_names(places, lost):
    expected = {"parafair.testing", "parafair.FairCP.predict", "parafair.dependence.chunks"}
    assert expected | {"Audit.verdict", "parafair.frontiers.load"} <= set(places)
    assert lost >= BAD
    assert not lost & GOOD
