"""What a saved model contains: released rows, and nothing that tells the rows without noise."""

import json
import re
import warnings
from base64 import b64decode
from itertools import combinations

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from parafair import (
    FairCP,
    FairTucker,
    ParafairWarning,
    TensorData,
    certify,
    frontier,
    frontiers,
)
from parafair.encoders import Learned
from parafair.model import noise as noise_module
from parafair.model.draws import secret_of
from parafair.model.marks import BITS
from parafair.model.noise import Noise
from parafair.penalties import Transport

PEOPLE, NEW = 300, 60


@pytest.fixture(scope="module")
def marks():
    """People in two groups, whose first coordinate differs in mean and second in spread."""
    random = np.random.default_rng(1)
    groups = np.arange(PEOPLE + NEW) % 2
    people = random.standard_normal((PEOPLE + NEW, 3))
    people[:, 0] += 1.5 * groups
    people[:, 1] *= np.where(groups == 1, 1.8, 0.7)
    others = [random.uniform(size=(size, 3)) for size in (9, 7)]
    tensor = np.einsum("ir,jr,kr->ijk", people, *others)
    return tensor + 0.1 * random.standard_normal(tensor.shape), groups


def fitted(marks, method="invariant", **settings):
    tensor, groups = marks
    settings = {"noise": 0.3, "tol": 1e-2, "n_init": 1, **settings}
    model = FairCP(3, method=method, random_state=0, **settings)
    return model.fit(tensor[:PEOPLE], sensitive_features=groups[:PEOPLE])


@pytest.fixture(scope="module")
def model(marks):
    return fitted(marks)


def new_rows(model, marks, **settings):
    tensor, groups = marks
    return model.transform(tensor[PEOPLE:], sensitive_features=groups[PEOPLE:], **settings)


def numbers_in(value):
    """Yield all arrays of numbers in a value of JSON."""
    if isinstance(value, dict):
        for entry in value.values():
            yield from numbers_in(entry)
    elif isinstance(value, list):
        try:
            yield np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            for entry in value:
                yield from numbers_in(entry)


def arrays_in(folder):
    """Return all arrays in all files of a folder, in double precision."""
    pandas = pytest.importorskip("pandas")
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".json":
            record = json.loads(path.read_text())
            found += list(numbers_in(record))
            if record.get("marks"):
                bits = np.frombuffer(b64decode(record["marks"]["bits"]), np.uint8)
                found.append(
                    2.0 * np.unpackbits(bits).reshape(-1, BITS) - 1
                )  # never zero, as rows may be
        elif path.suffix == ".safetensors":
            found += list(load_file(path).values())
        elif path.suffix == ".csv":
            found.append(pandas.read_csv(path).select_dtypes("number").to_numpy())
        else:
            raise AssertionError(f"{path} is of a kind that this search does not know")
    return [np.asarray(array, dtype=float) for array in found if np.size(array)]


def candidates_in(folder):
    """Return what an attacker tries, shape (people, columns): arrays, turned, sums, differences."""
    stored = [a.reshape(len(a), -1) if a.ndim else a.reshape(1, 1) for a in arrays_in(folder)]
    stored += [array.T for array in stored]
    stored = [array for array in stored if len(array) == PEOPLE]
    pairs = [(a, b) for a, b in combinations(stored, 2) if a.shape == b.shape]
    return stored + [a - b for a, b in pairs] + [a + b for a, b in pairs]


def error_of(target, known, groups):
    """Root mean square of what regressions within groups leave of a target, per column."""
    left = np.empty_like(target)
    for group in np.unique(groups):
        own = groups == group
        design = np.column_stack([np.ones(own.sum()), *(array[own] for array in known)])
        left[own] = target[own] - design @ np.linalg.lstsq(design, target[own], rcond=None)[0]
    return np.sqrt(np.square(left).mean(0))


METHODS = [
    "invariant",
    "moment-matching",
    "transport",
    "khsic",
    "correlation-removal",
    "mean-matching",
]
# In units of their own spread, shifts have half the noise of the rows. If they are linear in the
# rows, as good a function as can be, they tell as much as four more releases.
LEAST_ERROR = 5**-0.5


