"""The exceptions and warnings of parafair, and the wording shared by its messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

if TYPE_CHECKING:
    from parafair.solvers.result import Fit


class ParafairWarning(UserWarning):
    """Something the reader of a result should know."""


class ConvergenceWarning(ParafairWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A fit stopped before its objective stopped decreasing."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C arrived during a fit; `fit` holds the last finished iteration.

    It is a `KeyboardInterrupt`, so a loop over many fits still ends; catch it by its own
    name to keep what was computed.
    """

    def __init__(self, fit: Fit) -> None:
        super().__init__(f"interrupted after {fit.n_iter} iterations")
        self.fit = fit

    def __reduce__(self) -> tuple[type[Interrupted], tuple[Fit]]:
        # It may come from another process, made again from its argument and not its message.
        return Interrupted, (self.fit,)


def unknown_choice(argument: str, got: object, options: Iterable[str]) -> ValueError:
    """Return the error for a word that is not among the options, naming the nearest one."""
    options = list(options)
    hint = nearest(got, options)
    return ValueError(f"{argument} must be one of {', '.join(options)}; got {got!r}{hint}")


def missing_column(where: object, name: str, columns: Iterable[str]) -> ValueError:
    """Return the error for a table that lacks a column."""
    columns = list(columns)
    return ValueError(
        f"{where} has no column {name!r}, it has {', '.join(columns)}{nearest(name, columns)}"
    )


def nearest(got: object, options: Iterable[str]) -> str:
    """Return a question for the end of a message, if one of the options is near."""
    near = get_close_matches(str(got), list(options), n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else ""
