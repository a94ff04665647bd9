"""Selection of settings by held-out error, among those that pass an audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from parafair.arguments import callback, instance_of, jobs, one_of, real_number
from parafair.audits import Audit, Verdict, audit, check_max_leakage, panel
from parafair.audits.evaluation import evaluate_predictions
from parafair.data.checks import as_data
from parafair.data.frames import frame_of
from parafair.data.randomness import RandomState
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.splits import split_cells
from parafair.data.tensor_data import TensorData
from parafair.display import view
from parafair.errors import (
    ConvergenceWarning,
    Held,
    ParafairWarning,
    hold_warnings,
    shown,
    warn,
    warn_once,
)
from parafair.model.estimator import FairCP
from parafair.model.preparation import Settings
from parafair.model.ridge import is_complete
from parafair.model.strength import MAX_PEOPLE
from parafair.model.view import tuning_parts
from parafair.progress import check_verbose, tracked
from parafair.records import plain
from parafair.solvers.ranks import check_rank

if TYPE_CHECKING:
    import pandas

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Candidate:
    """One combination of settings, and its scores.

    Attributes:
        settings: Arguments of the model.
        rmse: Root mean squared error on the held-out entries; infinite if the fit diverged.
        mae: Mean absolute error on the held-out entries.
        residual: Relative residual on the training entries.
        seconds: Time of the fit.
        ridge: The ridge, given or selected from the training entries.
        leakage: Leakage in its audit; None if not audited.
        verdict: The verdict of its audit; None if not audited.
    """

    settings: Mapping[str, Any]
    rmse: float
    mae: float
    residual: float
    seconds: float
    ridge: float
    leakage: float | None = None
    verdict: Verdict | None = None


OnCandidate = Callable[[Candidate], None]


@dataclass(frozen=True, eq=False)
class Tuning:
    """All candidates and the selected one.

    Attributes:
        candidates: All candidates, in the order of the grid.
        best: The selected candidate.
        verdict: The verdict on `model`, fitted to all entries; None without audits.
        model: A model with the selected settings, fitted to all entries.
    """

    candidates: tuple[Candidate, ...]
    best: Candidate
    verdict: Verdict | None
    model: FairCP

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.best.settings.items())
        verdict = "" if self.verdict is None else f": {self.verdict.value}"
        return (
            f"Tuning({chosen} of {len(self.candidates)} candidates, held-out RMSE "
            f"{self.best.rmse:.4g}{verdict})"
        )

    def _repr_html_(self) -> str:
        return view(repr(self), *tuning_parts(self))

    def to_list(self) -> list[dict[str, Any]]:
        """Return all candidates as values for JSON."""
        rows = []
        for candidate in self.candidates:
            found = {k: v for k, v in vars(candidate).items() if k != "settings"}
            found["verdict"] = candidate.verdict and candidate.verdict.value
            chosen = candidate is self.best
            rows.append(plain({**candidate.settings, **found, "chosen": chosen}))
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """Return all candidates as a data frame, one row each."""
        return frame_of(self.to_list(), for_what="Tuning.to_frame")


def tune(
    model: FairCP,
    X: Any,
    *,
    grid: Grid,
    sensitive_features: Any = None,
    validation_size: float = 0.1,
    max_leakage: float | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    on_candidate: OnCandidate | None = None,
    verbose: int = 0,
) -> Tuning:
    """Select settings by the error on held-out entries, and fit them to all entries.

    Error alone would always select the weakest penalty. With `max_leakage`, candidates are audited
    in order of their error, and the first that passes is selected (see `Audit.verdict`). If none
    passes, the one with the least leakage is.

    Args:
        model: Has all settings that are not in the grid; it is not fitted itself.
        X: The tensor, as in `FairCP.fit`.
        grid: Values to try for arguments of the model, in all combinations, such as
            ``{"rank": [4, 8], "ridge": [1, 10], "strength": [30, 100]}``; or several grids.
        sensitive_features: As in `FairCP.fit`.
        validation_size: Share of the observed entries to hold out.
        max_leakage: The largest allowed leakage; None for no audits.
        random_state: Seed of the split and of the audits.
        n_jobs: Processes for the fits, as in joblib.
        on_candidate: Called with each candidate after its fit, and again after its audit.
        verbose: 1 shows a bar, 2 also prints a line for each candidate; 0 shows nothing.

    >>> from parafair import FairCP, datasets, tune
    >>> data = datasets.synthetic(0, shape=(20, 8, 6), rank=3)
    >>> tuning = tune(FairCP(method="none"), data.tensor, grid={"rank": [1, 3]})
    >>> tuning.best.settings
    {'rank': 3}
    """
    instance_of("model", model, FairCP, "make one, such as FairCP(2)")
    jobs("n_jobs", n_jobs)
    callback("on_candidate", on_candidate)
    check_verbose(verbose)
    if max_leakage is not None:
        _check_audit(max_leakage, sensitive_features)
    if not 0 < real_number("validation_size", validation_size) < 1:
        raise ValueError(
            f"validation_size must be a share between 0 and 1, such as 0.1; got {validation_size!r}"
        )
    grids = _check_grid(grid, max_leakage)
    data = as_data(X)
    models = [_candidate(model, settings, data) for settings in grids]
    split = split_cells(data, test_size=validation_size, random_state=random_state)
    with tracked("candidates", verbose) as bar:

        def tell(candidate: Candidate) -> None:
            bar.note(str(candidate))
            if on_candidate is not None:
                on_candidate(candidate)

        tried = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_try)(candidate, split.train, split.test, sensitive_features)
            for candidate in models
        )
        candidates: list[Candidate] = []
        embeddings: list[_Rows] = []
        held: list[Held] = []
        for settings, (found, embedding, warned) in zip(grids, tried, strict=True):
            candidates.append(replace(found, settings=settings))
            embeddings.append(embedding)
            held += warned
            bar(len(candidates), len(models))
            tell(candidates[-1])
        order = [k for k in _by_error(candidates) if isfinite(candidates[k].rmse)]
        if not order:
            raise ValueError(
                f"all {len(candidates)} fits of grid have diverged; try other settings"
            )
        if max_leakage is not None:
            bar.stage("audits")
            for done, k in enumerate(order):
                result = _audit(embeddings[k], random_state)
                verdict = result.verdict(max_leakage)
                candidates[k] = replace(candidates[k], leakage=result.leakage, verdict=verdict)
                bar(done + 1, len(order))
                tell(candidates[k])
                if verdict is Verdict.PASSES:
                    break
        chosen = min(order, key=lambda k: _preference(candidates[k]))
        final = models[chosen].set_params(ridge=candidates[chosen].ridge)
        with hold_warnings() as warned:
            final.fit(data, sensitive_features=sensitive_features)
        warn_once([*held, *warned], len(models) + 1, stacklevel=2)
    reached = None if max_leakage is None else _judge(final, max_leakage, random_state)
    return Tuning(tuple(candidates), candidates[chosen], reached, final)


_Rows = tuple[NDArray[Any], SensitiveFeatures | None]


def _check_audit(max_leakage: float, sensitive_features: Any) -> None:
    """Raise unless candidates can be audited."""
    check_max_leakage(max_leakage)
    if sensitive_features is None or isinstance(sensitive_features, Mapping):
        raise ValueError(
            f"max_leakage={max_leakage!r} asks for an audit, which needs the sensitive_features of "
            "one mode; pass one row per person"
        )


def _check_grid(grid: Grid, max_leakage: float | None) -> list[dict[str, Any]]:
    """Return all combinations of a grid; warn if error alone would select the strength."""
    try:
        grids = list(ParameterGrid(grid))
    except Exception:  # whatever is no grid
        grids = []
    if not all(grids) or not grids:
        raise ValueError(
            f"grid must name arguments of the model with values to try, such as "
            f"{{'rank': [4, 8]}}; got {shown(grid)}"
        )
    for name in {name for settings in grids for name in settings}:
        one_of("a key of grid", name, signature(FairCP).parameters)
    if max_leakage is None and len({str(settings.get("strength")) for settings in grids}) > 1:
        warn(
            "the grid has several strengths but max_leakage is not given: error alone selects the "
            "weakest; pass max_leakage, such as 0.05, to select the best that passes an audit",
            ParafairWarning,
            stacklevel=3,
        )
    return grids


def _candidate(model: FairCP, settings: Mapping[str, Any], data: TensorData) -> FairCP:
    """Return the model with some settings, checked."""
    candidate: FairCP = clone(model).set_params(**settings)
    Settings.of(candidate)
    check_rank(candidate.rank, data.shape)
    if candidate.ridge == "auto" and is_complete(data):
        candidate.ridge = 0.0  # held-out entries are missing only for the comparison
    return candidate


def _by_error(candidates: Sequence[Candidate]) -> list[int]:
    return sorted(range(len(candidates)), key=lambda k: candidates[k].rmse)


def _preference(candidate: Candidate) -> tuple[float, ...]:
    """Return a sort key: the verdict, then leakage if it leaks, then error."""
    # Candidates without a verdict: one with a smaller error passed, or there are no audits.
    leaks = candidate.verdict is Verdict.LEAKS
    return (float(leaks), (candidate.leakage or 0.0) if leaks else 0.0, candidate.rmse)


def _judge(model: FairCP, max_leakage: float, random_state: Any) -> Verdict:
    """Audit the final model; warn if it does not pass."""
    result = _audit(_penalized(model), random_state)
    verdict = result.verdict(max_leakage)
    if verdict is not Verdict.PASSES:
        warn(
            f"the selected settings, fitted to all entries, do not pass at max_leakage="
            f"{max_leakage} ({verdict.value}, leakage {result.leakage:.3f}); try other "
            "strengths, or a larger max_leakage",
            ConvergenceWarning,
            stacklevel=3,
        )
    return verdict


def _audit(rows: _Rows, random_state: Any) -> Audit:
    """Audit with the thorough panel of attackers."""
    return audit(
        rows[0],
        sensitive_features=rows[1],
        attackers=panel("thorough"),
        permutations=1,
        max_people=MAX_PEOPLE,
        random_state=random_state,
    )


def _try(
    model: FairCP, train: TensorData, test: TensorData, features: Any
) -> tuple[Candidate, _Rows, list[Held]]:
    """Fit to the training part and predict the rest; also return penalized rows and warnings."""
    with hold_warnings() as held:
        fitted = clone(model).fit(train, sensitive_features=features)
    rmse, mae = inf, inf
    predicted = fitted.predict(test)
    if np.isfinite(predicted).all():
        scores = evaluate_predictions(test, predicted)
        rmse, mae = scores.value("rmse"), scores.value("mae")
    candidate = Candidate({}, rmse, mae, fitted.fit_.residual, fitted.fit_.seconds, fitted.ridge_)
    return candidate, _penalized(fitted), held


def _penalized(model: FairCP) -> _Rows:
    """Return the rows of the penalized people, and their features."""
    return model.training_.penalized_rows(model.embedding_), model.training_.features
