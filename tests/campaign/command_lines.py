"""Command lines at random: a plausible one of each command, then something odd in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import typer

from parafair.cli import app
from tests.campaign.values import Draw

PEOPLE = ("--sensitive", "people.csv", "--key", "who")
TABLE = ("scores.csv", "--modes", "who,subject,date", "--value", "score")
FAST = ("--max-iter", "2", "--rank", "1")
ATTACK = ("--attackers", "linear", "--folds", "2", "--repeats", "1", "--permutations", "2")
OUT, PAGE, CSV = ("--out", "out/new"), ("--out", "out/new.html"), ("--out", "out/new.csv")

# Plausible lines; what makes them fast is in all of them.
RECIPES = (
    ("fit", "tensor.npy", *PEOPLE[:2], "--sensitive-columns", "group", *FAST, *OUT),
    ("fit", *TABLE, *PEOPLE, *FAST, *OUT),
    ("fit", "matrix.npy", "--method", "none", *FAST, *OUT),
    ("fit", *TABLE, *PEOPLE, *FAST, *OUT, "--side", "people.csv", "--side-columns", "age"),
    ("fit", "tensor.npy", "--method", "none", "--max-iter", "2", "--ranks", "2,2,2", *OUT),
    ("fit", "entries.tns", "--method", "none", *FAST, *OUT),
    ("fit", "entries.tns", "--method", "none", "--absent", "zero", *FAST, *OUT),
    ("fit", "counts.tns", "--method", "none", "--loss", "poisson", "--absent", "zero", *FAST, *OUT),
    ("fit", "sorted", *PEOPLE, *FAST, "--memory", "1GB", *OUT),
    ("fit", *TABLE, *PEOPLE, *FAST, *OUT, "--checkpoint", "out/state"),
    (
        "fit",
        "tensor.npy",
        *PEOPLE[:2],
        "--sensitive-columns",
        "group",
        *FAST,
        *OUT,
        "--encoder",
        "linear",
        "--encoder-steps",
        "2",
    ),
    ("fit", *TABLE, *PEOPLE, *FAST, *OUT, "--test-size", "0.2", "--noise", "0.1"),
    ("fit", *TABLE, *PEOPLE, *FAST, *OUT, "--method", "sliced-transport"),
    ("transform", "mapped", "tensor.npy", *PEOPLE[:2], *CSV),
    ("sort", "scores.parquet", "--modes", "who,subject,date", "--value", "score", *OUT),
    ("sort", "parts", "--modes", "who,subject,date", "--value", "score", *OUT, "--memory", "1MB"),
    ("tune", *TABLE, *PEOPLE, "--max-iter", "2", "--rank", "1,2", *OUT),
    ("tune", *TABLE, *PEOPLE, "--max-iter", "2", "--rank", "1,2", *OUT, "--cv", "2"),
    ("tune", *TABLE, *PEOPLE, "--max-iter", "2", "--rank", "1,2", *OUT, "--validation", "some.csv"),
    ("audit", "run", *ATTACK),
    ("audit", "rows.npy", *PEOPLE[:2], "--sensitive-columns", "group", *ATTACK),
    ("audit", "run/embedding.csv", *PEOPLE, *ATTACK, "--json", "out/new.json"),
    ("frontier", *TABLE, *PEOPLE, *FAST, *ATTACK, "--strengths", "0,1", *OUT),
    ("frontier", *TABLE, *PEOPLE, *FAST, *ATTACK, "--strengths", "1,2", "--noises", "0.1,1", *OUT),
    ("pick", "curve", "--max-leakage", "0.9", *OUT),
    ("pick", "curve", "--max-leakage", "0.9", "--guarantee", "release", *OUT),
    ("report", "curve", *PAGE),
    ("parity-limit", "tensor.npy", *PEOPLE[:2], "--sensitive-columns", "group"),
    ("certify", "run", "--draws", "200"),
    ("certify", "run", "--draws", "200", "--out", "out/new.json"),
    ("certify", "run", "--draws", "200", "--exposure", "out/new.csv"),
    ("predict", "run", "cells.csv", *CSV),
    ("recommend", "run", "--k", "2", *CSV),
    ("recommend", "plain", "--person", "1", "--k", "1", "--include-rated", *CSV),
    ("transform", "run", *TABLE, *PEOPLE, *CSV),
    ("recommend", "tucker", "--k", "1", *CSV),
    ("transform", "tucker", "tensor.npy", *PEOPLE[:2], *CSV),
    ("transform", "encoded", "tensor.npy", *CSV),
    ("certify", "tucker", "--draws", "200"),
    ("certify", "encoded", "--draws", "200"),
    ("predict", "tucker", "positions.csv", *CSV),
    ("transform", "plain", "tensor.npy", *CSV),
    ("transform", "run", *TABLE, "--allow-leak", *CSV),
    ("datasets",),
    ("datasets", "marks", "--students", "5", *OUT),
    ("datasets", "synthetic", "--shape", "6,4,3", "--rank", "2", *OUT),
    ("datasets", "oulad", "--data", "out"),
    ("datasets", "adult", "--data", "out", "--subset", "test", *OUT),
    ("reproduce", "nope", *OUT),
)

# Values to put in the place of others, and for options that are added.
FILES = (
    "tensor.npy", "matrix.npy", "rows.npy", "zero.npy", "nan.npy", "inf.npy", "text.npy",
    "object.npy", "complex.npy", "line.npy", "one.npz", "two.npz", "cut.npy", "nested.npy",
    "scores.csv", "scores.tsv", "scores.parquet", "cells.csv", "people.csv", "fewer.csv",
    "evil.csv", "twice.csv", "empty.csv", "header.csv", "ragged.csv", "latin.csv", "binary.csv",
    "words.csv", "cut.parquet", "entries.tns", "words.tns", "huge.tns", "zipped.tns.gz",
    "notes.txt", "nothing", "run", "curve", "plain", "damaged", "out", ".", "/", "sorted", "parts",
    "tucker", "encoded", "some.csv", "counts.tns", "positions.csv", "broken",
    "run/embedding.csv", "curve/invariant", "run/model.json", "nothing.csv", "nothing.npy",
    "/dev/null", "x" * 300, "people.csv/x", "mapped", "~/x.npy", "claims.npy",
)  # fmt: skip
WORDS = (
    "", "0", "1", "2", "-1", "1.5", "nan", "inf", "1e400", "1e30", "99999999999999999999",
    "abc", "a,b", ",", "who", "group", "who,group", "group,group", "age", "nope", "é", "\x1b[31m",
    "--", "-", "linear", "linear,svm", "block", "gradient", "uniform", "svd", "none", "khsic",
    "hsic", "sliced-transport", "auto", "error", "exclude", "mean", "first", "csv", "parquet",
    "png", "float32", "float16", "cpu", "cuda", "meta", "age=numeric", "group=numeric", "group=x",
    "=", "0,1", "1,0", "0,0", "0.5", "0.2", "0.99", "-0.1", "true", "None", "'",
    "[bold]", "%s", "{}", "../out", "3,4", "6,4,3", "1,2,3,4,5,6,7,8,9",
)  # fmt: skip
OUTS = (
    "out/new", "out/new.csv", "out/new.html", "out/new.parquet", "out/new.json", "out/a/b/c", "out",
    "run", "curve", "notes.txt", "notes.txt/x", ".", "/proc/x", "/dev/null", "people.csv", "out/é",
    "out/" + "x" * 300, "out/new.svg", "out/new.png", "", "~/x",
)  # fmt: skip
GIVEN_AS_PATH = {
    "--sensitive", "--side", "--data", "--target", "--exclude", "--validation", "--test",
    "--new-embedding", "--new-sensitive", "--new-tensor",
}  # fmt: skip
GIVEN_AS_OUT = {"--out", "--json", "--picture", "--page", "--checkpoint", "--exposure"}
# Numbers of steps: a large one is a long wait, which is what was asked for.
LONG = {"--max-iter", "--inner-steps", "--permutations", "--repeats", "--encoder-steps"}
# Values that would take minutes; options that make a line fast keep their place.
SLOW = {("--attackers", "all"), ("--strength", "auto")}


@dataclass(frozen=True)
class Line:
    """A command line, in words."""

    words: tuple[str, ...]

    def put(self, place: int, *words: str, instead_of: int = 0) -> Line:
        """The line with words at a place, in the place of others."""
        return replace(self, words=self.words[:place] + words + self.words[place + instead_of :])


COMMANDS = typer.main.get_command(app).commands


def arguments(command: str) -> list[str]:
    """The names of the arguments of a command; none if there is no such command."""
    found = COMMANDS[command].params if command in COMMANDS else ()
    return [each.name for each in found if each.param_type_name == "argument"]


@cache
def options(command: str) -> tuple[tuple[str, bool], ...]:
    """The options of a command, and whether each is a flag."""
    found = COMMANDS[command].params if command in COMMANDS else ()
    named = [each for each in found if each.param_type_name == "option" and each.name != "help"]
    return tuple((each.opts[0], bool(getattr(each, "is_flag", False))) for each in named)


def draw_line(draw: Draw) -> Line:
    """A plausible line in seven of ten cases with one to three changes."""
    line = Line(draw.one(*RECIPES))
    for _ in range(draw.one(0, 1, 1, 1, 2, 2, 3)):
        line = _change(line, draw)
    # All figures of the paper take hours.
    if "reproduce" in line.words and "nope" not in line.words:
        return line.put(len(line.words), "nope")
    return line


def _change(line: Line, draw: Draw) -> Line:
    """The line with one value replaced, or an option added, or a word removed or added."""
    if not line.words:
        return line
    what = draw.random.random()
    if len(line.words) > 1 and what < 0.4:
        place = draw.number(1, len(line.words))
        if not line.words[place].startswith("--"):
            value = _value(line.words[place - 1], draw)
            return line.put(place, value, instead_of=1)
    if what < 0.85 and line.words[0] in {recipe[0] for recipe in RECIPES}:
        option, is_flag = draw.one(*options(line.words[0]))
        if option in line.words:
            return (
                line
                if is_flag
                else line.put(line.words.index(option) + 1, _value(option, draw), instead_of=1)
            )
        return line.put(
            len(line.words), *((option,) if is_flag else (option, _value(option, draw)))
        )
    place = draw.number(0, len(line.words))
    if what < 0.95:
        # Without what keeps it fast, a line takes minutes.
        word = line.words[place]
        removable = word not in ATTACK + FAST and not word.startswith("-")
        return line.put(place, instead_of=1) if removable else line
    return line.put(place, draw.one(*WORDS, *FILES, "--help", "--version", "--nope"))


def _value(option: str, draw: Draw) -> str:
    """A value for an option, or for an argument if `option` is another word."""
    if option in GIVEN_AS_OUT:
        return draw.one(*OUTS)
    if option in GIVEN_AS_PATH or not option.startswith("--"):
        return draw.one(*FILES)
    value = draw.one(*WORDS)
    slow = (option, value) in SLOW or (option in LONG and len(value) > 4)
    # More processes take seconds to start.
    slow = slow or (option == "--n-jobs" and value not in ("0", "1", "abc", "", "1.5"))
    return "1" if slow else value
