"""Ctrl-C of the command `parafair`: it always ends the work, and never shows a traceback.

While modules are imported, there is nothing to lose, and Ctrl-C ends the process at once. A
`KeyboardInterrupt` would not do: a module written in C may turn it into an `ImportError`. While a
command runs, Ctrl-C is a `KeyboardInterrupt` that is raised again if Python has dropped it.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

# Seconds until an interruption that came at a bad moment comes again.
PAUSE = 0.01


def end_at_once_if_command() -> None:
    """Let Ctrl-C end this process without an exception if it is the command `parafair`.

    The package is imported before any code of the command can catch one.
    """
    started = zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    # Not by pathlib, whose import takes time in which Ctrl-C would show a traceback.
    name = "".join(sys.argv[:1]).replace("\\", "/").rpartition("/")[2].partition(".")[0]
    # Who starts a command may have chosen that it ignores Ctrl-C.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual and _is_main() and (name == "parafair" or ("-m", "parafair") in started):
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class Interruptible:
    """While its block runs, Ctrl-C is a `KeyboardInterrupt` that is not lost.

    Python drops exceptions in destructors and in callbacks of weak references, and modules written
    in C change them while they are imported. In these cases the interruption comes again.
    """

    def __enter__(self) -> None:
        self._hook: Callable[[sys.UnraisableHookArgs], object] = sys.unraisablehook
        self._handler = signal.getsignal(signal.SIGINT)
        self._imports = _count_imports(sys._getframe())
        self._active = _is_main() and self._handler in (signal.default_int_handler, signal.SIG_DFL)
        if self._active:
            sys.unraisablehook = self._dropped
            signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(self, *_: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._handler)
            sys.unraisablehook = self._hook

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        if _count_imports(frame) > self._imports:
            _interrupt_later()
        else:
            raise KeyboardInterrupt

    def _dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            _interrupt_later()
        else:
            self._hook(dropped)


def _is_main() -> bool:
    """Tell whether this is the main thread; others have no handlers of signals."""
    return threading.current_thread() is threading.main_thread()


def _count_imports(frame: FrameType | None) -> int:
    """Return how many frames of Python's imports are on the stack."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        frame = frame.f_back
    return count


def _interrupt_later() -> None:
    # Not a `threading.Timer`, whose locks the interrupted code may hold.
    _thread.start_new_thread(_wait_and_interrupt, ())


def _wait_and_interrupt() -> None:
    time.sleep(PAUSE)
    _thread.interrupt_main()


end_at_once_if_command()
