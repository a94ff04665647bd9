"""Run one measurement in its own process, to measure its peak memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path


def alone(
    function: str, *arguments: object, source: str | None = None, seconds: float | None = None
) -> dict[str, object]:
    """Return the result of a function such as "fairness.one_fit", and its peak memory.

    Arguments and result must be JSON values.

    Args:
        function: The function.
        arguments: Its arguments.
        source: The ``src`` folder of another version of parafair to use; None for this one.
        seconds: When the process is stopped; None for never.
    """
    command = [sys.executable, "-m", "benchmarks.alone", function, json.dumps(arguments)]
    environment = os.environ if source is None else {**os.environ, "PYTHONPATH": source}
    found = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, env=environment, timeout=seconds
    ).stdout
    result: dict[str, object] = json.loads(found.splitlines()[-1])
    return result


def main() -> None:
    """Call the function named on the command line and print its result as JSON."""
    module, function = sys.argv[1].split(".")
    result = getattr(import_module(f"benchmarks.{module}"), function)(*json.loads(sys.argv[2]))
    # Not getrusage, which includes the parent process.
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    print(json.dumps({**result, "peak MB": int(peak[1]) // 1000}))


if __name__ == "__main__":
    main()
