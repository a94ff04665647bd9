"""
The theorem about KHSIC and noise
=================================

KHSIC with noise bounds every attacker, with numbers on the paper's synthetic data. :doc:`The page
about it </theorem>` has the statement, the proof and this table. It is not run when the site is
built: it takes minutes. Run it with

.. code-block:: sh

    python examples/08_theorem.py FOLDER

It writes FOLDER/theorem.json and draws it:

.. image:: /images/theorem.png
   :alt: The computed advantage of the best attacker between the bounds of the theorem
"""

# sphinx_gallery_thumbnail_path = 'images/theorem.png'

import json
import sys
from math import exp, gamma, pi, sqrt
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import chi

from parafair import FairCP, certify, datasets
from parafair.dependence.hsic import hsic
from parafair.dependence.kernels import Gaussian

# Rank, method, strength, noise as a share of the spread.
SETTINGS = [
    (1, "none", None, 1.0),
    (1, "invariant", 30.0, 1.0),
    (2, "none", None, 1.0),
    (2, "invariant", 30.0, 1.0),
    (2, "invariant", 1000.0, 2.0),
    (4, "invariant", 30.0, 2.0),
    (8, "none", None, 1.0),
    (8, "invariant", 30.0, 2.0),
]


def matched_khsic(rows, codes):
    """KHSIC of rows in units of the noise, with the matched bandwidth, and of groups 0 and 1."""
    groups = torch.as_tensor(codes, dtype=torch.float64)[:, None]
    return float(hsic(rows, groups, kernels=(Gaussian(0.25), Gaussian(1.0))))


def squared_distance(rho, shares, rank):
    """Squared L2 distance between the densities of the released rows of two groups."""
    return (4 * pi) ** (-rank / 2) * rho / (2 * (1 - exp(-1)) * float(np.prod(shares)) ** 2)


def volume(t, radius, people, rank):
    """Volume of a set that has all but P(chi > t) of the mass of every mixture."""
    ball = pi ** (rank / 2) / gamma(rank / 2 + 1)
    return ball * min(people * t**rank, (radius + t) ** rank)


def total_variation_bounds(rho, shares, rank, *, radius, people):
    """A lower and an upper bound on the total variation between the released rows of groups."""
    squared = squared_distance(rho, shares, rank)

    def upper(t):
        return sqrt(volume(t, radius, people, rank) * squared) / 2 + float(chi.sf(t, rank))

    best = minimize_scalar(upper, bounds=(0.01, 40), method="bounded")
    return (2 * pi) ** (rank / 2) * squared / 2, min(1.0, upper(best.x))


def row(rank, method, strength, noise):
    """The bounds and the computed value for one fit."""
    data = datasets.synthetic(0)
    model = FairCP(rank, method=method, strength=strength, noise=noise)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    release = model.exact_release()
    z, codes = release.in_units_of_noise(), release.features.columns[0].values
    shares = np.bincount(codes) / len(codes)
    rho = matched_khsic(z, codes)
    radius = float((z - (z.amax(0) + z.amin(0)) / 2).norm(dim=1).max())
    lower, upper = total_variation_bounds(rho, shares, z.shape[1], radius=radius, people=len(codes))
    computed = certify(model).statements[0]
    return {
        "rank": rank, "method": method, "strength": strength, "noise": noise,
        "residual": model.fit_.residual, "rho": rho, "lower": lower / 2, "upper": upper / 2,
        "computed": computed.estimate, "certified": computed.upper,
    }  # fmt: skip


def main(folder):
    """Compute the table and write it."""
    rows = [row(*setting) for setting in SETTINGS]
    for found in rows:
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()})
    folder.mkdir(exist_ok=True)
    (folder / "theorem.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