def contains(folder, rows):
    """Whether a column of any candidate is a column of these rows, for more than a few people."""
    columns = np.hstack(candidates_in(folder))
    return any(
        np.isclose(columns, own[:, None], rtol=1e-6, atol=0).mean(0).max() > 0.1 for own in rows.T
    )


def search(folder, exact, released, groups):
    """Return the smallest error of the exact rows from a candidate, relative to the released rows.

    The regressions are given the exact rows, so no linear attacker does better. By chance, three
    more columns for 150 people in each group leave 1 - 3/150/2 = 0.99 of the error.
    """
    assert contains(folder, released)
    assert not contains(folder, exact)
    # Where an exact row is zero, the released one is the noise.
    assert not contains(folder, np.where(exact == 0, np.nan, released - exact))
    alone = error_of(exact, [released], groups)
    candidates = candidates_in(folder)
    found = [error_of(exact, [released, candidate], groups) / alone for candidate in candidates]
    return min(each.min() for each in found)


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_tells_little_more_than_the_released_rows(marks, method, tmp_path):
    model = fitted(marks, method, max_iter=30)
    certify(model, draws=100)
    model.save(tmp_path / "model")
    exact, groups = model.fit_.noiseless.numpy(), marks[1][:PEOPLE]
    # Measured: 0.80 for moment matching, whose shifts are linear, and above 0.9 for the others.
    assert search(tmp_path / "model", exact, model.embedding_, groups) > 0.75 > LEAST_ERROR
    loaded = FairCP.load(tmp_path / "model")
    assert loaded.fit_.noiseless is None
    assert loaded.fit_.plain is None
    assert not loaded.fit_.noiseless_others


def counted(tensor):
    return np.random.default_rng(2).poisson(np.exp(np.clip(tensor - 1, -3, 2))).astype(float)


