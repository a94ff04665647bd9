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
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.blind import split_marks
from benchmarks.blind_attackers import guess, guess_others, strongest
from parafair import FairCP, datasets
from parafair.data.tensor_data import TensorData
from parafair.encoders import Learned, inputs, optimizing
from parafair.penalties import Invariant, SlicedTransport

Row = dict[str, Any]
RANK = 8
THINNED, PARTS = optimizing.THINNED, optimizing._with_all_groups
DIRECTIONS = inputs.pattern_directions

LONG = {"steps": 1800}
LARGE = {"steps": 3000, "hidden": 256, "learning_rate": 0.006}
OULAD = {"about": "oulad", "feature": "gender"}
ADULT = {"about": "adult", "feature": "sex", "fitted": 12_000, "new": 6_000}
FEWER = {"about": "adult", "feature": "sex", "fitted": 6_000, "new": 3_000}
# What a trial is about, then arguments of the model, and of the encoder. "without" is what an
# encoder of incomplete entries goes without: inputs of which entries are there, inputs of fewer
# entries, or batches of people with as many. "rotations" and "knots" are those of
# "sliced-transport", which knows the group.
TRIALS: tuple[Row, ...] = (
    # Gender of students is not known: the aim is 0.05 at any number of marks.
    *(
        {**OULAD, "encoder": encoder, "strength": strength, "noise": noise, "split": split}
        for encoder, strength, noise, split in (
            (LARGE, 1000.0, 0.4, 0), (LARGE, 300.0, 0.4, 0), (LARGE, 300.0, 0.3, 0),
            (LONG, 300.0, 0.3, 0), (LONG, 300.0, 0.4, 0), (LONG, 300.0, 0.5, 0),
            (LONG, 1000.0, 0.3, 0), (LONG, 1000.0, 0.4, 0), (LONG, 1000.0, 0.5, 0),
            (LONG, 300.0, 0.4, 1), (LONG, 1000.0, 0.4, 1), ({}, 300.0, 0.3, 0), ({}, 300.0, 0.3, 1),
        )
    ),
    *(
        {**OULAD, "encoder": LONG, "strength": 1000.0, "noise": 0.4, "without": without}
        for without in (["patterns"], ["fewer"], ["alike"], ["patterns", "fewer", "alike"])
    ),
    # The group is known: 0.05 at an income AUC of 0.84.
    *(
        {**ADULT, "rotations": rotations, "knots": knots, "noise": noise, "split": split}
        for rotations, knots, noise, split in (
            (300, 200, 0.1, 0), (300, 200, 0.15, 0), (300, 200, 0.2, 0), (300, 200, 0.25, 0),
            (600, 200, 0.15, 0), (600, 500, 0.1, 0), (600, 500, 0.15, 0), (150, 200, 0.15, 0),
            (300, 200, 0.15, 1), (600, 500, 0.15, 1),
        )
    ),
    # It is not known: 0.05 at 0.80, or at 0.82.
    *(
        {**ADULT, "strength": strength, "noise": noise, "encoder": {"steps": steps}}
        for strength, noise, steps in (
            (300.0, 0.3, 600), (300.0, 0.3, 1800), (30.0, 0.3, 1800), (100.0, 0.3, 1800),
            (1000.0, 0.3, 1800), (3000.0, 0.3, 1800), (300.0, 0.4, 1800), (30.0, 0.4, 1800),
            (30.0, 0.4, 600), (10.0, 0.5, 600), (300.0, 0.3, 3600),
        )
    ),
    # Fewer people, on two splits.
    *(
        {**FEWER, "strength": strength, "noise": noise, "encoder": {"steps": steps}, "split": split}
        for split in range(2)
        for strength, noise, steps in (
            (300.0, 0.3, 600), (300.0, 0.4, 1800), (1000.0, 0.4, 1800), (300.0, 0.5, 600),
            (100.0, 0.4, 1800),
        )
    ),
)  # fmt: skip


def without_parts(*_: Any) -> list[Any]:
    """Return no batches of people who have as many entries."""
    return []


def without_directions(data: TensorData, _: int, other: int) -> torch.Tensor:
    """Return no directions of the shares of entries."""
    return torch.zeros(data.shape[other], 0)


def one_trial(trial: Row, stop: float) -> Row | None:
    """Return what attackers learn, and what is kept; None after `stop`."""
    if time() > stop:
        return None
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    left_out = trial.get("without", ())
    inputs.pattern_directions = without_directions if "patterns" in left_out else DIRECTIONS
    optimizing.THINNED = 0 if "fewer" in left_out else THINNED
    optimizing._with_all_groups = without_parts if "alike" in left_out else PARTS
    run = adult if trial["about"] == "adult" else oulad
    return {**trial, **run(trial)}


def model_of(trial: Row) -> FairCP:
    """Return the model of a trial."""
    settings: Row = {name: trial[name] for name in ("noise",) if name in trial}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings |= {"random_state": trial.get("split", 0), "device": device}
    if "rotations" in trial:
        method = SlicedTransport(trial["rotations"], trial["knots"])
        return FairCP(RANK, method=method, **settings)
    chosen = {"chunk": "chunk_size", "strength": "strength"}
    settings["method"] = Invariant(
        **{to: trial[name] for name, to in chosen.items() if name in trial}
    )
    if trial["about"] == "oulad":
        settings |= {"center": True, "ridge": 10.0}
    return FairCP(RANK, encoder=Learned(**trial["encoder"]), **settings)


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
    known = {"sensitive_features": group[new]} if "rotations" in trial else {}
    rows, old = model.transform(data.tensor[new], **known), model.embedding_
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
