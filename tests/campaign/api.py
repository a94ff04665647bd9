"""The part of the campaign that calls the Python API."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from inspect import Parameter
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import parafair
from parafair.errors import ParafairWarning
from tests.campaign import namespace
from tests.campaign.judging import foreign_warnings, judge_exception, says_undefined, undefined
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.surroundings import changes, fingerprint, restore, state
from tests.campaign.target import Target
from tests.campaign.targets import TARGETS
from tests.campaign.values import Draw

# How often an optional argument is given, and how often all arguments are plausible.
OPTIONAL, PLAUSIBLE, FAST = 0.15, 0.3, 0.9
# Seconds that a call may take: of the processor, and on the clock, where it waits for others.
LONGEST, LONGEST_WAIT = 60.0, 600.0

# Numbers of steps: a large one is a long wait, which is what was asked for.
LONG = {"max_iter", "inner_steps", "epochs", "hidden", "permutations", "repeats", "window", "draws"}

# Arguments that are files and folders; a message may name these alone.
PATHS = {"path", "folder", "out", "source", "table", "checkpoint"}

NAMES = {name: getattr(namespace, name) for name in namespace.__all__}


@dataclass(frozen=True)
class Case:
    """A call: a target with the source of its arguments, one dictionary per callable."""

    target: Target
    arguments: tuple[dict[str, str], ...]

    @property
    def source(self) -> str:
        """The call as an expression."""
        groups = (
            ", ".join(f"{name}={value}" for name, value in group.items())
            for group in self.arguments
        )
        return self.target.template.format(*groups)

    def without(self, place: int, name: str) -> Case:
        """The same call without an argument."""
        groups = [dict(group) for group in self.arguments]
        del groups[place][name]
        return replace(self, arguments=tuple(groups))

    def with_value(self, place: int, name: str, value: str) -> Case:
        """The same call with another value of an argument."""
        groups = [dict(group) for group in self.arguments]
        groups[place][name] = value
        return replace(self, arguments=tuple(groups))

    def called(self) -> str:
        """The call with names instead of values, for objects that are made beforehand."""
        groups = (
            ", ".join(f"{name}=_{place}_{name}" for name in group)
            for place, group in enumerate(self.arguments)
        )
        return self.target.template.format(*groups)


def draw_case(seed: int, number: int) -> Case:
    """The case of a number, which is always the same for a seed."""
    draw = Draw(np.random.default_rng((seed, number)))
    weights = np.array([target.weight for target in TARGETS])
    target = TARGETS[int(draw.random.choice(len(TARGETS), p=weights / weights.sum()))]
    plausible = draw.chance(PLAUSIBLE)
    groups: list[dict[str, str]] = []
    for place in range(len(target.callables)):
        group: dict[str, str] = {}
        for name, parameter in target.parameters(place).items():
            required = parameter.default is Parameter.empty
            given = draw.chance(target.usual.get(name, OPTIONAL)) or required
            if given:
                group[name] = target.sort(name).draw(draw, hostile=False)
        groups.append(group)
    case = Case(target, tuple(groups))
    return case if plausible else _make_hostile(case, draw)


def _make_hostile(case: Case, draw: Draw) -> Case:
    """The case with one or two arguments odd or of a wrong type, given or not before."""
    places = [
        (place, name)
        for place in range(len(case.arguments))
        for name in case.target.parameters(place)
    ]
    # Required arguments, which decide most, are chosen more often.
    places += [(p, name) for p, group in enumerate(case.arguments) for name in group] * 2
    for _ in range(draw.one(1, 1, 2) if places else 0):
        place, name = draw.one(*places)
        value = case.target.sort(name).draw(draw, hostile=True)
        if not (name in LONG and value in ("2**31", "10**30")):
            case = case.with_value(place, name, value)
    return case


class TooLong(BaseException):
    """A call took longer than `LONGEST` seconds of the processor, or `LONGEST_WAIT` in all."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLong


@contextlib.contextmanager
def stop_slow_calls() -> Iterator[None]:
    """Let the timers raise `TooLong` within the block, and nothing be downloaded."""
    handlers = {each: signal.signal(each, _stop) for each in (signal.SIGALRM, signal.SIGPROF)}
    try:
        with patch.dict(os.environ, {"PARAFAIR_DATA": str(namespace.FOLDER / "empty")}):
            yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def begin_timers() -> None:
    """Begin to wait for a call."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_WAIT)


def end_timers() -> None:
    """Do not wait any more."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)


def run_case(case: Case) -> Outcome | None:
    """Make the call and judge what comes of it; None if its arguments cannot be made."""
    return run_with_result(case)[0]