# Models and how they are fitted: a class, its settings, and what else `fit` takes.
OTHERS = {
    "places": (FairCP, {"rank": 3, "method": Transport(leakage=0.05)}, {}),
    "Tucker": (FairTucker, {"ranks": (3, 3, 2)}, {}),
    "side": (FairCP, {"rank": 3}, {"side": np.random.default_rng(3).normal(size=(PEOPLE, 4))}),
    "encoder": (FairCP, {"rank": 3, "encoder": Learned(hidden=0, steps=20)}, {}),
    "loss": (FairCP, {"rank": 3, "loss": "poisson", "max_iter": 10}, {}),
    "non-negative": (FairCP, {"rank": 3, "non_negative": True}, {}),
    "checkpoint": (FairCP, {"rank": 3}, {"checkpoint": "state"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_folders_of_other_models_have_no_exact_rows(marks, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, settings, others = OTHERS[name]
    tensor, groups = marks[0][:PEOPLE], marks[1][:PEOPLE]
    tensor = {"loss": counted, "non-negative": np.abs}.get(name, np.asarray)(tensor)
    settings = {"noise": 0.3, "tol": 1e-2, "n_init": 1, "max_iter": 20, **settings}
    model = kind(**settings, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)
        model.fit(tensor, sensitive_features=groups, **others)
    model.save("model")
    exact = model.fit_.noiseless.numpy()
    assert search(tmp_path, exact, model.cp_.factors[0].numpy(), groups) > LEAST_ERROR
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_noise_cannot_be_drawn_again_from_what_a_folder_has(marks, model, tmp_path):
    model.save(tmp_path / "model")
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    text = "\n".join(path.read_bytes().decode("latin-1") for path in files)
    record, rows = model.record_, model.fit_.noiseless
    noise = torch.from_numpy(model.embedding_) - rows

    def drawn(secret):
        again = Noise(record.noise, record.seed, secret, record.strength)
        return again._of_training(rows, 0, model.fit_.noise[0])

    secret = secret_of(TensorData.from_array(marks[0][:PEOPLE]))
    torch.testing.assert_close(drawn(secret), noise)  # whoever has the data can
    assert secret not in text
    hashes = set(re.findall("[0-9a-f]{64}", text))
    assert {model.training_.secret, model.training_.marks.salt} <= hashes
    for known in hashes:
        both = torch.stack([drawn(known).flatten(), noise.flatten()])
        assert abs(float(torch.corrcoef(both)[0, 1])) < 0.25
        assert not torch.isclose(*both, rtol=1e-6).any()


def test_the_search_finds_rows_that_shifts_without_noise_give_away(marks, monkeypatch, tmp_path):
    """Moment matching is linear, so its shifts are as good as the rows themselves."""
    monkeypatch.setattr(noise_module, "SHARE_OF_SHIFTS", 0.0)
    model = fitted(marks, "moment-matching")
    model.save(tmp_path / "model")
    exact, groups = model.fit_.noiseless.numpy(), marks[1][:PEOPLE]
    assert search(tmp_path / "model", exact, model.embedding_, groups) < 0.01


def test_shifts_that_are_far_larger_than_the_rows_tell_no_more(tmp_path):
    """A group with a hundred times the spread of the other one, and noise that is relative."""
    random = np.random.default_rng(0)
    groups = np.arange(PEOPLE) % 10 == 0
    people = random.standard_normal((PEOPLE, 2)) * np.where(groups, 100.0, 1.0)[:, None]
    tensor = people @ random.standard_normal((2, 8))
    model = FairCP(2, method="moment-matching", noise=0.3, tol=1e-3)
    model.fit(tensor, sensitive_features=groups)
    model.save(tmp_path / "model")
    exact = model.fit_.noiseless.numpy()
    assert search(tmp_path / "model", exact, model.embedding_, groups) > LEAST_ERROR


@pytest.mark.slow
def test_the_fits_of_a_frontier_have_no_exact_rows(marks, tmp_path):
    tensor, groups = marks[0][:PEOPLE], marks[1][:PEOPLE]
    model = FairCP(3, noise=0.3, tol=1e-2, n_init=1, max_iter=20)
    found = frontier(
        model,
        tensor,
        sensitive_features=groups,
        strengths=[1.0, 30.0],
        audits=None,
        limit=False,
        out=tmp_path / "curve",
    )
    for point in found.points:
        exact, released = point.fit.noiseless.numpy(), point.fit.cp.factors[0].numpy()
        folder = tmp_path / "curve" / "invariant" / point.member.id
        assert search(folder, exact, released, groups) > 0.8
    # What a user does with a loaded frontier works without the data.
    loaded = frontiers.load(tmp_path / "curve")
    for before, after in zip(found.points, loaded.points, strict=True):
        assert after.fit.noiseless is None
        rows = [new_rows(f.model(p), marks) for f, p in ((found, before), (loaded, after))]
        np.testing.assert_array_equal(*rows)
        assert found.model(before).record_.noise == loaded.model(after).record_.noise == 0.3


def test_exact_rows_are_kept_if_asked_for_with_a_warning(marks, model, tmp_path):
    with pytest.warns(ParafairWarning, match="the folder contains the rows without noise") as w:
        model.save(tmp_path / "model", keep_exact=True)
    assert len(w) == 1
    assert w[0].filename == __file__
    loaded = FairCP.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.fit_.noiseless, model.fit_.noiseless)
    assert str(certify(loaded, draws=200)) == str(certify(model, draws=200))
    exact = model.fit_.noiseless.numpy()
    assert contains(tmp_path / "model", exact)
    assert contains(tmp_path / "model", model.embedding_ - exact)  # a difference of stored arrays
    with pytest.raises(ValueError, match="keep_exact must be True or False, got 'yes'"):
        model.save(tmp_path / "other", keep_exact="yes")


def test_a_model_without_noise_has_one_kind_of_rows(marks, tmp_path):
    model = fitted(marks, "khsic", noise=0, max_iter=5, tol=0)
    model.save(tmp_path / "model", keep_exact=True)  # without a warning: it gives nothing away
    loaded = FairCP.load(tmp_path / "model")
    np.testing.assert_array_equal(new_rows(loaded, marks), new_rows(model, marks))


@pytest.mark.parametrize("refine", [False, True])
def test_a_loaded_model_does_the_same(marks, model, tmp_path, refine):
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    rows = new_rows(model, marks, refine=refine)
    np.testing.assert_array_equal(new_rows(loaded, marks, refine=refine), rows)
    np.testing.assert_array_equal(loaded.inverse_transform(rows), model.inverse_transform(rows))
    tensor = marks[0]
    assert loaded.score(tensor[PEOPLE:]) == model.score(tensor[PEOPLE:])
    cells = np.argwhere(tensor[:2] != 0)
    np.testing.assert_array_equal(loaded.predict(cells), model.predict(cells))
    # The residual includes the noise.
    expected = np.linalg.norm(tensor[:PEOPLE] - loaded.cp_.reconstruct().numpy())
    assert loaded.reconstruction_err_ == model.reconstruction_err_ == pytest.approx(expected)
    assert loaded.fit_.noise_cost == model.fit_.noise_cost > 0
    assert loaded.n_iter_ == model.n_iter_


def test_saved_twice_is_the_same_model(marks, model, tmp_path):
    model.save(tmp_path / "one")
    FairCP.load(tmp_path / "one").save(tmp_path / "two")
    one, two = (arrays_in(tmp_path / name) for name in ("one", "two"))
    assert all(map(np.array_equal, one, two))


class TestCertificates:
    def test_a_certified_model_is_saved_with_its_certificate(self, marks, tmp_path):
        model = fitted(marks, max_iter=40)
        assert not hasattr(model, "certificate_")
        model.save(tmp_path / "bare")
        found = certify(model, draws=200)
        assert model.certificate_ is found
        model.save(tmp_path / "model")
        loaded = FairCP.load(tmp_path / "model")
        assert str(loaded.certificate_) == str(found)
        assert loaded.certificate_.exposure is None
        assert not hasattr(FairCP.load(tmp_path / "bare"), "certificate_")
        model.fit(marks[0][:PEOPLE], sensitive_features=marks[1][:PEOPLE])
        assert not hasattr(model, "certificate_")

    def test_nothing_new_is_certified_without_exact_rows(self, model, tmp_path):
        model.save(tmp_path / "model")
        loaded = FairCP.load(tmp_path / "model")
        with pytest.raises(ValueError, match=r"saved without exact rows.*keep_exact=True"):
            certify(loaded)
        assert loaded.has_exact_rows is False
        assert model.has_exact_rows is True

    def test_a_population_is_certified_without_exact_rows(self, marks, model, tmp_path):
        model.save(tmp_path / "model")
        loaded = FairCP.load(tmp_path / "model")
        new = [array[PEOPLE:] for array in marks]
        before, after = (certify(m, *new, draws=500) for m in (model, loaded))
        assert after.to_dict()["statements"] == before.to_dict()["statements"]
        assert "of 60 new people have the mark" in " ".join(after.notes)
        assert not before.notes
        names = [f"p{i}" for i in range(PEOPLE)]
        data = TensorData.from_array(marks[0][:PEOPLE], labels=[names, None, None])
        named = FairCP(3, noise=0.3, max_iter=5, tol=0, n_init=1)
        named.fit(data, sensitive_features=marks[1][:PEOPLE]).save(tmp_path / "named")
        with pytest.raises(ValueError, match="20 of the 20 people of X_new were in the training"):
            certify(FairCP.load(tmp_path / "named"), data.take(0, range(20)), marks[1][:20])


@pytest.mark.parametrize(
    ("name", "written"), [("fit.json", 3), ("model.json", 3), ("training.json", 4)]
)
def test_folders_of_earlier_versions_are_refused(model, tmp_path, name, written):
    """They have rows without noise."""
    model.save(tmp_path / "model")
    path = tmp_path / "model" / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": written}))
    message = (
        rf"{name} has format {written}, but this version .*; fit again, or install the version"
    )
    with pytest.raises(ValueError, match=message):
        FairCP.load(tmp_path / "model")
