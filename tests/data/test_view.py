import re
from fractions import Fraction

import numpy as np
import pandas
import pytest

from parafair import SensitiveFeatures, TensorData

# Each has a range that overflows, is narrower than bars can be, or both ends of one bar.
NUMBERS = {
    "wide": [-1.7e308, -1e308, 0.0, 1.7e308],
    "narrow": [1.0, 1.0 + 2**-52, 1.0, 1.0 + 2**-51],
    "tiny": [0.0, 5e-324, 1e-323, 0.0],
    "equal": [3.0, 3.0, 3.0, 3.0],
}


def heights(html):
    """Return the heights of all bars of a histogram, as shares of the highest."""
    return [float(h) / 36 for h in re.findall(r'width="5" height="([^"]+)"', html)]


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_any_range_have_a_histogram(kind):
    numbers = np.array(NUMBERS[kind])
    shown = [TensorData.from_array(numbers.reshape(2, 2))]
    if kind != "equal":  # a feature may not be constant
        shown.append(SensitiveFeatures.of(pandas.DataFrame({"z": numbers}), kinds={"z": "numeric"}))
    for each in shown:
        bars = heights(each._repr_html_())
        assert len(bars) == 24
        assert sum(bars) == pytest.approx(4 / np.bincount(bar_of(numbers)).max(), rel=1e-3)


def bar_of(numbers):
    """Return the bar of each number, by exact arithmetic."""
    exact = [Fraction(each) for each in numbers.tolist()]
    width = max(exact) - min(exact) or 1
    return [min(int((each - min(exact)) / width * 24), 23) for each in exact]
