"""Settings of encoders side by side: what they hide from attackers of other making, and keep.

    python -m benchmarks.blind_settings RESULT.json [SECONDS]

Fits run on the GPU if there is one, and PARAFAIR_JOBS of them at once, by default as many as there
are cores. Results are written after every fit, and no fit begins after SECONDS. It needs the data
of Adult and OULAD, downloaded or in the folder PARAFAIR_DATA. People, splits and attackers are not
used by any fit.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from time import perf_counter, time
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import recall_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.blind import split_marks
from benchmarks.blind_splits import attackers
from parafair import FairCP, datasets
from parafair.audits.estimators import PriorCorrected
from parafair.encoders import Learned
from parafair.penalties import Invariant

Row = dict[str, Any]
RANK = 8
# People that an attacker is trained on, at most.
MOST_TRAINED = 6_000

LONG = {"steps": 1800}
WIDE = {"batch_size": 4000, "steps": 1200}
# What a trial is about, then arguments of the model, and of the encoder. "chunk" is how many people
# the penalty compares with each other.
TRIALS: tuple[Row, ...] = (
    # The aim is 0.05.
    *(
        {"about": "adult", "feature": "sex", "fitted": 12_000, "new": 6_000, **trial}
        for trial in (
            {"chunk": 4000, "encoder": {**WIDE}},
            {"chunk": 4000, "strength": 100.0, "encoder": {**WIDE}},
            {"chunk": 4000, "noise": 0.2, "encoder": {**WIDE}},
            {"chunk": 2000, "encoder": {}},
            {"encoder": {**LONG}},
            {"encoder": {}},
        )
    ),
    # Gender of students is not known: the aim is 0.05 at any number of marks.
    *(
        {"about": "oulad", "feature": "gender", **trial}
        for trial in (
            {"chunk": 4000, "encoder": {**WIDE}},
            {"strength": 1000.0, "encoder": {**LONG}},
            {"encoder": {}},
        )
    ),
    # Fewer people, on two splits; batches have everybody if a group is rare.
    *(
        {"about": "adult", "feature": feature, "fitted": 6_000, "new": 3_000, **trial,
         "split": split}
        for split in range(2)
        for feature, trial in (
            ("sex", {"chunk": 3000, "encoder": {"batch_size": 3000}}),
            ("sex", {"encoder": {}}),
            ("race", {"chunk": 6000, "encoder": {"batch_size": 6000}}),
        )
    ),
)  # fmt: skip


def panel() -> dict[str, Any]:
    """Return the attackers of `adult_splits`, and a network."""
    network = MLPClassifier((64, 32), alpha=1e-3, early_stopping=True, random_state=0)
    return {**attackers(), "network": PriorCorrected(make_pipeline(StandardScaler(), network))}


def one_trial(trial: Row, stop: float) -> Row | None:
    """Return what attackers learn, and what is kept; None after `stop`."""
    if time() > stop:
        return None
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    run = adult if trial["about"] == "adult" else oulad
    return {**trial, **run(trial)}


def model_of(trial: Row) -> FairCP:
    """Return the model of a trial."""
    settings: Row = {name: trial[name] for name in ("noise",) if name in trial}
    chosen = {"chunk": "chunk_size", "strength": "strength"}
    settings["method"] = Invariant(
        **{to: trial[name] for name, to in chosen.items() if name in trial}
    )
    if trial["about"] == "oulad":
        settings |= {"center": True, "ridge": 10.0}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder, split = Learned(**trial["encoder"]), trial.get("split", 0)
    return FairCP(RANK, encoder=encoder, random_state=split, device=device, **settings)


def adult(trial: Row) -> Row:
    """Fit some people of Adult, and attack others."""
    data, split = datasets.adult(), trial.get("split", 0)
    count = trial["fitted"] + trial["new"]
    people = np.random.default_rng(500 + split).permutation(len(data.target))[:count]
    fitted, new = people[: trial["fitted"]], people[trial["fitted"] :]
    group = data.sensitive_features[trial["feature"]].to_numpy()
    rich = (data.target == ">50K").to_numpy()
    begin = perf_counter()
    model = model_of(trial).fit(data.tensor[fitted], sensitive_features=group[fitted])
    seconds = perf_counter() - begin
    rows, old = model.transform(data.tensor[new]), model.embedding_
    income = HistGradientBoostingClassifier(random_state=0).fit(old, rich[fitted])
    return {
        "leakage": strongest(guess(old, group[fitted], rows), group[new]),
        "within new": strongest(guess_others(rows, group[new]), group[new]),
        "income AUC": float(roc_auc_score(rich[new], income.predict_proba(rows)[:, 1])),
        "residual": model.fit_.residual,
        "seconds": seconds,
    }


def oulad(trial: Row) -> Row:
    """Fit four fifths of the students, and attack the others by number of marks."""
    data = datasets.oulad()
    random = np.random.default_rng(500 + trial.get("split", 0))
    people = random.permutation(np.flatnonzero(data.tensor.observed_per(0) > 0))
    fitted, new = people[len(people) // 5 :], people[: len(people) // 5]
    group = data.sensitive_features[trial["feature"]].to_numpy()
    begin = perf_counter()
    model = model_of(trial)
    model.fit(data.tensor.take(0, fitted), sensitive_features=group[fitted])
    seconds = perf_counter() - begin
    seen, hidden = split_marks(data.tensor.take(0, new), random)
    rows, counts = model.transform(seen), seen.observed_per(0)
    predicted = model.inverse_transform(rows)[tuple(hidden.cells.numpy())]
    found: Row = {
        "RMSE": float(np.sqrt(np.mean((predicted - hidden.entries.numpy()) ** 2))),
        "residual": model.fit_.residual,
        "seconds": seconds,
    }
    trained, old, known = data.tensor.observed_per(0)[fitted], model.embedding_, group[fitted]
    guesses = guess(old, known, rows)
    for few, many in ((1, 3), (4, 7), (8, 100)):
        own, alike = ((count >= few) & (count <= many) for count in (counts, trained))
        truth = group[new][own]
        found[f"{few} to {many} marks"] = {
            "leakage": strongest({name: guessed[own] for name, guessed in guesses.items()}, truth),
            # Whoever knows how many marks new people have learns from people with as many.
            "same marks": strongest(guess(old[alike], known[alike], rows[own]), truth),
            "within new": strongest(guess_others(rows[own], truth), truth),
        }
    return found


def guess(old: NDArray[Any], groups: NDArray[Any], new: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return what attackers answer who know the groups of the fitted people."""
    some = np.random.default_rng(0).permutation(len(old))[:MOST_TRAINED]
    return {
        name: clone(attacker).fit(old[some], groups[some]).predict(new)
        for name, attacker in panel().items()
    }


def guess_others(new: NDArray[Any], groups: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return what attackers answer who know the groups of other new people."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return {
        name: cross_val_predict(attacker, new, groups, cv=folds)
        for name, attacker in panel().items()
    }


def strongest(answers: dict[str, NDArray[Any]], groups: NDArray[Any]) -> tuple[float, str]:
    """Return the largest balanced accuracy above chance, and the name of its attacker."""
    chance = 1 / len(np.unique(groups))
    return max(
        (float(recall_score(groups, guessed, average="macro")) - chance, name)
        for name, guessed in answers.items()
    )


def main() -> None:
    """Run all trials; write results to the file that is named on the command line."""
    target = Path(sys.argv[1])
    stop = time() + (float(sys.argv[2]) if len(sys.argv) > 2 else 1e9)
    jobs = int(os.environ.get("PARAFAIR_JOBS", os.cpu_count() or 1))
    rows = []
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    for row in parallel(delayed(one_trial)(trial, stop) for trial in TRIALS):
        if row is not None:
            rows.append(row)
            target.write_text(json.dumps(rows, indent=1) + "\n")
            print(json.dumps(row), flush=True)
    print(f"{len(rows)} of {len(TRIALS)} trials")


if __name__ == "__main__":
    main()
