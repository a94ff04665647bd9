"""Settings chosen by what they predict: the least held-out error, among those that pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from parafair.audits import Audit, audit, panel
from parafair.audits.evaluation import evaluate_predictions
from parafair.data.frames import frame_of
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.splits import split_cells
from parafair.data.tensor_data import TensorData
from parafair.errors import ConvergenceWarning, ParafairWarning
from parafair.model.estimator import FairCP
from parafair.model.strength import MOST_PEOPLE
from parafair.solvers.problem import check_rank, resolve_ridge

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Candidate:
    """Settings that were tried.

    Attributes:
        settings: Arguments of the model.
        rmse: Root mean squared error of the held-out entries; infinite if the fit diverged.
        mae: Mean absolute error of the same.
        residual: Relative residual of the entries it was fitted to.
        seconds: How long the fit took.
        leakage: The strongest attacker's advantage over chance; None where none was tried.
        passes: Whether that is at most what was asked for; None where no attacker was tried.
        below_chance: Whether attackers were below chance beyond doubt, as in `Audit.below_chance`.
    """

    settings: Mapping[str, Any]
    rmse: float
    mae: float
    residual: float
    seconds: float
    leakage: float | None = None
    passes: bool | None = None
    below_chance: bool | None = None


OnCandidate = Callable[[Candidate], None]


@dataclass(frozen=True, eq=False)
class Tuning:
    """What was tried and what was chosen.

    Attributes:
        candidates: All settings, in the order of the grid.
        best: The one that was chosen.
        passed: Whether the leakage of `model` is at most what was asked for; True if nothing was.
        model: A model with its settings, fitted to all entries.
    """

    candidates: tuple[Candidate, ...]
    best: Candidate
    passed: bool
    model: FairCP

    def to_list(self) -> list[dict[str, Any]]:
        """Return all candidates as plain values that can be written as JSON."""
        rows = []
        for candidate in self.candidates:
            found = {k: v for k, v in vars(candidate).items() if k != "settings"}
            chosen = candidate is self.best
            rows.append({**_plain(candidate.settings), **_plain(found), "chosen": chosen})
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """Return all candidates as a data frame, a row each."""
        return frame_of(self.to_list(), for_what="Tuning.to_frame")


def tune(
    model: FairCP,
    X: Any,
    *,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    sensitive_features: Any = None,
    held_out: float = 0.1,
    leakage: float | None = None,
    random_state: int | np.random.RandomState | None = 0,
    n_jobs: int = 1,
    on_candidate: OnCandidate | None = None,
) -> Tuning:
    """Choose settings by the error of entries held out for it, and fit them to all entries.

    Error alone would always choose the weakest penalty. With `leakage`, candidates are audited from
    the smallest error on, and the first that passes is chosen; one whose people are matched across
    groups (see `Audit.below_chance`) only if no other passes.

    Args:
        model: Gives all settings that are not in the grid; it is not fitted itself.
        X: The tensor, as in `FairCP.fit`.
        grid: Values to try for arguments of the model, every combination of them, such as
            ``{"rank": [4, 8], "ridge": [1, 10], "strength": [30, 100]}``; or several grids.
        sensitive_features: As in `FairCP.fit`.
        held_out: Share of the observed entries to hold out.
        leakage: The most leakage allowed, as in `Frontier.pick`; None asks for no audit.
        random_state: Seed of the split and of the audits.
        n_jobs: Processes for the fits, as in joblib.
        on_candidate: Called with each candidate after its fit, and again after its audit.

    >>> from parafair import FairCP, datasets, tune
    >>> data = datasets.synthetic(0, shape=(20, 8, 6), rank=3)
    >>> tuning = tune(FairCP(method="none", random_state=0), data.tensor, grid={"rank": [1, 3]})
    >>> tuning.best.settings
    {'rank': 3}
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must be a share between 0 and 1, got {held_out!r}")
    if leakage is not None and not 0 <= leakage <= 1:
        raise ValueError(
            f"leakage must be between 0 and 1, an advantage over chance; got {leakage!r}"
        )
    if leakage is not None and (
        sensitive_features is None or isinstance(sensitive_features, Mapping)
    ):
        raise ValueError(
            f"leakage={leakage!r} asks for an audit, which needs the sensitive_features of one "
            "mode; pass one row per person"
        )
    data = X if isinstance(X, TensorData) else TensorData.from_array(X)
    split = split_cells(data, test=held_out, random_state=random_state)
    grids = list(ParameterGrid(grid))
    if leakage is None and len({str(settings.get("strength")) for settings in grids}) > 1:
        warnings.warn(
            "the grid has several strengths but leakage is not given: error alone chooses the "
            "weakest; pass leakage=0.05, say, to choose the best that passes an audit",
            ParafairWarning,
            stacklevel=2,
        )
    models = [clone(model).set_params(**settings) for settings in grids]
    for candidate in models:
        check_rank(candidate.rank, data.shape)
        # What is held out must not decide it.
        candidate.ridge = resolve_ridge(candidate.ridge, data, candidate.rank)
    tried = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_try)(candidate, split.train, split.test, sensitive_features)
        for candidate in models
    )
    tell = on_candidate or (lambda candidate: None)
    candidates: list[Candidate] = []
    embeddings: list[Rows] = []
    for settings, (found, embedding) in zip(grids, tried, strict=True):
        candidates.append(replace(found, settings=settings))
        embeddings.append(embedding)
        tell(candidates[-1])
    order = sorted(range(len(candidates)), key=lambda k: candidates[k].rmse)
    order = [k for k in order if isfinite(candidates[k].rmse)]
    if not order:
        raise ValueError(f"all {len(candidates)} fits of the grid diverged; try other settings")
    chosen = order[0]
    if leakage is not None:
        for k in order:
            candidates[k] = _judge(candidates[k], embeddings[k], leakage, random_state)
            tell(candidates[k])
            if candidates[k].passes and not candidates[k].below_chance:
                break
        chosen = min(order, key=lambda k: _preference(candidates[k]))
    final = models[chosen].fit(data, sensitive_features=sensitive_features)
    passed = True
    if leakage is not None:
        reached = _audit(*_penalized(final), random_state).leakage
        passed = reached <= leakage
        if not passed:
            warnings.warn(
                f"the leakage of the chosen settings, fitted to all entries, is {reached:.3f}, "
                f"above {leakage}; try more strength, or a larger leakage",
                ConvergenceWarning,
                stacklevel=2,
            )
    return Tuning(tuple(candidates), candidates[chosen], passed, final)


