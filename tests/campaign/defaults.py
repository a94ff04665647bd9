"""The part of the campaign that calls the API in processes with other global defaults.

Results must not depend on them: the same calls give the same numbers as in a plain process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tests.campaign.outcomes import Kind, Outcome

CALLS = 150
PLAIN = "plain"


@dataclass(frozen=True)
class Setting:
    """Other defaults of a process.

    Attributes:
        change: Called before the first call, after all imports.
        environment: Variables of the process.
        filters: What is done with warnings.
        same: Whether results must be the same to the last bit.
    """

    change: Callable[[], Any] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    filters: str = "always"
    same: bool = True


SETTINGS = {
    PLAIN: Setting(),
    "float64 by default": Setting(lambda: torch.set_default_dtype(torch.float64)),
    "a default device": Setting(lambda: torch.set_default_device("cpu")),
    "no gradients": Setting(lambda: torch.set_grad_enabled(False)),
    "deterministic": Setting(lambda: torch.use_deterministic_algorithms(True)),
    "warnings as errors": Setting(filters="error", same=False),
    "numpy raises": Setting(lambda: np.seterr(all="raise")),
    "two threads": Setting(lambda: torch.set_num_threads(2), same=False),
    "hash seed 1": Setting(environment={"PYTHONHASHSEED": "1"}),
    "hash seed 2": Setting(environment={"PYTHONHASHSEED": "2"}),
    "locale C": Setting(environment={"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"}),
    "another time zone": Setting(environment={"TZ": "Asia/Kathmandu"}),
    "text as objects in pandas": Setting(lambda: pd.set_option("future.infer_string", False)),
    "optimized": Setting(environment={"PYTHONOPTIMIZE": "1"}),
}


def fuzz(seed: int, folder: Path) -> Iterator[Outcome]:
    """Yield the outcomes of the same random calls under each setting in turn."""
    for turn in count():
        first = turn * CALLS
        plain = {found["number"]: found for found in _run(PLAIN, seed, first)}
        for name, setting in SETTINGS.items():
            for found in _run(name, seed, first) if name != PLAIN else ():
                expected = plain.get(found["number"])
                yield _compare(name, setting, found, expected, seed)


def _run(name: str, seed: int, first: int) -> Iterator[dict[str, Any]]:
    """Yield what a process with a setting reports about each of its calls."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.campaign.defaults", name, str(seed), str(first)],
        env={**os.environ, **SETTINGS[name].environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        for line in process.stdout:
            yield json.loads(line)
        said = process.stderr.read()
        if process.wait():
            yield {"number": -1, "target": "import", "kind": "RAW", "source": f"# {name}",
                   "detail": said.strip().splitlines()[-1], "message": said[-2000:]}  # fmt: skip
    finally:
        process.kill()
        process.wait()


def _compare(name: str, setting: Setting, found: Any, expected: Any, seed: int) -> Outcome:
    kind, detail = Kind[found["kind"]], found["detail"]
    both = expected is not None and kind is Kind.FINE and expected["kind"] == "FINE"
    # Tensors that the call itself makes have the default dtype.
    both = both and "torch." not in found["source"]
    # Without a seed, results are random by design.
    both = both and "random_state=None" not in found["source"]
    if setting.same and both and found["result"] != expected["result"]:
        kind, detail = Kind.DIFFERENT, "another result than with the usual defaults"
    if expected is not None and expected["kind"] == found["kind"] and kind is not Kind.DIFFERENT:
        kind = kind if not kind.failure else Kind.FINE  # the part "api" reports it
    reproduction = f"# case {found['number']} of seed {seed}, {name}\n{found['source']}"
    said = f"\n# {found['message']}" if found["message"] else ""
    return Outcome(f"{found['target']} ({name})", kind, detail, reproduction=reproduction + said)


def main(name: str, seed: int, first: int) -> None:
    """Make calls under a setting and print a line about each."""
    from tests.campaign import api

    setting = SETTINGS[name]
    setting.change()
    # A path may be any text, so files may be written to the current folder.
    with tempfile.TemporaryDirectory() as folder, chdir(folder), api.stop_slow_calls():
        for number in range(first, first + CALLS):
            case = api.draw_case(seed, number)
            outcome, result = api.run_with_result(case, filters=setting.filters)
            if outcome is None:
                continue
            record = {
                "number": number,
                "target": outcome.target,
                "kind": outcome.kind.name,
                "detail": outcome.detail,
                "message": outcome.message,
                "source": f"{api.IMPORT}\n{case.source}",
                "result": api.summary(result),
            }
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
