"""Parts of long benchmarks, measured one at a time: a run skips those that are there already.

With a folder in PARAFAIR_PARTS, ``python -m benchmarks.parts blind.one_adult plain`` measures one
part, and ``python -m benchmarks.run adult_blind`` measures what is missing and writes the table.
Empty the folder after a change of the library.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any


def part(function: Callable[..., Any], *arguments: object) -> Any:
    """Return a result of JSON values: a stored one, if there is one of the same arguments."""
    folder = os.environ.get("PARAFAIR_PARTS")
    if not folder:
        return function(*arguments)
    key = json.dumps([function.__module__, function.__name__, *arguments])
    path = Path(folder) / f"{sha256(key.encode()).hexdigest()[:16]}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"of": key, "found": function(*arguments)}) + "\n", "utf-8")
    return json.loads(path.read_text("utf-8"))["found"]


def main() -> None:
    """Measure the part named on the command line, with its arguments as JSON or as text."""
    module, name = sys.argv[1].split(".")
    arguments = [_value(text) for text in sys.argv[2:]]
    print(part(getattr(import_module(f"benchmarks.{module}"), name), *arguments))


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
