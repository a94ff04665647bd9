from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.base import clone

from parafair import FairCP, SensitiveFeatures, TensorData, tune
from parafair.data.centering import Offsets
from parafair.dependence.kernels import Gaussian
from parafair.penalties import KHSIC
from parafair.solvers import GradientBCD


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "none", "solver": GradientBCD((3.0, 1.0))},
        {"method": KHSIC(0.5, kernel=Gaussian(2.0)), "init": "svd", "random_state": 3},
        {"method": "mutual-information", "strength": 0.5},
        {"method": "fatr", "strength": 0.5, "device": "cpu", "dtype": "float32", "center": True},
        {"method": "correlation-removal", "ridge": 1.0, "n_init": 2, "verbose": 0},
    ],
)
def test_a_loaded_model_has_the_parameters_of_the_saved_one(data, tmp_path, settings):
    model = FairCP(2, **settings, max_iter=2, tol=0)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    model.save(tmp_path / "run")
    loaded = FairCP.load(tmp_path / "run")
    assert loaded.get_params() == model.get_params()
    assert loaded.record_ == model.record_
    assert (loaded.n_iter_, loaded.reconstruction_err_) == (
        model.n_iter_,
        model.reconstruction_err_,
    )
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)


def test_given_factors_are_saved_too(data, tmp_path):
    start = FairCP(2, method="none", max_iter=2, tol=0).fit(data.tensor).cp_
    model = FairCP(2, method="none", init=start, max_iter=2, tol=0).fit(data.tensor)
    model.save(tmp_path / "run")
    for mine, theirs in zip(FairCP.load(tmp_path / "run").init.factors, start.factors, strict=True):
        assert torch.equal(mine, theirs)


def test_an_existing_model_is_replaced_only_if_asked(data, tmp_path):
    model = FairCP(2, method="none", max_iter=2, tol=0).fit(data.tensor)
    model.save(tmp_path / "run")
    before = (tmp_path / "run" / "fit.json").read_bytes()
    with pytest.raises(FileExistsError, match="already holds files; choose another folder"):
        model.save(tmp_path / "run")
    assert (tmp_path / "run" / "fit.json").read_bytes() == before
    model.set_params(rank=1).fit(data.tensor).save(tmp_path / "run", overwrite=True)
    assert FairCP.load(tmp_path / "run").cp_.rank == 1


def test_weights_of_given_factors_survive(data, tmp_path):
    plain = FairCP(2, method="none", max_iter=2, tol=0).fit(data.tensor).cp_
    init = ([2.0, 3.0], list(plain.factors))
    model = FairCP(2, method="none", mode=1, solver="gradient", init=init, max_iter=2, tol=0)
    model.fit(data.tensor).save(tmp_path / "run")
    again = clone(FairCP.load(tmp_path / "run")).fit(data.tensor)
    assert again.fit_.residual == pytest.approx(model.fit_.residual, rel=1e-9)


def test_a_random_generator_is_stored_as_the_seed_it_gave(data, tmp_path):
    random = np.random.RandomState(3)
    model = FairCP(2, method="none", random_state=random, max_iter=2, tol=0).fit(data.tensor)
    model.save(tmp_path / "run")
    again = clone(FairCP.load(tmp_path / "run")).fit(data.tensor)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


@dataclass(frozen=True)
class OwnSolver(GradientBCD):
    """A solver of one's own."""


def test_a_solver_of_ones_own_is_loaded_with_its_class(data, tmp_path):
    model = FairCP(2, method="none", solver=OwnSolver(inner_steps=2), max_iter=2, tol=0)
    model.fit(data.tensor).save(tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"run/model.json: the record names the class 'Own.*classes="
    ):
        FairCP.load(tmp_path / "run")
    assert FairCP.load(tmp_path / "run", classes=[OwnSolver]).solver == model.solver


def test_the_parts_of_a_fitted_model_have_short_reprs():
    random = np.random.default_rng(0)
    tensor, groups = random.random((30, 5, 4)), np.array(["f", "m"])[np.arange(30) % 2]
    features = SensitiveFeatures.of(
        np.array([*zip(groups, random.random(30), strict=True)], object)
    )
    model = FairCP(2, strength=1.0, tol=0.1).fit(tensor, sensitive_features=features)
    tuning = tune(FairCP(method="none", tol=0.1), tensor, grid={"rank": [1, 2]})
    parts = [value for name, value in vars(model).items() if name.endswith("_")]
    for part in [
        *parts,
        features,
        features.columns[0],
        tuning,
        Offsets.of(TensorData.from_array(tensor), 0),
    ]:
        if not isinstance(part, np.ndarray):
            assert len(repr(part)) < 200
            assert "\n" not in repr(part)
            assert "tensor(" not in repr(part)
    assert repr(model.cp_) == "CPTensor(30 x 5 x 4, rank 2, float64)"
    assert repr(features).startswith("SensitiveFeatures(30 people; s0: 2 groups (f, m); s1: 0.")
    assert repr(tuning).startswith("Tuning(rank=")
