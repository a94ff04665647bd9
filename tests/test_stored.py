import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, Fit
from parafair.algebra.cp_tensor import CPTensor
from parafair.errors import ParafairWarning
from parafair.storage import new_folder, seal
from parafair.stored import (
    is_stored,
    read_arrays,
    read_record,
    reading,
    warn_if_changed,
    write_arrays,
    write_record,
)

MODEL_FILES = ("model.json", "fit.json", "training.json", "factors.safetensors", "manifest.json")


def changed_bytes(path, count=12):
    """Contents of a file with one bit flipped, at places all over it."""
    data = path.read_bytes()
    for place in np.linspace(0, len(data) - 2, count).astype(int):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 7
        if bytes(changed).split() != data.split():
            yield bytes(changed)


@pytest.fixture
def run(tmp_path):
    """A small model on disk."""
    data = np.random.default_rng(0).random((8, 4, 3))
    model = FairCP(2, max_iter=2, tol=0).fit(data, sensitive_features=np.arange(8) % 2)
    model.save(tmp_path / "run")
    return tmp_path / "run"


def rewrite(path, change):
    """Change a record as someone would who also repairs all checksums."""
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(seal(record)))
    manifest = path.with_name("manifest.json")
    files = json.loads(manifest.read_text())["files"]
    files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(seal({"files": files})))


@pytest.mark.parametrize("name", MODEL_FILES)
def test_no_changed_byte_of_a_model_is_read(run, name):
    for data in changed_bytes(run / name):
        (run / name).write_bytes(data)
        with pytest.raises(
            ValueError, match="(does not match its checksum|is damaged|is not readable|has format)"
        ):
            FairCP.load(run)


@pytest.mark.parametrize("name", MODEL_FILES)
@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"[" * 100_000, b"\xff"])
def test_other_content_is_refused_by_name(run, name, data):
    (run / name).write_bytes(data)
    with pytest.raises(
        ValueError, match=f"{name} (does not match its|is damaged|is not|has format|must hold)"
    ):
        FairCP.load(run)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("training.json", lambda r: r.update(mode=-1), "mode must be from 0 to 2, got -1"),
        ("training.json", lambda r: r.update(mode=3), "mode must be from 0 to 2, got 3"),
        ("training.json", lambda r: r.update(ridge="x"), "ridge must be a number .* got 'x'"),
        ("training.json", lambda r: r.update(sizes=[7, 4, 3]), r"but the model has the shape"),
        ("training.json", lambda r: r.update(sizes=[10**15, 4, 3]), r"but the model has the shape"),
        ("training.json", lambda r: r.update(labels=[["a"], [], []]), "has .* labels of the modes"),
        (
            "training.json",
            lambda r: r.update(penalized=[9]),
            "penalized people must have positions",
        ),
        ("training.json", lambda r: r.pop("modes"), "damaged or incomplete .TypeError: .*'modes'"),
        ("model.json", lambda r: r.update(ridge="x"), "ridge must be a number, got 'x'"),
        ("model.json", lambda r: r.update(trials=3), "model.json is damaged or incomplete"),
        ("model.json", lambda r: r["params"].pop("solver"), "incomplete .it has no solver"),
        ("model.json", lambda r: r["params"].update(more=1), "damaged .*argument 'more'"),
        ("fit.json", lambda r: r.update(history=[3]), "fit.json is damaged or incomplete"),
        ("fit.json", lambda r: r.update(status="DONE"), "damaged or incomplete .KeyError: 'DONE'"),
    ],
)
def test_records_that_no_model_has_are_refused(run, name, change, message):
    rewrite(run / name, change)
    with pytest.raises(ValueError, match=message):
        FairCP.load(run)


def test_factors_must_be_finite(run, tmp_path):
    model = FairCP.load(run)
    model.cp_.factors[1][0, 0] = float("nan")
    model.save(tmp_path / "other")
    with pytest.raises(ValueError, match="its factors have entries that are not finite"):
        FairCP.load(tmp_path / "other")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool, torch.float16])
