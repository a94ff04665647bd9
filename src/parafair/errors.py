"""The exceptions and warnings of parafair, and shared error messages."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from types import FrameType
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

if TYPE_CHECKING:
    from parafair.solvers.result import Fit


class ParafairWarning(UserWarning):
    """A warning about a result."""


class ConvergenceWarning(ParafairWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A fit stopped before it converged."""


class TeamError(RuntimeError):
    """The processes of a fit lost each other, or do not fit together."""


class Terminated(RuntimeError):  # noqa: N818  (like Interrupted)
    """SIGTERM during a fit with a checkpoint, which is stored."""


# Modules that wrap methods of estimators and other functions.
WRAPPERS = ("sklearn.", "parafair.failures")

# A warning that is not shown yet: its text and its category.
Held = tuple[str, type[ParafairWarning]]
_HELD: ContextVar[list[Held] | None] = ContextVar("held", default=None)


def warn(
    message: str, category: type[ParafairWarning] = ParafairWarning, *, stacklevel: int = 2
) -> None:
    """Show a warning, or hold it if `hold_warnings` is active in this thread.

    Args:
        message: The text.
        category: The category.
        stacklevel: As in `warnings.warn`: 2 is the caller of the function that warns.
    """
    held = _HELD.get()
    if held is None:
        frame: FrameType | None = sys._getframe(stacklevel)
        while frame is not None and frame.f_globals.get("__name__", "").startswith(WRAPPERS):
            # They wrap what users call; the caller is the one to tell.
            frame, stacklevel = frame.f_back, stacklevel + 1
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    else:
        held.append((message, category))


@contextmanager
def hold_warnings() -> Iterator[list[Held]]:
    """Hold the library's warnings instead of showing them.

    Unlike `warnings.catch_warnings`, it changes nothing for other threads.
    """
    held: list[Held] = []
    token = _HELD.set(held)
    try:
        yield held
    finally:
        _HELD.reset(token)


def warn_once(held: Iterable[Held], of: int, *, stacklevel: int = 2) -> None:
    """Show each held warning once, with the number of fits that gave it.

    Args:
        held: The held warnings of all fits.
        of: The number of fits.
        stacklevel: As in `warn`.
    """
    for (message, category), count in Counter(held).items():
        warn(f"{message} ({count} of {of} fits)", category, stacklevel=stacklevel + 1)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `fit` holds the last finished iteration.

    It is a `KeyboardInterrupt`, so a loop over many fits ends too. Catch it as `Interrupted` to
    keep the fit.

    Attributes:
        fit: The fit.
        strength: The strength of its penalty, if that is not the one of the problem: 0 for a plain
            decomposition.
        noise: The noise that it already has; None if none was added.
    """

    def __init__(self, fit: Fit, strength: float | None = None, noise: float | None = None) -> None:
        text = f"interrupted after {fit.n_iter} iterations"
        if strength == 0:
            text += ": the embedding is that of a plain decomposition, without the penalty"
        elif strength is not None:
            text += f" at strength {strength:.3g}"
        super().__init__(text)
        self.fit, self.strength, self.noise = fit, strength, noise

    def __reduce__(self) -> tuple[type[Interrupted], tuple[Any, ...]]:
        # Across processes it must be rebuilt from its fit, not from its message.
        return Interrupted, (self.fit, self.strength, self.noise)


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
