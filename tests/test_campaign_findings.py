"""Calls that the campaign found; each says what is wrong with which argument, and what to do."""

import json
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

from parafair import (
    FairCP,
    FairTucker,
    Fit,
    Measure,
    Problem,
    Rankings,
    SensitiveFeatures,
    TensorData,
    audit,
    compare_scores,
    evaluate_rankings,
    frontier,
    parity_limit,
    tune,
)
from parafair.audits import draw, rankings
from parafair.audits.evaluation import Evaluation
from parafair.data.raw_features import check_order
from parafair.data.streamed import drawn_people
from parafair.solvers.checkpoints import CURRENT_FILE
from parafair.storage import seal
from parafair.temporaries import MANIFEST_FILE, digest_of
from tests.campaign.kinds import see_checkpoint, see_tucker, write_checkpoint, write_tucker

TENSOR = np.random.default_rng(0).normal(size=(8, 4, 3))
DATA = TensorData.from_array(TENSOR)
REFUSALS = (ValueError, TypeError)


@pytest.fixture(scope="module")
def model():
    return FairCP(1, method="none", max_iter=1, tol=0.0).fit(TENSOR)


@pytest.fixture(scope="module")
def labeled():
    table = pd.DataFrame({"who": ["x", "x", "y"], "what": ["u", "v", "u"], "value": [1.0, 2, 3]})
    data = TensorData.from_table(table, modes=["who", "what"], value="value")
    return FairCP(1, method="none", max_iter=1, tol=0.0).fit(data)


def test_scores_of_nobody_are_refused():
    for empty in (np.zeros((0, 2)), np.zeros((2, 0))):
        with pytest.raises(
            REFUSALS,
            match="scores must have people along the first axis and at least one score, got",
        ):
            compare_scores(empty, sensitive_features=["a", "b"])


@pytest.mark.parametrize("method", ["transform", "score"])
def test_a_matrix_for_a_model_of_a_tensor_is_refused(model, method):
    with pytest.raises(
        REFUSALS,
        match="the model was fitted to a tensor; pass one with the modes of the training data",
    ):
        getattr(model, method)(np.zeros((3, 0)))


def test_non_negative_modes_are_a_list():
    with pytest.raises(REFUSALS, match="non_negative must be a list of modes, got False"):
        Problem(DATA, 2, non_negative=False)


@pytest.mark.parametrize("absent", [np.ma.masked_all((3, 2)), 0, "nothing"])
def test_absent_is_a_word(absent):
    with pytest.raises(REFUSALS, match="absent must be one of missing, zero; got"):
        TensorData.from_array(TENSOR, absent=absent)


def test_what_is_excluded_from_recommendations_is_named(model, labeled):
    for fitted in (model, labeled):
        with pytest.raises(
            REFUSALS,
            match="^exclude (of a model with labels )?must (be a data frame|have one row)",
        ):
            fitted.recommend(k=1, exclude=TENSOR)


def test_bootstraps_have_a_limit_and_are_drawn_in_parts(monkeypatch):
    with pytest.raises(
        REFUSALS,
        match="bootstraps must be a whole number from 1 to 1000000, got 1000000000000",
    ):
        evaluate_rankings(TENSOR, DATA, bootstraps=10**12)
    whole = evaluate_rankings(TENSOR, DATA, k=2, bootstraps=50, threshold=0.5)
    monkeypatch.setattr(rankings, "MOST_SCORES", 60)
    assert str(evaluate_rankings(TENSOR, DATA, k=2, bootstraps=50, threshold=0.5)) == str(whole)


def test_a_measure_that_an_evaluation_does_not_have_is_refused():
    found = evaluate_rankings(TENSOR, DATA, k=2, bootstraps=5)
    for read in (found.gap, found.largest):
        with pytest.raises(
            REFUSALS,
            match=r"measure must be one of .*; got 'recal@2'; did you mean 'recall@2'",
        ):
            read("recal@2")
    with pytest.raises(REFUSALS, match="group must be a str, got <NA>; give it as it is"):
        found.value("MAP", pd.NA)


def test_numbers_beyond_the_random_generator_are_seeds_of_streamed_data():
    assert len(drawn_people(5, 3, 2**62)) == 3


def test_side_information_that_is_no_matrix_is_refused():
    with pytest.raises(REFUSALS, match="side has 3 rows but X has 8 people; pass"):
        FairCP(1, method="none").fit(TENSOR, side=memoryview(b"abc"))


