"""Draw the pictures of examples that are not run when the site is built, from measured tables.

    python docs/pictures.py

reads docs/data/theorem.json and the tables of docs/oulad.md and docs/unknown-groups.md.
"""

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt

DOCS = Path(__file__).parent
BLUE, ORANGE = "#0072b2", "#d55e00"


def table(page, first):
    """Return the rows of the table of a page whose first column has this heading."""
    text = (DOCS / page).read_text("utf-8")
    block = re.search(rf"^\| {first} .*\n(?:\|.*\n)+", text, re.M)[0]
    rows = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return rows[2:]


def theorem(axis):
    """Draw the bounds of the theorem around the computed advantage."""
    rows = json.loads((DOCS / "data" / "theorem.json").read_text("utf-8"))
    for place, row in enumerate(rows):
        axis.plot([place, place], [row["lower"], row["upper"]], color="0.6", linewidth=6)
        axis.plot(place, row["computed"], "o", color=BLUE)
    axis.set(ylabel="advantage of the best attacker", xlabel="fit", ylim=(0, 0.52))
    axis.set_title("computed (dots), between the bounds of the theorem (bars)")


def oulad(axis):
    """Draw error against leakage for gender."""
    for _, method, error, leakage, _ in table("oulad.md", "attribute")[:4]:
        color = BLUE if method.startswith("ours") else ORANGE
        axis.plot(float(error), float(leakage), "o", color=color, markersize=9)
        place = {"xytext": (-8, 8), "textcoords": "offset points", "ha": "right"}
        axis.annotate(method, (float(error), float(leakage)), **place)
    axis.set(xlabel="RMSE of held-out marks", ylabel="leakage of the gender", xlim=(13.95, 14.5))
    axis.set_title("marks of the Open University")


def adult(axis):
    """Draw the income's AUC against the leakage of the sex."""
    for name, _, leakage, _, auc, *_ in table("unknown-groups.md", "model"):
        color = BLUE if name.startswith(("encoder", "strength")) else ORANGE
        axis.plot(float(auc), float(leakage), "o", color=color, markersize=8)
    axis.set(xlabel="AUC of the income", ylabel="leakage of the sex")
    axis.set_title("census data Adult: ours (blue), others (orange)")


if __name__ == "__main__":
    for draw in (theorem, oulad, adult):
        figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
        draw(axis)
        axis.spines[["top", "right"]].set_visible(False)
        figure.savefig(DOCS / "images" / f"{draw.__name__}.png", dpi=120)
