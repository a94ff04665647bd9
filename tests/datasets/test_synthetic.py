import numpy as np
import pytest

from parafair import datasets


def test_synthetic_is_the_papers():
    data = datasets.synthetic(0)
    assert data.tensor.shape == (200, 100, 100)
    assert (
        (data.sensitive_features == "normal").sum()
        == (data.sensitive_features == "uniform").sum()
        == 100
    )
    # Rank 10 in every unfolding, up to rounding.
    for mode in range(3):
        singular = np.linalg.svd(
            np.moveaxis(data.tensor, mode, 0).reshape(data.tensor.shape[mode], -1), compute_uv=False
        )
        assert singular[9] > 1e-6 * singular[0]
        assert singular[10] < 1e-12 * singular[0]


def test_populations_have_the_stated_distributions():
    # With the other factors known to be U(0, 1), A can be recovered by least squares.
    data = datasets.synthetic(3, shape=(4000, 6, 5), rank=2)
    random = np.random.default_rng(3)
    random.standard_normal((2000, 2)), random.uniform(size=(2000, 2))
    others = [random.uniform(size=(n, 2)) for n in (6, 5)]
    products = np.einsum("jr,kr->jkr", *others).reshape(30, 2)
    people = np.linalg.lstsq(products, data.tensor.reshape(4000, 30).T, rcond=None)[0].T
    np.testing.assert_allclose(people[:2000].mean(0), [1, 2], atol=0.1)
    np.testing.assert_allclose(people[:2000].var(0), [1, 0.5], atol=0.1)
    np.testing.assert_allclose(people[2000:].mean(0), 0.5, atol=0.05)
    assert people[2000:].min() > -1e-9
    assert people[2000:].max() < 1 + 1e-9


def test_seed_size_and_order():
    one, two, three = (datasets.synthetic(s, shape=(7, 3, 2, 4), rank=2) for s in (0, 0, 1))
    assert np.array_equal(one.tensor, two.tensor)
    assert not np.array_equal(one.tensor, three.tensor)
    assert one.tensor.shape == (7, 3, 2, 4)
    assert (one.sensitive_features == "normal").sum() == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (5,)}, r"shape must have at least 2 modes .* got \(5,\)"),
        ({"shape": (5, 0)}, "each of shape must be a whole number of at least 1, got 0"),
        ({"shape": (1, 4)}, r"at least 2 people in the first, got \(1, 4\)"),
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.synthetic(0, **options)


def test_data_that_does_not_fit_into_memory_is_refused():
    with pytest.raises(MemoryError, match="choose a smaller shape or rank"):
        datasets.synthetic(shape=(10**6, 10**6, 10**6))
