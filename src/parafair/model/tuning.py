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

from parafair.arguments import callback, instance_of, jobs, one_of
from parafair.audits import Audit, Verdict, audit, check_max_leakage, panel
from parafair.audits.evaluation import root_mean_square
from parafair.data.checks import as_data
from parafair.data.frames import frame_of
from parafair.data.randomness import RandomState
from parafair.data.raw_features import check_index
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.side_columns import match_index
from parafair.data.splits import Split
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
from parafair.model.fair_model import FairModel
from parafair.model.preparation import Settings
from parafair.model.ridge import grid_for, is_complete, usual_ridge
from parafair.model.strength import MAX_PEOPLE
from parafair.model.tucker import FairTucker
from parafair.model.validation import check_validation, validation_splits
from parafair.model.view import tuning_parts
from parafair.progress import check_verbose, tracked
from parafair.records import plain
from parafair.solvers.ranks import check_rank

if TYPE_CHECKING:
    import pandas

Model = FairCP | FairTucker
# The strongest ridge of the default grid, relative to the mean number of entries of a person.
DEFAULT_STRONGEST = 10.0

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Candidate:
    """One combination of settings, and its scores.

    Attributes:
        settings: Arguments of the model.
        rmse: Root mean squared error on the held-out entries, those of all folds together; infinite
            if a fit diverged.
        mae: Mean absolute error on the held-out entries.
        residual: Relative residual on the training entries; with folds, the mean.
        seconds: Time of the fits.
        ridge: The ridge, given or selected from the training entries; with folds, the median.
        rmse_std: Standard deviation of the RMSE over the folds; None without folds.
        leakage: Leakage in its audit; None if not audited.
        verdict: The verdict of its audit; None if not audited.
    """

    settings: Mapping[str, Any]
    rmse: float
    mae: float
    residual: float
    seconds: float
    ridge: float
    rmse_std: float | None = None
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
    model: FairCP | FairTucker

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


