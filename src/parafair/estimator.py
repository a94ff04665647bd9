"""FairCP: the scikit-learn front of the library."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from parafair import adjustments, kernels, penalties, solvers
from parafair.adjustments import Adjustment
from parafair.arrays import has_labels, is_sparse
from parafair.checks import as_data, as_tensor, check_device, resolve_dtype
from parafair.data import TensorData
from parafair.description import describe, rebuild
from parafair.entries import entries_of, values_at
from parafair.errors import ConvergenceWarning, Interrupted, ParafairWarning, unknown_choice
from parafair.fit import Fit, Status, Stop, best
from parafair.methods import resolve_method
from parafair.offsets import Offsets
from parafair.penalties import Invariant, Penalty
from parafair.problem import Problem, find_mode, resolve_ridge
from parafair.selection import OnTrial, Selection, select_strength
from parafair.sensitive import SensitiveFeatures
from parafair.solvers import BlockDescent, GradientBCD, Solver, decompose
from parafair.solvers.base import OnRound
from parafair.starts import STARTS, StartName, make_starts
from parafair.storage import new_folder
from parafair.tensors import CPTensor, reconstruct
from parafair.training import Training

SOLVERS: dict[str, Solver[Any]] = {"block": BlockDescent(), "gradient": GradientBCD()}
LOSSES = ("squared",)


class FairCP(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """CP (PARAFAC) decomposition whose embedding of people depends less on sensitive features.

    Args:
        rank: Number of components.
        method: "invariant" (the library's own criterion), "khsic" (the paper), "hsic", "fatr",
            "none"; "correlation-removal" or "moment-matching", which change the embedding of a
            plain decomposition; or an object such as
            ``parafair.penalties.Orthogonality(strength=0.1, ridge=1.0)``.
        strength: Multiplier of the penalty of a method given by name; None is its default. For
            "invariant" it multiplies dependence between 0 and 1 against the squared relative
            residual, on any data; "auto" is the closest fit that passes the audit. For the
            others it is in the units of the paper's formula.
        target_leakage: With ``strength="auto"``: the most leakage allowed, the strongest
            attacker's advantage over chance.
        mode: The mode whose indices are people, by number, or by name for a `TensorData`.
        loss: "squared".
        ridge: Holds back all factors, a person's row as much as by this many more entries that
            are zero. None is 0 where every index of every mode has at least 10 entries for each
            component, and 3 where entries are missing and some have fewer.
        center: Whether to subtract the mean, and what each index of the other modes adds to it on
            average, before the fit; predictions have it added again.
        solver: "block" (block updates, extrapolated), "gradient" (Algorithm 1 of the
            paper) or a solver object such as ``parafair.solvers.GradientBCD((3, 1))``.
        start: "uniform" as in the paper, "normal", "svd", or factors to begin from.
        n_init: Number of random starts, run as one batch; the best is kept.
        max_rounds: Most rounds of the solver.
        tolerance: Stop when the objective falls by less than this share per round.
        random_state: Seed of the starts.
        device: Where to compute, such as "cuda"; None is where the data is.
        dtype: "float32" or "float64"; None keeps the precision of the data.

    Attributes:
        embedding_: One row per person, shape (n, rank): the factor of `mode`.
        cp_: Weights and factors; unpacks like TensorLy's CPTensor.
        fit_: Status, history and counts of the best start.
        fits_: The same for every start.
        selection_: With ``strength="auto"``: the strength chosen and the path to it.

    >>> from parafair import FairCP, datasets
    >>> data = datasets.synthetic(0, shape=(20, 8, 6), rank=3)
    >>> model = FairCP(rank=2, method="hsic", strength=1.0, random_state=0)
    >>> model.fit_transform(data.tensor, sensitive_features=data.sensitive).shape
    (20, 2)
    """

    def __init__(
        self,
        rank: int = 2,
        *,
        method: str | Penalty | Adjustment = "invariant",
        strength: float | Literal["auto"] | None = None,
        target_leakage: float = 0.05,
        mode: int | str = 0,
        loss: str = "squared",
        ridge: float | None = None,
        center: bool = False,
        solver: str | Solver[Any] = "block",
        start: StartName | CPTensor | Sequence[Any] = "uniform",
        n_init: int = 1,
        max_rounds: int = 500,
        tolerance: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> None:
        self.rank = rank
        self.method = method
        self.strength = strength
        self.target_leakage = target_leakage
        self.mode = mode
        self.loss = loss
        self.ridge = ridge
        self.center = center
        self.solver = solver
        self.start = start
        self.n_init = n_init
        self.max_rounds = max_rounds
        self.tolerance = tolerance
        self.random_state = random_state
        self.device = device
        self.dtype = dtype

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        on_round: OnRound | None = None,
        on_trial: OnTrial | None = None,
    ) -> Self:
        """Decompose a tensor.

        Args:
            X: Numbers in 2 or more dimensions: `TensorData`, array, nested list, DataFrame or torch
                tensor. NaN and masked entries are missing.
            y: Ignored; here because scikit-learn passes it.
            sensitive_features: One row per index of `mode`: 1-D array, Series, DataFrame, or a
                `SensitiveFeatures` in which the kind of each column is stated. Required unless
                method is "none". A dictionary from modes to features asks for independence in
                several modes at once; `mode` must be one of them.
            on_round: Called after each round with its number and the objective.
            on_trial: With ``strength="auto"``: called after each strength that was tried.

        Raises:
            Interrupted: On Ctrl-C, after the attributes were set from the last finished round.
        """
        strength = self._strength()
        automatic = strength == "auto"
        method = resolve_method(self.method, None if strength == "auto" else strength)
        solver = resolve_solver(self.solver)
        if self.loss not in LOSSES:
            raise unknown_choice("loss", self.loss, LOSSES)
        stop = Stop(max_rounds=self.max_rounds, tolerance=self.tolerance)
        if method is not None and sensitive_features is None:
            raise ValueError(
                f"method={self.method!r} needs sensitive_features, but none were given; pass one "
                "row per person to fit, or use method='none' for a plain decomposition"
            )
        tensor = self._validate(X, reset=True)
        mode = find_mode(tensor, self.mode)
        offsets = Offsets.of(tensor, mode) if self.center else None
        if offsets is not None:
            tensor = offsets.subtract(tensor)
        sensitive, also = self._read_features(tensor, mode, sensitive_features)
        adjustment = method if isinstance(method, Adjustment) else None
        penalty = None if isinstance(method, Adjustment) else method
        ridge = resolve_ridge(self.ridge, tensor, self.rank)
        problem = Problem(tensor, self.rank, mode, penalty, sensitive, ridge, also)
        training = Training.of(problem, offsets)
        _report_empty(problem)
        seed = self._seed()
        starts = make_starts(problem, self.start, count=self.n_init, seed=seed)
        settings = self._settings(method, solver, seed, problem)
        try:
            if automatic:
                fits = self._select(problem, solver, starts, stop, seed, on_round, on_trial)
                settings |= {"selection": self.selection_.to_list()}
                settings["method"] |= {"strength": self.selection_.strength}
            else:
                fits = decompose(
                    problem,
                    solver,
                    starts=starts,
                    stop=stop,
                    adjustment=adjustment,
                    warm=isinstance(self.start, str),
                    on_round=on_round,
                )
        except Interrupted as interruption:
            self._keep([interruption.fit], settings, training)
            interruption.fit = self.fit_
            raise
        self._keep(fits, settings, training)
        if adjustment is not None:
            return self
        if not automatic and self.fit_.objective > self.fit_.history[0].objective:
            warnings.warn(
                "FairCP ended with a larger objective than it began with: the steps were too large "
                "for the penalty; use smaller step_sizes, or solver='block'",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif self.fit_.status is Status.DIVERGED or (
            # A strength found by audits was judged as it is.
            self.tolerance > 0 and self.fit_.status is Status.OUT_OF_ROUNDS and not automatic
        ):
            warnings.warn(
                f"FairCP after {self.fit_.rounds} rounds: {self.fit_.status.value}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @classmethod
    def from_fit(cls, fit: Fit, *, training: Training, **settings: Any) -> Self:
        """Return a fitted model from a fit that was made elsewhere.

        Args:
            fit: The fit.
            training: What it was fitted to.
            settings: Arguments of the model that made it, except for the rank.
        """
        model = cls(fit.cp.rank, **settings)
        model._keep([fit], fit.settings, training)
        return model

    def fit_transform(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None
    ) -> NDArray[Any]:
        """Decompose a tensor and return the embedding of its people."""
        return self.fit(X, y, sensitive_features=sensitive_features).embedding_

    def transform(self, X: Any, sensitive_features: Any = None) -> NDArray[Any]:
        """Return embeddings of new people, with the other factors fixed.

        With method "invariant" and sensitive features, their rows minimize their squared error
        plus the criterion of everybody, the people of the training held where they are; so a row
        depends on who else is in `X`. Otherwise only the fit counts. For the people of the training
        use `embedding_`. Of people without entries it is the mean of the training.

        Args:
            X: A tensor with the shape of the training data except along `mode`. Labels of a
                `TensorData` are matched with those of the training.
            sensitive_features: One row per new person, with the columns of the training.
        """
        check_is_fitted(self)
        tensor = self._validate(X, reset=False)
        training = self.training_
        penalty, features = self._penalty(), None
        if sensitive_features is not None and training.features is not None:
            features = training.features.read(sensitive_features)
            people = tensor.shape[training.mode]
            if len(features) != people:
                raise ValueError(
                    f"sensitive_features has {len(features)} rows but X has {people} people; pass "
                    "one row per person, in the same order"
                )
        if self.method != "none" and (features is None or not isinstance(penalty, Invariant)):
            warnings.warn(
                "transform fits new people without the penalty, so these embeddings may reveal "
                "the sensitive features; "
                + (
                    "pass sensitive_features, or audit them before use"
                    if isinstance(penalty, Invariant)
                    else "only method='invariant' has a form for new people: audit them before use"
                ),
                ParafairWarning,
                stacklevel=2,
            )
        empty = int((entries_of(tensor).counts(training.mode) == 0).sum())
        if empty:
            people = tensor.shape[training.mode]
            warnings.warn(
                f"nothing was observed of {empty} of {people} new people; their rows are the mean "
                "of the training",
                ParafairWarning,
                stacklevel=2,
            )
        if training.offsets is not None:
            tensor = training.offsets.subtract(tensor)
        values = tensor.values if isinstance(tensor, TensorData) else tensor
        factors = [factor.to(values) for factor in self.cp_.factors]
        return np.asarray(training.embed(tensor, factors, penalty, features).cpu())

    def _has_cells(self) -> bool:
        """Tell whether `predict` makes sense; where it does not, scikit-learn must not find it."""
        check_is_fitted(self)
        training, shape = self.training_, self.cp_.shape
        if len(shape) == 2 and training.labels is None and training.entries == prod(shape):
            raise AttributeError(
                "predict is for tensors, and for matrices with missing entries or labels; of a "
                "complete matrix use inverse_transform(embedding_)"
            )
        return True

    @available_if(_has_cells)  # type: ignore[untyped-decorator]
    def predict(self, cells: Any) -> NDArray[Any]:
        """Return the model's values of any cells, those that were missing too.

        Not there for a complete matrix, of which scikit-learn would expect one value per row.

        Args:
            cells: One row per cell: whole numbers, the positions in each mode, of shape (count,
                order); or a data frame with a column of labels for each mode of a `TensorData`.
        """
        check_is_fitted(self)
        indices = self.training_.find_cells(cells, self.cp_.shape)
        factors = [factor.cpu() for factor in self.cp_.factors]
        found = values_at(indices, factors).double()
        if self.training_.offsets is not None:
            found = found + self.training_.offsets.at(indices)
        return found.numpy()

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the tensor that embeddings stand for, people along `mode`."""
        check_is_fitted(self)
        embedding = as_tensor(X, name="X")
        if embedding.ndim != 2 or embedding.shape[1] != self.cp_.rank:
            raise ValueError(
                f"X must have {self.cp_.rank} columns, one per component; got shape "
                f"{tuple(embedding.shape)}"
            )
        factors = [factor.to(embedding) for factor in self.cp_.factors]
        factors[self.training_.mode] = embedding
        tensor = reconstruct(factors)
        if self.training_.offsets is not None:
            tensor = tensor + self.training_.offsets.dense(tensor)
        return np.asarray(tensor.cpu())

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model into a new folder, whole or not at all.

        The sensitive features of the training are part of it: `transform` needs them.
        """
        check_is_fitted(self)
        with new_folder(folder, overwrite=overwrite) as target:
            self.write(target)

    def write(self, folder: Path) -> None:
        """Write the files of the fitted model into an existing folder."""
        self.fit_.write(folder)
        self.training_.write(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that `save` or the command line wrote."""
        fit, training = Fit.load(folder), Training.read(Path(folder))
        settings = fit.settings
        method = settings["method"]
        return cls.from_fit(
            fit,
            training=training,
            method="none" if method is None else rebuild(method, (penalties, adjustments, kernels)),
            mode=training.mode,
            ridge=settings["ridge"],
            center=training.offsets is not None,
            solver=rebuild(settings["solver"], (solvers,)),
            start=settings["start"] if settings["start"] in STARTS else "uniform",
            n_init=settings["n_init"],
            max_rounds=settings["max_rounds"],
            tolerance=settings["tolerance"],
            random_state=settings["seed"],
        )

    def _read_features(
        self, tensor: Tensor | TensorData, mode: int, features: Any
    ) -> tuple[SensitiveFeatures | None, dict[int, SensitiveFeatures]]:
        """Return the features of the people, and of other modes if there are some."""
        if features is None:
            return None, {}
        if not isinstance(features, Mapping):
            return SensitiveFeatures.of(features), {}
        found = {find_mode(tensor, m): SensitiveFeatures.of(f) for m, f in features.items()}
        if mode not in found:
            raise ValueError(
                f"sensitive_features has no entry for the mode of the people, {self.mode!r}; got "
                f"{list(features)}. Set mode= to one of them"
            )
        people = found.pop(mode)
        if found and self.strength == "auto":
            raise ValueError(
                "strength='auto' looks at one sensitive mode; with features of several, give "
                "strength as a number"
            )
        return people, found

    @property
    def _n_features_out(self) -> int:
        return self.cp_.rank

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validate(self, X: Any, *, reset: bool) -> Tensor | TensorData:
        """Return the data as a tensor, with scikit-learn's bookkeeping for matrices."""
        dtype = resolve_dtype(self.dtype)
        check_device(self.device)
        if reset and hasattr(self, "n_features_in_"):
            del self.n_features_in_  # of an earlier fit to a matrix
        known = isinstance(X, (Tensor, TensorData, np.ma.MaskedArray))
        if not (known or is_sparse(X) or has_labels(X)) and self.mode == 0:
            order = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
            if order <= 2:
                # Our own check of the entries says where the first bad one is.
                allowed = (np.float64, np.float32)
                X = validate_data(self, X, reset=reset, dtype=allowed, ensure_all_finite=False)
        tensor = as_data(X, dtype=dtype, device=self.device)
        if not reset:
            if isinstance(tensor, TensorData):
                tensor = self.training_.align(tensor, self.cp_.shape)
            self._check_shape(tuple(tensor.shape))
        return tensor

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise unless data of new people fits the model."""
        trained, people = self.cp_.shape, self.training_.mode
        if len(shape) != len(trained) or any(
            have != want
            for mode, (have, want) in enumerate(zip(shape, trained, strict=True))
            if mode != people
        ):
            expected = (*trained[:people], "people", *trained[people + 1 :])
            raise ValueError(f"X must have shape {expected}, got {shape}")

    def _penalty(self) -> Penalty | None:
        """Return the penalty of the fit, with the strength that was chosen."""
        if isinstance(self.strength, str):
            method = resolve_method(self.method)
            strength = self.fit_.settings["method"]["strength"]
            return replace(method, strength=strength)  # type: ignore[type-var, return-value]
        found = resolve_method(self.method, self.strength)
        return None if isinstance(found, Adjustment) else found

    def _strength(self) -> float | Literal["auto"] | None:
        """Return the strength; check what "auto" needs."""
        if not isinstance(self.strength, str):
            return self.strength
        if self.strength != "auto":
            raise ValueError(f"strength must be a number, 'auto' or None, got {self.strength!r}")
        if self.method != "invariant" and not isinstance(self.method, Invariant):
            raise ValueError(
                f"strength='auto' needs method='invariant', got method={self.method!r}; give "
                "strength as a number"
            )
        level = self.target_leakage
        if not (isinstance(level, (int, float, np.number)) and 0 < level < 1):
            raise ValueError(
                f"target_leakage must be between 0 and 1, an advantage over chance; got {level!r}"
            )
        return "auto"

    def _select(
        self,
        problem: Problem,
        solver: Solver[Any],
        starts: tuple[Tensor, ...],
        stop: Stop,
        seed: int,
        on_round: OnRound | None,
        on_trial: OnTrial | None,
    ) -> tuple[Fit, ...]:
        """Find the least strength that passes; set `selection_`."""
        self.selection_: Selection = select_strength(
            problem,
            solver,
            starts=starts,
            stop=stop,
            level=float(self.target_leakage),
            seed=seed % 2**32,
            on_round=on_round,
            on_trial=on_trial,
        )
        if not self.selection_.passed:
            last = self.selection_.trials[-1]
            warnings.warn(
                f"no strength passed the audit at target_leakage={self.target_leakage}: the path "
                f"ended at strength {last.strength:.3g} ({last.verdict}), and the strength with "
                f"the weakest attackers, {self.selection_.strength:.3g}, was kept. Try another "
                "random_state, a larger target_leakage or more people; see selection_.trials",
                ConvergenceWarning,
                stacklevel=3,
            )
        return (self.selection_.fit,)

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            if not 0 <= self.random_state < 2**63:
                raise ValueError(
                    f"random_state must be between 0 and 2**63 - 1, got {self.random_state}"
                )
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _keep(self, fits: Sequence[Fit], settings: Mapping[str, Any], training: Training) -> None:
        """Set the attributes of a fitted model."""
        self.training_ = training
        self.fits_ = tuple(replace(fit, settings=settings) for fit in fits)
        self.fit_ = best(self.fits_)
        self.cp_ = self.fit_.cp
        self.embedding_ = np.asarray(self.cp_.factors[self.training_.mode].cpu())

    def _settings(
        self,
        method: Penalty | Adjustment | None,
        solver: Solver[Any],
        seed: int,
        problem: Problem,
    ) -> dict[str, Any]:
        """Return all that is needed to repeat the fit, as plain values."""
        start = self.start if isinstance(self.start, str) else "given"
        return {
            "parafair": version("parafair"),
            "torch": torch.__version__,
            "shape": list(problem.shape),
            "rank": int(self.rank),
            "mode": problem.mode,
            "loss": self.loss,
            "ridge": problem.ridge,
            "center": bool(self.center),
            "method": None if method is None else describe(method),
            "sensitive": [
                {"name": column.name, "kind": column.kind, "categories": list(column.categories)}
                for column in (problem.sensitive.columns if problem.sensitive else ())
            ],
            "solver": describe(solver),
            "start": start,
            "n_init": int(self.n_init),
            "max_rounds": int(self.max_rounds),
            "tolerance": float(self.tolerance),
            "seed": seed,
            "dtype": str(problem.like.dtype).removeprefix("torch."),
            "device": str(problem.like.device),
        }


def _report_empty(problem: Problem) -> None:
    """Warn of rows that nothing was observed of."""
    found = {mode: len(empty) for mode, empty in problem.empty.items() if len(empty)}
    if found:
        places = ", ".join(
            f"{count} of {problem.shape[mode]} in mode {mode}" for mode, count in found.items()
        )
        warnings.warn(
            f"nothing was observed of {places}; their rows are the mean of the others', and people "
            "among them are left out of the criterion",
            ParafairWarning,
            stacklevel=3,
        )


def resolve_solver(solver: str | Solver[Any]) -> Solver[Any]:
    """Return the solver of a name, or the object given."""
    if isinstance(solver, Solver) and not isinstance(solver, type):
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise unknown_choice("solver", solver, SOLVERS)
    return SOLVERS[solver]
