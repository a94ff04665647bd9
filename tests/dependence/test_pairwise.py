import numpy as np
import pandas as pd
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import COMPONENT, isotropic_kernel
from parafair.dependence.pairwise import ChunkSums, ColumnSums, chunk_count, stratify
from parafair.testing import example_rows

PROTOTYPE = torch.zeros(0, dtype=torch.float64)


def people(n, seed=0):
    """Features of several kinds: three groups, a rare one, two numbers."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "height": random.standard_normal(n),
            "age": random.integers(18, 90, n).astype(float),
            "group": random.choice(["a", "b", "c"], n),
            "rare": np.where(np.arange(n) % 20 == 0, "yes", "no"),
        }
    )


def test_every_chunk_has_its_share_of_every_group():
    features = people(203)[["height", "group"]]
    chunks = stratify(SensitiveFeatures.of(features), 4)
    assert torch.cat(chunks).sort().values.tolist() == list(range(203))
    for group in "abc":
        shares = [int((features["group"].to_numpy()[chunk] == group).sum()) for chunk in chunks]
        assert max(shares) - min(shares) <= 1
    # Among people of one group, their numbers are spread evenly too.
    means = [features["height"].to_numpy()[chunk].mean() for chunk in chunks]
    assert np.ptp(means) < 0.3


@pytest.mark.parametrize(
    "columns", [["group"], ["age"], ["height", "age"], ["height", "group"]], ids="-".join
)
def test_people_in_chunks_hide_nothing_from_one_another(columns):
    # The squared length of a mean is at most the mean of the squared lengths.
    features, kernel = SensitiveFeatures.of(people(203)[columns]), isotropic_kernel(3)
    chunks = stratify(features, chunk_count(features, 50))
    assert len(chunks) > 2
    apart = torch.zeros(203, 3).double()  # everybody where the rest of the chunk is
    for chunk, place in zip(chunks, example_rows(len(chunks), 3, seed=9), strict=True):
        apart[chunk] = place
    encoded = features.encode(prototype=PROTOTYPE)[:, :1]
    for rows in (example_rows(203, 3, seed=0), example_rows(203, 3, seed=1) + encoded, apart):
        whole, parts = (
            float(ChunkSums.of(features, PROTOTYPE, size).weighted(rows, kernel)[0])
            for size in (203, 50)
        )
        assert whole <= parts * (1 + 1e-9)


def test_chunks_are_of_about_the_size_asked_for():
    sizes = {
        n: chunk_count(SensitiveFeatures.of(people(n)["age"]), 1000) for n in (900, 1499, 2600)
    }
    assert sizes == {900: 1, 1499: 1, 2600: 3}


def test_chunks_grow_if_a_group_is_rare():
    # 5 % of 2000 are 100 people: 20 in each of 5 chunks.
    features = SensitiveFeatures.of(people(2000)[["group", "rare"]])
    assert chunk_count(features, 100) == 5
    # But not to more than 20 times the size.
    features = SensitiveFeatures.of(np.arange(4000) < 3)
    assert chunk_count(features, 100) == 2
    assert sum(len(part) for part in stratify(features, 2)) == 4000


def test_error_of_the_grid_is_as_stated():
    distance = torch.linspace(-15, 15, 3001, dtype=torch.float64).unsqueeze(1)
    origin = torch.zeros(1, 1, dtype=torch.float64)
    pair = torch.tensor([[0.5], [0.5]]).double()
    exact = COMPONENT(distance, origin).squeeze(1)
    # u.T K u of two people with u = 1/2 is (1 + k) / 2.
    samples = torch.stack([torch.zeros_like(distance), distance], 1)
    grid = 2 * ColumnSums(pair).each(samples, COMPONENT).squeeze(1) - 1
    assert float((grid - exact).abs().max()) < 1e-3


def test_waves_in_chunks_are_the_same(monkeypatch):
    columns, low_rank = example_rows(50, 3, seed=0).T.unsqueeze(-1), example_rows(50, 2, seed=1)
    whole, gradient = ColumnSums(low_rank).weighted(columns, COMPONENT)
    monkeypatch.setattr("parafair.dependence.pairwise.WAVE_ENTRIES", {"cpu": 1000})
    monkeypatch.setattr("parafair.dependence.pairwise.KEPT_WAVES", {"cpu": 0})
    in_chunks, its_gradient = ColumnSums(low_rank).weighted(columns, COMPONENT)
    torch.testing.assert_close(in_chunks, whole)
    torch.testing.assert_close(its_gradient, gradient)
