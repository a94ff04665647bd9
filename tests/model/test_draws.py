"""Numbers that follow from entries: what they depend on, and that they look independent."""

import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData
from parafair.model.draws import normals_of_people, secret_of
from parafair.penalties import Transport

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.standard_normal((30, 4, 3))
HOLED = np.where(RANDOM.random(VALUES.shape) < 0.3, np.nan, VALUES)


def arrangements(values):
    """The same entries as the library may get them."""
    data = TensorData.from_array(values)
    sparse = data.to_sparse()
    shuffled = np.random.default_rng(1).permutation(sparse.observed)
    return {
        "torch": TensorData.from_array(torch.from_numpy(values)),
        "Fortran order": TensorData.from_array(np.asfortranarray(values)),
        "masked": TensorData.from_array(np.ma.masked_invalid(values)),
        "sparse": sparse,
        "shuffled": TensorData(
            sparse.values[shuffled], sparse.cells[:, shuffled], tuple(values.shape)
        ),
    }


@pytest.mark.parametrize("values", [VALUES, HOLED], ids=["complete", "holed"])
@pytest.mark.parametrize("name", arrangements(VALUES))
def test_the_arrangement_of_the_entries_does_not_matter(values, name):
    data, other = TensorData.from_array(values), arrangements(values)[name]
    assert secret_of(other) == secret_of(data)
    numbers = [normals_of_people(each, 0, 2, key="k") for each in (data, other)]
    np.testing.assert_array_equal(*numbers)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_device_does_not_matter():
    data = TensorData.from_array(HOLED)
    assert secret_of(data.to("cuda")) == secret_of(data)


def test_other_entries_and_other_cells_have_another_secret():
    moved = np.roll(HOLED, 1, axis=2)
    bit = VALUES.copy()
    bit[3, 2, 1] = np.nextafter(bit[3, 2, 1], 2)
    found = {secret_of(TensorData.from_array(v)) for v in (VALUES, HOLED, moved, bit, VALUES[:29])}
    found.add(secret_of(TensorData.from_array(VALUES.reshape(30, 12))))
    assert len(found) == 6


def test_zeros_that_count_have_no_part_in_the_numbers():
    listed = TensorData(torch.tensor([2.0, 0.0, torch.nan]), torch.tensor([[0, 1, 1], [1, 0, 2]]),
                        (3, 3), absent="zero")  # fmt: skip
    shorter = TensorData(listed.values[::2], listed.indices[:, ::2], (3, 3), absent="zero")
    numbers = [
        normals_of_people(each, 0, 2, key="k", zeros=True)
        for each in (listed, shorter, listed.to_dense(), listed.to_dense().to_sparse())
    ]
    for found in numbers[1:]:
        np.testing.assert_array_equal(found, numbers[0])
    assert len(np.unique(numbers[0])) == 6  # a missing entry is no zero
    other = normals_of_people(listed, 0, 2, key="l", zeros=True)
    assert (other != numbers[0]).all()  # of the person without any entries too


def test_zeros_have_no_sign():
    zero, negative = (TensorData.from_array([[0.0 * sign, 1.0], [2.0, 3.0]]) for sign in (1, -1))
    assert secret_of(zero) == secret_of(negative)
    np.testing.assert_array_equal(
        normals_of_people(zero, 0, 2, key="k"), normals_of_people(negative, 0, 2, key="k")
    )


