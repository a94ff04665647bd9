"""People whose group is not known: encoders on Adult and on OULAD.

Run with ``python -m benchmarks.run adult_blind oulad_blind``. Both need the data, downloaded or in
the folder PARAFAIR_DATA. They take an hour; `benchmarks.parts` measures one model at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.alone import alone
from benchmarks.marks import SETTINGS
from benchmarks.parts import part
from parafair import FairCP, audit, certify, datasets
from parafair.data.tensor_data import TensorData
from parafair.encoders import Learned

Row = dict[str, object]
RANK, FITTED, NEW = 8, 12_000, 6_000
ATTACKERS = ("linear", "svm", "forest", "boosting", "network")
# People in an audit; more would take attackers hours.
MOST_AUDITED = 6_000
# Processes, with one thread each.
JOBS = int(os.environ.get("PARAFAIR_JOBS", "1"))

# A name, arguments of the model, and whether `transform` is told the group of new people: once, or
# in both ways.
MODELS: dict[str, tuple[dict[str, Any], tuple[bool, ...]]] = {
    "plain": ({"method": "none"}, (False,)),
    "fair-pca": ({"method": "fair-pca"}, (False,)),
    "fair-pca-covariance": ({"method": "fair-pca-covariance"}, (False,)),
    "leace": ({"method": "leace"}, (False,)),
    "perez-suay": ({"method": "perez-suay"}, (False,)),
    "kernel-perez-suay": ({"method": "kernel-perez-suay"}, (False,)),
    "strength 1000": ({"strength": 1000.0}, (True, False)),
    "strength 1000, noise 0.3": ({"strength": 1000.0, "noise": 0.3}, (True,)),
    "sliced-transport": ({"method": "sliced-transport"}, (True,)),
    "sliced-transport, noise 0.1": ({"method": "sliced-transport", "noise": 0.1}, (True,)),
    "linear encoder": ({"encoder": "linear"}, (False,)),
    "network encoder": ({"encoder": "network"}, (False, True)),
    "network encoder, 1800 steps": ({"encoder": Learned(steps=1800)}, (False,)),
    "network encoder, 1800 steps, noise 0.4": (
        {"encoder": Learned(steps=1800), "noise": 0.4},
        (False,),
    ),
}
STUDENTS: dict[str, dict[str, Any]] = {
    "plain": {"method": "none"},
    "linear encoder": {"encoder": "linear"},
    "network encoder": {"encoder": "network"},
    "network encoder, 1800 steps, strength 1000, noise 0.4": {
        "encoder": Learned(steps=1800),
        "strength": 1000.0,
        "noise": 0.4,
    },
}


def adult_blind() -> Iterable[Row]:
    """Adult: 12,000 people to fit, 6,000 new ones, sex; leakage of new people and AUC of income.

    "leakage": attackers are trained on the fitted people; "within new": on other new people.
    """
    for rows in Parallel(n_jobs=JOBS)(delayed(part)(one_adult, name) for name in MODELS):
        yield from rows


def one_adult(name: str) -> list[Row]:
    """Fit one model of Adult, and measure it with and without the group of new people."""
    data = datasets.adult()
    settings, ways = MODELS[name]
    people = np.random.default_rng(0).permutation(len(data.target))[: FITTED + NEW]
    fitted, new = people[:FITTED], people[FITTED:]
    sex, rich = data.sensitive_features["sex"].to_numpy(), (data.target == ">50K").to_numpy()
    begin = process_time()
    model = FairCP(RANK, **settings)
    model.fit(data.tensor[fitted], sensitive_features=sex[fitted])
    seconds = process_time() - begin
    found = []
    for known in ways:
        old, rows = rows_of(model, data.tensor, sex if known else None, fitted, new)
        income = HistGradientBoostingClassifier(random_state=0).fit(old, rich[fitted])
        found.append(
            {
                "model": name,
                "group": "known" if known else "not known",
                "residual": model.fit_.residual,
                **_leakages(old, sex[fitted], rows, sex[new]),
                "income AUC": float(roc_auc_score(rich[new], income.predict_proba(rows)[:, 1])),
                **_population(model, data.tensor[new], sex[new], known=known),
                "fit, CPU s": seconds,
            }
        )
    return found


def rows_of(
    model: FairCP,
    entries: NDArray[Any],
    groups: NDArray[Any] | None,
    fitted: NDArray[Any],
    new: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows of fitted and of new people; without groups, nobody is asked.

    An encoder has another map if groups are known, and then everybody follows it.
    """
    if groups is None:
        return model.embedding_, model.transform(entries[new])
    rows = model.transform(entries[new], sensitive_features=groups[new])
    if model.encoder_ is None:
        return model.embedding_, rows
    return model.transform(entries[fitted], sensitive_features=groups[fitted]), rows


