"""Tests of errors and warnings name a phrase of the message, so that no other error passes them."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
WORDS, CHARACTERS = 3, 15

# Calls without a match, and why.
WITHOUT_MATCH = {
    "cli/test_command.py::test_errors_become_one_line": "an exit has a code, not a message",
    "test_interrupts.py::test_an_interruption_that_python_drops_comes_again": "Ctrl-C has none",
    "test_interrupts.py::test_an_interruption_waits_for_the_end_of_an_import": "Ctrl-C has none",
}


def literal_text(pattern):
    """The part of a regular expression that is compared as it stands."""
    text = re.sub(r"\\[dwsbDWSB]|\[[^\]]*\]|[.][*+?]|\\(.)", lambda m: m.group(1) or " ", pattern)
    return re.sub(r"[|()^$*+?]", " ", text).strip()


def specific(pattern):
    text = literal_text(pattern)
    return len(text.split()) >= WORDS or len(text) >= CHARACTERS


def text_of(node):
    """The text of a literal or of an f-string with its values left out; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else ".*" for p in node.values)
        return "".join(map(str, parts))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "escape":
        return text_of(node.args[0]) and re.escape(text_of(node.args[0]))
    return None


def is_expectation(node):
    """Whether a call is pytest.raises or pytest.warns."""
    function = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("raises", "warns")
        and getattr(function.value, "id", "") == "pytest"
    )


def parameters(function):
    """The values of each parameter of a test, as its tables of parameters give them."""
    found = {}
    for decorator in function.decorator_list:
        if not (isinstance(decorator, ast.Call) and len(decorator.args) == 2):
            continue
        names, table = decorator.args
        if isinstance(names, ast.Constant):
            names = [name.strip() for name in names.value.split(",")]
        else:
            names = [name.value for name in getattr(names, "elts", ())]
        if not isinstance(table, (ast.List, ast.Tuple)):
            continue
        for row in table.elts:
            if isinstance(row, ast.Call) and getattr(row.func, "attr", "") == "param":
                values = row.args
            else:
                values = row.elts if len(names) > 1 and hasattr(row, "elts") else [row]
            for name, value in zip(names, values, strict=False):
                found.setdefault(name, []).append(value)
    return found


def matches(tree):
    """Each expectation with the nodes that its match can be; no nodes if it has none."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        values = parameters(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, []).append(node.value)
        for node in ast.walk(function):
            if is_expectation(node):
                given = [k.value for k in node.keywords if k.arg == "match"]
                if given and isinstance(given[0], ast.Name):
                    given = values.get(given[0].id, given)
                yield function.name, node, given


def test_every_match_is_a_phrase():
    weak = []
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS).as_posix()
        for function, call, given in matches(ast.parse(path.read_text("utf-8"))):
            where = f"{name}:{call.lineno}"
            if not given and f"{name}::{function}" not in WITHOUT_MATCH:
                weak.append(f"{where} has no match")
            for node in given:
                text = text_of(node)
                if text is None:
                    weak.append(
                        f"{where} has a match that cannot be read here, {ast.unparse(node)}"
                    )
                elif not specific(text):
                    weak.append(f"{where} has the match {text!r}")
    assert not weak, (
        f"a match needs {WORDS} words or {CHARACTERS} characters of the message:\n"
        + "\n".join(weak)
    )


def test_the_check_tells_words_from_phrases():
    assert not specific("one")
    assert not specific(".* got .*")
    assert not specific(r"\d+ rows")
    assert specific("rank must be at least 1")
    assert specific(r"shape \(3, 4\)")
    assert specific(r"'parafair\[limits\]'")
