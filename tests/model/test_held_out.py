"""A saved model recognizes its training people among those who are said to be held out."""

import json

import numpy as np
import pytest

from parafair import FairCP, TensorData, certify
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
    assert "of 60 different new people have the mark of a training person" in found.notes[-1]


def test_people_with_names_are_recognized_without_them(marks, tmp_path):
    tensor, groups = (array[:PEOPLE] for array in marks)
    names = [f"p{i}" for i in range(PEOPLE)]
    data = TensorData.from_array(tensor, labels=[names, None, None])
    model = FairCP(3, method="transport", noise=0.3, n_init=1).fit(data, sensitive_features=groups)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="100 of 100 different people of X_new have the mark"):
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
