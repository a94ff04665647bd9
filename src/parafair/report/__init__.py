"""The report of a frontier: one page to explore, and figures to print."""

from parafair.pictures import FORMATS
from parafair.report.content import content
from parafair.report.figures import draw_embeddings, draw_frontier
from parafair.report.html import render
from parafair.report.writing import write_report

__all__ = [
    "FORMATS",
    "content",
    "draw_embeddings",
    "draw_frontier",
    "render",
    "write_report",
]