def test_too_many_folds_and_bins_are_refused_by_their_names():
    with pytest.raises(REFUSALS, match="cv must be at most .*, got 99999"):
        tune(FairCP(1, method="none", max_iter=1, tol=0.0), TENSOR, cv=99999)
    with pytest.raises(REFUSALS, match="bins must be a whole number from 2 to 1000000"):
        parity_limit(TENSOR, sensitive_features=["a", "b"] * 4, bins=10**30)


def test_a_target_in_tiny_units_has_scores():
    target = np.random.default_rng(1).normal(size=8)
    found = [
        audit(
            TENSOR[:, 0, :2],
            sensitive_features=["a", "b"] * 4,
            attackers=["linear"],
            permutations=3,
            target=target * unit,
        )
        for unit in (1.0, 1e-170)
    ]
    values = [
        [row.value for row in each.rows if row.measure in ("R squared", "mean score difference")]
        for each in found
    ]
    np.testing.assert_allclose(*values, rtol=1e-6)


@pytest.mark.parametrize(
    ("index", "remedy"),
    [
        (["b", "a", "c"], r"reorder it with sensitive_features\.loc\[\.\.\.\], by the labels of "),
        (["a", "a", "a"], "pass the features of these people, or pass"),
        (["a", "b", "x"], "pass the features of these people, or pass"),
    ],
)
def test_an_index_is_reordered_only_if_it_names_the_people_of_the_data(index, remedy):
    features = pd.Series(["g", "h", "g"], index=index)
    with pytest.raises(ValueError, match=rf"is '.' there and '.' in the data; {remedy}"):
        check_order(features, np.array(["a", "b", "c"]))


def test_a_tucker_model_of_a_matrix_with_missing_entries():
    matrix = np.random.default_rng(7).normal(size=(6, 4))
    matrix[0, 1] = np.nan
    model = FairTucker(ranks=(2, 2), max_iter=2, tol=0, ridge=1.0)
    model.fit(matrix, sensitive_features=["a", "b"] * 3)
    assert np.isfinite(model.embedding_).all()


def test_a_module_is_no_side_information():
    model = FairCP(1, max_iter=2)
    with pytest.raises(TypeError, match="must hold numbers, got .*module"):
        model.fit(TENSOR, sensitive_features=["a", "b"] * 4, side=np)


def test_a_module_is_no_person(model, labeled):
    for fitted in (model, labeled):
        with pytest.raises(
            ValueError, match="people must hold labels such as text or numbers, got"
        ):
            fitted.recommend(np, k=1, exclude=None)


def test_what_reads_records_and_folders_refuses_others():
    for read in (Rankings.from_list, Evaluation.from_list):
        for records in (None, "abc", [1], [{}]):
            with pytest.raises(ValueError, match="records must be what to_list returned, got"):
                read(records)
    for record in (None, {}, {"value": 1.0}, np.int8(2)):
        with pytest.raises(ValueError, match="record must have the attributes of a Measure by"):
            Measure.from_dict(record)
    for folder in (None, "é" * 300):
        with pytest.raises(REFUSALS, match="folder must be a path"):
            Fit.load(folder)


def test_what_draws_people_and_pictures_refuses_others():
    features = SensitiveFeatures.of(["a", "b"] * 4)
    for size in (None, np.nan, -1):
        with pytest.raises(ValueError, match="size must be a whole number of at least 0, got"):
            features.sample(size, np.random.RandomState(0))
    with pytest.raises(TypeError, match="random must be a RandomState, got None; pass numpy"):
        features.sample(2, None)
    with pytest.raises(TypeError, match="prototype must be a Tensor, got True; pass a tensor"):
        features.encode(prototype=True)
    with pytest.raises(TypeError, match="audit must be a Audit, got None; pass what audit"):
        draw(None)


def test_a_file_with_control_characters_in_its_name_is_named_with_escapes(tmp_path):
    path = tmp_path / "\u202e\x1b[31m"
    path.write_text("{}")
    for read in (TensorData.from_tns, lambda file: SensitiveFeatures.from_table(file)):
        with pytest.raises(ValueError, match=r"the path '.*\\u202e\\x1b\[31m'") as caught:
            read(path)
        assert "\x1b" not in str(caught.value)


