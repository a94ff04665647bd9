"""The paper's figures: settings, run, tables, pictures and verdicts."""

from parafair.paper.claims import judge
from parafair.paper.config import FULL, NAMES, QUICK, Figure, Item, Scale, Setup
from parafair.paper.page import write_page
from parafair.paper.plot import draw
from parafair.paper.readings import EXPLAINED, OPTIONS, Readings, read_readings
from parafair.paper.reproduction import Reproduction, reproduce
from parafair.paper.run import Tables, make_tables
from parafair.paper.verdict import Check, Claim

__all__ = [
    "EXPLAINED",
    "FULL",
    "NAMES",
    "OPTIONS",
    "QUICK",
    "Check",
    "Claim",
    "Figure",
    "Item",
    "Readings",
    "Reproduction",
    "Scale",
    "Setup",
    "Tables",
    "draw",
    "judge",
    "make_tables",
    "read_readings",
    "reproduce",
    "write_page",
]
