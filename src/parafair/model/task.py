"""A fit that is ready to run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.cp_tensor import stack_factors
from parafair.data.centering import Offsets
from parafair.data.labels import preview
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.side_columns import SideColumns
from parafair.data.tensor_data import TensorData
from parafair.encoders.optimizing import learn
from parafair.encoders.reducing import reduce
from parafair.encoders.result import EncodedFit
from parafair.errors import warn
from parafair.model.checks import AUDIT
from parafair.model.marks import Marks
from parafair.model.noise import Noise
from parafair.model.ridge import RidgeSelection
from parafair.model.streaming import sampled_start
from parafair.model.training import Training
from parafair.model.unfolding import Unfolding
from parafair.penalties import Transport
from parafair.solvers import (
    Fit,
    decompose,
    decompose_from,
    decompose_plain,
)
from parafair.solvers.checkpoints import stage
from parafair.solvers.fitting import starts_plain
from parafair.solvers.init import make_starts
from parafair.solvers.linking import linked_starts
from parafair.solvers.loop import Counted, OnIteration
from parafair.solvers.plain import rough_fits
from parafair.solvers.problem import Problem
from parafair.solvers.sharing import share_problem
from parafair.team import Team

if TYPE_CHECKING:
    from parafair.model.preparation import Settings

# Whoever knows one of two people recognizes the other, and one person alone has no distribution.
TOO_FEW = 2


@dataclass(frozen=True, eq=False)
class Task:
    """A fit that is ready to run.

    Attributes:
        settings: The resolved arguments of the model.
        problem: What to minimize.
        offsets: Offsets subtracted from the data; None without centering.
        secret: A hash of the data before centering, from which noise follows.
        ridge: How the ridge was selected; None if it was not.
        unfolding: How the data was unfolded; None if it was not.
        columns: Columns of the side information; None without any.
        marks: Those of the people, before centering; None without sensitive features.
    """

    settings: Settings
    problem: Problem
    offsets: Offsets | None
    secret: str = field(repr=False)
    ridge: RidgeSelection | None = None
    unfolding: Unfolding | None = None
    columns: SideColumns | None = None
    marks: Marks | None = None

    @property
    def training(self) -> Training:
        """What a fitted model keeps of its data."""
        return Training.of(
            self.problem,
            self.offsets,
            self.secret,
            self.unfolding,
            self.columns,
            method=self.method,
            marks=self.marks,
        )

    def share(self, team: Team) -> Task:
        """Return the part of the fit that this process runs; itself if it is that."""
        if self.problem.share is not None:
            return self
        return replace(self, problem=share_problem(self.problem, team))

    def seen(self, data: TensorData) -> TensorData:
        """Return data of the same people as the model sees it."""
        return data if self.unfolding is None else self.unfolding.unfold(data)

    def noise(
        self, level: float, *, strength: float | None = None, seed: int | None = None
    ) -> Noise:
        """Return the noise of a fit.

        Args:
            level: Its size.
            strength: The strength of the penalty.
            seed: The seed of the fit; that of the model if None.
        """
        seed = self.settings.seed if seed is None else seed
        method = self.settings.postprocessing
        shared = isinstance(method, Transport) and method.leakage is not None
        return Noise(level, seed, self.secret, strength, cheapest=shared, method=self.method)

    @property
    def method(self) -> str:
        """What tells fits apart that have no strength, for their noise; empty for others."""
        settings, method = self.settings, self.settings.postprocessing
        if method is not None:
            return f"{type(method).__name__} {getattr(method, 'leakage', None)!r}"
        if settings.automatic and set(settings.wanted) - {AUDIT}:
            return f"{' '.join(settings.wanted)} {float(settings.model.max_leakage)!r}"
        return ""

    def warn_small_groups(self, *, stacklevel: int) -> None:
        """Warn about groups that are too small to be hidden, if the method hides any."""
        problem = self.problem
        strength = 1.0 if problem.penalty is None else problem.penalty.strength
        if not self.settings.needs_features or not (strength or self.settings.automatic):
            return
        others = [features.with_features() for features in problem.other_sensitive.values()]
        for features in (problem.penalized_features, *others):
            for name, groups in _small_groups(features).items():
                warn(
                    f"sensitive feature {name!r} has groups of one or two people "
                    f"({preview(groups)}): no method can hide so few, and no audit can tell; merge "
                    "them with other groups, or leave these people out",
                    stacklevel=stacklevel + 1,
                )

    def starts(self) -> tuple[Tensor, ...]:
        """Return the initial factors of the model, shape (n_init, size, rank) each."""
        return self._starts(self.settings.seed)

    def _starts(self, seed: int) -> tuple[Tensor, ...]:
        """Return initial factors; random ones are fitted on the scale of the loss's link first.

        Streamed data has one start: the best of all random ones for a sample of people.
        """
        init, count = self.settings.model.init, self.settings.n_init
        if self.problem.data.is_streamed and isinstance(init, str):
            return sampled_start(self.problem, self.settings, seed)
        found = make_starts(self.problem, init, count=count, seed=seed)
        return linked_starts(self.problem, found) if isinstance(init, str) else found

    def fit(self, on_iteration: OnIteration | None = None) -> tuple[Fit, ...]:
        """Return the fits of the model, without noise.

        There is one for each start. But a scale-free penalty continues from the best of their plain
        decompositions alone, unless the model has given factors, and a fit without a penalty from
        the best of their rough fits.

        Args:
            on_iteration: Called after each iteration, as in `solve_batch`.
        """
        settings, problem = self.settings, self.problem
        if settings.encoder is not None:
            counted = Counted(on_iteration)
            plain = self.fit_plain(counted.later())
            assert problem.penalty is not None
            strength = problem.penalty.strength
            noise = settings.noise_at(strength)
            return (self.learn(plain, strength, noise, on_iteration=counted.later()),)
        if isinstance(settings.model.init, str) and starts_plain(problem):
            counted = Counted(on_iteration)
            plain = self.fit_plain(counted.later())
            return decompose_from(
                problem,
                settings.solver,
                plain=[plain],
                stop=settings.stop,
                on_iteration=counted.later(),
            )
        if settings.reduction is not None:
            return reduce(
                problem,
                settings.reduction,
                settings.solver,
                starts=self.starts(),
                stop=settings.stop,
                on_iteration=on_iteration,
            )
        counted = Counted(on_iteration)
        rough = self.rough([settings.seed], counted.later())
        starts = stack_factors([fit.cp.factors for fit in rough]) if rough else self.starts()
        return decompose(
            problem,
            settings.solver,
            starts=starts,
            stop=settings.stop,
            rough=rough,
            postprocessing=settings.postprocessing,
            seeds=[settings.seed] * len(starts[0]),
            on_iteration=counted.later(),
        )

    def rough(self, seeds: list[int], on_iteration: OnIteration | None = None) -> tuple[Fit, ...]:
        """Return where fits without a penalty begin: the best rough fit from each seed's starts.

        There is none for other fits, and if the model has a number of starts.
        """
        settings = self.settings
        if not settings.chooses_start or self.problem.data.is_streamed:
            return ()
        return stage(
            lambda: rough_fits(
                self.problem,
                starts=self.starts_of(seeds),
                stop=settings.stop,
                each=settings.n_init,
                on_iteration=on_iteration,
            )
        )

    def learn(
        self,
        plain: Fit,
        strength: float,
        noise: float,
        *,
        seed: int | None = None,
        on_iteration: OnIteration | None = None,
    ) -> EncodedFit:
        """Return the fit with a learned encoder, without noise.

        Args:
            plain: The plain decomposition, where it begins.
            strength: The strength of the penalty.
            noise: Noise of the released rows, with which the encoder is learned.
            seed: The seed of the fit; that of the model if None.
            on_iteration: Called after each step.
        """
        encoder, penalty = self.settings.encoder, self.problem.penalty
        assert encoder is not None
        assert penalty is not None
        return learn(
            replace(self.problem, penalty=replace(penalty, strength=strength)),  # type: ignore[type-var]
            plain,
            encoder,
            noise=noise,
            seed=self.settings.seed if seed is None else seed,
            on_iteration=on_iteration,
        )

    def fit_plain(self, on_iteration: OnIteration | None = None) -> Fit:
        """Return the plain decomposition, the best of all starts."""

        def compute() -> tuple[Fit, ...]:
            starts = self.starts()
            return decompose_plain(
                self.problem,
                starts=starts,
                each=len(starts[0]),
                stop=self.settings.stop,
                on_iteration=on_iteration,
            )

        (fit,) = stage(compute)
        return fit

    def starts_of(self, seeds: list[int]) -> tuple[Tensor, ...]:
        """Return the starts of each seed, one after the other, (seeds * n_init, size, rank)."""
        each = [self._starts(seed) for seed in seeds]
        return tuple(torch.cat(mode) for mode in zip(*each, strict=True))


def _small_groups(features: SensitiveFeatures) -> dict[str, list[str]]:
    """Return the groups of at most `TOO_FEW` people, by feature."""
    found = {}
    for column in features.columns:
        if column.kind == "categorical":
            sizes = np.bincount(column.values, minlength=len(column.categories))
            places = np.flatnonzero((sizes > 0) & (sizes <= TOO_FEW))
            if len(places):
                found[column.name] = [column.categories[place] for place in places]
    return found