def adult_holes() -> Iterable[Row]:
    """Adult: a network encoder of 6,000 people; 3,000 new ones without some of their entries."""
    data, count = datasets.adult(), FITTED // 2
    random = np.random.default_rng(0)
    people = random.permutation(len(data.target))[: count + NEW // 2]
    sex = data.sensitive_features["sex"].to_numpy()[people]
    rich = (data.target == ">50K").to_numpy()[people]
    fitted, new = data.tensor[people[:count]], data.tensor[people[count:]]
    model = FairCP(RANK, encoder="network").fit(fitted, sensitive_features=sex[:count])
    income = HistGradientBoostingClassifier(random_state=0).fit(model.embedding_, rich[:count])
    for share in (0.0, 0.2, 0.5, 0.8):
        holes = np.where(random.random(new.shape) < share, np.nan, new)
        rows = model.transform(holes)
        yield {
            "missing": share,
            **_leakages(model.embedding_, sex[:count], rows, sex[count:]),
            "income AUC": float(roc_auc_score(rich[count:], income.predict_proba(rows)[:, 1])),
        }


def adult_time() -> Iterable[Row]:
    """Adult: all people of adult.data, each fit in a process of its own."""
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for name in ("sliced-transport", "linear encoder", "network encoder"):
            yield {"model": name, "device": device, **alone("blind.one_adult_time", name, device)}


def one_adult_time(name: str, device: str) -> Row:
    """Fit everybody and embed them again."""
    data, (settings, _) = datasets.adult(), MODELS[name]
    sex = data.sensitive_features["sex"].to_numpy()
    begin = perf_counter()
    model = FairCP(RANK, device=device, **settings)
    model.fit(data.tensor, sensitive_features=sex)
    fitted = perf_counter()
    told = {"sensitive_features": sex} if "transport" in name else {}
    model.transform(data.tensor, **told)
    return {
        "people": len(sex),
        "fit, seconds": fitted - begin,
        "transform, seconds": perf_counter() - fitted,
    }


def oulad_blind() -> Iterable[Row]:
    """OULAD: students without their gender or disability, by number of marks; error of new marks.

    A fifth of the students are new. They are embedded from four fifths of their marks, and the
    others are predicted.
    """
    jobs = [
        delayed(part)(one_oulad, feature, name)
        for feature in ("gender", "disability")
        for name in STUDENTS
    ]
    for rows in Parallel(n_jobs=JOBS)(jobs):
        yield from rows


def one_oulad(feature: str, name: str) -> list[Row]:
    """Fit one model of the students; one row for each part of the new ones."""
    data = datasets.oulad()
    scored = np.flatnonzero(data.tensor.observed_per(0) > 0)
    random = np.random.default_rng(0)
    people = random.permutation(scored)
    fitted, new = people[len(people) // 5 :], people[: len(people) // 5]
    group = data.sensitive_features[feature].to_numpy()
    begin = process_time()
    model = FairCP(**SETTINGS, **STUDENTS[name])
    model.fit(data.tensor.take(0, fitted), sensitive_features=group[fitted])
    seconds = process_time() - begin
    seen, hidden = split_marks(data.tensor.take(0, new), random)
    rows, counts = model.transform(seen), seen.observed_per(0)
    predicted = model.inverse_transform(rows)[tuple(hidden.cells.numpy())]
    error = float(np.sqrt(np.mean((predicted - hidden.entries.numpy()) ** 2)))
    found = []
    for few, many in ((1, 3), (4, 7), (8, 100)):
        own = (counts >= few) & (counts <= many)
        found.append(
            {
                "feature": feature,
                "model": name,
                "marks": f"{few} to {many}",
                "people": int(own.sum()),
                **_leakages(model.embedding_, group[fitted], rows[own], group[new][own]),
                "RMSE of all": error,
                "residual": model.fit_.residual,
                "fit, CPU s": seconds,
            }
        )
    return found


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


def _leakages(
    rows: NDArray[Any], groups: NDArray[Any], new: NDArray[Any], groups_new: NDArray[Any]
) -> Row:
    settings: dict[str, Any] = {
        "attackers": ATTACKERS,
        "permutations": 1,
        "max_people": MOST_AUDITED,
    }
    among = audit(new, sensitive_features=groups_new, **settings)
    across = audit(
        rows,
        sensitive_features=groups,
        new_embedding=new,
        new_sensitive_features=groups_new,
        **settings,
    )
    return {"leakage": across.leakage, "within new": among.leakage}


def _population(model: FairCP, new: NDArray[Any], groups: NDArray[Any], *, known: bool) -> Row:
    """Return the certified leakage (P) of new people and its slack; None if there is none.

    That of an encoder is about people whose group is not known, and none is without noise.
    """
    if not model.fit_.noise or (known and model.encoder_ is not None):
        return {"(P)": None, "slack": None}
    found = certify(model, new, groups).statements
    (statement,) = (each for each in found if each.kind == "population")
    return {"(P)": statement.upper, "slack": statement.slack}
