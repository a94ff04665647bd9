"""From a model's arguments and its data to a problem; all callers share this code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from parafair.arguments import flag
from parafair.audits import check_max_leakage
from parafair.audits.features import check_count, check_groups
from parafair.data.centering import Offsets
from parafair.data.checks import check_scale, check_values
from parafair.data.devices import resolve_dtype
from parafair.data.modes import is_labeled
from parafair.data.randomness import as_seed
from parafair.data.raw_features import check_order
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.side_columns import SideColumns, read_side
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import CountedReduction, Reduction
from parafair.encoders.learned import Learned
from parafair.losses import Loss, is_squared
from parafair.model.checks import (
    check_automatic,
    check_encoder,
    check_guarantee,
    check_loss,
    check_non_negative,
    check_reusable,
    check_starts,
    find_non_negative,
)
from parafair.model.draws import secret_of
from parafair.model.marks import Marks
from parafair.model.methods import resolve_method
from parafair.model.noise import check_noise, default_noise
from parafair.model.ridge import (
    FALLBACK,
    RidgeSelection,
    check_ridge,
    is_complete,
    select_ridge,
    usual_ridge,
)
from parafair.model.side import check_side, check_side_weight, side_of
from parafair.model.streaming import check_stream, sample_of
from parafair.model.task import Task
from parafair.model.unfolding import Unfolding
from parafair.penalties import Penalty, Postprocessing, ScorePenalty
from parafair.penalties.base import moves_scale
from parafair.penalties.postprocessing import MappedPostprocessing
from parafair.progress import check_verbose
from parafair.solvers import (
    LBFGS,
    BlockDescent,
    Solver,
    Stop,
)
from parafair.solvers.deviance import check_loss as check_loss_of_entries
from parafair.solvers.deviance import check_zeros
from parafair.solvers.init import RANDOM_INITS
from parafair.solvers.non_negative import check_non_negative as check_signs
from parafair.solvers.penalized import check_length
from parafair.solvers.problem import Problem
from parafair.solvers.ranks import check_rank
from parafair.solvers.registry import resolve_solver
from parafair.solvers.sharing import share_data
from parafair.solvers.side import check_side_loss
from parafair.team import ALONE, Team

if TYPE_CHECKING:
    from parafair.model.fair_model import FairModel

# Plain decompositions from which a fit with a scale-free penalty takes the best, by default. One is
# often a poor local optimum.
PLAIN_STARTS = 5

# Noise of a learned encoder by default. Attackers such as trees find what a map without noise
# leaves, because it is the same for everybody.
ENCODER_NOISE = 0.3


@dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of a model, resolved and checked before its data is read.

    Attributes:
        model: The model; it is not changed.
        penalty: The penalty; None for a plain decomposition.
        postprocessing: The postprocessing of a plain embedding; None for none.
        reduction: The method whose rows are those of an encoder; None for none.
        encoder: The settings of a learned encoder; None for rows of their own.
        automatic: Whether the strength is selected.
        wanted: What the selected fit must have, some of `GUARANTEES`.
        loss: The loss.
        solver: The solver.
        stop: When the solver stops.
        seed: Seed of the initial factors.
    """

    model: FairModel
    penalty: Penalty | ScorePenalty | None
    postprocessing: Postprocessing | None
    reduction: Reduction | None
    encoder: Learned | None
    automatic: bool
    wanted: tuple[str, ...]
    loss: Loss
    solver: Solver[Any]
    stop: Stop
    seed: int

    @classmethod
    def of(cls, model: FairModel) -> Settings:
        """Resolve the arguments of a model; raise if one is invalid for any data."""
        check_reusable(model)
        automatic = isinstance(model.strength, str)
        if automatic:
            check_automatic(model)
        check_max_leakage(model.max_leakage)
        given = None if automatic else model.strength
        method = model.adapted(resolve_method(model.method, given))  # type: ignore[arg-type]
        check_noise(model.noise)
        check_ridge(model.ridge)
        check_side_weight(model.side_weight)
        check_side_loss(model.side_loss)
        flag("center", model.center)
        check_verbose(model.verbose)
        model.check_rank()
        if not isinstance(model.n_init, str) or model.n_init != "auto":
            check_starts(model.n_init)
        penalty = method if isinstance(method, Penalty | ScorePenalty) else None
        solver = resolve_solver(model.solver, penalty, structured=model.structured)
        loss = check_loss(model, method, solver)
        check_non_negative(model, method, solver, loss)
        return cls(
            model=model,
            penalty=penalty,
            postprocessing=method if isinstance(method, Postprocessing) else None,
            reduction=method if isinstance(method, Reduction) else None,
            encoder=check_encoder(model, penalty),
            automatic=automatic,
            wanted=check_guarantee(model),
            loss=loss,
            solver=solver,
            stop=Stop(max_iter=model.max_iter, tol=model.tol),
            seed=as_seed(model.random_state),
        )

    @property
    def n_init(self) -> int:
        """Number of starts of a fit."""
        given = self.model.n_init
        if given != "auto":
            return given
        random = isinstance(self.model.init, str) and self.model.init in RANDOM_INITS
        return PLAIN_STARTS if random and (moves_scale(self.penalty) or self._is_plain) else 1

    @property
    def _is_plain(self) -> bool:
        """Whether exact blocks minimize the loss alone."""
        penalized = self.penalty is not None or self.reduction is not None
        return not penalized and isinstance(self.solver, BlockDescent)

    @property
    def chooses_start(self) -> bool:
        """Whether a fit without a penalty begins at the best of several rough fits."""
        return self._is_plain and self.model.n_init == "auto" and self.n_init > 1

    @property
    def needs_features(self) -> bool:
        """Whether the method needs sensitive features."""
        return any((self.penalty, self.postprocessing, self.reduction))

    def noise_at(self, strength: float | None) -> float:
        """Return the noise of a fit at a strength: the given one, or the default of the method."""
        given = self.model.noise
        return self.usual_noise(strength) if given is None else float(given)

    def usual_noise(self, strength: float | None) -> float:
        """Return the noise that the method has by default at a strength."""
        if isinstance(self.postprocessing, MappedPostprocessing):
            return self.postprocessing.default_noise
        usual = default_noise(self.penalty, strength)
        return ENCODER_NOISE if usual and self.encoder is not None else usual

    def check_side(self, side: Any) -> None:
        """Raise if side information is given that the model cannot use, before any data is read."""
        if side is not None:
            method = self.penalty or self.reduction
            check_side(method, self.encoder, self.solver)

    def bind(
        self,
        data: TensorData,
        sensitive_features: Any,
        side: Any = None,
        team: Team = ALONE,
    ) -> Task:
        """Return the fit to run on this data: of all people, or of those of this process.

        Streamed data is not shared yet; see `Task.share`.

        Args:
            data: The data of all people, with the dtype and on the device of the fit; as it was
                given if it is in memory and several processes share it.
            sensitive_features: As in `FairCP.fit`.
            side: As in `FairCP.fit`.
            team: All processes that share it.
        """
        model = self.model
        if side is not None:
            self.check_side(side)
            if model.solver == "auto" and model.side_weight:
                # As for plain decompositions; see `plain_solver`.
                return replace(self, solver=LBFGS())._bind(data, sensitive_features, side, team)
        return self._bind(data, sensitive_features, side, team)

    def _bind(self, data: TensorData, sensitive_features: Any, side: Any, team: Team) -> Task:
        model = self.model
        self._check_presence(sensitive_features)
        mode = data.find_mode(model.mode)
        if is_labeled(data.modes, data.labels):
            check_order(sensitive_features, data.labels[mode])
        features, other = self._features(data, mode, sensitive_features)
        if isinstance(data, StreamedData):
            data = check_stream(
                self,
                data,
                mode,
                features=features,
                side=side is not None,
                processes=team.size,
            )
        table = None if side is None else read_side(side, data, mode)
        columns = None if table is None else SideColumns.of(table, check_side_loss(model.side_loss))
        squared = is_squared(self.loss)
        unfolding = model.unfolding_of(data)
        if unfolding is not None:
            data, mode, other = self._unfold(data, other, unfolding)
        rank = self._rank(features) if unfolding is None else unfolding.rank
        check_rank(rank, data.shape)
        if data.zeros_count:
            check_zeros(self.loss, data.shape)
        whole, share, precision = data, None, resolve_dtype(model.dtype)
        if not team.is_alone and not data.is_streamed:
            like = data.values[:0].to(model.device, precision)
            data, share = share_data(data, mode, team, features, self.penalty, like)
            features = None if features is None else features.take(share.places)
        if not squared:
            with team.checking():
                check_values(data, self.loss)
        offsets = Offsets.fit(data, mode, self.loss, team) if model.center else None
        centered = offsets.subtract(data, team) if offsets is not None and squared else data
        # Noise is for people with sensitive features alone. One process reads for all.
        secret = "" if features is None or team.rank else secret_of(whole, table, dtype=precision)
        if not team.is_alone:
            secret = team.tell(secret)[0]
        known = None if features is None else team.first(lambda: Marks.of(whole, mode, secret))
        given = usual_ridge(self.loss) if model.ridge == "auto" else float(model.ridge)
        problem = Problem(
            centered,
            rank,
            mode,
            self.penalty,
            features,
            given,
            other,
            self.loss,
            offsets,
            find_non_negative(model, self.loss, data),
            None if unfolding is None else unfolding.structure,
            None
            if table is None or columns is None
            else side_of(table, columns, float(model.side_weight)),
            share,
        )
        self._check_problem(problem, team)
        selected = None
        if model.ridge == "auto" and not is_complete(whole) and self.reduction is None:
            if isinstance(data, StreamedData):
                seen = sample_of(data, self.seed, team)
            else:
                seen = whole.to(model.device, precision)
            selected = self._select_ridge(seen, problem)
            ridge = FALLBACK if selected is None else selected.ridge
            problem = replace(problem, ridge=ridge)
        return Task(self, problem, offsets, secret, selected, unfolding, columns, known)

    def _check_presence(self, sensitive_features: Any) -> None:
        """Raise if there are no sensitive features, and the model needs some."""
        if sensitive_features is not None:
            return
        remedy = "none were given; pass one row per person as sensitive_features=..., or"
        if self.needs_features:
            raise ValueError(
                f"method={self.model.method!r} needs sensitive_features, but {remedy} use "
                "method='none' for a plain decomposition"
            )
        if self.model.noise:
            raise ValueError(
                f"noise={self.model.noise!r} is for embeddings with sensitive_features, but "
                f"{remedy} leave noise out"
            )

    def _unfold(
        self, data: TensorData, other: Mapping[int, SensitiveFeatures], unfolding: Unfolding
    ) -> tuple[TensorData, int, dict[int, SensitiveFeatures]]:
        """Return unfolded data, the mode of its people, and the features of its other modes."""
        for mode, own in other.items():
            check_length(own, mode, data.shape[mode])
        if not is_squared(self.loss):  # while places have the names of their modes
            check_values(data, self.loss)
        found = {unfolding.number_of(mode): own for mode, own in other.items()}
        return unfolding.unfold(data), 0, found

    def _check_problem(self, problem: Problem, team: Team) -> None:
        """Raise if its fit, or what comes after, would fail; before any work."""
        if problem.share is not None:
            check_scale(problem.data, team)
            check_loss_of_entries(self.loss, problem.deviance)
            with team.checking():
                check_signs(problem.data, problem.non_negative)
        if isinstance(self.solver, BlockDescent):
            self.solver.check(problem)
        if self.postprocessing is not None:
            self.postprocessing.check(problem.penalized_features)
        if self.automatic:  # what an audit would refuse
            check_count(len(problem.penalized_features), name="sensitive_features")
            check_groups(problem.penalized_features)

    def _select_ridge(self, data: TensorData, problem: Problem) -> RidgeSelection | None:
        """Return the ridge that predicts held-out entries best; None without enough entries."""
        return select_ridge(
            data,
            problem.rank,
            problem.mode,
            center=self.model.center,
            loss=self.loss,
            non_negative=problem.non_negative,
            structure=problem.structure,
            side=problem.side,
            seed=self.seed,
        )

    def _rank(self, features: SensitiveFeatures | None) -> int:
        """Return the number of components: that of the model, unless the method sets it."""
        found = None
        if isinstance(self.reduction, CountedReduction) and features is not None:
            found = self.reduction.components(features.with_features())
        return int(self.model.rank) if found is None else found

    def _features(
        self, data: TensorData, mode: int, features: Any
    ) -> tuple[SensitiveFeatures | None, dict[int, SensitiveFeatures]]:
        """Return the features of the people, and those of other modes."""
        if features is None:
            return None, {}
        if not isinstance(features, Mapping):
            return SensitiveFeatures.of(features), {}
        found = {data.find_mode(m): SensitiveFeatures.of(f) for m, f in features.items()}
        if mode not in found:
            raise ValueError(
                f"sensitive_features has no entry for the mode of the people, {self.model.mode!r}; "
                f"got modes {list(features)}. Add it, or set mode= to one of them"
            )
        people = found.pop(mode)
        if found and self.penalty is None:
            raise ValueError(
                f"method={self.model.method!r} supports one sensitive mode, but "
                f"sensitive_features has the modes {list(features)}; pass those of the people, "
                f"mode {self.model.mode!r}, or use method='invariant'"
            )
        if found and self.automatic:
            raise ValueError(
                "strength='auto' supports one sensitive mode, but sensitive_features has several; "
                "pass strength as a number"
            )
        if found and self.encoder is not None:
            raise ValueError(
                f"encoder={self.model.encoder!r} supports one sensitive mode, but "
                "sensitive_features has several; leave encoder out, or pass those of the people"
            )
        return people, found
