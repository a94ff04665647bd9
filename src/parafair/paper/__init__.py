"""The paper's figures: settings, run, tables, pictures and verdicts."""

from parafair.paper.claims import judge
from parafair.paper.comparison import Amount, Verdict, compare_readings
from parafair.paper.comparison_page import write_comparison
from parafair.paper.config import FULL, NAMES, QUICK, Figure, Item, Scale, Setup
from parafair.paper.page import write_page
from parafair.paper.plot import draw
from parafair.paper.product import COMPARED, EVERY, PAPER_FIGURES, SOME, SOME_FIGURES
from parafair.paper.readings import EXPLAINED, OPTIONS, Readings, read_readings, read_values
from parafair.paper.reproduction import Reproduction, reproduce
from parafair.paper.run import Tables, make_tables
from parafair.paper.verdict import Check, Claim

__all__ = [
    "COMPARED",
    "EVERY",
    "EXPLAINED",
    "FULL",
    "NAMES",
    "OPTIONS",
    "PAPER_FIGURES",
    "QUICK",
    "SOME",
    "SOME_FIGURES",
    "Amount",
    "Check",
    "Claim",
    "Figure",
    "Item",
    "Readings",
    "Reproduction",
    "Scale",
    "Setup",
    "Tables",
    "Verdict",
    "compare_readings",
    "draw",
    "judge",
    "make_tables",
    "read_readings",
    "read_values",
    "reproduce",
    "write_comparison",
    "write_page",
]
