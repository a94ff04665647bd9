"""A saved model recognizes its training people among those who are said to be held out."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from parafair import FairCP, TensorData, certify
from parafair.model.exact import _probability, check_held_out
from parafair.model.marks import Marks
from parafair.model.training import Training
from parafair.stored import write_record

PEOPLE, NEW = 300, 60


@pytest.fixture(scope="module")
def marks():
    """People in two groups."""
    random = np.random.default_rng(1)
    factors = [random.standard_normal((size, 3)) for size in (PEOPLE + NEW, 9, 7)]
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    return tensor + 0.1 * random.standard_normal(tensor.shape), np.arange(PEOPLE + NEW) % 2


@pytest.mark.parametrize("settings", [{}, {"method": "transport"}, {"dtype": "float32"}])
def test_training_people_are_recognized_without_exact_rows(marks, settings, tmp_path):
    tensor, groups = (array[:PEOPLE] for array in marks)
    model = FairCP(3, noise=0.3, max_iter=5, tol=0, n_init=1, **settings)
    model.fit(tensor, sensitive_features=groups).save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    other = tensor.copy()
    other[0, 0, 0] += 1.0
    shuffled = np.random.default_rng(0).permutation(PEOPLE)
    mixed = np.concatenate([tensor[:40], marks[0][PEOPLE:]])
    for entries, own in (
        (tensor, groups),
        (tensor[1:], groups[1:]),
        (tensor[:8], groups[:8]),
        (tensor[shuffled], groups[shuffled]),
        (other, groups),
        (tensor.astype(np.float32), groups),
        (mixed, np.arange(len(mixed)) % 2),
    ):
        with pytest.raises(ValueError, match="have the mark of a training person"):
            certify(loaded, entries, own)
    found = certify(loaded, marks[0][PEOPLE:], marks[1][PEOPLE:], draws=200)
    assert "of 60 new people have the mark of a training person" in found.notes[-1]


def test_people_with_names_are_recognized_without_them(marks, tmp_path):
    tensor, groups = (array[:PEOPLE] for array in marks)
    names = [f"p{i}" for i in range(PEOPLE)]
    data = TensorData.from_array(tensor, labels=[names, None, None])
    model = FairCP(3, method="transport", noise=0.3, n_init=1).fit(data, sensitive_features=groups)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="100 of the 100 people of X_new have the mark"):
        certify(FairCP.load(tmp_path / "model"), tensor[:100], groups[:100])


def test_people_whose_entries_many_have_are_not_taken_for_training_people(tmp_path):
    random = np.random.default_rng(0)
    tensor = np.log1p(random.poisson(1, (600, 6, 4)) * (random.random((600, 6, 4)) < 0.05))
    groups = np.arange(600) % 2
    model = FairCP(2, method="transport", noise=0.5, n_init=1)
    model.fit(tensor[:400], sensitive_features=groups[:400]).save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    assert loaded.training_.marks.repeated > 0.3
    assert certify(loaded, tensor[400:], groups[400:], draws=200).people == 200
    with pytest.raises(ValueError, match="have the mark of a training person"):
        certify(loaded, tensor[:399], groups[:399])


def training(values):
    """What a model keeps of people with these entries, and the same in a loaded model."""
    marks = Marks.of(TensorData.from_array(values), 0, "secret")
    kept = SimpleNamespace(marks=marks, mode=0, absent="missing")
    return kept, SimpleNamespace(**{**vars(kept), "marks": replace(marks, words=None)})


# People of whom some have equal entries: answers to eight questions, twins, and zeros alone.
OFTEN_EQUAL = {
    "answers": lambda random: (random.random((900, 8)) < 0.5).astype(float),
    "twins": lambda random: np.repeat(random.standard_normal((450, 8)), 2, axis=0),
    "zeros": lambda random: random.standard_normal((900, 8)) * (random.random((900, 1)) < 0.9),
}


@pytest.mark.parametrize("kind", OFTEN_EQUAL)
@pytest.mark.parametrize("fitted", [300, 450, 800])
def test_others_with_equal_entries_are_not_taken_for_training_people(kind, fitted):
    for seed in range(20):
        random = np.random.default_rng(seed)
        values = random.permutation(OFTEN_EQUAL[kind](random))
        for kept in training(values[:fitted]):
            check_held_out(kept, TensorData.from_array(values[fitted:]))


@pytest.mark.parametrize(("people", "enough"), [(100, 20), (2000, 165)])
def test_as_many_marks_as_the_page_says_are_noticed(people, enough):
    """Mostly, where nobody's entries are repeated; whole hashes notice ten people."""
    random = np.random.default_rng(people)
    noticed = {"marks": 0, "a few marks": 0, "hashes": 0}
    for _ in range(40):
        values = random.standard_normal((2 * people, 3))
        whole, loaded = training(values[:people])
        for name, kept, count in (
            ("marks", loaded, enough),
            ("a few marks", loaded, enough // 3),
            ("hashes", whole, 10),
        ):
            mixed = np.concatenate([values[:count], values[people + count :]])
            try:
                check_held_out(kept, TensorData.from_array(mixed))
            except ValueError:
                noticed[name] += 1
    # Of 40, 38 are expected to be noticed by their marks, with a standard deviation of 1.4.
    assert noticed["marks"] >= 34
    assert noticed["a few marks"] <= 2
    assert noticed["hashes"] == 40


def test_coincidences_are_as_likely_as_in_random_splits():
    shared = np.array([2] * 9 + [3, 3, 5, 40])
    drawn = np.random.default_rng(0).binomial(shared, 0.7, (100_000, len(shared)))
    counted = np.minimum(drawn, shared - drawn).sum(1)
    for equal in (8, 14, 18, 24, 30):
        expected = (counted >= equal).mean()
        assert _probability(equal, shared, 0.7) == pytest.approx(expected, abs=0.01)
    assert _probability(12, np.full(12, 2), 0.5) == pytest.approx(0.5**12)


def test_a_model_of_version_0_2_0_compares_labels_alone(marks, tmp_path):
    model = FairCP(3, method="transport", noise=0.3, n_init=1)
    model.fit(marks[0][:PEOPLE], sensitive_features=marks[1][:PEOPLE])
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    # That version wrote a hash of all entries instead.
    record = json.loads((tmp_path / "model" / "training.json").read_text())
    del record["marks"], record["sha256"]
    (tmp_path / "old").mkdir()
    write_record(tmp_path / "old" / "training.json", {**record, "fingerprint": 64 * "0"})
    loaded.training_ = Training.read(tmp_path / "old")
    assert loaded.training_.marks is None
    found = certify(loaded, *(array[:PEOPLE] for array in marks), draws=200)
    assert "no marks of its people, so only labels were compared" in found.notes[-1]
