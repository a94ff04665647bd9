"""The paper's figures: settings, run, tables, pictures and verdicts."""

from parafair.experiments.claims import judge
from parafair.experiments.config import FULL, NAMES, QUICK, Figure, Item, Scale, Setup
from parafair.experiments.page import write_page
from parafair.experiments.plot import FORMATS, draw
from parafair.experiments.readings import EXPLAINED, OPTIONS, Readings, read_readings
from parafair.experiments.reproduction import Reproduction, reproduce
from parafair.experiments.run import Tables, make_tables
from parafair.experiments.verdict import Check, Claim

__all__ = [
    "EXPLAINED",
    "FORMATS",
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
