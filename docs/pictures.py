"""Draw pictures of the site: of the home page, notebooks, and examples that the build does not run.

    python docs/pictures.py

reads docs/data/theorem.json and the tables of docs/oulad.md and docs/unknown-groups.md. The picture
of the home page is that of its code, which is run, and so are those of docs/notebooks.md, in a
browser. With names, such as `oulad notebooks`, it draws those.
"""

import json
import re
import shutil
import sys
from base64 import b64decode
from pathlib import Path

import matplotlib.pyplot as plt
import nbclient
import nbformat.v4
import numpy as np
from playwright.sync_api import sync_playwright
from sklearn.decomposition import PCA

from parafair import FairCP, datasets

DOCS = Path(__file__).parent
BLUE, ORANGE = "#0072b2", "#d55e00"


def table(page, first):
    """Return the rows of the tables of a page whose first column has this heading."""
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(rf"^\| {first} .*\n\|[-|]*\n((?:\|.*\n)+)", text, re.M)
    lines = "".join(blocks).splitlines()
    return [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in lines]


def theorem(axis):
    """Draw the bounds of the theorem around the computed advantage."""
    rows = json.loads((DOCS / "data" / "theorem.json").read_text("utf-8"))
    for place, row in enumerate(rows):
        axis.plot(
            [place, place],
            [row["lower"], row["upper"]],
            color="0.6",
            linewidth=6,
            solid_capstyle="butt",
        )
        axis.plot(place, row["computed"], "o", color=BLUE)
    names = [f"rank {row['rank']}\n{row['method']}\nnoise {row['noise']:g}" for row in rows]
    axis.set_xticks(range(len(rows)), names, fontsize=7)
    axis.set(ylabel="advantage of the best attacker", ylim=(0, 0.52))
    axis.set_title("computed (dots), between the bounds of the theorem (bars)")


def oulad(axis):
    """Draw error against leakage for gender."""
    for number, row in enumerate(table("oulad.md", "attribute")[:4]):
        _, method, error, leakage, _ = row
        color = BLUE if method.startswith("ours") else ORANGE
        axis.plot(float(error), float(leakage), "o", color=color, markersize=9)
        # The last two are near each other.
        place = {"xytext": (0, -19 if number == 3 else 9), "textcoords": "offset points"}
        name = method.replace("strength ", "").removesuffix(" (the default)")
        axis.annotate(name, (float(error), float(leakage)), ha="center", **place)
    axis.set(xlabel="RMSE of held-out marks", ylabel="leakage of the gender", ylim=(-0.02, 0.33))
    axis.set_title("marks of the Open University")


def adult(axis):
    """Draw the income's AUC against the leakage of the sex."""
    for name, leakage, _, auc, *_ in table("unknown-groups.md", "model")[1:]:  # not random rows
        color = BLUE if name.startswith(("sliced", "linear", "network")) else ORANGE
        axis.plot(float(auc), float(leakage.split(",")[0]), "o", color=color, markersize=8)
    axis.set(xlabel="AUC of the income", ylabel="leakage of the sex")
    axis.set_title("census data Adult: ours (blue), others (orange)")


def home():
    """Draw the rows of the code on the home page, for both methods."""
    data = datasets.marks(students=300)
    gender = data.sensitive_features["gender"].to_numpy()
    figure, axes = plt.subplots(2, 1, figsize=(4.4, 5.6), layout="constrained")
    for axis, (method, title) in zip(axes, (("none", "plain"), ("invariant", "fair")), strict=True):
        model = FairCP(rank=2, method=method, center=True, ridge=1)
        model.fit(data.tensor, sensitive_features=gender)
        rows = PCA(whiten=True).fit_transform(model.embedding_)
        # The horizontal direction is the one in which a linear attacker sees most.
        apart = rows[gender == "m"].mean(0) - rows[gender == "f"].mean(0)
        turn = np.array([[apart[0], -apart[1]], [apart[1], apart[0]]]) / np.linalg.norm(apart)
        for group, color, marker in (("f", "#004488", "o"), ("m", "#ddaa33", "^")):
            places = (rows @ turn)[gender == group].T
            axis.scatter(*places, c=color, marker=marker, s=16, alpha=0.8, label=group)
            axis.axvline(places[0].mean(), color=color, linewidth=2)
        axis.set(title=f'{title}: method="{method}"', xticks=[], yticks=[])
        axis.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
    handles, names = axes[0].get_legend_handles_labels()
    names = [f"gender {name}" for name in names]
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=2)
    axes[1].set_xlabel("lines: the mean of each gender")
    figure.savefig(DOCS / "images" / "home.png", dpi=130)


def notebooks():
    """Draw what the cells of docs/notebooks.md show."""
    cells = re.findall(r"```python\n(.*?)```", (DOCS / "notebooks.md").read_text("utf-8"), re.S)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    shown = [[out["data"] for out in cell.outputs if "data" in out] for cell in notebook.cells]
    images = DOCS / "images"
    with sync_playwright() as control:
        browser = control.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 778, "height": 100})
        for name, outputs in zip(("model", "certificate", "audit"), shown, strict=False):
            html = outputs[-1]["text/html"]
            page.set_content(f"<body style='margin: 8px; font-family: sans-serif'>{html}")
            page.screenshot(path=images / f"notebook-{name}.png", full_page=True)
        browser.close()
    (picture,) = (out["image/png"] for out in shown[3] if "image/png" in out)
    (images / "notebook-frontier.png").write_bytes(b64decode(picture))


def example(name):
    """Draw the picture of one example."""
    figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
    {"theorem": theorem, "oulad": oulad, "adult": adult}[name](axis)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / f"{name}.png", dpi=120)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("home", "notebooks", "theorem", "oulad", "adult"):
        {"home": home, "notebooks": notebooks}.get(name, lambda name=name: example(name))()
