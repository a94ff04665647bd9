"""Whether fits end at chance, and how low their objective is: new data, new attackers, ten seeds.

Run with ``python -m benchmarks.run chance_auto certified_auto certified_and_audited chance_random
chance_seeds chance_new``. Attackers that no search ever uses ("strangers") judge beside those of
the library; all may turn their answers around.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.naive_bayes import GaussianNB
from tests.reference.kinds import KINDS, draw

from parafair import Audit, FairCP, audit, certify, datasets, parity_limit

Row = dict[str, object]

STRANGERS: dict[str, Any] = {
    "extra trees": ExtraTreesClassifier(200, min_samples_leaf=2, random_state=0),
    "quadratic": QuadraticDiscriminantAnalysis(reg_param=0.1),
    "naive Bayes": GaussianNB(),
    "Gaussian process": GaussianProcessClassifier(random_state=0),
}
NUMERIC_STRANGERS = {"extra trees": ExtraTreesRegressor(200, min_samples_leaf=2, random_state=0)}

# Seed of the outside audits; the search uses that of the model.
OUTSIDE = 11


def chance_auto() -> Iterable[Row]:
    """strength="auto" on the paper's data, on other kinds and on data nobody developed with."""
    jobs = [("paper", seed) for seed in range(5)]
    jobs += [(name, 0) for name in (*kinds(), "mean shift 60/240")]
    jobs += [("mean shift 60/240", 7), ("paper, 300 people", 5), ("paper, 300 people", 6)]
    yield from _each(_auto_row, jobs)


def _auto_row(name: str, seed: int) -> Row:
    tensor, sensitive, rank = data_of(name, seed)
    begin = perf_counter()
    model = FairCP(rank, strength="auto", random_state=seed)
    model.fit(tensor, sensitive_features=sensitive)
    seconds = perf_counter() - begin
    result = audit(model.embedding_, sensitive_features=sensitive, random_state=OUTSIDE)
    numeric = np.asarray(sensitive).dtype.kind == "f"
    others = audit(
        model.embedding_,
        sensitive_features=sensitive,
        attackers=NUMERIC_STRANGERS if numeric else STRANGERS,
        permutations=1,
        random_state=OUTSIDE,
    )
    return {
        "data": f"{name}, seed {seed}",
        "strength": model.selection_.strength,
        "passed": model.selection_.passed,
        "residual": model.fit_.residual,
        "before noise": model.fit_.before_noise.residual,
        "limit": float("nan")
        if numeric
        else parity_limit(tensor, sensitive_features=sensitive).residual,
        "leakage": result.leakage,
        "attackers": _range(result),
        "off chance": _off_chance(result),
        "strangers": others.leakage,
        "strangers off chance": _off_chance(others),
        "trials": len(model.selection_.trials),
        "seconds": seconds,
        "status": model.fit_.status.name,
    }


def certified_auto() -> Iterable[Row]:
    """strength="auto" with a guarantee for a released row, at 0.05.

    Audits have another seed than the search, and certificates other draws.
    """
    yield from _each(_certified_row, [(*job, ("release",)) for job in GUARANTEED])


def certified_and_audited() -> Iterable[Row]:
    """strength="auto" with an audit and a guarantee for a released row, both at 0.05.

    Audits have another seed than the search, and certificates other draws.
    """
    yield from _each(_certified_row, [(*job, ("audit", "release")) for job in GUARANTEED])


# Data on which a guarantee is asked for, and what it may leak.
GUARANTEED = (
    *(("paper", seed) for seed in range(5)),
    ("equal moments, other shape", 0),
    ("three groups", 0),
    ("two columns", 0),
    ("a number on a circle", 0),
    ("mean shift 60/240", 0),
    ("mean shift 60/240", 7),
    ("paper, 300 people", 5),
)
MAX_LEAKAGE = 0.05


