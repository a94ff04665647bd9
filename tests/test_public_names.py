"""No public name without a use: each is used in the package, or documented for its users.

Methods are compared by name alone: one counts as used if a method of this name is, of any object.
"""

import ast
import importlib
import re
from dataclasses import dataclass
from pathlib import Path

import parafair

SOURCE = Path(parafair.__file__).parent
ROOT = Path(__file__).parents[1]

# Public names that nothing in the package uses and no page names, and why they are there.
ALLOWED = {
    "parafair.cli.lazy.LazyGroup.format_help": "typer calls it",
    "parafair.cli.lazy.LazyGroup.list_commands": "typer calls it",
    "parafair.cli.shell.SafeConsole.render_str": "rich calls it",
    "parafair.lazy.attach_modules": "packages of modules call it",
}


@dataclass(frozen=True)
class Definition:
    """A public function, class, constant, method or property."""

    path: Path
    name: str
    inside: str
    node: ast.AST

    def __str__(self):
        module = ".".join(self.path.relative_to(SOURCE.parent).with_suffix("").parts)
        return ".".join(filter(None, (module, self.inside, self.name)))


TREES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def public(name):
    return not name.startswith("_")


def defined_names(node):
    """The names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [leaf.id for t in targets if t for leaf in ast.walk(t) if isinstance(leaf, ast.Name)]


def definitions():
    """All public names at the top of modules, and the public methods of public classes."""
    for path, tree in TREES.items():
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)):
                continue
            for name in filter(public, defined_names(node)):
                yield Definition(path, name, "", node)
            if isinstance(node, ast.ClassDef) and public(node.name):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and public(inner.name):
                        yield Definition(path, inner.name, node.name, inner)


def methods_read(tree):
    """The attributes that are read, with their nodes, whatever object they are of."""
    return [(node.attr, node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]


def own_names_read(tree):
    """The names that a module reads without another's name in front, with their nodes."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [(node.id, node) for node in nodes if isinstance(node.ctx, ast.Load)]


def names_read_elsewhere(tree):
    """The names that a module imports from parafair, or reads from a module that it imported."""
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "parafair":
            modules |= {alias.asname or alias.name for alias in node.names}
            yield from ((alias.name, node) for alias in node.names)
    for name, node in methods_read(tree):
        if getattr(node.value, "id", None) in modules:
            yield name, node


def registered(definition):
    """Whether a decorator with arguments hands the function to others, such as a command."""
    decorators = getattr(definition.node, "decorator_list", [])
    calls = [d.func for d in decorators if isinstance(d, ast.Call)]
    return any(getattr(f, "id", getattr(f, "attr", "")) in ("register", "command") for f in calls)


def exported():
    """The names that packages offer: in `__all__`, or imported as themselves."""
    for path, tree in TREES.items():
        for node in tree.body if path.name == "__init__.py" else ():
            if isinstance(node, ast.Assign) and defined_names(node) == ["__all__"]:
                yield from ((path, name) for name in ast.literal_eval(node.value))
            if isinstance(node, ast.ImportFrom):
                yield from ((path, a.name) for a in node.names if a.asname == a.name)


def documented():
    """Words in the code of the pages and of the examples."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        text = page.read_text("utf-8")
        yield from re.findall(r"\w+", " ".join(re.findall(r"```python\n(.*?)```", text, re.S)))
        prose = re.sub(r"```.*?```", "", text, flags=re.S)
        yield from re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose)))
        # Members that the page of the API lists.
        yield from re.findall(r"\w+", " ".join(re.findall(r"members: \[(.*)\]", text)))
    for example in sorted((ROOT / "examples").glob("*.py")):
        tree = ast.parse(example.read_text("utf-8"))
        yield from (name for name, _ in [*names_read_elsewhere(tree), *methods_read(tree)])


def unused():
    """The public names without a use."""
    # What a package imports only to offer it is no use.
    modules = {path: tree for path, tree in TREES.items() if path.name != "__init__.py"}
    imported = {name for tree in modules.values() for name, _ in names_read_elsewhere(tree)}
    methods = [use for tree in TREES.values() for use in methods_read(tree)]
    for definition in definitions():
        if not definition.inside and definition.name in imported:
            continue
        own = {id(node) for node in ast.walk(definition.node)}
        found = methods if definition.inside else own_names_read(TREES[definition.path])
        if not any(name == definition.name and id(node) not in own for name, node in found):
            yield definition


def test_every_public_name_is_used_or_documented():
    known = {name for _, name in exported()} | set(documented())
    found = {
        str(definition)
        for definition in unused()
        # pytest calls the methods of contracts.
        if not (definition.inside.endswith("Contract") or registered(definition))
        and definition.name not in known
    }
    new = sorted(found - set(ALLOWED))
    assert not new, (
        f"public, but neither used in src/parafair nor documented: {', '.join(new)}; delete them, "
        "begin their names with _, or put them into the documentation"
    )
    gone = sorted(set(ALLOWED) - found)
    assert not gone, f"in ALLOWED without need: {', '.join(gone)}"


def test_the_check_sees_what_is_not_used():
    tree = ast.parse("from parafair import b, g as h\nimport k\ndef c(): return d\nd + e.f + b.i")
    assert {name for name, _ in own_names_read(tree)} == set("deb")
    assert {name for name, _ in names_read_elsewhere(tree)} == set("bgi")
    assert {name for name, _ in methods_read(tree)} == set("fi")
    names = {str(definition) for definition in definitions()}
    assert "parafair.model.fair_model.FairModel.fit" in names
    assert "parafair.audits.attackers.ATTACKERS" in names


def test_every_exported_name_exists():
    for path, name in exported():
        package = ".".join(path.parent.relative_to(SOURCE.parent).parts)
        module = importlib.import_module(package)
        assert hasattr(module, name), f"{package} exports {name}, which it does not have"
