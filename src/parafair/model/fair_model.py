"""What all models share: the fit, from arguments and data to a fitted model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import as_path, callback, classes_of
from parafair.data.checks import converted
from parafair.data.randomness import RandomState
from parafair.data.raw_features import check_index
from parafair.data.side_columns import match_index
from parafair.data.tensor_data import TensorData
from parafair.encoders.learned import Learned
from parafair.encoders.result import load_fit
from parafair.errors import ConvergenceWarning, Interrupted, warn
from parafair.failures import telling_others
from parafair.guarantees.certificate import CERTIFICATE_FILE, Certificate
from parafair.losses import Loss
from parafair.model.callbacks import CallbackSupportMixin, FitCallbacks, with_callbacks
from parafair.model.checks import AUDIT
from parafair.model.guaranteed import (
    OfPopulation,
    check_held_out,
    not_found,
    select_guaranteed,
)
from parafair.model.held_out import certified_leakage, check_people
from parafair.model.mapping import check_parts
from parafair.model.noise import Noise
from parafair.model.notices import warn_of_data, warn_of_interruption
from parafair.model.preparation import Settings
from parafair.model.progress import print_audits, print_iterations, print_trials
from parafair.model.record import RECORD_FILE, Record
from parafair.model.ridge import Ridge
from parafair.model.shown import ShownModel
from parafair.model.side import warn_of_proxies
from parafair.model.strength import OnAudit, select_strength
from parafair.model.task import Task
from parafair.model.telling import tell_noise, tell_ridge, warn_of_fit
from parafair.model.together import check_same, check_together, identity_of
from parafair.model.training import TRAINING_FILE, Training
from parafair.model.trials import OnTrial, Selection
from parafair.model.unfolding import Unfolding
from parafair.solvers import Fit, Solver, Status
from parafair.solvers.checkpoints import CHECKPOINT_MINUTES, check_checkpoint, checkpointing
from parafair.solvers.fitting import complete
from parafair.solvers.init import InitName
from parafair.solvers.loop import Counted, OnIteration
from parafair.solvers.sharing import check_shareable, gather_fit
from parafair.stored import is_stored, reading
from parafair.team import team_of


class FairModel(CallbackSupportMixin, ShownModel):  # type: ignore[misc]
    """A model that can be fitted; subclasses have the arguments."""

    # Whether a factor has a structure; see `unfolding_of`.
    structured: ClassVar[bool] = False

    rank: int
    max_leakage: float
    guarantee: str | Sequence[str] | None
    encoder: str | Learned | None
    loss: str | Loss
    non_negative: bool | Sequence[int | str]
    ridge: Ridge
    center: bool
    side_weight: float
    side_loss: str | Loss
    solver: str | Solver[Any]
    init: InitName | CPTensor | Sequence[Any]
    n_init: int | Literal["auto"]
    max_iter: int
    tol: float
    random_state: RandomState
    verbose: int

    def check_rank(self) -> None:
        """Raise unless the number of components is valid for some data."""
        raise NotImplementedError

    def unfolding_of(self, data: TensorData) -> Unfolding | None:
        """Return how the model unfolds data; None if it sees data as it is."""
        return None

    @with_callbacks  # type: ignore[untyped-decorator]
    @telling_others
    def fit(  # noqa: PLR0913  (one method does all)
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        side: Any = None,
        held_out: tuple[Any, ...] | None = None,
        on_iteration: OnIteration | None = None,
        on_trial: OnTrial | None = None,
        on_audit: OnAudit | None = None,
        process_group: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_minutes: float = CHECKPOINT_MINUTES,
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
            side: Side information: a table of numbers, people x columns, that shares the people's
                factor, with `side_weight`. A data frame, array or `TensorData`; NaN is missing.
                Columns are standardized. If X has labels of people too, rows are matched by label,
                and people without a row have no side information; otherwise by position. People
                without entries in X get rows from it alone. It must not be a sensitive feature.
            held_out: With ``guarantee="population"``: entries, as for `transform`, and sensitive
                features of people of the same population who are not in X; as a third item their
                side information, if X has some.
            on_iteration: Called after each iteration with its number and the objective.
            on_trial: With ``strength="auto"``, called after each trial.
            on_audit: With ``strength="auto"``, called after each attacker of an audit with the
                number of finished attackers and the number of all.
            process_group: A process group of torch, whose processes all call this with the same
                data and settings and fit one model together. Each keeps the entries and rows of a
                share of the people; afterwards, all of them have the whole model. None for this
                process alone. See `docs/many-machines.md`.
            checkpoint: A folder, where the state of the fit is stored every few minutes, on SIGTERM
                and, by a process alone, on Ctrl-C. If the folder has one, the fit continues there,
                with the same result. It has rows without noise, and is removed when the fit is
                complete.
            checkpoint_minutes: Minutes from one checkpoint to the next; for fits with `checkpoint`.

        Raises:
            Interrupted: On Ctrl-C, with the attributes set from the last finished iteration.
            Terminated: On SIGTERM, if there is a checkpoint.
            TeamError: If another process of the process group failed.
        """
        settings, team = Settings.of(self), team_of(process_group)
        folder = None if checkpoint is None else as_path("checkpoint", checkpoint)
        check_checkpoint(folder, checkpoint_minutes)
        if not team.is_alone:
            check_together(settings)
        callback("on_iteration", on_iteration)
        callback("on_trial", on_trial)
        callback("on_audit", on_audit)
        settings.check_side(side)
        check_held_out(held_out, settings, side)
        self._forget()
        check_index(sensitive_features, X)
        side = match_index(side, X)
        data = self._as_given(X, reset=True)
        if team.is_alone or data.is_streamed:
            data = converted(data, self.device, self.dtype)
        if not team.is_alone:
            check_shareable(data, side)
        identity: dict[str, Any] = {}
        if folder is not None or not team.is_alone:
            identity = identity_of(settings, data, sensitive_features, side)
            check_same(team, identity)
        task = settings.bind(data, sensitive_features, side, team)
        del data  # of all people; a task that is shared has those of this process
        problem = task.problem
        warn_of_data(problem, settings, task.unfolding)
        warn_of_proxies(problem, task.columns, stacklevel=2)
        task.warn_small_groups(stacklevel=2)
        tell_ridge(self, task, stacklevel=2)
        penalty = problem.penalty
        strength = None if penalty is None else float(penalty.strength)
        noise = task.noise(settings.noise_at(strength), strength=strength)
        record = Record.of(
            self.get_params(deep=False), problem, seed=settings.seed, noise=noise.level
        )
        training = task.training
        if held_out is not None:
            check_people(training, held_out, partial(self._validate, training=training))
        task = task.share(team)
        problem = task.problem
        callbacks = FitCallbacks(self, X, y)
        printed = print_iterations(0 if team.rank else self.verbose, on_iteration)
        stored = checkpointing(
            folder,
            seconds=60 * checkpoint_minutes,
            team=team,
            settings={**identity, "processes": team.size},
            device=problem.prototype.device,
        )
        try:
            fits, record = self._run(
                task,
                noise,
                record,
                stored,
                of_population=partial(self._certify_population, held_out, record, training),
                on_iteration=callbacks.before(printed),
                on_trial=on_trial,
                on_audit=on_audit,
            )
        except Interrupted as interruption:
            if not team.is_alone:  # each process is elsewhere
                raise
            self._keep_interrupted(interruption, task, noise, record)
            if not callbacks.stopped:
                raise
        else:
            self._keep(fits, record, training)
            tell_noise(self)
            warn_of_fit(self, task, stacklevel=2)
        callbacks.end()
        return self

    def _run(
        self,
        task: Task,
        noise: Noise,
        record: Record,
        stored: AbstractContextManager[object],
        *,
        of_population: OfPopulation,
        on_iteration: OnIteration | None,
        on_trial: OnTrial | None,
        on_audit: OnAudit | None,
    ) -> tuple[tuple[Fit, ...], Record]:
        """Return the released fits, and the record with what was selected.

        Args:
            task: What is fitted.
            noise: Its noise, unless that is selected too.
            record: Its settings.
            stored: Keeps checkpoints.
            of_population: As in `select_guaranteed`.
            on_iteration: As in `fit`, as are the others.
            on_trial: See there.
            on_audit: See there.
        """
        if not task.settings.automatic:
            with stored:
                found = task.fit(on_iteration)
            problem = task.problem
            return tuple(gather_fit(problem, noise.release(problem, fit)) for fit in found), record
        with stored:
            selection = self._select(
                task,
                of_population,
                on_iteration,
                print_trials(self.verbose, on_trial),
                print_audits(self.verbose, on_audit),
            )
        record = replace(
            record,
            strength=selection.strength,
            noise=selection.noise,
            trials=selection.trials,
        )
        return (selection.fit,), record

    def _keep_interrupted(
        self, interruption: Interrupted, task: Task, noise: Noise, record: Record
    ) -> None:
        """Keep the last finished iteration as the fit, also in the interruption."""
        fit = replace(interruption.fit, status=Status.INTERRUPTED)
        if interruption.strength is not None:
            level = task.settings.noise_at(interruption.strength)
            noise = task.noise(level, strength=interruption.strength)
            record = replace(record, strength=interruption.strength, noise=level)
        if interruption.noise is None:
            fit = noise.release(task.problem, complete(task.problem, fit))
        else:  # of a trial
            record = replace(record, noise=interruption.noise)
        self._keep([fit], record, task.training)
        tell_noise(self)
        interruption.fit = self.fit_

    def _forget(self) -> None:
        """Delete all attributes of an earlier fit."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

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

    def fit_transform(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, side: Any = None
    ) -> Any:
        """Decompose a tensor and return the embedding of its people."""
        model = self.fit(X, y, sensitive_features=sensitive_features, side=side)
        training = model.training_
        return model._labeled(model.embedding_, training.modes, training.labels)

    @classmethod
    def load(cls, folder: str | Path, *, classes: Iterable[type] = ()) -> Self:
        """Read a model that `save` or the command line wrote.

        It does what the saved model did, except that `certify` needs rows without noise: those of
        the training people are there only if they were saved with ``keep_exact=True``. There is a
        warning if the fit was interrupted.

        Args:
            folder: The folder of the model.
            classes: Your own classes of methods, losses, encoders and solvers that the model uses.
                They are never imported by name.
        """
        own, folder = classes_of("classes", classes), as_path("folder", folder)
        record = Record.read(folder, classes=own)
        other = "FairTucker" if "ranks" in record.params else "FairCP"
        if other not in [kind.__name__ for kind in cls.__mro__]:
            raise ValueError(f"{folder} has a {other}, not a {cls.__name__}; use {other}.load")
        fit = load_fit(folder, classes=own)
        warn_of_interruption(fit, record, folder)
        training = Training.read(folder, fit.cp.shape, classes=own)
        with reading(folder / TRAINING_FILE):
            training.check_unfolding(expected=cls.structured)
        check_parts(folder, fit, record, training)
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
        held_out: tuple[Any, ...] | None,
        record: Record,
        training: Training,
        released: Fit,
        noise: float,
        confidence: float,
    ) -> float:
        """Return the certified leakage of held-out people, if the fit were this one."""
        assert held_out is not None
        self._keep([released], replace(record, noise=noise), training)
        return certified_leakage(self, held_out, confidence)