def test_noise_of_a_fit_does_not_follow_the_last_bit_of_its_center(monkeypatch):
    """Another machine sums in another order, so its offsets differ by rounding errors."""
    from parafair.data import centering

    def drawn():
        model = FairCP(2, center=True, max_iter=5, tol=0, n_init=1)
        model.fit(VALUES, sensitive_features=np.arange(30) % 2)
        new = model.transform(VALUES[:5] + 1, sensitive_features=np.arange(5) % 2)
        return model.embedding_ - np.asarray(model.fit_.noiseless), new

    here = drawn()
    of = centering.Offsets.of.__func__

    def elsewhere(cls, *given):
        found = of(cls, *given)
        return cls(np.nextafter(found.mean, 10), found.by_mode)

    monkeypatch.setattr(centering.Offsets, "of", classmethod(elsewhere))
    for one, other in zip(here, drawn(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_the_secret_is_computed_once_per_fit(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "parafair.model.preparation.secret_of",
        lambda data, side, dtype: calls.append(data) or "secret",
    )
    FairCP(2, max_iter=3, tol=0).fit(VALUES, sensitive_features=np.arange(30) % 2)
    assert len(calls) == 1
    FairCP(2, method="none", max_iter=3, tol=0).fit(VALUES)
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore::parafair.ConvergenceWarning")
def test_a_saved_model_does_not_have_the_secret_of_its_noise(tmp_path):
    data = TensorData.from_array(VALUES)
    model = FairCP(2, max_iter=3, tol=0).fit(data, sensitive_features=np.arange(30) % 2)
    model.save(tmp_path / "model")
    texts = [path.read_bytes() for path in (tmp_path / "model").iterdir()]
    assert texts
    assert not any(secret_of(data).encode() in text for text in texts)


def table(people, items=6, seed=0):
    return np.random.default_rng(seed).standard_normal((people, items))


def test_numbers_are_those_of_independent_normals():
    """Each bound is five standard deviations of the estimate."""
    people, count = 20_000, 4
    found = normals_of_people(TensorData.from_array(table(people)), 0, count, key="k")
    assert np.abs(found.mean(0)).max() < 5 / people**0.5
    assert np.abs(found.var(0) - 1).max() < 5 * (2 / people) ** 0.5
    between = np.corrcoef(found.T)[np.triu_indices(count, 1)]
    assert np.abs(between).max() < 5 / people**0.5
    # Kurtosis 3, with the variance 24 / n; and people are independent of the ones after them.
    assert np.abs((found**4).mean(0) - 3).max() < 5 * (96 / people) ** 0.5
    assert abs(np.corrcoef(found[1:].ravel(), found[:-1].ravel())[0, 1]) < 5 / found.size**0.5


@pytest.mark.parametrize("entry", [0, 5])
def test_one_bit_of_one_entry_changes_everything(entry):
    people = 20_000
    values = table(people)
    changed = values.copy()
    changed[:, entry] = np.nextafter(changed[:, entry], 10)
    pair = [normals_of_people(TensorData.from_array(v), 0, 3, key="k") for v in (values, changed)]
    assert (pair[0] != pair[1]).all()
    for column in range(3):
        found = np.corrcoef(pair[0][:, column], pair[1][:, column])[0, 1]
        assert abs(found) < 5 / people**0.5


def test_numbers_of_other_keys_are_independent():
    data = TensorData.from_array(table(20_000, 2))
    one, other = (normals_of_people(data, 0, 1, key=key).ravel() for key in ("0 a", "1 a"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / 20_000**0.5


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_other_people_do_not_matter(mode):
    data = TensorData.from_array(np.moveaxis(HOLED, 0, mode))
    everybody = normals_of_people(data, mode, 3, key="k")
    some = np.array([7, 2, 29])
    np.testing.assert_array_equal(
        normals_of_people(data.take(mode, some), mode, 3, key="k"), everybody[some]
    )
    # The position of the mode does not matter either: there are just the other cells.
    np.testing.assert_array_equal(
        everybody, normals_of_people(TensorData.from_array(HOLED), 0, 3, key="k")
    )


def test_equal_entries_in_other_cells_are_another_person():
    values = np.array(
        [[1.0, 2.0, np.nan], [1.0, 2.0, np.nan], [2.0, 1.0, np.nan], [1.0, np.nan, 2]]
    )
    found = [
        normals_of_people(TensorData.from_array(values[[row]]), 0, 2, key="k")[0]
        for row in range(4)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert len(np.unique(found[1:])) == 6


def test_people_with_equal_entries_in_one_call_have_numbers_of_their_own():
    values = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    data = TensorData.from_array(values)
    found = normals_of_people(data, 0, 2, key="k")
    assert len(np.unique(found)) == found.size
    for person in range(2):  # as if they were alone
        alone = normals_of_people(data.take(0, np.array([person])), 0, 2, key="k")
        np.testing.assert_array_equal(found[person], alone[0])
    # Another order of the people changes who is the first, and nothing else.
    swapped = normals_of_people(data.take(0, np.array([1, 0, 2, 4, 3])), 0, 2, key="k")
    np.testing.assert_array_equal(swapped[[1, 0, 2, 4, 3]], found)


def test_people_without_entries_have_numbers_too():
    values = np.array([[np.nan, np.nan], [1.0, 2.0], [np.nan, np.nan]])
    found = normals_of_people(TensorData.from_array(values), 0, 2, key="k")
    assert np.isfinite(found).all()


def test_the_generator_is_splitmix64():
    """The first outputs for the seed 1234567, as published with the algorithm."""
    from parafair.model.draws import STEP, _mix

    state = np.uint64(1234567) + STEP * np.arange(3, dtype=np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert _mix(state).tolist() == expected


def test_noises_of_other_levels_strengths_and_ranks_are_independent():
    random = np.random.default_rng(7)
    tensor, groups = random.standard_normal((100, 7, 5)), np.arange(100) % 2
    settings = [{}, {"noise": 0.2}, {"strength": 3.0}, {"rank": 2}]
    drawn = []
    for changed in settings:
        found = FairCP(**{"rank": 3, "strength": 2.0, "tol": 1e-2, "n_init": 1, **changed})
        found.fit(tensor, sensitive_features=groups)
        noise = found.fit_.cp.factors[0] - found.fit_.noiseless
        drawn.append((noise @ found.fit_.noise[0].inverse()).numpy())
    for other in drawn[1:]:
        correlations = np.corrcoef(drawn[0].T, other.T)[: drawn[0].shape[1], drawn[0].shape[1] :]
        assert np.abs(correlations).max() < 0.4


def test_noises_of_methods_without_a_strength_are_independent():
    # Otherwise the difference of two releases would be almost free of noise.
    drawn = []
    for method in (Transport(), Transport(leakage=0.05), Transport(leakage=0.2)):
        found = FairCP(2, method=method, noise=0.1, max_iter=3, tol=0, n_init=1)
        found.fit(VALUES, sensitive_features=np.arange(30) % 2)
        noise = found.fit_.cp.factors[0] - found.fit_.noiseless
        drawn.append((noise @ found.fit_.noise[0].inverse()).numpy().ravel())
    assert np.abs(np.corrcoef(drawn) - np.eye(3)).max() < 0.5