Rows = tuple[NDArray[Any], SensitiveFeatures | None]


def _judge(candidate: Candidate, rows: Rows, leakage: float, random_state: Any) -> Candidate:
    """Return the candidate with what attackers find."""
    found = _audit(*rows, random_state)
    return replace(
        candidate,
        leakage=found.leakage,
        passes=found.leakage <= leakage,
        below_chance=found.below_chance,
    )


def _preference(candidate: Candidate) -> tuple[float, ...]:
    """Return what is smallest for the best: sound ones, those that pass, then the least leakage."""
    if candidate.passes:
        return (0, bool(candidate.below_chance), candidate.rmse)
    return (1, inf if candidate.leakage is None else candidate.leakage, candidate.rmse)


def _audit(rows: NDArray[Any], features: Any, random_state: Any) -> Audit:
    """Audit with the attackers of `strength="auto"`."""
    return audit(
        rows,
        sensitive_features=features,
        attackers=panel("thorough"),
        permutations=1,
        max_people=MOST_PEOPLE,
        random_state=random_state,
    )


def _try(
    model: FairCP, train: TensorData, test: TensorData, features: Any
) -> tuple[Candidate, Rows]:
    """Fit to one part and predict the other; return the people examined and their features too."""
    with warnings.catch_warnings():
        # The fit to all entries, with the settings that are chosen, says it again.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(model).fit(train, sensitive_features=features)
    rmse, mae = inf, inf
    predicted = fitted.predict(test.cells.T.cpu().numpy())
    if np.isfinite(predicted).all():
        scores = evaluate_predictions(test, predicted)
        rmse, mae = scores.value("rmse"), scores.value("mae")
    candidate = Candidate({}, rmse, mae, fitted.fit_.residual, fitted.fit_.seconds)
    return candidate, _penalized(fitted)


def _penalized(model: FairCP) -> Rows:
    """Return the rows of the people examined, and their features."""
    rows, training = model.embedding_, model.training_
    return rows if training.penalized is None else rows[training.penalized], training.features


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values that can be written as JSON; what is undefined is None, objects are text."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, float) and not isfinite(number):
            number = None
        simple = number is None or isinstance(number, (bool, int, float, str))
        found[name] = number if simple else str(number)
    return found
