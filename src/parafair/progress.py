"""Progress of long calls: a bar in a notebook or on a terminal, lines in a log; and Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from time import perf_counter
from typing import Any

from parafair.arguments import whole_number
from parafair.errors import Interrupted

# Seconds between two drawings of a bar, its width in characters, and lines in a log.
PAUSE, WIDTH, LINES = 0.1, 30, 10


def check_verbose(verbose: int) -> None:
    """Raise unless `verbose` is 0 for nothing, 1 for a bar or some lines, or 2 for all lines."""
    if not isinstance(verbose, bool):
        whole_number("verbose", verbose, least=0, most=2)


class Bar:
    """How far some work is; call it with the number done and the total."""

    def __init__(self, what: str, verbose: int) -> None:
        self.what, self.verbose = what, verbose
        self.done, self.total = 0, 0
        self.begun, self.drawn, self.line = perf_counter(), 0.0, -1
        self.handle: Any = None  # the output of a notebook that is replaced

    def stage(self, what: str) -> None:
        """Begin another stage of the work, unless it is the one that has begun."""
        if what != self.what and self.total:
            self.close()
            self.begun, self.drawn, self.line, self.handle = perf_counter(), 0.0, -1, None
            self.done = self.total = 0
        self.what = what

    def note(self, text: str) -> None:
        """Print a line about the last step, if there is a line for each."""
        if self.verbose > 1:
            self._clear()
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def __call__(self, done: int, total: int) -> None:
        """Show how far the work is."""
        self.done, self.total = done, total
        if not self.verbose:
            return
        now = perf_counter()
        if done < total and now - self.drawn < PAUSE:
            return
        self.drawn = now
        self._draw()

    def close(self, end: str = "") -> None:
        """Leave a line with the end of the work."""
        if self.verbose and self.total:
            self._clear()
            self._show(f"{self} {end}".rstrip(), "")

    def __str__(self) -> str:
        seconds = perf_counter() - self.begun
        return f"{self.what}: {self.done} of {self.total}, {seconds:.1f} s"

    def _draw(self) -> None:
        filled = WIDTH * self.done // max(self.total, 1)
        self._show(str(self), "█" * filled + "░" * (WIDTH - filled))

    def _show(self, text: str, blocks: str) -> None:
        """Show a line with a bar; without a bar it stays."""
        if in_notebook():
            share = f'<progress value="{self.done}" max="{max(self.total, 1)}"></progress> '
            self._display(f"<div>{share if blocks else ''}{escape(text)}</div>", text)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r{blocks} {text}" if blocks else f"{text}\n")
            sys.stderr.flush()
        else:  # a log: a line for every tenth, and no bar
            line = LINES * self.done // max(self.total, 1)
            if blocks and line == self.line:
                return
            self.line = line
            if blocks or self.done < self.total:
                sys.stderr.write(f"{text}\n")

    def _display(self, html: str, text: str) -> None:
        # It has types in some versions and none in others.
        display: Any = import_module("IPython.display").display
        bundle = {"text/html": html, "text/plain": text}
        if self.handle is None:
            self.handle = display(bundle, raw=True, display_id=True)
        else:
            self.handle.update(bundle, raw=True)

    def _clear(self) -> None:
        if not in_notebook() and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


@contextmanager
def tracked(what: str, verbose: int, kept: str = "nothing is kept") -> Iterator[Bar]:
    """Yield a bar while some work is done; if Ctrl-C ends it, say how far it was.

    Args:
        what: What is done.
        verbose: 0 for no output, 1 for a bar, 2 for a line for each step too.
        kept: What is left after an interruption.
    """
    bar = Bar(what, verbose)
    try:
        yield bar
    except KeyboardInterrupt as error:
        bar.close("(interrupted)")
        after = f"after {bar.done} of {bar.total}" if bar.total else "before the first"
        text = f"{bar.what}: interrupted {after}; {kept}"
        if isinstance(error, Interrupted):  # it has a fit, which the caller may want
            error.add_note(text)
            raise
        raise KeyboardInterrupt(text) from error
    except BaseException:
        bar.close("(failed)")
        raise
    bar.close()


def in_notebook() -> bool:
    """Return whether the output goes to a notebook, which can replace what it shows."""
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    return getattr(shell, "kernel", None) is not None
