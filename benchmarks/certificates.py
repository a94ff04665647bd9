"""Certificates: how long they take, whether attackers stay below them, and what (P) costs.

Run with ``python -m benchmarks.run certificate_time simulated_releases population
population_noise oulad_population``.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from math import log, sqrt
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from tests.reference.kinds import KINDS, draw

from benchmarks.marks import students
from parafair import (
    FairCP,
    ParafairWarning,
    TensorData,
    certify,
    certify_rows,
    datasets,
    split_people,
)
from parafair.guarantees.mixtures import group_posteriors
from parafair.guarantees.releases import Release
from parafair.model import noise as noise_module
from parafair.model.guaranteed import MULTIPLES

Row = dict[str, object]

CONFIDENCE = 0.95
# Error probability of the interval of a measured accuracy, negligible against the other.
INTERVAL = 0.001
# Data sets of the simulation; fewer for a quick look.
DATA_SETS = int(os.environ.get("PARAFAIR_DATA_SETS", "200"))
# Processes of the simulation, with one thread each.
JOBS = int(os.environ.get("PARAFAIR_JOBS", "1"))
# Rows of finished data sets, from which an interrupted simulation continues.
FINISHED = Path(__file__).parent / "results" / "simulated_releases.jsonl"
TRAIN, TEST = 2000, 20_000  # releases of each group

# Each is tuned on every data set by cross-validation.
ATTACKERS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "logistic": (LogisticRegression(max_iter=1000), {"C": [0.1, 10.0]}),
    "quadratic": (QuadraticDiscriminantAnalysis(), {"reg_param": [0.01, 0.3]}),
    "neighbors": (KNeighborsClassifier(), {"n_neighbors": [5, 51, 301]}),
    "forest": (
        RandomForestClassifier(100, random_state=0),
        {"min_samples_leaf": [5, 50]},
    ),
}


def certificate_time() -> Iterable[Row]:
    """Certificates of n people, two groups, rank 8: all statements, with exposures."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        for n in (2000, 20_000, 100_000):
            if device == "cpu" and n > 20_000:
                continue
            yield _time_row(n, device)


def _time_row(n: int, device: str) -> Row:
    random = np.random.default_rng(0)
    groups = np.where(random.random(n) < 0.4, "f", "m")
    rows = random.standard_normal((n, 8))
    rows[groups == "f", 0] += 0.5
    released = rows + random.standard_normal(rows.shape)
    settings: dict[str, Any] = {"noise": 1.0, "device": device}
    certify_rows(rows[:500], groups[:500], **settings)  # the first call on a device is slow
    begin = perf_counter()
    held_out = certify_rows(rows, groups, held_out=True, **settings)
    middle = perf_counter()
    found = certify_rows(rows, groups, released=released, **settings)
    end = perf_counter()
    return {
        "people": n,
        "device": device,
        "seconds (P)": middle - begin,
        "seconds (F), (C), exposures": end - middle,
        "(F)": found.leakage("release"),
        "(C)": found.leakage("matrix"),
        "(P)": held_out.leakage("population"),
    }


def simulated_releases() -> Iterable[Row]:
    """Attackers tuned on every data set, on simulated releases, against the certified value.

    PARAFAIR_DATA_SETS is the number of data sets and PARAFAIR_JOBS that of processes. If it is
    interrupted, the same command continues it.
    """
    FINISHED.parent.mkdir(exist_ok=True)
    lines = FINISHED.read_text().splitlines() if FINISHED.exists() else []
    found: list[Row] = [row for row in map(json.loads, lines) if row["seed"] < DATA_SETS]
    left = sorted(set(range(DATA_SETS)) - {row["seed"] for row in found})
    parallel = Parallel(n_jobs=JOBS, return_as="generator_unordered")
    with FINISHED.open("a") as file:
        for row in parallel(delayed(_simulate)(seed) for seed in left):
            found.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(f"{len(found)} of {DATA_SETS}: {row}", flush=True)
    for attacker in ("the mixtures", *ATTACKERS, "strongest"):
        above = sum(bool(row[f"{attacker} above"]) for row in found)
        gains = [float(row[attacker]) for row in found]  # type: ignore[arg-type]
        certified = [float(row["certified"]) for row in found]  # type: ignore[arg-type]
        yield {
            "attacker": attacker,
            "data sets": len(found),
            "above the certified value beyond the interval": above,
            "allowed": (1 - CONFIDENCE) * len(found),
            "mean advantage": float(np.mean(gains)),
            "mean certified": float(np.mean(certified)),
            "largest difference": float(np.max(np.subtract(gains, certified))),
        }
    FINISHED.unlink()


