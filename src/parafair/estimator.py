"""FairCP: the scikit-learn front of the library."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from parafair.adjustments import Adjustment
from parafair.checks import as_tensor, check_device, resolve_dtype
from parafair.description import describe
from parafair.entries import entries_of
from parafair.errors import ConvergenceWarning, Interrupted, ParafairWarning, unknown_choice
from parafair.fit import Fit, Status, Stop, best
from parafair.losses import block_of
from parafair.methods import resolve_method
from parafair.penalties import Invariant, Penalty
from parafair.problem import Problem
from parafair.quadratic import QuadraticForm
from parafair.selection import OnTrial, Selection, select_strength
from parafair.sensitive import SensitiveFeatures
from parafair.solvers import BlockDescent, GradientBCD, Solver, decompose
from parafair.solvers.base import OnRound
from parafair.starts import StartName, make_starts
from parafair.tensors import CPTensor, reconstruct

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
        mode: The mode whose indices are people.
        loss: "squared".
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
        mode: int = 0,
        loss: str = "squared",
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
            X: Numbers in 2 or more dimensions: array, nested list, DataFrame or torch tensor.
            y: Ignored; here because scikit-learn passes it.
            sensitive_features: One row per index of `mode`: 1-D array, Series, DataFrame, or a
                `SensitiveFeatures` in which the kind of each column is stated. Required unless
                method is "none".
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
        sensitive = None
        if sensitive_features is not None:
            sensitive = SensitiveFeatures.of(sensitive_features)
        adjustment = method if isinstance(method, Adjustment) else None
        penalty = None if isinstance(method, Adjustment) else method
        problem = Problem(tensor, self.rank, self.mode, penalty, sensitive)
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
            self._keep([interruption.fit], settings)
            interruption.fit = self.fit_
            raise
        self._keep(fits, settings)
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
            self.tolerance > 0 and self.fit_.status is Status.OUT_OF_ROUNDS
        ):
            warnings.warn(
                f"FairCP after {self.fit_.rounds} rounds: {self.fit_.status.value}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @classmethod
    def from_fit(cls, fit: Fit, **settings: Any) -> Self:
        """Return a fitted model from a fit that was made elsewhere.

        Args:
            fit: The fit.
            settings: Arguments of the model that made it, except for the rank.
        """
        model = cls(fit.cp.rank, **settings)
        model._keep([fit], fit.settings)
        return model

    def fit_transform(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None
    ) -> NDArray[Any]:
        """Decompose a tensor and return the embedding of its people."""
        return self.fit(X, y, sensitive_features=sensitive_features).embedding_

    def transform(self, X: Any) -> NDArray[Any]:
        """Return embeddings of people, by least squares with the other factors fixed.

        Only the fit counts here: a penalty acts on the population it was trained with. For
        those people use `embedding_` or `fit_transform`.

        Args:
            X: A tensor with the shape of the training data except along `mode`.
        """
        check_is_fitted(self)
        tensor = self._validate(X, reset=False)
        if self.method != "none":
            warnings.warn(
                "transform fits new people without the penalty, so these embeddings may reveal "
                "the sensitive features; audit them before use",
                ParafairWarning,
                stacklevel=2,
            )
        factors = [factor.to(tensor) for factor in self.cp_.factors]
        sums = entries_of(tensor).sums([factor.unsqueeze(0) for factor in factors])
        block = block_of(
            sums.target(self.mode), sums.gram(self.mode), norm_squared=0.0, entries=1, ridge=0.0
        )
        return np.asarray(block.minimizer(QuadraticForm.zero(factors[self.mode]))[0].cpu())

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
        factors[self.mode] = embedding
        return np.asarray(reconstruct(factors).cpu())

    @property
    def _n_features_out(self) -> int:
        return self.cp_.rank

    def _validate(self, X: Any, *, reset: bool) -> Tensor:
        """Return the data as a tensor, with scikit-learn's bookkeeping for matrices."""
        dtype = resolve_dtype(self.dtype)
        order = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
        if np.ma.is_masked(X):
            raise ValueError("X has masked entries; remove or impute them first")
        check_device(self.device)
        if reset and hasattr(self, "n_features_in_"):
            del self.n_features_in_  # of an earlier fit to a matrix
        if not isinstance(X, Tensor) and order <= 2 and self.mode == 0:
            # Our own check of the entries says where the first bad one is.
            allowed = (np.float64, np.float32)
            X = validate_data(self, X, reset=reset, dtype=allowed, ensure_all_finite=False)
        tensor = as_tensor(X, dtype=dtype, device=self.device)
        if reset:
            return tensor
        trained = self.cp_.shape
        expected = (*trained[: self.mode], "people", *trained[self.mode + 1 :])
        if tensor.ndim != len(trained) or any(
            have != want
            for mode, (have, want) in enumerate(zip(tensor.shape, trained, strict=True))
            if mode != self.mode
        ):
            raise ValueError(f"X must have shape {expected}, got {tuple(tensor.shape)}")
        return tensor

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

    def _keep(self, fits: Sequence[Fit], settings: Mapping[str, Any]) -> None:
        """Set the attributes of a fitted model."""
        self.fits_ = tuple(replace(fit, settings=settings) for fit in fits)
        self.fit_ = best(self.fits_)
        self.cp_ = self.fit_.cp
        self.embedding_ = np.asarray(self.cp_.factors[self.mode].cpu())

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
            "mode": int(self.mode),
            "loss": self.loss,
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


def resolve_solver(solver: str | Solver[Any]) -> Solver[Any]:
    """Return the solver of a name, or the object given."""
    if isinstance(solver, Solver) and not isinstance(solver, type):
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise unknown_choice("solver", solver, SOLVERS)
    return SOLVERS[solver]
