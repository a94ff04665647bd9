"""Run one measurement in a process of its own, so that the memory it needs can be told."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path


def alone(function: str, *arguments: object) -> dict[str, object]:
    """Return what a function such as "fairness.one_fit" returns, and its peak memory.

    The function takes and returns what can be written as JSON.
    """
    command = [sys.executable, "-m", "benchmarks.alone", function, json.dumps(arguments)]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    result: dict[str, object] = json.loads(found.splitlines()[-1])
    return result


def main() -> None:
    """Call the function named on the command line and print its result as JSON."""
    module, function = sys.argv[1].split(".")
    result = getattr(import_module(f"benchmarks.{module}"), function)(*json.loads(sys.argv[2]))
    # Not getrusage: it still counts the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    print(json.dumps({**result, "peak MB": int(peak[1]) // 1000}))


if __name__ == "__main__":
    main()