def test_factors_must_be_in_single_or_double_precision(run, tmp_path, dtype):
    model = FairCP.load(run)
    arrays = {"weights": model.cp_.weights}
    arrays |= {f"factor_{mode}": factor for mode, factor in enumerate(model.cp_.factors)}
    with new_folder(tmp_path / "other") as folder:
        (folder / "fit.json").write_bytes((run / "fit.json").read_bytes())
        write_arrays(
            folder / "factors.safetensors", {**arrays, "weights": arrays["weights"].to(dtype)}
        )
    with pytest.raises(ValueError, match=f"must be float32 or float64, but weights is {dtype}"):
        Fit.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda a: a[None], "or are no matrices"), (lambda a: 1e200 * a, "entries beyond 1e.80")],
)
def test_factors_that_no_fit_has_are_refused(run, tmp_path, change, message):
    fit = FairCP.load(run).fit_
    factors = (change(fit.cp.factors[0]), *fit.cp.factors[1:])
    with new_folder(tmp_path / "other") as folder:
        replace(fit, cp=CPTensor(fit.cp.weights, factors), noise={}).write(folder)
    with pytest.raises(ValueError, match=message):
        Fit.load(tmp_path / "other")


def test_factors_without_components_are_refused(run, tmp_path):
    with new_folder(tmp_path / "other") as folder:
        (folder / "fit.json").write_bytes((run / "fit.json").read_bytes())
        empty = {f"factor_{mode}": torch.empty(10**12, 0) for mode in range(2)}
        write_arrays(folder / "factors.safetensors", {**empty, "weights": torch.empty(0)})
    with pytest.raises(ValueError, match="its factors have no components"):
        Fit.load(tmp_path / "other")


def test_a_file_of_another_model_is_refused(run, tmp_path):
    model = FairCP.load(run)
    model.record_.params["verbose"] = 1
    model.save(tmp_path / "other")
    (run / "model.json").write_bytes((tmp_path / "other" / "model.json").read_bytes())
    with pytest.raises(ValueError, match="model.json does not match its checksum"):
        FairCP.load(run)


def test_records_and_arrays_come_back(tmp_path):
    with new_folder(tmp_path / "run") as folder:
        write_record(folder / "fit.json", {"format": 2, "loss": float("nan")})
        write_arrays(folder / "factors.safetensors", {"a": torch.ones(2, 3)})
    assert read_record(tmp_path / "run" / "fit.json", file_format=2) == {"loss": None}
    assert torch.equal(read_arrays(tmp_path / "run" / "factors.safetensors")["a"], torch.ones(2, 3))
    with pytest.raises(
        ValueError, match="has format 2, but this version of parafair reads format 3"
    ):
        read_record(tmp_path / "run" / "fit.json", file_format=3)


def test_errors_about_a_file_name_it_once(tmp_path):
    file = tmp_path / "a.json"
    message = "a.json is damaged or incomplete .IndexError: 3.; fit again"
    with pytest.raises(ValueError, match=message), reading(file):
        raise IndexError(3)
    with pytest.raises(ValueError, match=f"^{file} holds something else$"), reading(file):
        raise ValueError(f"{file} holds something else")


def test_a_record_that_was_added_belongs_to_its_folder(run, tmp_path):
    model = FairCP.load(run)
    model.record_.params["verbose"] = 1
    model.save(tmp_path / "other")
    for folder in (run, tmp_path / "other"):
        write_record(folder / "audit.json", {"leakage": 0.0})
    assert read_record(run / "audit.json") == {"leakage": 0.0}
    (run / "audit.json").write_bytes((tmp_path / "other" / "audit.json").read_bytes())
    with pytest.raises(ValueError, match="audit.json does not match its checksum in .*manifest"):
        read_record(run / "audit.json")


def test_a_file_that_a_folder_was_created_with_is_missed(run):
    assert is_stored(run / "fit.json")
    assert not is_stored(run / "audit.json")
    (run / "fit.json").unlink()
    with pytest.raises(FileNotFoundError, match="fit.json is missing; fit again"):
        is_stored(run / "fit.json")
    (run / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError, match="manifest.json is missing; fit again"):
        read_arrays(run / "factors.safetensors")


def test_a_manifest_of_another_program_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "my app"}')
    write_record(tmp_path / "audit.json", {"leakage": 0.0})
    assert not is_stored(tmp_path / "icon.png")
    warn_if_changed(tmp_path / "audit.json")


def test_changed_data_is_mentioned(tmp_path):
    with new_folder(tmp_path / "data") as folder:
        (folder / "people.csv").write_text("group")
    warn_if_changed(tmp_path / "data" / "people.csv")
    (tmp_path / "data" / "people.csv").write_text("Group")
    with pytest.warns(ParafairWarning, match="people.csv was changed after parafair wrote it"):
        warn_if_changed(tmp_path / "data" / "people.csv")
