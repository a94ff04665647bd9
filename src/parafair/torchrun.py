"""What torchrun tells its processes, and what they tell it, without importing torch."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path


def process_count() -> int:
    """Return how many processes torchrun has started; 1 without torchrun."""
    size = os.environ.get("WORLD_SIZE", "")
    return int(size) if "RANK" in os.environ and size.isdigit() else 1


def prints_results() -> bool:
    """Tell whether this process prints: of those that torchrun has started, process 0 does."""
    return process_count() == 1 or os.environ["RANK"] == "0"


def tell_torchrun(text: str) -> None:
    """Leave a message where torchrun looks for it: its own report, which comes last, ends with it.

    Args:
        text: Why this process ends.
    """
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file and "RANK" in os.environ:
        record = {"message": text, "extraInfo": {"timestamp": str(int(time.time()))}}
        with suppress(OSError):  # the message was printed
            Path(file).write_text(json.dumps({"message": record}), encoding="utf-8")
