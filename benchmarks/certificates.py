"""Certificates: how long they take, and whether attackers on simulated releases stay below them.

Run with ``python -m benchmarks.run certificate_time simulated_releases``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from math import log, sqrt
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from tests.reference.kinds import KINDS, draw

from parafair import FairCP, ParafairWarning, certify, certify_rows
from parafair.guarantees.mixtures import group_posteriors
from parafair.guarantees.releases import Release

Row = dict[str, object]

CONFIDENCE = 0.95
# Error probability of the interval of a measured accuracy, negligible against the other.
INTERVAL = 0.001
# Data sets of the simulation; fewer for a quick look.
DATA_SETS = int(os.environ.get("PARAFAIR_DATA_SETS", "200"))
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
    """Attackers tuned on every data set, on simulated releases, against the certified value."""
    found: list[Row] = []
    for seed in range(DATA_SETS):
        found.append(_simulate(seed))
        print(found[-1], flush=True)
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


def _simulate(seed: int) -> Row:
    """Certify a fit to fresh data, release it many times, and attack it."""
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
        "data": f"{kind.__name__}, {method}", "noise": noise, "certified": certified,
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
