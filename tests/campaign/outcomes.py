"""What can come of one attempt to break parafair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Classes of outcomes; the second value tells whether it is a failure."""

    FINE = "fine", False
    REFUSED = "refused with a clear message", False
    UNCLEAR = "refused without a remedy", True
    RAW = "raw exception", True
    NAN = "silent NaN", True
    LOST = "file lost or left behind", True
    DIFFERENT = "silently different result", True
    TRACEBACK = "traceback in the shell", True
    STATE = "process state changed", True
    WARNING = "warning of another library", True
    SLOW = "not finished in time", True
    BLINDED = "blinded audit", True

    def __init__(self, label: str, failure: bool) -> None:
        self.label = label
        self.failure = failure


@dataclass(frozen=True)
class Outcome:
    """One attempt.

    Attributes:
        target: What was tried, such as "FairCP.fit" or "parafair audit".
        kind: What came of it.
        detail: For a failure: the exception or the difference, in a line. Failures of equal target
            and detail are one finding.
        message: What the user read, if it was an exception.
        reproduction: For a failure: a few lines that show it again, as short as possible.
    """

    target: str
    kind: Kind
    detail: str = ""
    message: str = ""
    reproduction: str = ""
