"""People in three groups who differ in mean and spread, and what tests compare."""

import numpy as np
import pytest
import torch

from parafair import SensitiveFeatures


@pytest.fixture(scope="package")
def people():
    """Entries (120 people, 9 columns, not centered) and groups."""
    random = np.random.default_rng(0)
    groups = np.array(["a", "b", "c"])[random.integers(0, 3, 120)]
    entries = random.standard_normal((120, 9)) @ random.standard_normal((9, 9)) + 2
    entries[groups == "b"] += random.standard_normal(9)
    entries[groups == "c"] *= 1.5
    return entries, groups


@pytest.fixture(scope="package")
def encoder_of():
    """A function that returns the encoder of a reduction."""

    def find(reduction, entries, features, rank):
        features = SensitiveFeatures.of(features)
        return reduction.encoder_for(torch.as_tensor(entries), features, rank=rank, mode=0)

    return find


@pytest.fixture(scope="package")
def same_span():
    """A function that raises unless the columns of two matrices span the same space."""

    def check(first, second, tolerance=1e-8):
        bases = [np.linalg.qr(np.asarray(matrix))[0] for matrix in (first, second)]
        cosines = np.linalg.svd(bases[0].T @ bases[1])[1]
        np.testing.assert_allclose(cosines, 1, atol=tolerance)

    return check
