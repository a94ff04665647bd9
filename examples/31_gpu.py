"""
On a GPU
========

``device="cuda"`` is all it takes. The script uses a GPU where there is one, and small data on the
processor otherwise, so that it runs everywhere.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch

from parafair import FairCP

gpu = torch.cuda.is_available()
device = "cuda" if gpu else "cpu"
sizes = (1_000, 10_000, 100_000) if gpu else (100, 200, 400)
print(f"device {device}, people {sizes}")

# %%
# The tensor may be on the device already; the embedding comes back as an array. ``dtype="float32"``
# halves the memory, and is accurate enough for most data.

generator = torch.Generator().manual_seed(0)


def entries(people):
    """Return a tensor of people x 30 x 20 on the device, and the group of everybody."""
    groups = np.resize(["a", "b"], people)
    rows = torch.randn(people, 8, generator=generator)
    rows[:, 0] += torch.as_tensor(groups == "b") * 1.5
    others = torch.randn(30, 8, generator=generator), torch.randn(20, 8, generator=generator)
    return torch.einsum("ir,jr,kr->ijk", rows, *others).to(device), groups


seconds = {}
for people in sizes:
    tensor, groups = entries(people)
    for _ in range(2 if gpu else 1):  # the first call on a GPU compiles
        begin = perf_counter()
        model = FairCP(rank=8, device=device, dtype="float32", max_iter=20, tol=0, n_init=1)
        with np.errstate(all="ignore"):
            model.fit(tensor, sensitive_features=groups)
        seconds[people] = perf_counter() - begin
    print(f"{people:7} people: {seconds[people]:6.2f} s, residual {model.fit_.residual:.3f}")

# %%
# Time against people.

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.loglog(list(seconds), list(seconds.values()), "o-", color="#0072b2", label=device)
axis.set(xlabel="people", ylabel="seconds of a fit of 20 iterations")
axis.set_xticks(list(seconds), [f"{people:,}" for people in seconds])
axis.minorticks_off()
axis.legend(frameon=False)
plt.show()

# %%
# **What you saw.** The same code on both devices. Batches of fits gain most from a GPU: 250 fits
# of a frontier in half a second on an H200 (:doc:`The trade-off </frontier>`, "One batch").
