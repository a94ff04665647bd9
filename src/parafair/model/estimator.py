"""FairCP: the scikit-learn front of the library."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from parafair import penalties, solvers
from parafair.algebra.cp_tensor import CPTensor
from parafair.data.centering import Offsets
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence import kernels
from parafair.errors import ConvergenceWarning, Interrupted, ParafairWarning, unknown_choice
from parafair.model.fitted import FittedCP
from parafair.model.strength import OnTrial, Selection, select_strength
from parafair.model.training import Training
from parafair.penalties import Invariant, Penalty
from parafair.penalties.postprocessing import Postprocessing
from parafair.penalties.registry import resolve_method
from parafair.records import describe, rebuild
from parafair.solvers import BlockDescent, GradientBCD, Solver, decompose
from parafair.solvers.init import STARTS, StartName, make_starts
from parafair.solvers.loop import OnIteration
from parafair.solvers.problem import Problem, find_mode, resolve_ridge
from parafair.solvers.result import Fit, Status, Stop

SOLVERS: dict[str, Solver[Any]] = {"block": BlockDescent(), "gradient": GradientBCD()}
LOSSES = ("squared",)


class FairCP(FittedCP):
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
        max_leakage: With ``strength="auto"``: the most leakage allowed, the strongest
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
        max_iter: Most rounds of the solver.
        tol: Stop when the objective falls by less than this share per round.
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
    >>> model.fit_transform(data.tensor, sensitive_features=data.sensitive_features).shape
    (20, 2)
    """

    def __init__(
        self,
        rank: int = 2,
        *,
        method: str | Penalty | Postprocessing = "invariant",
        strength: float | Literal["auto"] | None = None,
        max_leakage: float = 0.05,
        mode: int | str = 0,
        loss: str = "squared",
        ridge: float | None = None,
        center: bool = False,
        solver: str | Solver[Any] = "block",
        start: StartName | CPTensor | Sequence[Any] = "uniform",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> None:
        self.rank = rank
        self.method = method
        self.strength = strength
        self.max_leakage = max_leakage
        self.mode = mode
        self.loss = loss
        self.ridge = ridge
        self.center = center
        self.solver = solver
        self.start = start
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device
        self.dtype = dtype

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        on_iteration: OnIteration | None = None,
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
            on_iteration: Called after each round with its number and the objective.
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
        stop = Stop(max_iter=self.max_iter, tol=self.tol)
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
        postprocessing = method if isinstance(method, Postprocessing) else None
        penalty = None if isinstance(method, Postprocessing) else method
        ridge = resolve_ridge(self.ridge, tensor, self.rank)
        problem = Problem(tensor, self.rank, mode, penalty, sensitive, ridge, also)
        training = Training.of(problem, offsets)
        _report_empty(problem)
        seed = self._seed()
        starts = make_starts(problem, self.start, count=self.n_init, seed=seed)
        settings = self._settings(method, solver, seed, problem)
        try:
            if automatic:
                settings |= {"noise": None}  # not known before the end
                fits = self._select(problem, solver, starts, stop, seed, on_iteration, on_trial)
                chosen = self.selection_
                settings |= {"selection": chosen.to_list(), "noise": chosen.noise}
                settings["method"] |= {"strength": self.selection_.strength}
            else:
                fits = decompose(
                    problem,
                    solver,
                    starts=starts,
                    stop=stop,
                    postprocessing=postprocessing,
                    warm=isinstance(self.start, str),
                    on_iteration=on_iteration,
                )
        except Interrupted as interruption:
            self._keep([interruption.fit.with_plain(problem)], settings, training)
            interruption.fit = self.fit_
            raise
        self._keep(fits, settings, training)
        if postprocessing is None:
            self._report_end(automatic=automatic)
        return self

    def _report_end(self, *, automatic: bool) -> None:
        """Warn of a fit that did not get where it should."""
        if not automatic and self.fit_.objective > self.fit_.history[0].objective:
            warnings.warn(
                "FairCP ended with a larger objective than it began with: the steps were too large "
                "for the penalty; use smaller step_sizes, or solver='block'",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif self.fit_.status is Status.DIVERGED or (
            # A strength found by audits was judged as it is.
            self.tol > 0 and self.fit_.status is Status.OUT_OF_ITERATIONS and not automatic
        ):
            warnings.warn(
                f"FairCP after {self.fit_.n_iter} rounds: {self.fit_.status.value}",
                ConvergenceWarning,
                stacklevel=3,
            )

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

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that `save` or the command line wrote."""
        fit, training = Fit.load(folder), Training.read(Path(folder))
        settings = fit.settings
        method = settings["method"]
        model = cls.from_fit(
            fit,
            training=training,
            method="none"
            if method is None
            else rebuild(method, (penalties, penalties.postprocessing, kernels)),
            mode=training.mode,
            ridge=settings["ridge"],
            center=training.offsets is not None,
            solver=rebuild(settings["solver"], (solvers,)),
            start=settings["start"] if settings["start"] in STARTS else "uniform",
            n_init=settings["n_init"],
            max_iter=settings["max_iter"],
            tol=settings["tol"],
            random_state=settings["seed"],
        )
        if "selection" in settings:
            model.selection_ = Selection.from_list(
                settings["selection"],
                fit=fit,
                strength=settings["method"]["strength"],
                noise=settings["noise"],
            )
        return model

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
        level = self.max_leakage
        if not (isinstance(level, (int, float, np.number)) and 0 < level < 1):
            raise ValueError(
                f"max_leakage must be between 0 and 1, an advantage over chance; got {level!r}"
            )
        return "auto"

    def _select(
        self,
        problem: Problem,
        solver: Solver[Any],
        starts: tuple[Tensor, ...],
        stop: Stop,
        seed: int,
        on_iteration: OnIteration | None,
        on_trial: OnTrial | None,
    ) -> tuple[Fit, ...]:
        """Find the least strength that passes; set `selection_`."""
        self.selection_: Selection = select_strength(
            problem,
            solver,
            starts=starts,
            stop=stop,
            level=float(self.max_leakage),
            seed=seed % 2**32,
            on_iteration=on_iteration,
            on_trial=on_trial,
        )
        if not self.selection_.passed:
            last = self.selection_.trials[-1]
            warnings.warn(
                f"no strength passed the audit at max_leakage={self.max_leakage}: the path "
                f"ended at strength {last.strength:.3g} ({last.verdict}), and the strength with "
                f"the weakest attackers, {self.selection_.strength:.3g}, was kept. Try another "
                "random_state, a larger max_leakage or more people; see selection_.trials",
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

    def _settings(
        self,
        method: Penalty | Postprocessing | None,
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
            "max_iter": int(self.max_iter),
            "tol": float(self.tol),
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
