"""What all commands share: the application, its consoles, errors and progress."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.text import Text

from parafair.cli.lazy import LazyGroup
from parafair.cli.wording import in_shell_words
from parafair.torchrun import prints_results, tell_torchrun

app = typer.Typer(
    name="parafair",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""Decompose a tensor so that the embedding of people reveals less about them.

Try it:

- parafair datasets synthetic --out data
- parafair fit data/tensor.npy --sensitive data/sensitive.csv --key person --rank 8 --strength 20
  --out run
- parafair audit run

With tables of your own:

- parafair fit scores.csv --modes student,module,test --value score --sensitive students.csv
  --sensitive-columns gender --key student --rank 4 --strength 1 --out run
""",
)


class SafeConsole(Console):
    """A console on which text from files cannot control the terminal.

    Everything that is printed passes through `render`: lines, cells of tables, errors and bars.
    """

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return text to print, before its width is measured."""
        return super().render_str(visible(text), **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is printed, with control characters as visible text."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=visible(segment.text))


def visible(text: str) -> str:
    r"""Return text with control characters, also those that reverse text, written as escapes.

    >>> print(visible("red: " + chr(27) + "[31m"))
    red: \x1b[31m
    """
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
output, errors = SafeConsole(quiet=not prints_results()), SafeConsole(stderr=True)

INTERRUPTED, TERMINATED, BAD_INPUT = 130, 143, 2


def _show_version(wanted: bool) -> None:
    if wanted:
        from parafair.version import __version__

        echo(f"parafair {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Hold the options of the command itself."""


def _said(error: Exception) -> str:
    """Return what an error says; one of the system names its file and says no more than why."""
    if not isinstance(error, OSError) or error.errno is None or error.filename is None:
        return str(error)
    return (
        f"the path {Path(error.filename).name[:40]!r} cannot be used ({error.strerror}); check it "
        "and its permissions, or choose another"
    )


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn the library's errors and warnings into one line each, in the words of the shell."""
    # Takes as long as scikit-learn.
    from parafair.errors import ParafairWarning, TeamError, Terminated

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", ParafairWarning)
        try:
            yield
        except (ValueError, TypeError, OSError, MemoryError, ImportError, TeamError) as error:
            text = in_shell_words(_said(error)) or "not enough memory; use a smaller tensor"
            who = f"process {os.environ['RANK']}: " if "RANK" in os.environ else ""
            errors.print(
                f"{who}[bold red]Error:[/] {escape(text)}", highlight=False, soft_wrap=True
            )
            tell_torchrun(text)
            raise typer.Exit(BAD_INPUT) from error
        except Terminated as error:
            errors.print(escape(str(error)), highlight=False, soft_wrap=True)
            tell_torchrun(str(error))
            raise typer.Exit(TERMINATED) from error
        except KeyboardInterrupt as error:
            if os.environ.get("RANK", "0") == "0":  # one line for all processes
                errors.print("interrupted; nothing was written", highlight=False)
            raise typer.Exit(INTERRUPTED) from error
        finally:
            for warning in caught:
                if issubclass(warning.category, ParafairWarning):
                    text = escape(in_shell_words(str(warning.message)))
                    errors.print(f"[yellow]Warning:[/] {text}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Bar:
    """A bar on the terminal; call it with the number done, the total and a remark."""

    progress: Progress
    task: TaskID

    def __call__(self, done: int, total: int | None = None, state: str = "") -> None:
        """Show how far the work is."""
        self.progress.update(self.task, completed=done, total=total, state=state)

    def echo(self, text: str) -> None:
        """Print a line above the bar."""
        both = output.is_terminal and errors.is_terminal
        _print(errors if both else output, text)


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Bar]:
    """Show a bar while the block runs."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,  # or it leaves an empty line
    ) as bar:
        yield Bar(bar, bar.add_task(what, total=total, state=""))


def echo(text: str) -> None:
    """Print a line as it is."""
    _print(output, text)


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