def run_with_result(case: Case, filters: str = "always") -> tuple[Outcome | None, Any]:
    """Make the call, and also return its result, or None.

    Args:
        case: The call.
        filters: What is done with warnings: "always", or "error".
    """
    shutil.rmtree(namespace.FOLDER / "out", ignore_errors=True)
    values = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for place, group in enumerate(case.arguments):
                for name, source in group.items():
                    values[f"_{place}_{name}"] = eval(source, NAMES.copy())
        except Exception:  # such as an array of one number less than none
            return None, None
        before = {name: fingerprint(value) for name, value in values.items()}
    (kind, detail, message), result = _attempt(case, values, filters)
    if not kind.failure:
        for name, value in values.items():
            with np.errstate(all="ignore"):
                same = fingerprint(value) == before[name]
            if not same:
                kind, detail = Kind.STATE, f"the argument {name.split('_', 2)[2]} was modified"
    return Outcome(case.target.name, kind, detail, message=message), result


def _attempt(case: Case, values: dict[str, Any], filters: str) -> tuple[tuple[Kind, str, str], Any]:
    """Return the class of the outcome, its detail and the message of an exception; the result."""
    message, result = "", None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(filters)  # type: ignore[arg-type]
        before = state()
        begin_timers()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                result = eval(case.called(), {**NAMES, **values})
                repr(result)
                if hasattr(result, "_repr_html_") and not isinstance(result, type):
                    result._repr_html_()
            kind, detail = Kind.FINE, ""
        except TooLong:
            kind, detail = Kind.SLOW, f"not finished after {LONGEST:g} seconds of the processor"
        except ParafairWarning:  # if warnings are errors
            kind, detail = Kind.FINE, ""
        except (Exception, SystemExit) as error:
            kind, detail = judge_exception(error, names_of(case, values))
            message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        finally:
            end_timers()
        after = state()
        if kind is Kind.FINE and (where := undefined(result)) and not says_undefined(caught):
            kind, detail = Kind.NAN, where
        if kind is Kind.FINE and (foreign := foreign_warnings(caught)):
            kind, detail = Kind.WARNING, foreign[0]
        if different := changes(before, after):
            restore(before)
            kind, detail = Kind.STATE, ", ".join(different)
    return (kind, detail, message), result


def names_of(case: Case, values: dict[str, Any]) -> list[str]:
    """What a message may call an argument: its name, or the path that was given."""
    names = [name for place in range(len(case.arguments)) for name in case.target.names(place)]
    given = ((name.split("_", 2)[2], value) for name, value in values.items())
    return names + [
        str(value) for name, value in given if name in PATHS and isinstance(value, (str, Path))
    ]


def summary(result: Any) -> str | None:
    """A checksum of the numbers of a result; None for results without."""
    if isinstance(result, (namespace.FairCP, namespace.FairTucker)):
        result = getattr(result, "embedding_", None)
    if isinstance(result, parafair.Audit):
        result = tuple(result.rows)
    if isinstance(result, float):
        return result.hex()
    known = (np.ndarray, torch.Tensor, namespace.TensorData, namespace.SensitiveFeatures, tuple)
    return str(fingerprint(result)) if isinstance(result, known) else None


def shrink(case: Case, failure: Outcome) -> Case:
    """The case with as few arguments as possible that still fails in the same way."""

    def same(smaller: Case) -> bool:
        found = run_case(smaller)
        return found is not None and (found.kind, found.detail) == (failure.kind, failure.detail)

    for place, group in enumerate(case.arguments):
        parameters = case.target.parameters(place)
        for name in group:
            required = parameters[name].default is Parameter.empty
            # What is nearly always given makes the call fast.
            fast = case.target.usual.get(name, 0) > FAST
            if not required and not fast and same(smaller := case.without(place, name)):
                case = smaller
    return case


def fuzz(seed: int, folder: Path) -> Iterator[Outcome]:
    """Yield the outcomes of random calls; a failure is made small when it is seen first."""
    seen: dict[tuple[str, str], str] = {}
    with stop_slow_calls(), contextlib.chdir(folder):  # a path may be any text
        for number in count():
            case = draw_case(seed, number)
            outcome = run_case(case)
            if outcome is None:
                continue
            if outcome.kind.failure:
                key = (outcome.target, outcome.detail)
                if key not in seen:
                    source = shrink(case, outcome).source
                    said = f"\n# {outcome.message}" if outcome.message else ""
                    seen[key] = f"# case {number} of seed {seed}\n{IMPORT}\n{source}{said}"
                outcome = replace(outcome, reproduction=seen[key])
            yield outcome


IMPORT = "from tests.campaign.namespace import *"
