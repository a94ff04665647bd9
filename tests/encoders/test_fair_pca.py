import numpy as np
import pytest

from parafair import TensorData
from parafair.encoders import FairPCA, FairPCACovariance
from tests.reference.reductions import fair_pca, fair_pca_covariance


def rows_of(encoder, entries):
    return encoder.encode(TensorData.from_array(entries)).numpy()


@pytest.mark.parametrize("reduction", [FairPCA(), FairPCACovariance(0.5)])
def test_groups_have_equal_means(people, encoder_of, reduction):
    entries, groups = people
    rows = rows_of(encoder_of(reduction, entries, groups, 3), entries)
    means = [rows[groups == group].mean(0) for group in "abc"]
    np.testing.assert_allclose(means, [means[0]] * 3, rtol=0, atol=1e-10)


def test_it_is_the_published_map(people, encoder_of, same_span):
    entries, groups = people
    encoder = encoder_of(FairPCA(), entries, groups, 3)
    expected = fair_pca(entries, groups[:, None] == ["a", "b", "c"], 3)
    same_span(encoder.weights, expected)
    np.testing.assert_allclose(rows_of(encoder, entries), entries @ encoder.weights.numpy())


def test_fewer_people_than_columns(people, encoder_of, same_span):
    entries, groups = people[0].T @ people[0][:, :9], np.arange(9) % 2
    wide = np.hstack([entries, entries**2, np.cos(entries)])
    encoder = encoder_of(FairPCA(), wide, groups, 4)
    expected = fair_pca(wide, groups[:, None] == [0, 1], 4)
    same_span(encoder.weights, expected)


def test_numbers_and_several_columns_are_uncorrelated(people, encoder_of):
    pandas = pytest.importorskip("pandas")
    entries, groups = people
    age = entries[:, 0] + np.random.default_rng(1).standard_normal(len(entries))
    table = pandas.DataFrame({"group": groups, "age": age})
    rows = rows_of(encoder_of(FairPCA(), entries, table, 3), entries)
    known = np.column_stack([age, groups[:, None] == ["a", "b", "c"]])
    covariance = (rows - rows.mean(0)).T @ (known - known.mean(0)) / len(rows)
    np.testing.assert_allclose(covariance, 0, atol=1e-10)


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_two_groups_have_the_covariances_of_the_paper(people, encoder_of, same_span, keep):
    entries, groups = people[0], people[1] == "c"
    encoder = encoder_of(FairPCACovariance(keep), entries, groups, 3)
    expected = fair_pca_covariance(entries, groups, 3, max(3, int(np.ceil(8 * keep))))
    same_span(encoder.weights, expected)


def test_covariances_are_equal_where_they_can_be(encoder_of):
    """Four columns with the same moments in all of three groups, and four with other spreads."""
    random = np.random.default_rng(0)
    same = random.standard_normal((50, 4))
    white = np.linalg.qr(np.hstack([np.ones((50, 1)), same, random.standard_normal((50, 4))]))[0]
    equal, other = white[:, 1:5] * 7, white[:, 5:] * 7
    entries = np.vstack([np.hstack([equal, scale * other]) for scale in (1, 2, 3)])
    entries = entries @ np.linalg.qr(random.standard_normal((8, 8)))[0]
    groups = np.repeat(["a", "b", "c"], 50)
    rows = rows_of(encoder_of(FairPCACovariance(0.5), entries, groups, 4), entries)
    found = [np.cov(rows[groups == group], rowvar=False) for group in "abc"]
    np.testing.assert_allclose(found, [found[0]] * 3, atol=1e-10)
    fair = rows_of(encoder_of(FairPCA(), entries, groups, 4), entries)
    found = [np.cov(fair[groups == group], rowvar=False) for group in "abc"]
    assert np.abs(found[0] - found[2]).max() > 1


@pytest.mark.parametrize("reduction", [FairPCA(), FairPCACovariance()])
def test_more_components_than_remain_are_refused(people, encoder_of, reduction):
    entries, groups = people
    assert encoder_of(reduction, entries, groups, 7).weights.shape == (9, 7)
    with pytest.raises(ValueError, match="rank must be at most 7 here, got 8"):
        encoder_of(reduction, entries, groups, 8)
    with_constants = np.hstack([entries[:, :5], np.zeros((120, 2)), entries[:, :2]])
    with pytest.raises(ValueError, match="the entries have 3 components; lower rank"):
        encoder_of(reduction, with_constants, groups, 4)
    with pytest.raises(ValueError, match="rank must be at most 0 here, got 1"):
        encoder_of(reduction, entries[:, :1], groups, 1)


def test_a_share_is_checked():
    with pytest.raises(
        ValueError, match="keep must be a finite number of at least 0 and of at most 1, got 2"
    ):
        FairPCACovariance(2)
