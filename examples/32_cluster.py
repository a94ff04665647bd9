"""
On a cluster
============

A frontier is many fits and audits. They are joblib jobs, so any joblib backend spreads them over
machines. This script starts a Dask cluster of one process on this machine; with
``Client("scheduler:8786")`` it would be yours.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import joblib
import matplotlib.pyplot as plt
from distributed import Client, LocalCluster

from parafair import FairCP, datasets, frontier, frontiers

data = datasets.synthetic(seed=0, shape=(80, 15, 10))
settings = {
    "sensitive_features": data.sensitive_features,
    "strengths": (3, 30, 300),
    "seeds": 2,
    "audits": {"attackers": ["linear", "svm"], "permutations": 1},
}

# %%
# Each worker fits a part of the strengths and seeds as one batch, and audits what is finished.
# With ``out`` every fit is written at once: after an interruption the same call computes what is
# missing.

with TemporaryDirectory() as folder:
    out = Path(folder) / "curve"
    with (
        LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        frontier(FairCP(rank=4, tol=1e-3), data.tensor, out=out, **settings)
    print(sorted(path.name for path in out.iterdir()))
    curve = frontiers.load(out)
    rows = curve.to_frame()[["strength", "seed", "residual", "leakage"]]

print(rows.round(3).to_string(index=False))

# %%
# Both seeds, read back from the folder.

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (seed, part), marker in zip(rows.groupby("seed"), "os", strict=False):
    axis.plot(part["residual"], part["leakage"], marker=marker, label=f"seed {seed}")
axis.set(xlabel="residual", ylabel="leakage")
axis.legend(frameon=False)
plt.show()

# %%
# **What you saw.** The code of a frontier does not change. One line chooses where it runs.
