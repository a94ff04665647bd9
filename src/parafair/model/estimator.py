"""FairCP, the scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import as_path, callback, classes_of
from parafair.data.randomness import RandomState
from parafair.data.raw_features import check_order, index_of
from parafair.encoders.learned import Learned
from parafair.encoders.result import load_fit
from parafair.errors import ConvergenceWarning, Interrupted, ParafairWarning, warn
from parafair.guarantees import certify
from parafair.guarantees.certificate import CERTIFICATE_FILE, Certificate
from parafair.model.checks import AUDIT, POPULATION
from parafair.model.fitted import FittedCP
from parafair.model.guaranteed import (
    OfPopulation,
    check_held_out,
    not_found,
    select_guaranteed,
)
from parafair.model.methods import Method
from parafair.model.noise import describe_noise, warn_without_noise
from parafair.model.notices import warn_empty, warn_without_effect
from parafair.model.preparation import Settings
from parafair.model.progress import print_audits, print_iterations, print_line, print_trials
from parafair.model.record import RECORD_FILE, Record
from parafair.model.ridge import Ridge
from parafair.model.strength import OnAudit, select_strength
from parafair.model.task import Task
from parafair.model.training import Training
from parafair.model.trials import OnTrial, Selection
from parafair.solvers import Fit, Solver, Status
from parafair.solvers.fitting import complete
from parafair.solvers.init import InitName
from parafair.solvers.loop import Counted, OnIteration
from parafair.stored import is_stored, reading

# Relative rounding error of an objective in single precision.
ROUNDING = 1e-6


class FairCP(FittedCP):
    """CP (PARAFAC) decomposition whose embedding of people depends less on sensitive features.

    Args:
        rank: Number of components.
        method: "invariant" (the library's own criterion), "khsic" (the paper), "hsic", "fatr",
            "none"; "mean-matching", "bhattacharyya" or "mutual-information" (Kamishima), which make
            predicted scores comparable, not embeddings; "correlation-removal", "moment-matching" or
            "transport", which change a plain decomposition ("transport" gives all groups the same
            distribution of rows, such that the fit loses least); "fair-pca", "fair-pca-covariance",
            "leace", "perez-suay" or "kernel-perez-suay", whose rows are those of an encoder that
            needs no group, stop linear attackers and little more, and need complete entries; or an
            object such as ``parafair.penalties.Orthogonality(strength=0.1, ridge=1.0)``.
        strength: Multiplier of the penalty of a method given by name; None for its default. For
            "invariant" it weights a dependence between 0 and 1 against the squared relative
            residual, on any data; "auto" follows a path of strengths to the first that passes the
            audit. For others it is in the units of the paper's formula; for predicted scores it is
            2 eta / N, with Kamishima's eta and N observed entries.
        max_leakage: With ``strength="auto"``, the largest allowed leakage: the strongest
            attacker's advantage over chance.
        guarantee: With ``strength="auto"``, what must be at most `max_leakage`, one or several of:
            "audit", what the attackers of an audit learn (None is the same); "release", what every
            attacker learns who sees one released row, even one who holds all exact rows with
            everybody's features; "population", what every attacker learns from rows of new people
            (needs `held_out` people; with numbers or at a high rank, much noise). See `certify`.
            With "release", people of all groups share places, as with ``Transport(leakage=...)``.
        noise: Standard deviation of the Gaussian noise added to the rows of every mode with
            sensitive features, as a share of that of the rows in every whitened direction. None is
            the default of the method: for "invariant" with a strength above 0 it is 0.1, the
            resolution of the criterion, which smaller differences escape; for others 0. With
            ``strength="auto"`` it is the smallest noise that is tried; if nothing passes, there are
            trials with two and four times as much, and with more for a guarantee.
        encoder: "linear" or "network" learns, with method "invariant", a map from entries to rows
            that needs no group: the rows of all people, trained and new, are those of this map,
            and `transform` needs no sensitive features. "network" has a hidden layer; see
            ``parafair.encoders.Learned``. The default noise is then 0.3; `init`, `n_init`,
            `max_iter` and `tol` are those of the plain decomposition where learning begins, and
            `solver` has no effect. None gives every training person a row of their own.
        mode: The mode of the people, by number, or by name for a `TensorData`.
        loss: "squared".
        ridge: Shrinkage equal to this many extra zero entries per person. "auto" means 0 if no
            entry is missing; otherwise plain decompositions of 80 to 90 % of the entries select
            the ridge that predicts the others best.
        center: Whether to subtract the mean, and the average deviation of each index of the other
            modes, before the fit. Predictions add them again.
        solver: "block" (one factor at a time, extrapolated), "lbfgs" (all factors at once, for
            penalties that do not depend on the scale), "gradient" (Algorithm 1 of the paper) or a
            solver object such as ``parafair.solvers.GradientBCD((3, 1))``. "auto" is "lbfgs" for
            "invariant" and for predicted scores, and "block" for all others.
        init: "uniform" as in the paper, "normal", "svd", or initial factors.
        n_init: Number of random starts, run as one batch; the best is kept. A fit with "invariant"
            or for predicted scores continues from the best plain decomposition of all starts.
            "auto" is 5 for them and 1 for all others.
        max_iter: Maximum number of iterations of each stage of a fit. With "invariant" there are
            three: plain decompositions, rough fits and the final fit; others have one.
        tol: Stop when the objective decreases by less than this share per iteration.
        random_state: Seed of the initial factors and of the noise; None draws a new seed for each
            fit.
        verbose: 1 prints every tenth iteration, the selected ridge, the cost of the noise and, with
            ``strength="auto"``, every trial and the start of every audit; 2 every iteration and
            every attacker.
        device: Device of the fit, such as "cuda"; None for the device of the data.
        dtype: "float32" or "float64"; None for the dtype of the data.

    Attributes:
        embedding_: One row per person, shape (n, rank): the factor of `mode`.
        cp_: Weights and factors; unpacks like TensorLy's CPTensor.
        n_iter_: Number of iterations of the best start.
        reconstruction_err_: Frobenius norm of the residual over the observed entries.
        ridge_: The ridge, given or selected.
        encoder_: The map from entries to rows without the group; None if the method has none.
        fit_: Status, history and counts of the best start; ``fit_.residual`` is the relative
            residual, which includes the noise; ``fit_.noise_cost`` is the noise's part of it.
        fits_: The same for every start.
        record_: Requested and resolved settings.
        training_: Metadata of the training data.
        certificate_: What `certify` has found about the training people, if it was called.
        selection_: With ``strength="auto"``, the selected strength and all strengths tried.

    >>> from parafair import FairCP, datasets
    >>> data = datasets.synthetic(0, shape=(20, 8, 6), rank=3)
    >>> model = FairCP(rank=2, method="hsic", strength=1.0)
    >>> model.fit_transform(data.tensor, sensitive_features=data.sensitive_features).shape
    (20, 2)
    """

    def __init__(  # noqa: PLR0913  (scikit-learn: every setting is an argument)
        self,
        rank: int = 2,
        *,
        method: str | Method = "invariant",
        strength: float | Literal["auto"] | None = None,
        max_leakage: float = 0.05,
        guarantee: str | Sequence[str] | None = None,
        noise: float | None = None,
        encoder: str | Learned | None = None,
        mode: int | str = 0,
        loss: str = "squared",
        ridge: Ridge = "auto",
        center: bool = False,
        solver: str | Solver[Any] = "auto",
        init: InitName | CPTensor | Sequence[Any] = "uniform",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int = 2000,
        tol: float = 3e-5,
        random_state: RandomState = 0,
        verbose: int = 0,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> None:
        self.rank = rank
        self.method = method
        self.strength = strength
        self.max_leakage = max_leakage
        self.guarantee = guarantee
        self.noise = noise
        self.encoder = encoder
        self.mode = mode
        self.loss = loss
        self.ridge = ridge
        self.center = center
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.dtype = dtype

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        held_out: tuple[Any, Any] | None = None,
        on_iteration: OnIteration | None = None,
        on_trial: OnTrial | None = None,
        on_audit: OnAudit | None = None,
    ) -> Self:
        """Decompose a tensor.

        Args:
            X: Tensor with 2 or more modes: `TensorData`, array, nested list, DataFrame or torch
                tensor. NaN and masked entries are missing.
            y: Ignored; for compatibility with scikit-learn.
            sensitive_features: One row per index of `mode`: 1-D array, Series, DataFrame, or a
                `SensitiveFeatures` with the kind of each column. Required unless method is "none".
                A dictionary from modes to features penalizes several modes at once; `mode` must be
                one of them.
            held_out: With ``guarantee="population"``: entries, as for `transform`, and sensitive
                features of people of the same population who are not in X.
            on_iteration: Called after each iteration with its number and the objective.
            on_trial: With ``strength="auto"``, called after each trial.
            on_audit: With ``strength="auto"``, called after each attacker of an audit with the
                number of finished attackers and the number of all.

        Raises:
            Interrupted: On Ctrl-C, with the attributes set from the last finished iteration.
        """
        settings = Settings.of(self)
        callback("on_iteration", on_iteration)
        callback("on_trial", on_trial)
        check_held_out(held_out, settings)
        self._forget()
        check_order(sensitive_features, index_of(X))
        task = settings.bind(self._validate(X, reset=True), sensitive_features)
        problem = task.problem
        warn_empty(problem)
        warn_without_effect(settings, problem.order)
        task.warn_small_groups(stacklevel=2)
        self._tell_ridge(task)
        penalty = problem.penalty
        strength = None if penalty is None else float(penalty.strength)
        noise = task.noise(settings.noise_at(strength), strength=strength)
        record = Record.of(
            self.get_params(deep=False), problem, seed=settings.seed, noise=noise.level
        )
        training = Training.of(problem, task.offsets, task.secret)
        on_iteration = print_iterations(self.verbose, on_iteration)
        try:
            if settings.automatic:
                on_trial = print_trials(self.verbose, on_trial)
                on_audit = print_audits(self.verbose, on_audit)
                keep = partial(self._certify_population, held_out, record, training)
                selection = self._select(task, keep, on_iteration, on_trial, on_audit)
                record = replace(
                    record,
                    strength=selection.strength,
                    noise=selection.noise,
                    trials=selection.trials,
                )
                fits: tuple[Fit, ...] = (selection.fit,)
            else:
                found = task.fit(on_iteration)
                fits = tuple(noise.release(problem, fit) for fit in found)
        except Interrupted as interruption:
            fit = interruption.fit
            if interruption.strength is not None:
                level = settings.noise_at(interruption.strength)
                noise = task.noise(level, strength=interruption.strength)
                record = replace(record, strength=interruption.strength, noise=level)
            if interruption.noise is None:
                fit = noise.release(problem, complete(problem, fit))
            else:  # of a trial
                record = replace(record, noise=interruption.noise)
            self._keep([fit], record, training)
            self._tell_noise()
            interruption.fit = self.fit_
            raise
        self._keep(fits, record, training)
        self._tell_noise()
        warn_without_noise(record.noise, settings.usual_noise(record.strength), stacklevel=2)
        # Audits have judged a selected strength as it is; postprocessing changes the objective.
        if not settings.automatic and settings.postprocessing is None:
            self._warn_of_the_end()
        return self

    def _tell_ridge(self, task: Task) -> None:
        """Print how the ridge was selected, if verbose; warn if no ridge is good enough."""
        if task.ridge is None:
            return
        print_line(self.verbose, str(task.ridge))
        if task.ridge.loses:
            warn(
                f"held-out entries are predicted worse than by offsets alone (RMSE "
                f"{task.ridge.rmse:.4g} against {task.ridge.offsets_rmse:.4g}) at every ridge; use "
                "center=True or another rank",
                ParafairWarning,
                stacklevel=3,
            )

    def _tell_noise(self) -> None:
        """Print what noise has cost, if verbose."""
        if self.fit_.noise:
            print_line(self.verbose, describe_noise(self.record_.noise, self.fit_))

    def _forget(self) -> None:
        """Delete all attributes of an earlier fit."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

    def _warn_of_the_end(self) -> None:
        """Warn if the fit did not converge."""
        # The first and the last may have been computed in different precisions.
        if self.fit_.before_noise.objective > (1 + ROUNDING) * self.fit_.history[0].objective:
            remedy = "use smaller step_sizes, or solver='block'"
            if self.fit_.status is Status.FINISHED:
                remedy = "raise the steps of the encoder, or lower its learning_rate"
            warn(
                "the objective of FairCP increased during the fit: the steps were too large for "
                f"the penalty; {remedy}",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif self.fit_.status in (Status.DIVERGED, Status.STALLED) or (
            self.tol > 0 and self.fit_.status is Status.OUT_OF_ITERATIONS
        ):
            warn(
                f"FairCP after {self.n_iter_} iterations: {self.fit_.status.value}",
                ConvergenceWarning,
                stacklevel=3,
            )

    @classmethod
    def from_fit(cls, fit: Fit, *, record: Record, training: Training) -> Self:
        """Return a fitted model from an existing fit.

        Args:
            fit: The fit.
            record: Its requested and resolved settings.
            training: Metadata of its training data.
        """
        model = cls(**record.params)
        model._keep([fit], record, training)
        return model

    def fit_transform(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Any:
        """Decompose a tensor and return the embedding of its people."""
        model = self.fit(X, y, sensitive_features=sensitive_features)
        training = model.training_
        return model._labeled(model.embedding_, training.modes, training.labels)

    @classmethod
    def load(cls, folder: str | Path, *, classes: Iterable[type] = ()) -> Self:
        """Read a model that `save` or the command line wrote.

        It does what the saved model did, except that `certify` needs rows without noise: those of
        the training people are there only if they were saved with ``keep_exact=True``.

        Args:
            folder: The folder of the model.
            classes: Your own classes of methods, encoders and solvers that the model uses. They are
                never imported by name.
        """
        own, folder = classes_of("classes", classes), as_path("folder", folder)
        record = Record.read(folder, classes=own)
        fit = load_fit(folder, classes=own)
        training = Training.read(folder, fit.cp.shape)
        with reading(folder / RECORD_FILE):
            model = cls.from_fit(fit, record=record, training=training)
        if is_stored(folder / CERTIFICATE_FILE):
            model.keep_certificate(Certificate.read(folder / CERTIFICATE_FILE))
        return model

    def _select(
        self,
        task: Task,
        of_population: OfPopulation,
        on_iteration: OnIteration | None,
        on_trial: OnTrial | None,
        on_audit: OnAudit | None,
    ) -> Selection:
        """Select the first fit that has all that is wanted; warn if none does."""
        counted = Counted(on_iteration)
        plain = task.fit_plain(counted.later())
        calls = {
            "on_iteration": counted.later(),
            "on_trial": on_trial,
            "on_audit": on_audit,
        }
        wanted = task.settings.wanted
        if wanted == (AUDIT,):
            selection = select_strength(task, plain=plain, **calls)  # type: ignore[arg-type]
        else:
            selection = select_guaranteed(
                task,
                plain=plain,
                wanted=wanted,
                of_population=of_population,
                **calls,  # type: ignore[arg-type]
            )
        if not selection.passed:
            warn(not_found(selection, self.max_leakage), ConvergenceWarning, stacklevel=4)
        return selection

    def _certify_population(
        self,
        held_out: tuple[Any, Any] | None,
        record: Record,
        training: Training,
        released: Fit,
        noise: float,
        confidence: float,
    ) -> float:
        """Return the certified leakage of held-out people, if the fit were this one."""
        assert held_out is not None
        self._keep([released], replace(record, noise=noise), training)
        return certify(self, *held_out, confidence=confidence).leakage(POPULATION)
