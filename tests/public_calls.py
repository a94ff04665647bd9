"""One call of every public function and method."""

import inspect
import random

import numpy as np
import pytest
import torch

import parafair
from parafair import (
    Audit,
    Certificate,
    CPTensor,
    FairCP,
    FairTucker,
    Fit,
    Measure,
    Problem,
    SensitiveFeatures,
    Stop,
    TensorData,
    audit,
    audit_outputs,
    certify,
    certify_rows,
    compare_scores,
    evaluate_rankings,
    frontier,
    parity_limit,
    people_needed,
    show_versions,
    sort_parquet,
    split_by_time,
    split_cells,
    split_people,
    tune,
)
from parafair.penalties import Invariant

pytest.importorskip("ot")
Figure = pytest.importorskip("matplotlib.figure").Figure
pandas = pytest.importorskip("pandas")

RANDOM = np.random.default_rng(0)
GROUPS = np.arange(24) % 2
TENSOR = RANDOM.random((24, 4, 3)) + GROUPS[:, None, None]
DATA = TensorData.from_array(TENSOR)
HOLES = TensorData.from_array(np.where(RANDOM.random(TENSOR.shape) < 0.2, np.nan, TENSOR))
TABLE = HOLES.to_table()
FEATURES = SensitiveFeatures.of(GROUPS)
PEOPLE = pandas.DataFrame({"person": np.arange(24), "group": GROUPS.astype(str)})
QUICK = {"attackers": ("linear",), "folds": 2, "repeats": 1, "permutations": 1}
MODEL = FairCP(2, strength=0.1, tol=0.1)
TUCKER = FairTucker((2, 2, 2))


def sort(folder, out):
    return sort_parquet(folder / "entries.parquet", out, modes=HOLES.modes, value="value")


def rankings():
    return evaluate_rankings(TENSOR, HOLES, sensitive_features=GROUPS, bootstraps=10)


def make(folder):
    """Results that calls start from, and what a folder with a stored model has."""
    model = FairCP(2, strength=0.1, tol=0.1).fit(TENSOR, sensitive_features=GROUPS)
    model.save(folder / "model")
    (folder / "x.tns").write_text("1 1 1 2.0\n2 1 1 3.0\n")
    TABLE.to_parquet(folder / "entries.parquet", index=False)
    sort(folder, folder / "sorted")
    found = {
        "folder": folder,
        "model": model,
        "audit": audit(TENSOR[:, :, 0], sensitive_features=GROUPS, **QUICK),
        "frontier": frontier(
            MODEL, TENSOR, sensitive_features=GROUPS, strengths=[0.1, 1.0], audits=QUICK
        ),
        "problem": Problem(DATA, 2, sensitive=FEATURES, penalty=parafair.penalties.Invariant()),
        "certificate": certify(model, draws=100),
        "limit": parity_limit(TENSOR, sensitive_features=GROUPS),
        "rankings": rankings(),
        "tuning": tune(FairCP(method="none", tol=0.1), TENSOR, grid={"rank": [1, 2]}),
    }
    found["certificate"].write(folder / "certificate.json")
    found["factors"] = [factor[None] for factor in model.cp_.factors]
    return found


def save_and_load(made):
    path = f"{new(made, 'audit')}.json"
    made["audit"].save(path)
    return Audit.load(path)


def new(made, name):
    """A path in the folder that is not there yet."""
    return made["folder"] / f"{name}-{random.SystemRandom().random()}"


def write(thing, made):
    folder = new(made, "written")
    folder.mkdir()
    thing.write(folder)


def axes():
    """Axes of a figure without a window, which no other part of the process knows."""
    return Figure().subplots()


