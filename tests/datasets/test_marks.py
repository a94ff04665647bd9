import numpy as np
import pytest

from parafair import FairCP, audit, datasets

pytest.importorskip("pandas")


def test_marks_have_students_with_a_gender_and_holes():
    data = datasets.marks(3, students=50)
    assert data.tensor.shape == (50, 6, 3)
    assert data.tensor.modes == data.modes == ("student", "module", "test")
    assert 0.4 < data.tensor.coverage < 0.6
    assert list(data.sensitive_features.index) == list(data.tensor.labels[0])
    assert sorted(data.sensitive_features["gender"].value_counts()) == [25, 25]
    again = datasets.marks(3, students=50)
    assert again.tensor.entries.tolist() == data.tensor.entries.tolist()


def test_another_seed_draws_other_students_of_the_same_modules():
    model = FairCP(2, method="none", center=True, ridge=0.3, random_state=0)
    model.fit(datasets.marks(0).tensor)
    later = datasets.marks(1, students=60).tensor
    assert not set(later.labels[0]) & set(datasets.marks(0).tensor.labels[0])
    filled = model.inverse_transform(model.transform(later))
    cells = later.cells.numpy()
    error = filled[tuple(cells)] - later.entries.numpy()
    assert np.sqrt(np.mean(error**2)) < 0.6 * float(later.entries.std())


@pytest.mark.slow
def test_marks_show_the_gender():
    data = datasets.marks()
    model = FairCP(2, method="none", center=True, random_state=0).fit(data.tensor)
    found = audit(
        model.embedding_,
        sensitive_features=data.sensitive_features,
        attackers=["linear"],
        repeats=1,
        permutations=1,
    )
    assert found.above_chance


@pytest.mark.parametrize("settings", [{"students": 1}, {"students": 2.5}, {"seed": -1}])
def test_bad_numbers_are_refused(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least"):
        datasets.marks(**settings)


def test_more_students_than_fit_into_memory_are_refused():
    with pytest.raises(MemoryError, match="marks of 1000000000000 students"):
        datasets.marks(students=10**12)
