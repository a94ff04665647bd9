import numpy as np
import pandas as pd
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.chunks import chunk_count, parts_of_chunks, stratify


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


@pytest.mark.parametrize("columns", [["group"], ["age"], ["height", "group"], ["group", "rare"]])
def test_people_of_a_part_are_near_each_other_and_of_all_groups(columns):
    n, chunks = 8005, 34
    features = people(n)[columns]
    found = stratify(SensitiveFeatures.of(features), chunks)
    sizes = [len(chunk) for chunk in found]
    assert max(sizes) - min(sizes) == 1
    assert sizes == sorted(sizes, reverse=True)
    parts = parts_of_chunks(chunks)
    for part in range(4):
        own = torch.cat([chunk for chunk, other in zip(found, parts, strict=True) if other == part])
        least, most = np.quantile(own, [0.02, 0.98]) / n
        assert most - least < 0.4  # of 1 if they were drawn from everybody
        for name in set(columns) & {"group", "rare"}:
            for value, share in features[name].value_counts(normalize=True).items():
                here = (features[name].to_numpy()[own] == value).mean()
                assert here == pytest.approx(share, abs=0.01)


def test_parts_of_data_that_is_sorted_by_group_have_people_of_all_groups():
    groups = np.repeat(["a", "b"], [3000, 1000])
    found = stratify(SensitiveFeatures.of(groups), 16)
    assert {int((groups[chunk] == "b").sum()) for chunk in found} <= {62, 63}
