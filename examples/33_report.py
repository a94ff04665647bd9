"""
Save a model, and write a report
================================

For colleagues who do not program: one HTML file with the trade-off, every audit and what the
numbers mean. For the next program: a folder without pickles.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.image as images
import matplotlib.pyplot as plt
import numpy as np

from parafair import FairCP, datasets, frontier
from parafair.report import write_report

data = datasets.synthetic(seed=0, shape=(80, 15, 10))
curve = frontier(
    FairCP(rank=4, tol=1e-3),
    data.tensor,
    sensitive_features=data.sensitive_features,
    strengths=(1, 10, 100),
    audits={"attackers": ["linear", "svm"], "permutations": 1},
    limit=True,
)
folder = TemporaryDirectory()
page, *figures = write_report(curve, Path(folder.name) / "report.html", formats=("png",))
print(f"{page.name}: {page.stat().st_size / 1024:.0f} kB, opens without a network")
print([path.name for path in figures])

# %%
# The figure of the report. A triangle marks an attacker significantly off chance.

figure, axis = plt.subplots(figsize=(7, 4.3), layout="constrained")
axis.imshow(images.imread(next(path for path in figures if path.stem == "frontier")))
axis.axis("off")
plt.show()

# %%
# A saved model is a folder of JSON and safetensors. A folder from a stranger cannot run code.

model = curve.pick(max_leakage=0.05)
saved = Path(folder.name) / "model"
model.save(saved)
print(sorted(path.name for path in saved.iterdir()))
print("same rows:", np.array_equal(FairCP.load(saved).embedding_, model.embedding_))
folder.cleanup()

# %%
# **What you saw.** The report and the model are files that you can send. ``parafair report`` and
# ``parafair fit`` write the same from the shell.
