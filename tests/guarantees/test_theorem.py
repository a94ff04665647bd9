"""The page about the theorem: its identities and bounds, and the numbers that it quotes."""

import json
import runpy
from math import exp, pi
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair.dependence.hsic import hsic
from parafair.dependence.kernels import Gaussian
from tests.guarantees.conftest import people
from tests.reference.mixtures import densities, grid

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theorem.md").read_text("utf-8")
TABLE = json.loads((ROOT / "docs" / "data" / "theorem.json").read_text("utf-8"))
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "08_theorem.py"))


def integrated(*sizes, columns, width, seed=0):
    """Rows, groups, and densities on a grid with the volume of its cells."""
    rows, labels = people(*sizes, columns=columns, seed=seed)
    codes = np.unique(labels, return_inverse=True)[1]
    noise = width * np.eye(columns)
    points, cell = grid(rows, noise, 0.01 if columns == 1 else 0.08)
    return rows, codes, densities(points, rows, codes, noise), cell


@pytest.mark.parametrize(("columns", "width"), [(1, 0.5), (1, 2.0), (2, 0.7)])
def test_khsic_is_the_distance_between_released_densities(columns, width):
    rows, codes, found, cell = integrated(12, 20, columns=columns, width=width)
    distance = ((found[:, 1] - found[:, 0]) ** 2).sum() * cell
    shares = np.bincount(codes) / len(codes)
    kernels = (Gaussian(1 / (4 * width**2)), Gaussian(1.0))
    rho = hsic(torch.from_numpy(rows), torch.from_numpy(codes).double()[:, None], kernels=kernels)
    factor = 2 * (1 - exp(-1)) * np.prod(shares) ** 2 * (4 * pi * width**2) ** (columns / 2)
    assert float(rho) == pytest.approx(factor * distance, rel=1e-8)
    # In units of the noise, as the script computes it.
    z = torch.from_numpy(rows / width)
    scaled = EXAMPLE["squared_distance"](EXAMPLE["matched_khsic"](z, codes), shares, columns)
    assert scaled == pytest.approx(distance * width**columns, rel=1e-8)


def test_khsic_of_more_groups_is_a_sum_of_distances():
    rows, codes, found, cell = integrated(12, 20, 9, columns=1, width=0.8)
    shares = np.bincount(codes) / len(codes)
    distances = ((found - found @ shares[:, None]) ** 2).sum(0) * cell
    kernels = (Gaussian(1 / (4 * 0.8**2)), Gaussian(1.0))
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(codes)).double()
    rho = hsic(torch.from_numpy(rows), one_hot, kernels=kernels)
    expected = (1 - exp(-2)) * (4 * pi * 0.8**2) ** 0.5 * (shares**2 @ distances)
    assert float(rho) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("width", [0.3, 1.0, 4.0])
def test_the_bounds_contain_the_total_variation(columns, width):
    rows, codes, found, cell = integrated(12, 20, columns=columns, width=width, seed=1)
    total_variation = np.abs(found[:, 1] - found[:, 0]).sum() * cell / 2
    z = torch.from_numpy(rows / width)
    radius = float((z - (z.amax(0) + z.amin(0)) / 2).norm(dim=1).max())
    lower, upper = EXAMPLE["total_variation_bounds"](
        EXAMPLE["matched_khsic"](z, codes),
        np.bincount(codes) / len(codes),
        columns,
        radius=radius,
        people=len(codes),
    )
    assert lower <= total_variation + 1e-9 <= upper + 2e-9


def test_the_page_quotes_the_table():
    for row in TABLE:
        strength = "" if row["strength"] is None else f"{row['strength']:g}"
        cells = [row["rank"], row["method"], strength, f"{row['noise']:g}"]
        cells += [f"{row['residual']:.3f}", f"{row['rho']:.1e}"]
        cells += [f"{row[name]:.4f}" for name in ("lower", "upper", "computed", "certified")]
        assert f"| {' | '.join(map(str, cells))} |" in PAGE
        assert row["lower"] <= row["computed"] <= row["upper"] + 1e-3
