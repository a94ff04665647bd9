import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData
from parafair.encoders import KernelPerezSuay, PerezSuay
from tests.reference.reductions import kernel_perez_suay, perez_suay

REDUCTIONS = [PerezSuay(), KernelPerezSuay()]


def encode(groups):
    return SensitiveFeatures.of(groups).encode().numpy()


@pytest.mark.parametrize("ridge", [1e-7, 1e-2, 1e4])
def test_the_linear_form_solves_the_generalized_eigenproblem(people, encoder_of, ridge):
    entries, groups = people
    as_published = PerezSuay(ridge, as_in_paper=True)
    weights = encoder_of(as_published, entries, groups, 4).weights.numpy()
    values, vectors = perez_suay(entries, encode(groups), 4, ridge)
    cosines = np.abs((weights * vectors).sum(0)) / np.linalg.norm(vectors, axis=0)
    np.testing.assert_allclose(cosines, 1, atol=1e-6)
    centered = encode(groups) - encode(groups).mean(0)
    above = ((entries.T @ entries @ weights) ** 2).sum(0)
    below = ((centered.T @ entries @ weights) ** 2).sum(0) + ridge
    # The matrix on the right has a condition of 1e12 with the smallest ridge.
    np.testing.assert_allclose(above / below, values, rtol=1e-3)


def test_the_ridge_is_a_multiple_of_the_mean_squared_entry(people, encoder_of, same_span):
    entries, groups = people
    weights = encoder_of(PerezSuay(0.5), entries, groups, 4).weights.numpy()
    ridge = 0.5 * (entries**2).mean()
    same_span(weights, perez_suay(entries, encode(groups), 4, ridge)[1], 1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_units_of_the_entries_do_not_matter(people, encoder_of, reduction, unit):
    entries, groups = people
    rows = [
        encoder_of(reduction, x, groups, 3).encode(TensorData.from_array(x)).numpy()
        for x in (entries, unit * entries)
    ]
    first, second = (np.abs(own) / np.linalg.norm(own, axis=0) for own in rows)
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("gamma", [0.003, 0.05])
def test_the_kernel_form_solves_it_with_the_gram_matrix(people, encoder_of, same_span, gamma):
    entries, groups = people
    encoder = encoder_of(KernelPerezSuay(gamma, ridge=1e-5), entries, groups, 3)
    rows = encoder.encode(TensorData.from_array(entries)).numpy()
    same_span(rows, kernel_perez_suay(entries, encode(groups), 3, gamma, ridge=1e-5), 1e-5)


def test_landmarks_stand_for_everybody(people, encoder_of):
    entries, groups = people
    encoder = encoder_of(KernelPerezSuay(landmarks=60), entries, groups, 2)
    assert encoder.centers.shape == (60, 9)
    assert all((entries == center).all(1).any() for center in encoder.centers.numpy())
    rows = encoder.encode(TensorData.from_array(entries)).numpy()
    known = encode(groups) - encode(groups).mean(0)
    correlation = (known.T @ rows) / np.linalg.norm(rows - rows.mean(0), axis=0)
    assert np.abs(correlation).max() < 1e-4
    # Rows of few landmarks are close to those of everybody, up to sign and scale.
    full = encoder_of(KernelPerezSuay(landmarks=120), entries, groups, 2)
    wanted = full.encode(TensorData.from_array(entries)).numpy()
    both = np.abs(np.corrcoef(rows.T, wanted.T)[:2, 2:])
    assert both.max(1).min() > 0.9


@pytest.mark.parametrize("kind", [PerezSuay, KernelPerezSuay])
def test_as_many_components_as_in_the_paper(people, kind):
    entries, groups = people
    model = FairCP(1, method=kind(as_in_paper=True)).fit(entries, sensitive_features=groups)
    assert model.embedding_.shape == (120, 3)
    assert model.transform(entries[:2]).shape == (2, 3)
    model = FairCP(1, method=kind()).fit(entries, sensitive_features=groups)
    assert model.embedding_.shape == (120, 1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_more_components_than_remain_are_refused(people, encoder_of, reduction):
    few = people[0][:5] if isinstance(reduction, KernelPerezSuay) else people[0][:, :5]
    groups = people[1][: len(few)]
    possible = 5 - len(np.unique(groups)) + 1
    with pytest.raises(ValueError, match="here, got 5: after what tells about"):
        encoder_of(reduction, few, groups, 5)
    # The centering of the kernel form takes one more.
    possible -= isinstance(reduction, KernelPerezSuay)
    encoder_of(reduction, few, groups, possible)


def test_settings_are_checked(people, encoder_of):
    with pytest.raises(ValueError, match="ridge must be a finite number above 0, got 0"):
        PerezSuay(0)
    with pytest.raises(ValueError, match="landmarks must be a whole number"):
        KernelPerezSuay(landmarks=0)
    with pytest.raises(ValueError, match="gamma must be a positive number or 'median'"):
        KernelPerezSuay(gamma=-1)
    equal = torch.ones(4, 2)
    with pytest.raises(ValueError, match="at least two distinct rows"):
        encoder_of(KernelPerezSuay(), equal, [0, 1, 0, 1], 1)
