"""The paper's figures: settings, run, tables, pictures and verdicts."""

from parafair.experiments.config import NAMES, QUICK, Figure, Item, Scale, Setup
from parafair.experiments.readings import EXPLAINED, OPTIONS, Readings, read_readings
from parafair.experiments.run import Tables, run

__all__ = [
    "EXPLAINED",
    "NAMES",
    "OPTIONS",
    "QUICK",
    "Figure",
    "Item",
    "Readings",
    "Scale",
    "Setup",
    "Tables",
    "read_readings",
    "run",
]
