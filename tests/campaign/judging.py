"""What came of a call: whether a refusal is clear, and whether a result has numbers only."""

from __future__ import annotations

import ast
import linecache
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

import parafair
from parafair import FairCP, FairTucker, SensitiveFeatures, TensorData
from parafair.audits.evaluation import Score
from parafair.audits.rankings import RankingScore
from parafair.errors import ParafairWarning
from parafair.guarantees.exposure import Exposure
from tests.campaign.outcomes import Kind

SOURCE = str(Path(parafair.__file__).parent)

# What a message says that came, and what it says to do; "must be" and "needs" state both.
CAME = re.compile(
    r"\bgot\b|\bbut\b|\bhas\b|\bhave\b|\bholds?\b|\bis\b|\bare\b|\bno\b|=|\bwas\b|\bdoes not\b"
    r"|\bmixes\b|\bcannot\b|\bmakes?\b|\bcould not\b|\bsupports\b|\bask\b|\bexists\b"
)
REMEDY = re.compile(
    r"\bmust\b|\bneeds?\b|\bexpected\b|\buse\b|\bpass\b|\bchoose\b|\bgive\b|\bmake\b|\bomit\b"
    r"|\bremove\b|\bleave\b|\bfill\b|\bdrop\b|\bmerge\b|\brescale\b|\bcheck\b|\binstall\b|\badd\b"
    r"|\bset\b|\bstate\b|\bkeep\b|\bsplit\b|\bconvert\b|\bcall\b|\btry\b|\bone of\b|\bat least\b"
    r"|\bcomplete\b|\bfit\b|\bdid you mean\b|\bflatten\b|\bthere (is|are)\b|\bcopy\b|\bdownload\b"
    r"|\bcreate\b|\braise\b|\bname\b|\bit has\b|\bdelete\b|\bwrite\b|\bsave\b|\blower\b",
    re.IGNORECASE,
)

# Messages that are right as they are, and why.
KNOWN = {
    r"X (has|does not have valid) feature names, but": "a warning of scikit-learn's conventions",
    r"X is streamed from files and never in memory": "the data itself, not an argument of a method",
    r"This \w+ instance is not fitted yet\. Call 'fit'": "scikit-learn's own, as users know it",
}


def judge_exception(error: BaseException, arguments: Iterable[str]) -> tuple[Kind, str]:
    """Tell whether an exception is a clear refusal; if not, what it is.

    Args:
        error: The exception.
        arguments: Names of which the message must have one, or the path that was given.
    """
    message = str(error)
    name = type(error).__name__
    if any(re.search(pattern, message) for pattern in KNOWN):
        return Kind.REFUSED, ""
    if not raised_by_parafair(error.__traceback__):
        return Kind.RAW, f"{name} in {place_of(error.__traceback__)}"
    said = message.replace("_", " ").lower()
    named = any(_is_named(name, said) for name in arguments)
    missing = [
        what
        for what, there in (
            ("the argument", named),
            ("what came", CAME.search(message)),
            ("a remedy", REMEDY.search(message)),
        )
        if not there
    ]
    if missing:
        place = place_of(error.__traceback__)
        return Kind.UNCLEAR, f"{name} in {place} without {' and '.join(missing)}"
    return Kind.REFUSED, ""


def _is_named(name: str, said: str) -> bool:
    if "/" in name:  # a path
        return name.lower().replace("_", " ") in said
    whole = rf"(?<!\w){re.escape(name.replace('_', ' ').lower())}(?!\w)"
    return bool(name) and re.search(whole, said) is not None


def raised_by_parafair(trace: TracebackType | None) -> bool:
    """Whether the innermost frame is a raise statement of parafair."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    path = trace.tb_frame.f_code.co_filename
    return path.startswith(SOURCE) and trace.tb_lineno in _lines_that_raise(path)


@cache
def _lines_that_raise(path: str) -> frozenset[int]:
    tree = ast.parse("".join(linecache.getlines(path)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return frozenset(n for node in found for n in range(node.lineno, (node.end_lineno or 0) + 1))


def place_of(trace: TracebackType | None) -> str:
    """The innermost line of parafair in a traceback."""
    place = "outside parafair"
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(SOURCE):
            place = f"{Path(path).relative_to(SOURCE)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def frames_of(text: str) -> str:
    """The innermost line of parafair in the text of a traceback, and the exception."""
    places = re.findall(r'parafair/([\w/]+\.py)", line (\d+)', text)
    last = text.strip().splitlines()[-1].split(":")[0]
    return f"{last} in {':'.join(places[-1])}" if places else f"{last} outside parafair"


def _head(message: str) -> str:
    """The first line, without numbers that differ from case to case."""
    lines = message.strip().splitlines() or [""]
    return re.sub(r"\d+", "#", lines[0])[:150]


def foreign_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    """Warnings of other libraries that reached the caller."""
    return [
        f"{each.category.__name__}: {_head(str(each.message))}"
        for each in caught
        if not issubclass(each.category, ParafairWarning)
        and not any(re.search(pattern, str(each.message)) for pattern in KNOWN)
    ]


def says_undefined(caught: list[warnings.WarningMessage]) -> bool:
    """Whether parafair has warned that a result is undefined, so that it is not silent."""
    return any(
        issubclass(each.category, ParafairWarning) and "undefined" in str(each.message)
        for each in caught
    )


def undefined(result: Any) -> str:
    """Where a result has a number that is NaN or infinite; empty if nowhere."""
    return next(_undefined(result, "result", 0), "")


def _says_why(value: Any) -> bool:
    """Whether a row of a result tells its reader that its number is undefined, and why."""
    if isinstance(value, parafair.Measure):
        return value.section == "paper" and value.about.startswith("undefined: ")
    if isinstance(value, RankingScore) and np.isnan([value.low, value.high]).all():
        return value.count == 0 or np.isfinite(value.value)  # documented, and shown as nothing
    return isinstance(value, Score) and value.count == 0


def _of_certified_people(found: parafair.Certificate) -> parafair.Certificate:
    """The certificate without the exposures of people of whom it says that it is not about them."""
    if not any("nothing is certified about them" in note for note in found.notes):
        return found
    return replace(found, exposures=tuple(_asked(e, found.people) for e in found.exposures))


def _asked(found: Exposure, people: int) -> Exposure:
    if found.values is None or np.count_nonzero(~np.isnan(found.values)) != people:
        return found
    return replace(found, values=found.values[~np.isnan(found.values)])


def _undefined(value: Any, where: str, depth: int) -> Iterator[str]:
    if depth > 6 or isinstance(value, (TensorData, SensitiveFeatures, str, type)):
        return  # NaN is a missing entry there
    if isinstance(value, parafair.Certificate):
        value = _of_certified_people(value)
    if isinstance(value, (FairCP, FairTucker)):
        value = {key: each for key, each in vars(value).items() if key.endswith("_")}
    if isinstance(value, (bool, int)) or value is None:
        return
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            yield where
    elif isinstance(value, torch.Tensor):
        if value.is_meta or (value.is_floating_point() and not value.isfinite().all()):
            yield where
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            yield where
    elif is_dataclass(value):
        if _says_why(value):
            return
        for each in fields(value):
            yield from _undefined(getattr(value, each.name), f"{where}.{each.name}", depth + 1)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _undefined(each, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _undefined(each, f"{where}[...]", depth + 1)