def _simulate(seed: int) -> Row:
    """Certify a fit to fresh data, release it many times, and attack it."""
    torch.set_num_threads(1)
    random = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    tensor, groups, rank = draw(kind, 1000 + seed, 150)
    method = ("none", "transport", "moment-matching")[seed % 3]
    noise = float(np.exp(random.uniform(np.log(0.2), np.log(2.0))))
    model = FairCP(rank, method=method, noise=noise, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)
        model.fit(tensor, sensitive_features=groups)
    release = model.exact_release()
    certified = certify(model, confidence=CONFIDENCE, random_state=seed).leakage("release")
    codes = release.features.columns[0].values
    count = int(codes.max()) + 1
    train, test = (_released(release, codes, size, random) for size in (TRAIN, TEST))
    rows = release.rows.double().numpy() @ np.linalg.pinv(release.noise.numpy())
    points = torch.from_numpy(test[0] @ np.linalg.pinv(release.noise.numpy()))
    best = group_posteriors(points, torch.from_numpy(rows), torch.from_numpy(codes)).argmax(1)
    answers: dict[str, NDArray[Any]] = {"the mixtures": best.numpy()}
    scores = {}
    for name, (attacker, grid) in ATTACKERS.items():
        search = GridSearchCV(attacker, grid, scoring="balanced_accuracy", cv=3).fit(*train)
        answers[name], scores[name] = search.predict(test[0]), search.best_score_
    # One-sided interval of a balanced accuracy, by Hoeffding: mean over groups of shares.
    half = sqrt(log(1 / INTERVAL) / (2 * TEST * count))
    gains = {k: balanced_accuracy_score(test[1], v) - 1 / count for k, v in answers.items()}
    gains["strongest"] = gains[max(scores, key=scores.__getitem__)]  # chosen before the test
    above = {f"{name} above": bool(gain - half > certified) for name, gain in gains.items()}
    return {
        "seed": seed, "data": f"{kind.__name__}, {method}", "noise": noise, "certified": certified,
        **gains, **above,
    }  # fmt: skip


def _released(
    release: Release, codes: NDArray[Any], size: int, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return released rows of random people of each group, and their groups."""
    members = [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)]
    people = np.concatenate([random.choice(part, size) for part in members])
    noise = random.standard_normal((len(people), len(release.noise))) @ release.noise.numpy()
    return release.rows.double().numpy()[people] + noise, codes[people]


# Students of OULAD who are fitted; all others are held out. Fits of everybody take many minutes.
FITTED_STUDENTS = 3000


def population() -> Iterable[Row]:
    """10,000 generated people and as many held out, guarantee="population" at 0.05."""
    for rank in (2, 4, 8):
        data = datasets.synthetic(0, shape=(20_000, 20, 20), rank=rank)
        X, groups = TensorData.from_array(data.tensor), data.sensitive_features
        people = split_people(X, test_size=0.5, groups=groups, random_state=0)
        settings = {"strength": "auto", "guarantee": "population", "max_leakage": 0.05}
        yield _population_row("generated", X, groups, people, {"rank": rank, **settings})


def population_noise() -> Iterable[Row]:
    """(P) as the noise grows: 4000 generated people are fitted at rank 4, and as many held out.

    "permuted" is the estimate for random groups of the same rows, which is what too few people add.
    """
    data = datasets.synthetic(0, shape=(8000, 20, 20), rank=4)
    X, groups = TensorData.from_array(data.tensor), data.sensitive_features
    people = split_people(X, test_size=0.5, groups=groups, random_state=0)
    train, test = X.take(0, people.train), X.take(0, people.test)
    theirs = groups[people.test]
    permuted = np.random.default_rng(0).permutation(theirs)
    usual = noise_module.SHARE_OF_SHIFTS
    for noise in (0.4, 0.8, 1.6, 3.2, 6.4):
        model = FairCP(4, strength=300.0, noise=noise, random_state=0)
        row: Row = {"noise": noise}
        for name, share in (("estimate", usual), ("without noise of shifts", 0.0)):
            noise_module.SHARE_OF_SHIFTS = share
            try:
                model.fit(train, sensitive_features=groups[people.train])
            finally:
                noise_module.SHARE_OF_SHIFTS = usual
            release = model.exact_release(test, theirs)
            of = {name: theirs} if share == 0 else {name: theirs, "permuted": permuted}
            for what, features in of.items():
                found = certify_rows(release.rows, features, noise=release.noise, held_out=True)
                row[what] = found.statements[0].estimate
        print(row, flush=True)
        yield row


def oulad_population() -> Iterable[Row]:
    """(P) of the students of OULAD by gender: 3000 are fitted, all others are held out.

    One strength with two noises, so the map is fixed before anybody who is held out is looked at.
    It needs the data, downloaded or in the folder PARAFAIR_DATA.
    """
    X, gender = students()
    held_out = 1 - FITTED_STUDENTS / X.shape[0]
    people = split_people(X, test_size=held_out, groups=gender, random_state=0)
    for rank in (2, 4, 8):
        for noise in (0.4, 0.8):
            settings = {"rank": rank, "center": True, "ridge": 10.0, "strength": 100.0}
            settings["noise"] = noise
            yield _population_row("OULAD, gender", X, gender, people, settings)


def _population_row(
    name: str, X: TensorData, groups: Any, people: Any, settings: dict[str, Any]
) -> Row:
    train, test = (
        (X.take(0, part), np.asarray(groups)[part]) for part in (people.train, people.test)
    )
    model = FairCP(**settings, random_state=0)
    begin = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)
        held_out = {"held_out": test} if model.guarantee else {}
        model.fit(train[0], sensitive_features=train[1], **held_out)
    fitted = process_time()
    # With other draws than the search, and after a search at the confidence of one of its trials.
    sure = 1 - (1 - CONFIDENCE) / (len(MULTIPLES) if model.guarantee else 1)
    (statement,) = certify(model, *test, random_state=11, confidence=sure).statements
    certified = process_time()
    row: Row = {
        "data": name,
        "rank": settings["rank"],
        "people": len(train[1]),
        "held out": len(test[1]),
        "passed": model.selection_.passed if model.guarantee else None,
        "strength": model.record_.strength,
        "noise": model.record_.noise,
        "(P)": statement.upper,
        "estimate": statement.estimate,
        "slack": statement.slack,
        "residual": model.fit_.residual,
        "before noise": model.fit_.before_noise.residual,
        "fit, CPU s": fitted - begin,
        "certificate, CPU s": certified - fitted,
    }
    print(row, flush=True)
    return row
