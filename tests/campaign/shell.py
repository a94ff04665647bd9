"""The parts of the campaign that run command lines: in this process, and as processes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from parafair.cli import app
from tests.campaign.api import (
    LONGEST,
    LONGEST_WAIT,
    TooLong,
    begin_timers,
    end_timers,
    stop_slow_calls,
)
from tests.campaign.command_lines import Line, arguments, draw_line, options
from tests.campaign.files import write_files
from tests.campaign.judging import CAME, REMEDY, frames_of, place_of
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.surroundings import changes, restore, state
from tests.campaign.values import Draw

# What the parser of the command line says itself.
PARSER = re.compile(
    r"Invalid value for|Missing (option|argument|command)|No such (option|command)"
    r"|requires an argument|unexpected extra argument|does not take a value|Usage:"
)
# Locales, widths and encodings that a terminal may have.
TERMINALS = (
    {},
    {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    {"COLUMNS": "20", "TERM": "dumb"},
    {"PYTHONWARNINGS": "error", "NO_COLOR": "1"},
    {"PYTHONHASHSEED": "7", "LC_ALL": "de_DE.UTF-8"},
)


def fuzz(seed: int, folder: Path) -> Iterator[Outcome]:
    """Yield the outcomes of random command lines in this process."""
    yield from _fuzz(seed, folder, _invoke)


def fuzz_processes(seed: int, folder: Path) -> Iterator[Outcome]:
    """Yield the outcomes of random command lines as processes, in different terminals."""
    yield from _fuzz(seed, folder, _start)


def _fuzz(seed: int, folder: Path, attempt) -> Iterator[Outcome]:
    pristine, place = folder / "pristine", folder / "case"
    pristine.mkdir()
    write_files(pristine)
    wanted = _listing(pristine)
    seen: dict[tuple[str, str], str] = {}

    def run(line: Line) -> Outcome:
        return _run(line, attempt, pristine, place, wanted)

    with stop_slow_calls():
        for number in count():
            line = draw_line(Draw(np.random.default_rng((seed, number, 1))))
            outcome = run(line)
            key = (outcome.target, outcome.detail)
            if outcome.kind.failure and key not in seen:
                smaller = _shrink(line, outcome, run)
                seen[key] = _reproduction(smaller, seed, number, outcome.message)
            yield replace(outcome, reproduction=seen.get(key, ""))


def _reproduction(line: Line, seed: int, number: int, message: str) -> str:
    said = f"\n# {message}" if message else ""
    return (
        f"# case {number} of seed {seed}\nmkdir /tmp/case && python -m tests.campaign.files "
        f"/tmp/case && cd /tmp/case\nparafair {shlex.join(line.words)}{said}"
    )


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All files with their sizes and times."""
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        name = path.relative_to(folder).as_posix()
        found[name] = (-1, 0) if path.is_dir() else (facts.st_size, facts.st_mtime_ns)
    return found


def _run(line: Line, attempt, pristine: Path, place: Path, wanted) -> Outcome:
    """Run a line in a fresh copy of the files, and judge what it says and leaves."""
    if not place.exists() or _listing(place) != wanted:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(pristine, place)
    target = f"parafair {line.words[0]}" if line.words else "parafair"
    with chdir(place):
        kind, detail, message = attempt(line)
    if not kind.failure and (lost := _lost(line, wanted, _listing(place))):
        kind, detail = Kind.LOST, lost
    return Outcome(target, kind, detail, message)


def _lost(line: Line, before, after) -> str:
    """What was changed, deleted or left behind against the rules; empty if nothing."""
    hidden = [name for name in after if "/." in f"/{name}" and name not in before]
    if hidden:
        return "left behind: " + re.sub(r"[0-9a-f]{6,}", "#", hidden[0])
    if "--force" in line.words:
        return ""
    # A frontier may add to its own folder.
    own = "curve/" if "frontier" in line.words else "\0"
    changed = [n for n, facts in before.items() if after.get(n) != facts and not n.startswith(own)]
    return f"changed or deleted without --force: {changed[0]}" if changed else ""


