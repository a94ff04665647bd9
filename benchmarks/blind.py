"""People whose group is not known: encoders on Adult and on OULAD.

Run with ``python -m benchmarks.run adult_blind oulad_blind``. Both need the data, downloaded or in
the folder PARAFAIR_DATA.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.marks import SETTINGS
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

# A name, arguments of the model, and whether `transform` is told the group of new people.
MODELS: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({"method": "none"}, False),
    "fair-pca": ({"method": "fair-pca"}, False),
    "fair-pca-covariance": ({"method": "fair-pca-covariance"}, False),
    "leace": ({"method": "leace"}, False),
    "perez-suay": ({"method": "perez-suay"}, False),
    "kernel-perez-suay": ({"method": "kernel-perez-suay"}, False),
    "strength 1000, group known": ({"strength": 1000.0}, True),
    "strength 1000, group unknown": ({"strength": 1000.0}, False),
    "strength 1000, noise 0.3, group known": ({"strength": 1000.0, "noise": 0.3}, True),
    "sliced transport, group known": ({"method": "sliced-transport"}, True),
    "linear encoder": ({"encoder": "linear"}, False),
    "network encoder": ({"encoder": "network"}, False),
    "network encoder, 1800 steps": ({"encoder": Learned(steps=1800)}, False),
    "network encoder, noise 0.6": ({"encoder": "network", "noise": 0.6}, False),
    "network encoder, group known": ({"encoder": "network"}, True),
}


def adult_blind() -> Iterable[Row]:
    """Adult: 12,000 people to fit, 6,000 new ones, sex; leakage of new people and AUC of income.

    "leakage": attackers are trained on the fitted people; "within new": on other new people.
    """
    yield from Parallel(n_jobs=JOBS)(delayed(_adult)(name) for name in MODELS)


def _adult(name: str) -> Row:
    data = datasets.adult()
    settings, known = MODELS[name]
    people = np.random.default_rng(0).permutation(len(data.target))[: FITTED + NEW]
    fitted, new = people[:FITTED], people[FITTED:]
    sex, rich = data.sensitive_features["sex"].to_numpy(), (data.target == ">50K").to_numpy()
    begin = perf_counter()
    model = FairCP(RANK, **settings)
    model.fit(data.tensor[fitted], sensitive_features=sex[fitted])
    seconds = perf_counter() - begin
    features = {"sensitive_features": sex[new]} if known else {}
    rows = model.transform(data.tensor[new], **features)
    income = HistGradientBoostingClassifier(random_state=0).fit(model.embedding_, rich[fitted])
    return {
        "model": name,
        "residual": model.fit_.residual,
        **_leakages(model.embedding_, sex[fitted], rows, sex[new]),
        "income AUC": roc_auc_score(rich[new], income.predict_proba(rows)[:, 1]),
        "(P)": _population(model, data.tensor[new], sex[new]),
        "seconds": seconds,
    }


def oulad_blind() -> Iterable[Row]:
    """OULAD: students without their gender or disability, by number of marks; error of new marks.

    A fifth of the students are new. They are embedded from four fifths of their marks, and the
    others are predicted.
    """
    jobs = [
        delayed(_oulad)(feature, name, settings)
        for feature in ("gender", "disability")
        for name, settings in {
            "plain": {"method": "none"},
            "linear encoder": {"encoder": "linear"},
            "network encoder": {"encoder": "network"},
            "network encoder, 1800 steps": {"encoder": Learned(steps=1800)},
            "network encoder, 1800 steps, noise 0.4": {
                "encoder": Learned(steps=1800),
                "noise": 0.4,
            },
            "network encoder, 1800 steps, strength 1000, noise 0.4": {
                "encoder": Learned(steps=1800),
                "strength": 1000.0,
                "noise": 0.4,
            },
        }.items()
    ]
    for rows in Parallel(n_jobs=JOBS)(jobs):
        yield from rows


def _oulad(feature: str, name: str, settings: dict[str, Any]) -> list[Row]:
    data = datasets.oulad()
    scored = np.flatnonzero(data.tensor.observed_per(0) > 0)
    random = np.random.default_rng(0)
    people = random.permutation(scored)
    fitted, new = people[len(people) // 5 :], people[: len(people) // 5]
    group = data.sensitive_features[feature].to_numpy()
    begin = perf_counter()
    model = FairCP(**SETTINGS, **settings)
    model.fit(data.tensor.take(0, fitted), sensitive_features=group[fitted])
    seconds = perf_counter() - begin
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
                "seconds": seconds,
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


def _population(model: FairCP, new: NDArray[Any], groups: NDArray[Any]) -> float | None:
    """Return the certified leakage (P) of new people; None without noise."""
    if not model.fit_.noise:
        return None
    return certify(model, new, groups).leakage("population")
