import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData
from parafair.encoders import Learned, LearnedEncoder
from parafair.interop import export_encoder

ROOT = Path(__file__).parents[2]
embed = runpy.run_path(str(ROOT / "examples" / "apply_encoder.py"))["embed"]
# Five steps are enough for an encoder to export.
pytestmark = pytest.mark.filterwarnings("ignore::parafair.ConvergenceWarning")
QUICK = Learned(hidden=8, steps=5, batch_size=50)
MODELS = {
    "network": {"encoder": QUICK},
    "linear": {"encoder": Learned(hidden=0, steps=5, batch_size=50), "center": True},
    "reduction": {"method": "fair-pca", "noise": 0.2},
    "hidden layer": {"method": "fair-pca", "noise": 0.2, "center": True},
    "reduction without noise": {"method": "fair-pca", "center": True},
}


@cache
def people():
    rng = np.random.default_rng(0)
    return rng.normal(size=(70, 4, 3)) + 2, np.arange(70) % 2


@cache
def fitted(name, mode):
    tensor, groups = people()
    model = FairCP(2, mode=mode, max_iter=20, n_init=1, tol=1e-2, **MODELS[name])
    model.fit(np.moveaxis(tensor[:60], 0, mode), sensitive_features=groups[:60])
    if name == "hidden layer":  # learning one takes seconds
        shapes = [(2, 2), (2,), (2, 5), (5,), (5, 2)]
        drawn = (torch.from_numpy(np.random.default_rng(1).normal(size=each)) for each in shapes)
        model.encoder_ = LearnedEncoder(model.encoder_, *drawn)
    return model


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("reduction", 0),
        ("reduction", 1),
        ("reduction without noise", 0),
        ("hidden layer", 2),
        pytest.param("network", 0, marks=pytest.mark.slow),
        pytest.param("network", 1, marks=pytest.mark.slow),
        pytest.param("linear", 0, marks=pytest.mark.slow),
    ],
)
def test_the_exported_encoder_gives_the_rows_of_transform(name, mode, tmp_path):
    model, new = fitted(name, mode), people()[0][60:].copy()
    new[0, 0] = [-0.0, 0.0, 1e6]
    export_encoder(model, tmp_path / "encoder.npz")
    rows = embed(tmp_path / "encoder.npz", new)
    expected = model.transform(np.moveaxis(new, 0, mode))
    # The first row is about 1e6; sums are in another order.
    np.testing.assert_allclose(rows, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(embed(tmp_path / "encoder.npz", new[::-1]), rows[::-1])
    twice = np.concatenate([new, new[:3]])  # who have noise of their own
    expected = model.transform(np.moveaxis(twice, 0, mode))
    found = embed(tmp_path / "encoder.npz", twice)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    noisy = name != "reduction without noise"
    assert bool(np.load(tmp_path / "encoder.npz")["noise"].any()) == noisy


def test_noise_is_part_of_the_exported_map(tmp_path):
    model, new = fitted("reduction", 0), people()[0][60:]
    export_encoder(model, tmp_path / "encoder.npz")
    exact = model.encoder_.encode(TensorData.from_array(new)).numpy()
    assert np.abs(embed(tmp_path / "encoder.npz", new) - exact).min() > 1e-6


def test_a_file_has_the_labels_of_its_columns_and_nothing_of_people(tmp_path):
    tensor, groups = people()
    labels = [[f"person {i}" for i in range(60)], list("abcd"), [2019, 2020, 2021]]
    data = TensorData.from_array(tensor[:60], modes=["who", "item", "year"], labels=labels)
    model = FairCP(2, method="fair-pca", mode="who").fit(data, sensitive_features=groups[:60])
    export_encoder(model, tmp_path / "encoder.npz")
    found = np.load(tmp_path / "encoder.npz")
    assert found["labels_1"].tolist() == list("abcd")
    assert found["labels_2"].tolist() == [2019, 2020, 2021]
    assert not [name for name in found if 60 in found[name].shape]
    assert b"person" not in (tmp_path / "encoder.npz").read_bytes()


def test_entries_that_are_missing_are_refused_by_the_reader(tmp_path):
    export_encoder(fitted("reduction", 0), tmp_path / "encoder.npz")
    new = people()[0][60:].copy()
    new[1, 2, 0] = np.nan
    with pytest.raises(AssertionError, match="an entry is missing"):
        embed(tmp_path / "encoder.npz", new)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"method": "none"}, "must have an encoder of complete entries, got no encoder"),
        ({"method": "kernel-perez-suay"}, "of complete entries, got KernelEncoder"),
        ({"method": "fair-pca", "dtype": "float32"}, "must not round entries to single precision"),
    ],
)
def test_other_models_are_refused_and_nothing_is_written(settings, match, tmp_path):
    tensor, groups = people()
    model = FairCP(1, max_iter=3, tol=1e-2, **settings).fit(tensor, sensitive_features=groups)
    with pytest.raises(ValueError, match=match):
        export_encoder(model, tmp_path / "encoder.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_encoder_of_incomplete_entries_is_refused(tmp_path):
    tensor, groups = people()[0].copy(), people()[1]
    tensor[3, 1, 1] = np.nan
    model = FairCP(2, encoder=QUICK, max_iter=20, n_init=1, tol=1e-2, ridge=1)
    model.fit(tensor, sensitive_features=groups)
    with pytest.raises(ValueError, match="an encoder of complete entries, got LearnedEncoder"):
        export_encoder(model, tmp_path / "encoder.npz")


def test_a_model_of_absent_zeros_is_refused(tmp_path):
    tensor, groups = people()
    kept = np.where(tensor > 3, tensor, 0.0)
    cells = np.argwhere(kept)
    listed = TensorData(
        torch.from_numpy(kept[tuple(cells.T)]), torch.from_numpy(cells.T), kept.shape, absent="zero"
    )
    model = FairCP(2, method="fair-pca", noise=0.2, max_iter=5).fit(
        listed, sensitive_features=groups
    )
    with pytest.raises(ValueError, match="got a model of data with absent='zero'"):
        export_encoder(model, tmp_path / "encoder.npz")


def test_names_and_existing_files_are_checked(tmp_path):
    model = fitted("reduction", 0)
    with pytest.raises(ValueError, match=r"path must end with .npz, got 'encoder.onnx'"):
        export_encoder(model, tmp_path / "encoder.onnx")
    (tmp_path / "encoder.npz").write_text("mine")
    with pytest.raises(FileExistsError, match="already exists; choose another file"):
        export_encoder(model, tmp_path / "encoder.npz")
    assert (tmp_path / "encoder.npz").read_text() == "mine"
    export_encoder(model, tmp_path / "encoder.npz", overwrite=True)
    assert np.load(tmp_path / "encoder.npz")["format"] == 1
    with pytest.raises(TypeError, match="model must be a FittedCP"):
        export_encoder("model", tmp_path / "other.npz")
