"""Messages of the library, which name arguments of Python, in the words of the shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from parafair.cli.lazy import COMMANDS, Commands

# What arguments are called in Python if the parameter of the command has another name.
ALIASES = {"sensitive_features": "sensitive", "overwrite": "force", "kinds": "kind"}
# The same in a command that reads entries of new people.
OF_NEW_PEOPLE = {
    "X": "new_tensor",
    "X_new": "new_tensor",
    "sensitive_features": "new_sensitive",
    "side": "new_side",
}
# Arguments with one value that is an option of its own.
VALUES = {"exclude=None": "include_rated"}
# Options of other commands that messages name, such as the settings of a model that was loaded.
MODEL_COMMAND = "fit"
# What has another name in the shell, wherever a message names it without a value.
NAMES = {
    "parafair.sort_parquet": "parafair sort",
    "process_group": "torchrun",
    "Binomial(trials=...)": "binomial:TRIALS",
}

# The parameters of the running command; set by `parafair.cli.command`.
PARAMETERS: ContextVar[tuple[Any, ...]] = ContextVar("PARAMETERS", default=())

# A word that is no part of a path, a dotted name, a label in quotes or a call.
WORD, END = r"(?<![\w.'\"/-])([A-Za-z]\w*)", r"(?![\w=(/']|\.\w)"
QUOTED = r"'[^']*'"
# name=value; a quoted value may be followed by alternatives, as in 'a', 'b' or 'c'.
ASSIGNMENT = re.compile(
    rf"(?P<verb>\b(?:pass|use|set) )?{WORD}="
    rf"(?P<value>{QUOTED}|\([^()]*\)|\[[^\[\]]*\]|\{{[^{{}}]*\}}|\.\.\.|"
    rf"[-+]?\d[\d.]*(?:e[-+]?\d+)?(?<!\.)|\w+|(?=\s|$))"
    rf"(?P<others>(?:, {QUOTED})*(?: or {QUOTED}(?!=))?)(?: in (?:[A-Z]\w*))?"
)
# A call such as FairCP(noise=0.1) says no more than its arguments.
CALL = re.compile(r"\b[A-Za-z]\w*\((\w+=[^()]*)\)")
# Places of a message in which a word that is no English names an argument.
SUBJECT = re.compile(rf"^((?:[^\s:]+: )?){WORD}(?=,? (?:must|has|have|is|are|if|cannot|needs?)\b)")
OBJECT = re.compile(
    r"(\b(?:[Ll]eave|[Rr]aise|[Ll]ower|[Oo]mit|[Uu]se|[Pp]ass|other|(?:larger|smaller)|"
    rf"name in|mode of) |--[\w-]+ (?:or|and) ){WORD}{END}(?! (?:values|entries|people|rows)\b)"
)
OPTION = re.compile(r"(?<![\w-])--[a-z]")
NOTHING = re.compile(r"\b(?:(?:use|pass) )?None (?=for\b|if\b|to\b)")


def in_shell_words(text: str) -> str:
    """Return a message whose arguments of Python are options of the running command.

    An argument that the command does not have is one of `parafair fit`, or stays as it is. A
    message that names an option is one of the command line itself, and stays too.
    """
    if OPTION.search(text):
        return text
    names = Names(PARAMETERS.get())
    for phrase, parameter in VALUES.items():
        if parameter in names.options:
            text = text.replace(phrase, names.options[parameter])
    for name, other in NAMES.items():
        text = re.sub(rf"(?<!\w){re.escape(name)}(?![\w=])", other, text)
    text = CALL.sub(lambda found: names.assigned(found[1]), text)
    text = names.assigned(text)
    text = SUBJECT.sub(lambda found: found[1] + names.shown(found[2]), text)
    text = re.sub(WORD + END, lambda found: names.unmistakable(found[1]), text)
    text = OBJECT.sub(lambda found: found[1] + names.shown(found[2], command=True), text)
    return NOTHING.sub("leave it out ", text)


@dataclass(frozen=True)
class Names:
    """What the arguments of Python are called in a command.

    Attributes:
        parameters: The parameters of the command, as click has them.
    """

    parameters: tuple[Any, ...]

    @cached_property
    def options(self) -> Mapping[str, str]:
        """What users type for each argument: an option, or the name of a positional one."""
        if not self.parameters:
            return {}
        own, model = _typed(self.parameters), _typed(Commands()[MODEL_COMMAND].params)
        found = {**model, **own}
        for name, parameter in ALIASES.items():
            if parameter in found:
                found[name] = found[parameter]
        if "new_tensor" in own:
            found |= {name: own[parameter] for name, parameter in OF_NEW_PEOPLE.items()}
        # The data is what a command reads, if that is a tensor.
        return {**found, "X": own["tensor"]} if "tensor" in own else found

    @cached_property
    def negative(self) -> Mapping[str, str]:
        """What users type to switch a flag off."""
        found = (*Commands()[MODEL_COMMAND].params, *self.parameters)
        return {p.name: p.secondary_opts[0] for p in found if getattr(p, "secondary_opts", ())}

    def shown(self, name: str, *, command: bool = False) -> str:
        """Return what users type for an argument; any other word as it is."""
        if command and name in COMMANDS:
            return f"parafair {name}"
        return self.options.get(name, name)

    def unmistakable(self, word: str) -> str:
        """Return what users type for a word that can only be an argument."""
        return self.shown(word) if "_" in word or word == "X" else word

    def assigned(self, text: str) -> str:
        """Return a text with ``name=value`` as users type it."""
        return ASSIGNMENT.sub(self._assigned, text)

    def _assigned(self, found: re.Match[str]) -> str:
        verb, name, value = found["verb"] or "", found[2], found["value"]
        if name not in self.options:
            return found[0]
        option = self.options[name]
        others = found["others"].replace("'", "")
        if value == "None":
            return f"leave {option} out" if verb else f"{option} is not given"
        if value == "False":
            return f"{verb}{self.negative[name]}" if name in self.negative else f"no {option}"
        if value in ("True", "...", ""):
            return f"{verb}{option}{others}"
        plain = re.sub(r"[\s'\"()\[\]{}]|,(?=\)|$)", "", value).replace(":", "=").rstrip(",")
        return f"{verb}{option} {plain}{others}"


def _typed(parameters: Any) -> dict[str, str]:
    return {parameter.name: parameter.opts[0] for parameter in parameters if parameter.opts}