def _certified_row(name: str, seed: int, wanted: tuple[str, ...]) -> Row:
    tensor, sensitive, rank = data_of(name, seed)
    begin = process_time()
    model = FairCP(
        rank, strength="auto", guarantee=wanted, max_leakage=MAX_LEAKAGE, random_state=seed
    )
    model.fit(tensor, sensitive_features=sensitive)
    seconds = process_time() - begin
    certificate = certify(model, random_state=OUTSIDE)
    result = audit(model.embedding_, sensitive_features=sensitive, random_state=OUTSIDE)
    numeric = np.asarray(sensitive).dtype.kind == "f"
    limit = None if numeric else parity_limit(tensor, sensitive_features=sensitive)
    return {
        "data": f"{name}, seed {seed}",
        "guarantee": " and ".join(wanted),
        "passed": model.selection_.passed,
        "residual": model.fit_.residual,
        "noise": model.record_.noise,
        "certified (F)": certificate.leakage("release"),
        "limit at (F)": None if limit is None else limit.at(certificate.leakage("release")),
        "leakage (a)": result.leakage,
        "attackers": _range(result),
        "outside audit": result.verdict(MAX_LEAKAGE).value,
        "exposed 95 %": max(e.percentile for e in certificate.exposures if e.threat == "b"),
        "trials": len(model.selection_.trials),
        "CPU s": seconds,
    }


def chance_random() -> Iterable[Row]:
    """Groups assigned at random, five kinds of data: no strength makes people recognizable."""
    jobs = [(k, seed, s) for k in range(len(KINDS)) for seed in (5, 6) for s in (1.0, 300.0, 1e4)]
    yield from _each(_random_row, jobs)


def _random_row(kind: int, seed: int, strength: float) -> Row:
    tensor, groups, rank = draw(KINDS[kind], seed, 300, independent=True)
    model = FairCP(rank, strength=strength, random_state=seed)
    model.fit(tensor, sensitive_features=groups)
    result = audit(model.embedding_, sensitive_features=groups, random_state=OUTSIDE)
    others = audit(model.embedding_, sensitive_features=groups, attackers=STRANGERS, permutations=1)
    low, high = result.leakage_interval
    return {
        "data": f"{KINDS[kind].__name__}, seed {seed}",
        "strength": strength,
        "leakage": result.leakage,
        "interval": f"{low:.3f} to {high:.3f}",
        "attackers": _range(result),
        "off chance": _off_chance(result),
        "strangers": others.leakage,
        "strangers off chance": _off_chance(others),
    }


def chance_seeds() -> Iterable[Row]:
    """Ten seeds at the default strength: how far objectives differ."""
    yield from _each(_seeds_row, [(k,) for k in range(len(KINDS))])


def _seeds_row(kind: int) -> Row:
    tensor, groups, rank = draw(KINDS[kind], 0, 200)
    models = [
        FairCP(rank, random_state=seed).fit(tensor, sensitive_features=groups) for seed in range(10)
    ]
    objectives = [model.fit_.before_noise.objective for model in models]
    residuals = [model.fit_.before_noise.residual for model in models]
    return {
        "data": KINDS[kind].__name__,
        "largest / smallest objective": max(objectives) / min(objectives),
        "residuals": f"{min(residuals):.4f} to {max(residuals):.4f}",
        "status": ", ".join(sorted({model.fit_.status.name for model in models})),
    }


def chance_new() -> Iterable[Row]:
    """New people, attackers trained on the training rows: random features, then their own."""
    jobs = [(k, own) for k in range(len(KINDS)) for own in (False, True)]
    yield from _each(_new_row, jobs)


