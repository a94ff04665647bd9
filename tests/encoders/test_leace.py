import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from parafair import TensorData
from parafair.encoders import LEACE
from tests.reference.reductions import erase


def rows_of(encoder, entries):
    return encoder.encode(TensorData.from_array(entries)).numpy()


def test_every_linear_attacker_is_at_chance(people, encoder_of):
    entries, groups = people
    rows = rows_of(encoder_of(LEACE(), entries, groups, 4), entries)
    known = groups[:, None] == ["a", "b", "c"]
    covariance = (rows - rows.mean(0)).T @ (known - known.mean(0)) / len(rows)
    np.testing.assert_allclose(covariance, 0, atol=1e-10)
    scores = LinearRegression().fit(rows, known).predict(rows)
    np.testing.assert_allclose(scores, np.broadcast_to(known.mean(0), scores.shape), atol=1e-10)
    rows = (rows - rows.mean(0)) / rows.std(0)
    attacker = LogisticRegression(C=np.inf, tol=1e-9).fit(rows, groups)
    assert np.abs(attacker.coef_).max() < 1e-6
    assert balanced_accuracy_score(groups, attacker.predict(rows)) == pytest.approx(1 / 3)
    # The entries themselves tell.
    raw = LogisticRegression(C=np.inf, max_iter=1000).fit(entries, groups)
    assert balanced_accuracy_score(groups, raw.predict(entries)) > 0.5


def test_entries_change_least(people, encoder_of):
    entries, groups = people
    known = (groups[:, None] == ["a", "b"]).astype(float)
    expected = erase(entries, known)
    rows = rows_of(encoder_of(LEACE(), entries, groups, 8), entries)
    # With all components (the mean has one), rows are the erased entries in other coordinates.
    back = np.linalg.lstsq(rows, expected, rcond=None)[0]
    np.testing.assert_allclose(rows @ back, expected, atol=1e-9)
    np.testing.assert_allclose(back @ back.T, np.eye(8), atol=1e-9)
    # And fewer are their principal components, without centering.
    rows = rows_of(encoder_of(LEACE(), entries, groups, 2), entries)
    left, singular, _ = np.linalg.svd(expected)
    np.testing.assert_allclose(np.abs(rows), np.abs(left[:, :2] * singular[:2]), atol=1e-9)


def test_numbers_are_uncorrelated_too(people, encoder_of):
    entries = people[0]
    age = entries[:, 0] + entries[:, 1] ** 2
    rows = rows_of(encoder_of(LEACE(), entries, age, 3), entries)
    assert np.abs((rows - rows.mean(0)).T @ (age - age.mean())).max() / len(rows) < 1e-10


def test_columns_that_are_constant_or_repeated(people, encoder_of):
    entries, groups = people
    odd = np.hstack([entries[:, :4], entries[:, :1], np.full((120, 1), 3.0)])
    rows = rows_of(encoder_of(LEACE(), odd, groups, 3), odd)
    known = groups[:, None] == ["a", "b", "c"]
    assert np.abs(rows.T @ (known - known.mean(0))).max() / len(rows) < 1e-10
    with pytest.raises(ValueError, match="the entries have 3 components; lower rank"):
        encoder_of(LEACE(), odd, groups, 4)
