"""The names that the calls of the campaign use; a reproduction begins with an import of them all.

>>> from tests.campaign.namespace import *  # doctest: +SKIP
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
import xarray as xr
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import parafair
from parafair import (
    Certificate,
    CPTensor,
    FairCP,
    FairTucker,
    Frontier,
    Problem,
    SensitiveFeatures,
    Stop,
    TensorData,
    audit,
    audit_outputs,
    certify,
    certify_rows,
    compare_scores,
    datasets,
    encoders,
    errors,
    evaluate_rankings,
    frontier,
    frontiers,
    guarantees,
    interop,
    parity_limit,
    penalties,
    people_needed,
    report,
    solvers,
    sort_parquet,
    split_by_time,
    split_cells,
    split_people,
    tune,
)
from parafair.audits import ATTACKERS, Attacker, check_max_leakage, evaluation, measures
from parafair.dependence import hsic as dependence
from parafair.dependence import kernels

__all__ = [
    "ATTACKERS",
    "FOLDER",
    "Attacker",
    "CPTensor",
    "Certificate",
    "Decimal",
    "FairCP",
    "FairTucker",
    "Fraction",
    "Frontier",
    "LogisticRegression",
    "Path",
    "Problem",
    "SensitiveFeatures",
    "Stop",
    "TensorData",
    "audit",
    "audit_outputs",
    "certificate",
    "certify",
    "certify_rows",
    "check_max_leakage",
    "compare_scores",
    "counted",
    "curve",
    "datasets",
    "dependence",
    "encoded",
    "encoders",
    "errors",
    "evaluate_rankings",
    "evaluation",
    "features",
    "found",
    "frontier",
    "frontiers",
    "groups",
    "guarantees",
    "interop",
    "kernels",
    "labeled",
    "limit",
    "mapped",
    "matrix_model",
    "measures",
    "model",
    "np",
    "pa",
    "parafair",
    "parity_limit",
    "pd",
    "penalties",
    "people_needed",
    "plain_model",
    "ranked",
    "report",
    "rng",
    "scores",
    "sided",
    "solvers",
    "sort_parquet",
    "sparse",
    "split_by_time",
    "split_cells",
    "split_people",
    "streamed",
    "tensor",
    "torch",
    "tucker",
    "tune",
    "tuned",
    "unfitted",
    "with_holes",
    "xr",
]

# Calls with a table of Polars cannot be made without it; they are left out, and not replaced.
ABSENT: list[str] = []
try:
    import polars as pl
except ModuleNotFoundError:
    ABSENT.append("Polars")
else:
    __all__ += ["pl"]

rng = np.random.default_rng


def groups(people: int, count: int = 2) -> np.ndarray:
    """Categories in turn, as text."""
    return np.array([f"g{code}" for code in range(count)])[np.arange(people) % count]


def with_holes(array: Any, share: float = 0.3, value: Any = np.nan) -> np.ndarray:
    """A copy in which some entries, always the same, are missing."""
    array = np.array(array)
    array[rng(0).random(array.shape) < share] = value
    return array


FOLDER = Path(tempfile.mkdtemp(prefix="campaign-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

QUICK = {"attackers": ["linear"], "folds": 2, "repeats": 1, "permutations": 5}


def _labeled_table() -> pd.DataFrame:
    """Marks of 8 people in 4 subjects at 3 dates, a few of them missing."""
    places = [
        (f"p{i}", s, d) for i in range(8) for s in ("art", "bio", "chem", "é") for d in (1, 2, 3)
    ]
    table = pd.DataFrame(places, columns=["who", "subject", "date"])
    table["score"] = rng(0).normal(size=len(table)).round(3) + 2
    return table.drop(index=range(0, len(table), 7)).reset_index(drop=True)


def _prepare() -> SimpleNamespace:
    """Objects that calls begin with: data, fitted models and results, and files of them."""
    table = _labeled_table()
    data = TensorData.from_table(table, modes=["who", "subject", "date"], value="score")
    # The first calls make torch import modules that change filters and the environment.
    repr(torch.zeros(1, device="meta"))
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    dependence.hsic(np.eye(3)[None], np.eye(3)[None], kernels=(kernels.Linear(),) * 2)
    tensor = (
        rng(1).normal(size=(8, 4, 3)) + groups(8).astype("U1").view(np.int32)[:, None, None] % 3
    )
    few = {"max_iter": 5, "tol": 0.0}
    model = FairCP(2, strength=1.0, **few).fit(tensor, sensitive_features=groups(8))
    curve = frontier(
        FairCP(2, **few), tensor, sensitive_features=groups(8), strengths=[0, 1], audits=QUICK
    )
    people = pd.DataFrame(
        {"who": [f"p{i}" for i in range(8)], "group": groups(8), "age": np.linspace(20, 60, 8)}
    )
    people.to_csv(FOLDER / "people.csv", index=False)
    table.to_csv(FOLDER / "scores.csv", index=False)
    (FOLDER / "entries.tns").write_text("1 1 1 2.5\n2 3 1 0.5\n3 1 2 1.5\n", encoding="utf-8")
    (FOLDER / "damaged.tns").write_text("1 1 x\n", encoding="utf-8")
    (FOLDER / "empty").mkdir()
    table.to_parquet(FOLDER / "scores.parquet", index=False)
    streamed = sort_parquet(
        FOLDER / "scores.parquet", FOLDER / "sorted", modes=["who", "subject", "date"],
        value="score",
    )  # fmt: skip
    model.save(FOLDER / "model")
    shutil.copytree(FOLDER / "model", FOLDER / "damaged")
    (FOLDER / "damaged" / "model.json").write_text("{}", encoding="utf-8")
    frontier(
        FairCP(2, **few), tensor, sensitive_features=groups(8), strengths=[0, 1], audits=QUICK,
        out=FOLDER / "curve",
    )  # fmt: skip
    found = audit(model.embedding_, sensitive_features=groups(8), **QUICK)
    found.save(FOLDER / "audit.json")
    certificate = certify(model, draws=200)
    certificate.write(FOLDER / "certificate.json")
    return SimpleNamespace(
        scores=data,
        tensor=tensor,
        model=model,
        plain_model=FairCP(2, method="none", **few).fit(tensor),
        matrix_model=FairCP(1, method="hsic", **few).fit(
            tensor[:, :, 0], sensitive_features=groups(8)
        ),
        labeled=FairCP(2, mode="who", center=True, strength=0.5, **few).fit(
            data, sensitive_features=people[["group", "age"]]
        ),
        unfitted=FairCP(),
        streamed=streamed,
        tucker=FairTucker((2, 2, 2), strength=1.0, **few).fit(tensor, sensitive_features=groups(8)),
        sided=FairCP(2, strength=1.0, **few).fit(
            tensor, sensitive_features=groups(8), side=rng(2).normal(size=(8, 3))
        ),
        mapped=FairCP(2, method=penalties.SlicedTransport(2, 4), **few).fit(
            tensor, sensitive_features=groups(8)
        ),
        encoded=FairCP(2, encoder=encoders.Learned(hidden=2, steps=2), noise=0.1, **few).fit(
            tensor, sensitive_features=groups(8)
        ),
        counted=FairCP(2, method="none", loss="poisson", **few).fit(
            TensorData.from_array(sparse.csr_array(np.abs(tensor[:, :, 0]).round()), absent="zero")
        ),
        ranked=evaluate_rankings(tensor, data, k=2, bootstraps=10, sensitive_features=groups(8)),
        curve=curve,
        found=found,
        certificate=certificate,
        limit=parity_limit(tensor, sensitive_features=groups(8)),
        tuned=tune(FairCP(method="none", **few), tensor, grid={"rank": [1, 2]}),
        features=SensitiveFeatures.of(people[["group", "age"]]),
    )


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _prepared = _prepare()

scores, tensor, features = _prepared.scores, _prepared.tensor, _prepared.features
model, plain_model, matrix_model = _prepared.model, _prepared.plain_model, _prepared.matrix_model
labeled, unfitted, tuned = _prepared.labeled, _prepared.unfitted, _prepared.tuned
curve, found, limit = _prepared.curve, _prepared.found, _prepared.limit
certificate, streamed, ranked = _prepared.certificate, _prepared.streamed, _prepared.ranked
tucker, sided, encoded = _prepared.tucker, _prepared.sided, _prepared.encoded
mapped = _prepared.mapped
counted = _prepared.counted