def _new_row(kind: int, own: bool) -> Row:
    tensor, groups, rank = draw(KINDS[kind], 0, 600)
    random = np.random.default_rng(1)
    order = random.permutation(600)
    groups = groups if own else random.permutation(groups)
    train, new = order[:300], order[300:]
    model = FairCP(rank, random_state=0).fit(tensor[train], sensitive_features=groups[train])
    row: Row = {"data": KINDS[kind].__name__, "features": "own" if own else "random"}
    for name, settings in {"shifted": {}, "refined": {"refine": True}}.items():
        rows = model.transform(tensor[new], sensitive_features=groups[new], **settings)
        result = audit(
            model.embedding_,
            sensitive_features=groups[train],
            new_embedding=rows,
            new_sensitive_features=groups[new],
            permutations=1,
        )
        row |= {name: result.leakage, f"{name}, off chance": _off_chance(result)}
    return row


def kinds() -> dict[str, tuple[np.ndarray, Any, int]]:
    """Return tensors that depend on sensitive features of several kinds, with their ranks."""
    random = np.random.default_rng(0)

    def tensor(people: np.ndarray, rank: int, sizes: tuple[int, int] = (60, 50)) -> np.ndarray:
        others = [random.uniform(size=(size, rank)) for size in sizes]
        return np.einsum("ir,jr,kr->ijk", people, *others)

    n, rank = 300, 5
    half = np.arange(n) < n // 2
    signs = random.choice([-1.0, 1.0], (n, rank))
    shape = np.where(half[:, None], random.standard_normal((n, rank)), signs)
    for part in (half, ~half):  # the same means and covariances, exactly
        deviation = shape[part] - shape[part].mean(0)
        root = np.linalg.cholesky(np.linalg.inv(np.cov(deviation.T, bias=True)))
        shape[part] = deviation @ root
    three = random.integers(0, 3, n)
    angle = random.uniform(-np.pi, np.pi, n)
    circle = random.standard_normal((n, rank)) * 0.3
    circle[:, :2] += np.column_stack([np.cos(angle), np.sin(angle)])
    two = pd.DataFrame({"one": random.integers(0, 2, n), "two": random.integers(0, 2, n)})
    both = random.standard_normal((n, rank))
    both[:, 0] += 2 * two["one"]
    both[:, 1] += 2 * (two["one"] ^ two["two"])
    centers = 2 * random.standard_normal((3, rank))
    return {
        "equal moments, other shape": (tensor(shape, rank), half, rank),
        "three groups": (
            tensor(random.standard_normal((n, rank)) + centers[three], rank),
            three,
            5,
        ),
        "a number on a circle": (tensor(circle, rank), angle, rank),
        "two columns": (tensor(both, rank), two, rank),
    }


def data_of(name: str, seed: int) -> tuple[Any, Any, int]:
    """Return a tensor, its sensitive features and a rank."""
    if name.startswith("paper"):
        data = datasets.synthetic(seed, shape=(300, 60, 50) if "300" in name else (200, 100, 100))
        return data.tensor, data.sensitive_features, 8
    if name in kinds():
        return kinds()[name]
    random = np.random.default_rng(seed)
    groups = np.arange(300) < 60
    people = random.standard_normal((300, 5)) + 1.5 * groups[:, None] * random.standard_normal(5)
    others = [random.standard_normal((size, 5)) for size in (40, 30)]
    tensor = np.einsum("ir,jr,kr->ijk", people, *others)
    error = random.standard_normal(tensor.shape)
    return tensor + 0.1 * np.linalg.norm(tensor) / np.linalg.norm(error) * error, groups, 5


def _range(result: Audit) -> str:
    advantages = [row.advantage for row in result.attackers]
    return f"{min(advantages):.2f} to {max(advantages):.2f}"


def _off_chance(result: Audit) -> str:
    off = [f"{r.model} {r.input}" for r in result.scores if r.above_chance or r.below_chance]
    return ", ".join(off) or "none"


def _each(function: Any, jobs: Iterable[tuple[Any, ...]]) -> Iterable[Row]:
    """Yield one row per job, with one thread each."""
    parallel = Parallel(n_jobs=-1, return_as="generator")
    yield from parallel(delayed(_alone)(function, *job) for job in jobs)


def _alone(function: Any, *job: Any) -> Row:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rows show it
        row: Row = function(*job)
    return row
