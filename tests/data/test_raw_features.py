"""Tests of what is taken for sensitive features, before they are encoded."""

import numpy as np
import pytest

from parafair.data.sensitive import SensitiveFeatures

MASKED = [
    np.ma.masked_array([1, 2, 1, 2, 9, 1], [0, 0, 0, 0, 1, 0]),
    np.ma.masked_array([1.5, 2.5, 3.5, 4.5, 9.0, 1.0], [0, 0, 0, 0, 1, 0]),
    np.ma.masked_array(["a", "b", "a", "b", "x", "a"], [0, 0, 0, 0, 1, 0]),
]


@pytest.mark.parametrize("features", MASKED)
def test_masked_values_are_missing(features):
    with pytest.raises(ValueError, match="has 1 missing values .rows 4"):
        SensitiveFeatures.of(features)
    some = SensitiveFeatures.of(features, missing="exclude")
    assert some.has_features.tolist() == [True] * 4 + [False, True]
    found, present = some.with_features().to_list(), features[~features.mask]
    assert found == SensitiveFeatures.of(present.data).to_list()
    other = SensitiveFeatures.of(features[:4]).read(features, missing="exclude")
    assert other.has_features.tolist() == some.has_features.tolist()


def test_a_mask_of_several_columns_is_kept():
    table = np.ma.masked_array([[1, 1], [2, 2], [1, 2], [2, 1]], [[0, 0], [0, 1], [0, 0], [0, 0]])
    some = SensitiveFeatures.of(table, missing="exclude")
    assert some.has_features.tolist() == [True, False, True, True]
