"""The exceptions and warnings of parafair, and shared error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

if TYPE_CHECKING:
    from parafair.solvers.result import Fit


class ParafairWarning(UserWarning):
    """A warning about a result."""


class ConvergenceWarning(ParafairWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A fit stopped before it converged."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `fit` holds the last finished iteration.

    It is a `KeyboardInterrupt`, so a loop over many fits ends too. Catch it as `Interrupted` to
    keep the fit.
    """

    def __init__(self, fit: Fit) -> None:
        super().__init__(f"interrupted after {fit.n_iter} iterations")
        self.fit = fit

    def __reduce__(self) -> tuple[type[Interrupted], tuple[Fit]]:
        # Across processes it must be rebuilt from its fit, not from its message.
        return Interrupted, (self.fit,)


def shown(value: object) -> str:
    """Return what a caller gave, for a message: its own text if that is a short line.

    >>> shown("a"), shown([0] * 100)
    ("'a'", 'a list')
    """
    try:
        text = repr(value)
    except Exception:  # a class may have any bugs
        text = ""
    if 0 < len(text) <= LONGEST_SHOWN and "\n" not in text:
        return text
    shape = getattr(value, "shape", None)
    size = f" of shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    return f"a {type(value).__name__}{size}"


# A longer text says less than the type of the value.
LONGEST_SHOWN = 100


def unknown_choice(argument: str, got: object, options: Iterable[str]) -> ValueError:
    """Return the error for an unknown option, with the nearest known one."""
    options = list(map(str, options))
    hint = nearest(got, options) if isinstance(got, str) else ""
    return ValueError(f"{argument} must be one of {', '.join(options)}; got {shown(got)}{hint}")


def missing_column(where: object, name: str, columns: Iterable[str]) -> ValueError:
    """Return the error for a missing column of a table."""
    columns = list(columns)
    return ValueError(
        f"{where} has no column {name!r}; it has {', '.join(columns)}{nearest(name, columns)}"
    )


def nearest(got: object, options: Iterable[str]) -> str:
    """Return a "did you mean" question if one of the options is similar."""
    near = get_close_matches(str(got), list(options), n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else ""
