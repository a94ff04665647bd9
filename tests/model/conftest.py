import numpy as np
import pytest


@pytest.fixture(scope="module")
def matrix():
    random = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 30)
    loadings = random.standard_normal((60, 3)) + (groups == "a")[:, None]
    return loadings @ random.standard_normal((3, 8)) + 0.1 * random.standard_normal((60, 8)), groups