def tune(  # noqa: PLR0913  (each argument is a setting of its own)
    model: FairCP | FairTucker,
    X: Any,
    *,
    grid: Grid | None = None,
    sensitive_features: Any = None,
    side: Any = None,
    validation: Any = 0.1,
    cv: int | None = None,
    max_leakage: float | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    on_candidate: OnCandidate | None = None,
    verbose: int = 0,
) -> Tuning:
    """Select settings by the error on held-out entries, and fit them to all entries.

    Error alone would always select the weakest penalty. With `max_leakage`, candidates are audited
    in order of their error, and the first that passes is selected (see `Audit.verdict`). If none
    passes, an inconclusive one with the smallest error is, or the one with the least leakage.

    Args:
        model: Has all settings that are not in the grid; it is not fitted itself.
        X: The tensor, as in `FairCP.fit`.
        grid: Values to try for arguments of the model, in all combinations, such as
            ``{"rank": [4, 8], "ridge": [1, 10], "strength": [30, 100]}``; or several grids. None
            for `default_grid`: ridges of 1, 3, 10, ... around the number of entries of a person.
        sensitive_features: As in `FairCP.fit`.
        side: Side information, as in `FairCP.fit`; none of it is held out.
        validation: Share of the observed entries to hold out; or held-out entries of your own, as a
            `TensorData` with labels of X. The final model is fitted to X, not to these.
        cv: Number of folds for cross-validation: each fold is held out once, and the errors are of
            all of them together. None for one split.
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
    instance_of("model", model, FairModel, "make one, such as FairCP(2)")
    jobs("n_jobs", n_jobs)
    callback("on_candidate", on_candidate)
    check_verbose(verbose)
    if max_leakage is not None:
        _check_audit(max_leakage, sensitive_features)
    check_validation(validation, cv)
    check_index(sensitive_features, X)
    grids = [] if grid is None else _check_grid(grid, max_leakage, type(model))
    Settings.of(model).check_side(side)
    data, side = as_data(X), match_index(side, X)
    grids = grids or list(ParameterGrid(default_grid(model, data)))
    models = [_candidate(model, settings, data) for settings in grids]
    splits = validation_splits(data, validation, cv, random_state)
    with tracked("candidates", verbose) as bar:

        def tell(candidate: Candidate) -> None:
            bar.note(str(candidate))
            if on_candidate is not None:
                on_candidate(candidate)

        tried = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_try)(candidate, splits, sensitive_features, side) for candidate in models
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
            final.fit(data, sensitive_features=sensitive_features, side=side)
        warn_once([*held, *warned], len(models) * len(splits) + 1, stacklevel=2)
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


def default_grid(model: Model, X: Any) -> dict[str, list[float]]:
    """Return the ridges that `tune` tries by default, strongest first: ..., 10, 3, 1, ..., 0.

    They go from 10 times the mean number of entries of a person to a thousandth of it. A ridge is
    that many extra entries, so a stronger one leaves little, and a weaker one does little.

    Args:
        model: The model, for the mode of the people.
        X: The data.
    """
    data = as_data(X)
    entries = data.observed / data.shape[data.find_mode(model.mode)]
    return {"ridge": grid_for(entries, strongest=DEFAULT_STRONGEST)}


def _check_grid(grid: Grid, max_leakage: float | None, kind: type) -> list[dict[str, Any]]:
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
        one_of("a key of grid", name, signature(kind).parameters)
    if max_leakage is None and len({str(settings.get("strength")) for settings in grids}) > 1:
        warn(
            "the grid has several strengths but max_leakage is not given: error alone selects the "
            "weakest; pass max_leakage, such as 0.05, to select the best that passes an audit",
            ParafairWarning,
            stacklevel=3,
        )
    return grids


def _candidate(model: Model, settings: Mapping[str, Any], data: TensorData) -> Model:
    """Return the model with some settings, checked."""
    candidate: Model = clone(model).set_params(**settings)
    loss = Settings.of(candidate).loss
    if candidate.unfolding_of(data) is None:
        check_rank(candidate.rank, data.shape)
    if candidate.ridge == "auto" and is_complete(data):
        # Held-out entries are missing only for the comparison.
        candidate.ridge = usual_ridge(loss)
    return candidate


def _by_error(candidates: Sequence[Candidate]) -> list[int]:
    return sorted(range(len(candidates)), key=lambda k: candidates[k].rmse)


def _preference(candidate: Candidate) -> tuple[float, ...]:
    """Return a sort key: the verdict, then leakage if it leaks, then error."""
    # Candidates without a verdict: one with a smaller error passed, or there are no audits.
    order = (None, Verdict.PASSES, Verdict.INCONCLUSIVE, Verdict.LEAKS)
    leaks = candidate.verdict is Verdict.LEAKS
    place = max(1, order.index(candidate.verdict))
    return (place, (candidate.leakage or 0.0) if leaks else 0.0, candidate.rmse)


def _judge(model: Model, max_leakage: float, random_state: Any) -> Verdict:
    """Audit the final model; warn if it does not pass."""
    result = _audit(_penalized(model), random_state)
    verdict = result.verdict(max_leakage)
    if verdict is not Verdict.PASSES:
        warn(
            f"the selected settings, fitted to all entries, do not pass at max_leakage="
            f"{max_leakage} ({verdict.value}, leakage {result.leakage:.3f}); try other "
            "strengths, more people, or a larger max_leakage",
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
    model: Model, splits: Sequence[Split[TensorData]], features: Any, side: Any
) -> tuple[Candidate, _Rows, list[Held]]:
    """Fit to every training part and predict the rest.

    Also returns penalized rows, those of the first split, and warnings.
    """
    with hold_warnings() as held:
        fits = [
            clone(model).fit(split.train, sensitive_features=features, side=side)
            for split in splits
        ]
    errors = [
        fitted.predict(split.test) - split.test.entries.cpu().numpy().astype(np.float64)
        for fitted, split in zip(fits, splits, strict=True)
    ]
    every = np.concatenate(errors)
    finite = bool(np.isfinite(every).all())
    roots = [root_mean_square(own) for own in errors] if finite and len(splits) > 1 else None
    candidate = Candidate(
        settings={},
        rmse=root_mean_square(every) if finite else inf,
        mae=float(np.abs(every).mean()) if finite else inf,
        residual=float(np.mean([fitted.fit_.residual for fitted in fits])),
        seconds=sum(fitted.fit_.seconds for fitted in fits),
        ridge=float(np.median([fitted.ridge_ for fitted in fits])),
        rmse_std=None if roots is None else float(np.std(roots)),
    )
    return candidate, _penalized(fits[0]), held


def _penalized(model: Model) -> _Rows:
    """Return the rows of the penalized people, and their features."""
    return model.training_.penalized_rows(model.embedding_), model.training_.features
