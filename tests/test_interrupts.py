import os
import signal
import subprocess
import sys
import time
import weakref
from importlib import import_module
from pathlib import Path

import pytest

import parafair
from parafair import interrupts

pytest.importorskip("typer")


@pytest.fixture
def usual_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        (["/bin/parafair", "fit"], True),
        ([r"C:\bin\parafair.exe", "fit"], True),
        (["python", "-m", "parafair", "fit"], True),
        (["python", "-m", "pytest"], False),
        (["python", "script.py", "parafair"], False),
        ([], False),
    ],
)
def test_only_imports_of_the_command_end_at_once(monkeypatch, usual_handler, arguments, ends):
    monkeypatch.setattr(sys, "orig_argv", arguments)
    monkeypatch.setattr(sys, "argv", arguments if ends else arguments[1:])
    interrupts.end_at_once_if_command()
    assert (signal.getsignal(signal.SIGINT) is signal.SIG_DFL) == ends


def test_a_command_that_ignores_ctrl_c_continues_to(monkeypatch, usual_handler):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr(sys, "argv", ["parafair"])
    interrupts.end_at_once_if_command()
    with interrupts.Interruptible():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def wait():
    for _ in range(1000):
        time.sleep(0.01)


class Thing:
    """Something that can be referred to weakly."""


def test_an_interruption_that_python_drops_comes_again(usual_handler, capfd):
    thing = Thing()
    seen = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), interrupts.Interruptible():
        del thing
        assert seen() is None
        wait()
    assert not capfd.readouterr().err


def test_an_interruption_waits_for_the_end_of_an_import(usual_handler, tmp_path, monkeypatch):
    text = "import signal\nsignal.raise_signal(signal.SIGINT)\nwhole = True\n"
    (tmp_path / "begun_in_the_command.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interrupts.Interruptible():
        import_module("begun_in_the_command")
        wait()
    assert sys.modules.pop("begun_in_the_command").whole


def test_other_dropped_errors_are_shown_as_before(usual_handler, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    thing = Thing()
    seen = weakref.ref(thing, lambda _: 1 / 0)
    with interrupts.Interruptible():
        del thing
    assert seen() is None
    assert [one.exc_type for one in shown] == [ZeroDivisionError]
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


SLOW_MODULE = """
import time
from pathlib import Path
Path(__file__).with_name("begun").touch()
time.sleep(60)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for other processes")
def test_ctrl_c_while_importing_shows_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text(SLOW_MODULE, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(Path(parafair.__file__).parents[1])])
    process = subprocess.Popen(
        [sys.executable, "-m", "parafair", "datasets"],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        # Whoever runs the tests may ignore the signal, which processes inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for _ in range(600):
        if (tmp_path / "begun").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert "Traceback" not in shown
    assert process.returncode == -signal.SIGINT