def test_complete_data_is_centered_before_it_is_compressed():
    tensor = 5 + np.random.default_rng(0).normal(size=(60, 20, 10))
    model = FairCP(2, center=True, strength=1.0).fit(tensor, sensitive_features=["a", "b"] * 30)
    offsets = model.training_.offsets.dense(torch.from_numpy(tensor)).numpy()
    plain = FairCP(2, strength=1.0)
    plain.fit(tensor - offsets, sensitive_features=["a", "b"] * 30)
    assert model.fit_.before_noise.residual == pytest.approx(plain.fit_.before_noise.residual, 1e-4)


def test_minutes_of_any_kind_of_number_are_named():
    with pytest.raises(ValueError, match="checkpoint_minutes=0.333333 is for fits with a"):
        FairCP(1).fit(TENSOR, sensitive_features=["a", "b"] * 4, checkpoint_minutes=Fraction(1, 3))


def test_a_single_number_is_no_embedding():
    with pytest.raises(ValueError, match="embedding must have one row per person"):
        audit(torch.tensor(2.0), sensitive_features=["a", "b"] * 4)


@pytest.mark.parametrize("values", [["a", "b", None], [1.0, 2.5, np.nan]])
def test_a_target_with_missing_values_is_refused(values):
    pytest.importorskip("fairlearn")
    target = SensitiveFeatures.of(values * 4, missing="exclude")
    rows = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(ValueError, match="target has no value for 4 of the 12 people, but needs"):
        audit(rows, sensitive_features=["a", "b"] * 6, target=target)


def test_settings_of_certificates_are_named():
    with pytest.raises(ValueError, match="certificates cannot be used: draws must be a whole"):
        frontier(FairCP(1), TENSOR, sensitive_features=["a", "b"] * 4, certificates={"draws": 1})


def test_a_rank_of_few_bits_does_not_overflow():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        small = FairCP(np.int8(2), method="none", max_iter=1, tol=0.0).fit(TENSOR)
    assert small.cp_.rank == 2


def _forge(file, **values):
    """Change values of a record, and make the checksums fit."""
    file.write_text(json.dumps(seal({**json.loads(file.read_text()), **values})))
    manifest = file.with_name(MANIFEST_FILE)
    if manifest.exists():
        record = json.loads(manifest.read_text())
        record["files"][file.name] = digest_of(file)
        manifest.write_text(json.dumps(seal(record)))


def test_a_tucker_model_without_its_unfolding_is_refused(tmp_path):
    write_tucker(tmp_path / "model", 0)
    _forge(tmp_path / "model" / "training.json", unfolding=None)
    with pytest.raises(ValueError, match=r"training.json is damaged .*unfolding is None, but a"):
        see_tucker(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "dtype",
            {"name": "x"},
            r"model\.json: dtype must be one of float32, float64; got {'name': 'x'}",
        ),
        ("dtype", "float16", r"model\.json: dtype must be one of float32, float64; got 'float16'"),
        ("device", [1], r"model\.json: device must be the name of a device or null, got \[1\]"),
    ],
)
def test_a_model_of_a_forged_precision_or_device_is_not_loaded(
    tmp_path, model, name, value, message
):
    model.save(tmp_path / "model")
    record = json.loads((tmp_path / "model" / "model.json").read_text())
    _forge(tmp_path / "model" / "model.json", params={**record["params"], name: value})
    with pytest.raises(ValueError, match=message):
        FairCP.load(tmp_path / "model")


def test_a_checkpoint_with_an_endless_number_is_refused(tmp_path):
    write_checkpoint(tmp_path / "checkpoint", 0)
    _forge(tmp_path / "checkpoint" / CURRENT_FILE, number=1e300)
    with pytest.raises(ValueError, match=r"current.json is damaged .*number must be a whole"):
        see_checkpoint(tmp_path / "checkpoint")


def test_a_feature_that_nobody_has_is_shown():
    table = pd.DataFrame({"group": ["a", "b", "a"], "age": [None] * 3})
    features = SensitiveFeatures.from_table(table.iloc[:, :1])
    column = replace(features.columns[0], kind="numeric", categories=(), values=np.full(3, np.nan))
    shown = replace(features, columns=(column,))._repr_html_()
    assert "people" in shown


def test_a_penalty_far_larger_than_the_loss_is_solved():
    X = np.random.default_rng(0).normal(size=(7, 3))
    groups = pd.Series(["a", "b", "a", "b", "a", "b", "a"])
    found = tune(FairCP(2, method="hsic", max_iter=2, tol=0.0), X, sensitive_features=groups, cv=2)
    assert np.isfinite(found.model.embedding_).all()
