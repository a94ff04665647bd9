"""People whose group is not known: encoders on Adult and on OULAD, on several splits.

Run with ``python -m benchmarks.run adult_methods adult_blind oulad_blind``. They need the data,
downloaded or in the folder PARAFAIR_DATA. `benchmarks.parts` measures one fit at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.alone import alone
from benchmarks.blind_attackers import guess, guess_others, strongest
from benchmarks.marks import SETTINGS
from benchmarks.parts import part
from parafair import FairCP, certify, datasets
from parafair.data.tensor_data import TensorData

Row = dict[str, Any]
RANK, FITTED, NEW, SPLITS = 8, 12_000, 6_000, 2
# Rare groups need larger batches, which take much longer.
FEWER = (6_000, 3_000)
# Processes, with one thread each.
JOBS = int(os.environ.get("PARAFAIR_JOBS", "1"))

# A name, arguments of the model (None: rows drawn at random), and whether `transform` is told the
# group of new people.
MODELS: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "rows drawn at random": (None, False),
    "plain": ({"method": "none"}, False),
    "fair-pca": ({"method": "fair-pca"}, False),
    "fair-pca-covariance": ({"method": "fair-pca-covariance"}, False),
    "leace": ({"method": "leace"}, False),
    "perez-suay": ({"method": "perez-suay"}, False),
    "kernel-perez-suay": ({"method": "kernel-perez-suay"}, False),
    "sliced-transport": ({"method": "sliced-transport"}, True),
    "linear encoder": ({"encoder": "linear"}, False),
    "network encoder": ({"encoder": "network"}, False),
    "sliced-transport, noise 0.1": ({"method": "sliced-transport", "noise": 0.1}, True),
    "network encoder, noise 0.6": ({"encoder": "network", "noise": 0.6}, False),
}
OF_NOISE = tuple(name for name in MODELS if "noise" in name)
OF_RACE = ("rows drawn at random", "plain", "sliced-transport", "network encoder")
STUDENTS: dict[str, dict[str, Any]] = {
    "plain": {"method": "none"},
    "network encoder": {"encoder": "network"},
}
# A split takes minutes for each model and feature.
STUDENT_SPLITS = 1
PARTS = ((1, 3), (4, 7), (8, 100))
MEASURES = ("leakage", "within new")


def adult_methods() -> Iterable[Row]:
    """Adult: 12,000 people to fit, 6,000 new ones, sex: means and largest values of two splits.

    "leakage" is the balanced accuracy above chance of the strongest of five attackers, after
    training on the fitted people; "within new": on other new people.
    """
    names = [name for name in MODELS if "encoder" not in name and name not in OF_NOISE]
    yield from _splits([("sex", name, split) for name in names for split in range(SPLITS)])


def adult_blind() -> Iterable[Row]:
    """Adult: learned encoders, measured like the methods of `adult_methods`."""
    names = [name for name in MODELS if "encoder" in name and name not in OF_NOISE]
    yield from _splits([("sex", name, split) for name in names for split in range(SPLITS)])


def adult_noise() -> Iterable[Row]:
    """Adult: models with less or more noise than by default, measured like the others: one split.

    It is the first of the splits of `adult_methods` and `adult_blind`.
    """
    yield from _splits([("sex", name, 0) for name in OF_NOISE])


def adult_race() -> Iterable[Row]:
    """Adult: 6,000 people to fit, 3,000 new ones, race, whose groups are uneven: one split."""
    yield from _splits([("race", name, 0) for name in OF_RACE])


def _splits(jobs: Sequence[tuple[str, str, int]]) -> Iterable[Row]:
    """Return one row for each model."""
    found = Parallel(n_jobs=JOBS)(delayed(part)(one_adult, *job) for job in jobs)
    for name in dict.fromkeys(job[1] for job in jobs):
        own = [split for job, split in zip(jobs, found, strict=True) if job[1] == name]
        row: Row = {"model": name, "splits": len(own)}
        for measure in MEASURES:
            values = [split[measure][0] for split in own]
            row[measure] = float(np.mean(values))
            row[f"largest {measure}"] = max(values)
        row["strongest"] = [split["within new"][1] for split in own]
        for measure in ("income AUC", "residual", "(P)", "slack", "fit, CPU s"):
            values = [split[measure] for split in own]
            row[measure] = None if values[0] is None else float(np.mean(values))
        yield row


def one_adult(feature: str, name: str, split: int) -> Row:
    """Fit one model on one split, and measure it."""
    data, (settings, known) = datasets.adult(), MODELS[name]
    count, more = (FITTED, NEW) if feature == "sex" else FEWER
    people = np.random.default_rng(100 + split).permutation(len(data.target))[: count + more]
    fitted, new = people[:count], people[count:]
    group, rich = data.sensitive_features[feature].to_numpy(), (data.target == ">50K").to_numpy()
    model, seconds = None, None
    if settings is None:
        rows = np.random.default_rng(split).standard_normal((len(people), RANK))
        old, rows = rows[:count], rows[count:]
    else:
        begin = process_time()
        model = FairCP(RANK, random_state=split, **settings)
        model.fit(data.tensor[fitted], sensitive_features=group[fitted])
        seconds = process_time() - begin
        told = {"sensitive_features": group[new]} if known else {}
        old, rows = model.embedding_, model.transform(data.tensor[new], **told)
    return {
        "leakage": strongest(guess(old, group[fitted], rows), group[new]),
        "within new": strongest(guess_others(rows, group[new]), group[new]),
        "income AUC": _income(old, rich[fitted], rows, rich[new]),
        "residual": None if model is None else model.fit_.residual,
        **_population(model, data.tensor[new], group[new]),
        "fit, CPU s": seconds,
    }


def adult_limit() -> Iterable[Row]:
    """Adult: AUC of an income score with the same distribution for women and men, by split.

    A boosted tree that is told the sex scores new people, and each one gets the rank within the own
    sex. Its inputs are rows of a plain decomposition of rank 8, or all 80 columns.
    """
    data = datasets.adult()
    sex = (data.sensitive_features["sex"] == "Female").to_numpy()
    rich = (data.target == ">50K").to_numpy()
    for split in range(SPLITS):
        people = np.random.default_rng(100 + split).permutation(len(rich))[: FITTED + NEW]
        fitted, new = people[:FITTED], people[FITTED:]
        model = FairCP(RANK, method="none", random_state=split).fit(data.tensor[fitted])
        for inputs, old, rows in (
            ("plain rows", model.embedding_, model.transform(data.tensor[new])),
            ("all columns", data.tensor[fitted], data.tensor[new]),
        ):
            trees = HistGradientBoostingClassifier(random_state=0)
            trees.fit(np.column_stack([old, sex[fitted]]), rich[fitted])
            scores = trees.predict_proba(np.column_stack([rows, sex[new]]))[:, 1]
            ranks = np.empty(len(new))
            for own in (sex[new], ~sex[new]):
                ranks[own] = rankdata(scores[own]) / own.sum()
            yield {
                "split": split,
                "inputs": inputs,
                "AUC": float(roc_auc_score(rich[new], scores)),
                "AUC of ranks within a sex": float(roc_auc_score(rich[new], ranks)),
            }


def adult_holes() -> Iterable[Row]:
    """Adult: a network encoder of 6,000 people; 3,000 new ones without some of their entries."""
    data, (count, more) = datasets.adult(), FEWER
    random = np.random.default_rng(0)
    people = random.permutation(len(data.target))[: count + more]
    sex = data.sensitive_features["sex"].to_numpy()[people]
    rich = (data.target == ">50K").to_numpy()[people]
    fitted, new = data.tensor[people[:count]], data.tensor[people[count:]]
    model = FairCP(RANK, encoder="network").fit(fitted, sensitive_features=sex[:count])
    for share in (0.0, 0.2, 0.5, 0.8):
        rows = model.transform(np.where(random.random(new.shape) < share, np.nan, new))
        known = guess(model.embedding_, sex[:count], rows)
        yield {
            "missing": share,
            "leakage": strongest(known, sex[count:])[0],
            "within new": strongest(guess_others(rows, sex[count:]), sex[count:])[0],
            "income AUC": _income(model.embedding_, rich[:count], rows, rich[count:]),
        }


def adult_time() -> Iterable[Row]:
    """Adult: all people of adult.data, each fit in a process of its own."""
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for name in ("sliced-transport", "network encoder"):
            yield {"model": name, "device": device, **alone("blind.one_adult_time", name, device)}


def one_adult_time(name: str, device: str) -> Row:
    """Fit everybody and embed them again."""
    data, (settings, known) = datasets.adult(), MODELS[name]
    sex = data.sensitive_features["sex"].to_numpy()
    begin = perf_counter()
    model = FairCP(RANK, device=device, **(settings or {}))
    model.fit(data.tensor, sensitive_features=sex)
    fitted = perf_counter()
    model.transform(data.tensor, **({"sensitive_features": sex} if known else {}))
    return {
        "people": len(sex),
        "fit, seconds": fitted - begin,
        "transform, seconds": perf_counter() - fitted,
        "CPU seconds": process_time(),
    }


def oulad_blind() -> Iterable[Row]:
    """OULAD: students without their gender or disability, by number of marks; error of new marks.

    A fifth of the students are new. They are embedded from four fifths of their marks, and the
    others are predicted. "leakage": attackers are trained on the fitted people; "same marks": on
    those of them who have about as many marks; "within new": on other new people. These are the
    mean and the largest value of all splits.
    """
    jobs = [(feature, name) for feature in ("gender", "disability") for name in STUDENTS]
    tasks = [
        delayed(part)(one_oulad, *job, split) for job in jobs for split in range(STUDENT_SPLITS)
    ]
    found = Parallel(n_jobs=JOBS)(tasks)
    for place, (feature, name) in enumerate(jobs):
        splits = found[STUDENT_SPLITS * place :][:STUDENT_SPLITS]
        row: Row = {"feature": feature, "model": name, "splits": STUDENT_SPLITS}
        for few, many in PARTS:
            for measure in ("leakage", "same marks", "within new"):
                values = [split[f"{few} to {many}"][measure] for split in splits]
                row[f"{measure}, {few} to {many}"] = float(np.mean(values))
                row[f"largest {measure}, {few} to {many}"] = max(values)
        for measure in ("RMSE", "residual", "fit, CPU s"):
            row[measure] = float(np.mean([split[measure] for split in splits]))
        row["people"] = [
            [split[f"{few} to {many}"]["people"] for split in splits] for few, many in PARTS
        ]
        yield row


def one_oulad(feature: str, name: str, split: int) -> Row:
    """Fit one model of the students on one split, and measure it by number of marks."""
    data = datasets.oulad()
    scored = np.flatnonzero(data.tensor.observed_per(0) > 0)
    random = np.random.default_rng(split)
    people = random.permutation(scored)
    fitted, new = people[len(people) // 5 :], people[: len(people) // 5]
    group = data.sensitive_features[feature].to_numpy()
    trained = data.tensor.take(0, fitted)
    begin = process_time()
    model = FairCP(**{**SETTINGS, "random_state": split}, **STUDENTS[name])
    model.fit(trained, sensitive_features=group[fitted])
    seconds = process_time() - begin
    seen, hidden = split_marks(data.tensor.take(0, new), random)
    rows, counts = model.transform(seen), seen.observed_per(0)
    predicted = model.inverse_transform(rows)[tuple(hidden.cells.numpy())]
    error = float(np.sqrt(np.mean((predicted - hidden.entries.numpy()) ** 2)))
    row: Row = {"RMSE": error, "residual": model.fit_.residual, "fit, CPU s": seconds}
    old, known, had = model.embedding_, group[fitted], trained.observed_per(0)
    answers = guess(old, known, rows)
    for few, many in PARTS:
        own, alike = ((count >= few) & (count <= many) for count in (counts, had))
        truth = group[new][own]
        row[f"{few} to {many}"] = {
            "people": int(own.sum()),
            "leakage": strongest({name: own_of[own] for name, own_of in answers.items()}, truth)[0],
            "same marks": strongest(guess(old[alike], known[alike], rows[own]), truth)[0],
            "within new": strongest(guess_others(rows[own], truth), truth)[0],
        }
    return row


def split_marks(data: TensorData, random: np.random.Generator) -> tuple[TensorData, TensorData]:
    """Return four fifths of the entries, with at least one for each person, and the others."""
    cells, entries = data.cells, data.entries
    hide = random.random(len(entries)) < 0.2
    people = cells[0].numpy()
    first = np.unique(people, return_index=True)[1]
    hide[first] = False
    return tuple(  # type: ignore[return-value]
        TensorData(entries[chosen], cells[:, chosen], data.shape, data.modes, data.labels)
        for chosen in (~hide, hide)
    )


def _income(
    old: NDArray[Any], rich: NDArray[Any], rows: NDArray[Any], rich_new: NDArray[Any]
) -> float:
    """Return the AUC of the income of new people, of a boosted tree."""
    trees = HistGradientBoostingClassifier(random_state=0).fit(old, rich)
    return float(roc_auc_score(rich_new, trees.predict_proba(rows)[:, 1]))


def _population(model: FairCP | None, new: NDArray[Any], groups: NDArray[Any]) -> Row:
    """Return the certified leakage (P) of new people and its slack; None without noise."""
    if model is None or not model.fit_.noise:
        return {"(P)": None, "slack": None}
    found = certify(model, new, groups).statements
    (statement,) = (each for each in found if each.kind == "population")
    return {"(P)": statement.upper, "slack": statement.slack}