def _invoke(line: Line) -> tuple[Kind, str, str]:
    """Run a line in this process."""
    with warnings.catch_warnings():
        before = state()
        begin_timers()
        try:
            result = CliRunner().invoke(app, list(line.words))
        except TooLong:
            return Kind.SLOW, f"not finished after {LONGEST:g} seconds of the processor", ""
        finally:
            end_timers()
        if different := changes(before, state()):
            restore(before)
            return Kind.STATE, ", ".join(different), ""
    error = result.exception
    if isinstance(error, TooLong):
        return Kind.SLOW, f"not finished after {LONGEST:g} seconds of the processor", ""
    if error is not None and not isinstance(error, SystemExit):
        where = place_of(error.__traceback__)
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return Kind.TRACEBACK, f"{type(error).__name__} in {where}", message
    return _judge(line, result.exit_code, result.stderr)


def _start(line: Line) -> tuple[Kind, str, str]:
    """Run a line as a process, in a terminal that depends on the line."""
    terminal = TERMINALS[sum(map(len, line.words)) % len(TERMINALS)]
    words = [word for word in line.words if "\0" not in word]
    done = subprocess.run(
        [sys.executable, "-m", "parafair", *words],
        env={**os.environ, **terminal}, capture_output=True, timeout=LONGEST_WAIT, check=False,
    )  # fmt: skip
    return _judge(line, done.returncode, done.stderr.decode(errors="replace"))


def _judge(line: Line, code: int, said: str) -> tuple[Kind, str, str]:
    """Judge the exit code and the error output of a line."""
    message = " ".join(said.split())[-400:]
    if "Traceback" in said:
        return Kind.TRACEBACK, frames_of(said), message
    if code == 0 or not line.words:  # without a command there is help
        return Kind.FINE, "", ""
    if code not in (1, 2) or "Aborted" in said or not said.strip():
        return Kind.UNCLEAR, f"exit code {code} without a reason", message
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", said).split())
    if PARSER.search(text) or (code == 1 and "Error:" not in text):
        return Kind.REFUSED, "", ""
    text = text[text.find("Error:") :]
    named = any(name in _spaced(text) for name in map(_spaced, _names(line)))
    named = named or any((word or ".") in text.split() for word in line.words)  # such as /
    parts = {"the argument": named, "what came": CAME.search(text), "a remedy": REMEDY.search(text)}
    missing = [what for what, there in parts.items() if not there]
    if missing:
        head = re.sub(r"[\d'/].*", "", text)[:60]
        return Kind.UNCLEAR, f"{head} without {' and '.join(missing)}", message
    return Kind.REFUSED, "", ""


def _names(line: Line) -> list[str]:
    """What a message may call an argument: options, values, and the paths that they mean."""
    values = [part for word in line.words for part in (word, *Path(word).parts)]
    names = [value.removeprefix("--") for value in values if len(value) > 1]
    names += [option.removeprefix("--") for option, _ in options(line.words[0])]
    places = [name.removesuffix("s") for name in arguments(line.words[0])]  # one of several
    return [*names, *places, *(repr(value) for value in values), str(Path.cwd())]


def _spaced(text: str) -> str:
    return re.sub("[-_]", " ", text)


def _shrink(line: Line, failure: Outcome, run) -> Line:
    """The line with as few options as possible that still fails in the same way."""
    place = 1
    while place < len(line.words):
        word = line.words[place]
        pair = word.startswith("--") and place + 1 < len(line.words)
        size = 2 if pair and not line.words[place + 1].startswith("--") else 1
        smaller = line.put(place, instead_of=size)
        keep = word in ("--max-iter", "--attackers", "--out", "--folds", "--permutations")
        if not keep:
            found = run(smaller)
            if (found.kind, found.detail) == (failure.kind, failure.detail):
                line = smaller
                continue
        place += size
    return line
