"""Ctrl-C while the command line is being imported, which takes seconds: no traceback."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType


def quiet_if_command() -> None:
    """Do not show a traceback of Ctrl-C if this process is the command `parafair`.

    The package is imported before any code of the command can catch it.
    """
    started = zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    if Path(sys.argv[0]).stem == "parafair" or ("-m", "parafair") in started:
        sys.excepthook = _without_traceback


def _without_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


quiet_if_command()