# Every public function and method, with one call.
CALLS = {
    "audit": lambda m: audit(TENSOR[:, :, 0], sensitive_features=GROUPS, **QUICK),
    "frontier": lambda m: frontier(
        MODEL, HOLES, sensitive_features=GROUPS, strengths=2, audits=QUICK, n_jobs=1
    ),
    "certify": lambda m: certify(m["model"], draws=100),
    "certify_rows": lambda m: certify_rows(TENSOR[:, :, 0], GROUPS, noise=1.0, draws=100),
    "people_needed": lambda m: people_needed(0.05),
    "Certificate.exposure_columns": lambda m: m["certificate"].exposure_columns(),
    "Certificate.leakage": lambda m: m["certificate"].leakage("release"),
    "Certificate.read": lambda m: Certificate.read(m["folder"] / "certificate.json"),
    "Certificate.sentences": lambda m: m["certificate"].sentences(),
    "Certificate.to_dict": lambda m: m["certificate"].to_dict(),
    "Certificate.write": lambda m: m["certificate"].write(f"{new(m, 'certificate')}.json"),
    "FairCP.keep_certificate": lambda m: m["model"].keep_certificate(m["certificate"]),
    "FairCP.exact_release": lambda m: m["model"].exact_release(),
    "parity_limit": lambda m: parity_limit(TENSOR, sensitive_features=GROUPS),
    "split_cells": lambda m: split_cells(HOLES),
    "split_people": lambda m: split_people(HOLES, groups=GROUPS),
    "sort_parquet": lambda m: sort(m["folder"], new(m, "sorted")),
    "tune": lambda m: tune(
        FairCP(strength=1.0, tol=0.1, max_iter=2),
        HOLES,
        grid={"rank": [1, 2]},
        sensitive_features=GROUPS,
    ),
    "Audit.draw": lambda m: m["audit"].draw(),
    "Audit.plot": lambda m: m["audit"].plot(ax=axes()),
    "Certificate.described": lambda m: m["certificate"].described(),
    "Certificate.plot": lambda m: m["certificate"].plot(ax=axes()),
    "FairCP.plot": lambda m: m["model"].plot(ax=axes()),
    "Frontier.plot": lambda m: m["frontier"].plot(ax=axes()),
    "Audit.from_dict": lambda m: Audit.from_dict(m["audit"].to_dict()),
    "Audit.load": save_and_load,
    "Audit.save": lambda m: m["audit"].save(f"{new(m, 'audit')}.json"),
    "Audit.to_dict": lambda m: m["audit"].to_dict(),
    "Audit.to_frame": lambda m: m["audit"].to_frame(),
    "audit_outputs": lambda m: audit_outputs(
        TENSOR[:, :, 0], sensitive_features=GROUPS, k=2, **QUICK
    ),
    "compare_scores": lambda m: compare_scores(TENSOR, sensitive_features=GROUPS),
    "Measure.from_dict": lambda m: Measure.from_dict(m["audit"].to_dict()["rows"][0]),
    "Audit.verdict": lambda m: m["audit"].verdict(0.05),
    "CPTensor.from_factors": lambda m: CPTensor.from_factors(m["model"].cp_.factors),
    "CPTensor.reconstruct": lambda m: m["model"].cp_.reconstruct(),
    "CPTensor.to_numpy": lambda m: m["model"].cp_.to_numpy(),
    "FairCP.adapted": lambda m: MODEL.adapted(Invariant()),
    "FairCP.check_rank": lambda m: MODEL.check_rank(),
    "FairCP.unfolding_of": lambda m: MODEL.unfolding_of(HOLES),
    "FairTucker.adapted": lambda m: TUCKER.adapted(Invariant()),
    "FairTucker.check_rank": lambda m: TUCKER.check_rank(),
    "FairTucker.unfolding_of": lambda m: TUCKER.unfolding_of(HOLES),
    "FairCP.fit": lambda m: FairCP(2, n_init=2, tol=0.1).fit(HOLES, sensitive_features=GROUPS),
    "FairCP.fit_transform": lambda m: MODEL.fit_transform(TENSOR, sensitive_features=GROUPS),
    "FairCP.from_fit": lambda m: FairCP.from_fit(
        m["model"].fit_, record=m["model"].record_, training=m["model"].training_
    ),
    "FairCP.inverse_transform": lambda m: m["model"].inverse_transform(m["model"].embedding_),
    "FairCP.load": lambda m: FairCP.load(m["folder"] / "model"),
    "FairCP.predict": lambda m: m["model"].predict(np.zeros((2, 3), int)),
    "FairCP.predict_side": lambda m: (
        FairCP(2, method="none", tol=0.1).fit(TENSOR, side=TENSOR[:, 0]).predict_side()
    ),
    "FairCP.save": lambda m: m["model"].save(new(m, "saved")),
    "FairCP.score": lambda m: m["model"].score(TENSOR),
    "FairCP.transform": lambda m: m["model"].transform(TENSOR, sensitive_features=GROUPS),
    "FairCP.write": lambda m: write(m["model"], m),
    "Fit.after": lambda m: m["model"].fit_.after(1.0, {"rough iterations": 2}),
    "Fit.load": lambda m: Fit.load(m["folder"] / "model"),
    "Fit.with_factors": lambda m: m["model"].fit_.with_factors(
        m["problem"], [factor[0] for factor in m["factors"]]
    ),
    "Fit.with_plain": lambda m: m["model"].fit_.with_plain(m["problem"]),
    "Fit.with_side": lambda m: m["model"].fit_.with_side(m["problem"]),
    "Fit.write": lambda m: write(m["model"].fit_, m),
    "Frontier.best": lambda m: m["frontier"].best(max_leakage=1.0),
    "Frontier.best_or_none": lambda m: m["frontier"].best_or_none(max_leakage=1.0),
    "Frontier.hypervolume": lambda m: m["frontier"].hypervolume(),
    "Frontier.model": lambda m: m["frontier"].model(m["frontier"].points[0]),
    "Frontier.of": lambda m: m["frontier"].of("invariant"),
    "Frontier.pick": lambda m: m["frontier"].pick(max_leakage=1.0),
    "Frontier.rows": lambda m: m["frontier"].rows(),
    "Frontier.to_frame": lambda m: m["frontier"].to_frame(),
    "ParityLimit.at": lambda m: m["limit"].at(0.1),
    "ParityLimit.to_dict": lambda m: m["limit"].to_dict(),
    "Problem.add_side": lambda m: m["problem"].add_side(m["factors"], []),
    "Problem.evaluate": lambda m: m["problem"].evaluate(m["factors"]),
    "Problem.loss_and_gradients": lambda m: m["problem"].loss_and_gradients(m["factors"]),
    "Problem.loss_of": lambda m: m["problem"].loss_of(m["factors"]),
    "Problem.objective": lambda m: m["problem"].objective(
        m["factors"], torch.ones(1).double(), None
    ),
    "Problem.of_people": lambda m: m["problem"].of_people(
        np.arange(8), FEATURES.take(np.arange(8))
    ),
    "Problem.penalized_rows": lambda m: m["problem"].penalized_rows(m["factors"][0]),
    "Problem.penalty_and_gradients": lambda m: m["problem"].penalty_and_gradients(m["factors"]),
    "Problem.penalty_of": lambda m: m["problem"].penalty_of(m["factors"]),
    "Problem.side_at": lambda m: m["problem"].side_at(m["factors"][0]),
    "Problem.take": lambda m: m["problem"].take(torch.zeros(1, dtype=torch.long)),
    "Problem.value_and_gradients": lambda m: m["problem"].value_and_gradients(m["factors"]),
    "Problem.with_deal": lambda made: made["problem"].with_deal(1),
    "Problem.with_strengths": lambda m: m["problem"].with_strengths(torch.ones(1)),
    "SensitiveFeatures.encode": lambda m: FEATURES.encode(),
    "SensitiveFeatures.from_list": lambda m: SensitiveFeatures.from_list(FEATURES.to_list()),
    "SensitiveFeatures.from_table": lambda m: SensitiveFeatures.from_table(
        PEOPLE, key="person", labels=np.arange(24)
    ),
    "SensitiveFeatures.joint": lambda m: FEATURES.joint(2),
    "FairCP.recommend": lambda m: FairCP(2, method="none", tol=0.1).fit(HOLES).recommend([0], 2),
    "Rankings.from_list": lambda m: parafair.Rankings.from_list(m["rankings"].to_list()),
    "Rankings.gap": lambda m: m["rankings"].gap("recall@10"),
    "Rankings.interval": lambda m: m["rankings"].interval("recall@10"),
    "Rankings.largest": lambda m: m["rankings"].largest("recall@10"),
    "Rankings.to_frame": lambda m: m["rankings"].to_frame(),
    "Rankings.to_list": lambda m: m["rankings"].to_list(),
    "Rankings.value": lambda m: m["rankings"].value("recall@10"),
    "evaluate_rankings": lambda m: rankings(),
    "split_by_time": lambda m: split_by_time(HOLES, np.arange(HOLES.observed)),
    "SensitiveFeatures.of": lambda m: SensitiveFeatures.of(PEOPLE[["group"]]),
    "SensitiveFeatures.read": lambda m: FEATURES.read(GROUPS),
    "SensitiveFeatures.read_table": lambda m: SensitiveFeatures.of(PEOPLE[["group"]]).read_table(
        PEOPLE, key="person", labels=np.arange(24)
    ),
    "SensitiveFeatures.sample": lambda m: FEATURES.sample(8, np.random.RandomState(0)),
    "SensitiveFeatures.take": lambda m: FEATURES.take(np.arange(8)),
    "SensitiveFeatures.to_list": lambda m: FEATURES.to_list(),
    "SensitiveFeatures.with_features": lambda m: FEATURES.with_features(),
    "Stop.judge": lambda m: Stop().judge(m["model"].fit_.history),
    "TensorData.find_mode": lambda m: DATA.find_mode(0),
    "TensorData.from_array": lambda m: TensorData.from_array(TENSOR),
    "TensorData.from_table": lambda m: TensorData.from_table(
        TABLE, modes=list(TABLE.columns[:3]), value=TABLE.columns[3]
    ),
    "TensorData.from_parquet": lambda m: TensorData.from_parquet(m["folder"] / "sorted"),
    "TensorData.from_tns": lambda m: TensorData.from_tns(m["folder"] / "x.tns"),
    "TensorData.keep": lambda m: DATA.keep([0, 1]),
    "TensorData.locate": lambda m: DATA.locate(0, [0, 1]),
    "TensorData.observed_per": lambda m: HOLES.observed_per(0),
    "TensorData.take": lambda m: HOLES.take(0, [1, 2]),
    "TensorData.to": lambda m: DATA.to("cpu"),
    "TensorData.to_dense": lambda m: HOLES.to_dense(),
    "TensorData.to_sparse": lambda m: HOLES.to_sparse(),
    "TensorData.to_table": lambda m: HOLES.to_table(),
    "TensorData.to_xarray": lambda m: HOLES.to_xarray(),
    "show_versions": lambda m: show_versions(),
    "TensorData.with_values": lambda m: DATA.with_values(TENSOR),
    "Tuning.to_frame": lambda m: m["tuning"].to_frame(),
    "Tuning.to_list": lambda m: m["tuning"].to_list(),
}


def public_calls():
    """Functions of the package, and methods of its classes; those that classes share, once."""
    seen = set()
    for name in parafair.__all__:
        thing = getattr(parafair, name)
        if inspect.isfunction(thing):
            yield name
        elif inspect.isclass(thing):
            for method in filter(lambda method: method[0] != "_", dir(thing)):
                own = getattr(thing, method)
                made_by = getattr(own, "__module__", None) or ""
                shared = getattr(own, "__func__", own)
                if callable(own) and made_by.startswith("parafair") and shared not in seen:
                    seen.add(shared)
                    yield f"{name}.{method}"
