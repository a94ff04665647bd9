"""The settings that all fits of a frontier share, checked before the first fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, TypeVar

import numpy as np
import torch

from parafair.algebra.cp_tensor import stack_factors
from parafair.arguments import instance_of, items, one_of, real_number, whole_number
from parafair.audits import audit
from parafair.audits.run import check_settings
from parafair.data.checks import as_data, converted
from parafair.data.modes import is_labeled
from parafair.data.randomness import SEEDS
from parafair.data.raw_features import check_index, check_order
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.side_columns import match_index
from parafair.data.tensor_data import TensorData
from parafair.encoders.reducing import reduce
from parafair.errors import shown
from parafair.frontiers.certified import check_certificates
from parafair.frontiers.fingerprints import fingerprint, fingerprint_of_people
from parafair.frontiers.point import Member
from parafair.model.estimator import FairCP
from parafair.model.fair_model import FairModel
from parafair.model.noise import MOST_NOISE, Noise
from parafair.model.preparation import Settings
from parafair.model.record import plain_params
from parafair.model.task import Task
from parafair.model.together import check_same, check_together, identity_of
from parafair.model.tucker import FairTucker
from parafair.penalties.base import moves_scale
from parafair.records import plain
from parafair.solvers import Fit, decompose, decompose_from, decompose_plain
from parafair.solvers.fitting import starts_plain
from parafair.solvers.loop import OnFit
from parafair.solvers.problem import Problem
from parafair.solvers.sharing import check_shareable, gather_fit
from parafair.team import ALONE, Team

T = TypeVar("T")

# Arguments of `audit` that are checked before the fits, and those that are not settings.
CHECKED = ("attackers", "folds", "repeats", "permutations", "max_people")
NOT_SETTINGS = ("embedding", "sensitive_features", "target", "n_jobs", "on_progress")
# Arguments of a model that a frontier sets itself, or that do not affect the result.
SET_HERE = ("strength", "max_leakage", "random_state", "verbose", "device")
# Memory of a batch in bytes on the CPU; on a GPU, half of the free memory.
BATCH_BYTES = 2**30
# Copies of each factor during an iteration, about.
COPIES_OF_FACTORS = 40


@dataclass(frozen=True, eq=False)
class Plan:
    """The settings that all fits of a frontier share.

    Attributes:
        name: Name of the method.
        task: The prepared fit; its strength is replaced.
        audits: Settings of the audits; None for none.
        X_test: Held-out entries; None for none.
        certificates: Settings of the certificates; None for none.
    """

    name: str
    task: Task
    audits: Mapping[str, Any] | None
    X_test: TensorData | None = None
    certificates: Mapping[str, Any] | None = None

    def member(self, strength: float | None, seed: int, noise: float | None = None) -> Member:
        """Return a member; its noise is that of the model if None."""
        level = self.task.settings.noise_at(strength) if noise is None else noise
        return Member(self.name, strength, seed, level)

    def fit_of(self, member: Member) -> Hashable:
        """Return what the fit of a member depends on.

        Members that differ in their noise alone share a fit, because noise is added after it; but
        an encoder is learned with the noise.
        """
        return member if self.task.settings.encoder is not None else member.before_noise

    def fit(self, members: Sequence[Member], keep: Callable[[int, Fit], None]) -> tuple[Fit, ...]:
        """Fit members in one batch; call `keep` with each fit as soon as it is finished.

        Members that share a fit are fitted once.
        """
        groups = _groups(range(len(members)), key=lambda place: self.fit_of(members[place]))
        solved = [members[group[0]] for group in groups]
        problem = self.problem_of(solved)
        finished: dict[int, Fit] = {}

        def finish(position: int, fit: Fit) -> None:
            own = problem.take(
                torch.tensor([position], dtype=torch.long, device=fit.cp.weights.device)
            )
            for place in groups[position]:
                released = self.noise_of(members[place]).release(own, fit)
                finished[place] = gather_fit(own, released)
                keep(place, finished[place])

        self._solve(problem, solved, finish)
        return tuple(finished[place] for place in range(len(members)))

    def fit_plain(self, seeds: Sequence[int]) -> list[Fit]:
        """Return the best plain decomposition from the starts of each seed, without noise.

        A seed is computed once, because all strengths begin there.
        """
        missing = [seed for seed in dict.fromkeys(seeds) if seed not in self._plain]
        if missing:
            found = decompose_plain(
                self.task.problem,
                starts=self.task.starts_of(missing),
                each=self.task.settings.n_init,
                stop=self.task.settings.stop,
            )
            self._plain.update(zip(missing, found, strict=True))
        return [self._plain[seed] for seed in seeds]

    @cached_property
    def _plain(self) -> dict[int, Fit]:
        return {}

    def noise_of(self, member: Member) -> Noise:
        """Return the noise of a member."""
        return self.task.noise(member.noise, strength=member.strength, seed=member.seed)

    def whole_data(self, X: Any) -> TensorData:
        """Return the entries of everybody, as a problem of a process alone has them.

        Args:
            X: The tensor as it was given.
        """
        problem, offsets = self.task.problem, self.task.offsets
        if problem.share is None:
            return problem.data
        data = as_data(X, dtype=problem.prototype.dtype)
        return data if offsets is None or not problem.is_squared else offsets.subtract(data)

    def problem_of(self, members: Sequence[Member]) -> Problem:
        """Return the problem of a batch."""
        problem = self.task.problem
        if problem.penalty is None:
            return problem
        strengths = [member.strength or 0.0 for member in members]
        return problem.with_strengths(
            torch.tensor(strengths, dtype=torch.float64, device=problem.prototype.device)
        )

    def _learn(self, members: Sequence[Member], on_fit: OnFit | None) -> tuple[Fit, ...]:
        """Return fits with learned encoders, without noise."""
        found: list[Fit] = []
        plain = self.fit_plain([member.seed for member in members])
        for place, (member, start) in enumerate(zip(members, plain, strict=True)):
            strength = member.strength or 0.0
            found.append(self.task.learn(start, strength, member.noise, seed=member.seed))
            if on_fit is not None:
                on_fit(place, found[-1])
        return tuple(found)

    def _solve(
        self, problem: Problem, members: Sequence[Member], on_fit: OnFit | None
    ) -> tuple[Fit, ...]:
        """Return fits without noise."""
        settings, seeds = self.task.settings, [member.seed for member in members]
        if settings.encoder is not None:
            return self._learn(members, on_fit)
        if starts_plain(problem):
            return decompose_from(
                problem,
                settings.solver,
                plain=self.fit_plain(seeds),
                stop=settings.stop,
                on_fit=on_fit,
            )
        if settings.reduction is not None:
            return reduce(
                problem,
                settings.reduction,
                settings.solver,
                starts=self.task.starts_of(seeds),
                stop=settings.stop,
                on_fit=on_fit,
            )
        rough = self.task.rough(seeds)
        starts = [fit.cp.factors for fit in rough]
        return decompose(
            problem,
            settings.solver,
            starts=stack_factors(starts) if starts else self.task.starts_of(seeds),
            stop=settings.stop,
            rough=rough,
            postprocessing=settings.postprocessing,
            seeds=seeds,
            on_fit=on_fit,
        )

    @property
    def members_at_once(self) -> int:
        """Number of members that fit into memory together, in each process."""
        problem, prototype = self.task.problem, self.task.problem.prototype
        if problem.data.is_streamed:  # its memory is planned for one fit
            return 1
        # The sums over the entries, and copies of all factors.
        numbers = problem.observations.working_memory(problem.rank)
        numbers += COPIES_OF_FACTORS * problem.rank * sum(problem.shape)
        free = BATCH_BYTES
        if prototype.is_cuda:
            free = torch.cuda.mem_get_info(prototype.device)[0] // 2
        # A member begins as several starts, and later as two contenders.
        together = max(2, self.task.settings.n_init)
        found = max(1, free // (together * numbers * prototype.element_size()))
        own = torch.tensor(-found, dtype=torch.long, device="cpu")
        return -int(problem.team.largest(own))

    def batches(self, members: Sequence[Member], *, workers: int) -> list[list[Member]]:
        """Return the members in batches, at least one per process, that fit into memory.

        Members that share a fit are in the same batch.
        """
        groups = _groups(members, key=self.fit_of)
        share = -(-len(groups) // workers)
        batches = in_batches(groups, max(1, min(self.members_at_once, share)))
        return [[member for group in batch for member in group] for batch in batches]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that affect the results, as values for JSON."""
        problem = self.task.problem
        params = plain_params(self.task.settings.model.get_params(deep=False))
        kept = {name: value for name, value in params.items() if name not in SET_HERE}
        if isinstance(kept["method"], dict):
            kept["method"].pop("strength", None)
        return {
            "name": self.name,
            "params": kept,
            "data": fingerprint_of_people(problem, self.task.secret),
            "test": self.X_test and fingerprint(self.X_test),
            "shape": list(problem.shape),
            "mode": problem.mode,
            "ridge": float(problem.ridge),
            "dtype": str(problem.prototype.dtype).removeprefix("torch."),
            "audits": plain(self.audits),
            "certificates": plain(self.certificates),
            **({} if problem.side is None else {"side": fingerprint(problem.side.data)}),
        }


# Longer names are no names of folders, and more fits than this are a mistake.
LONGEST_NAME, MOST_SEEDS = 100, 100_000


def in_batches(items: Sequence[T], size: int) -> list[list[T]]:
    """Return the items in batches of at most `size`, in order."""
    return [list(items[begin : begin + size]) for begin in range(0, len(items), size)]


def _groups(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Return the items in groups of the same key, both in the order of their first items."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def make_plan(
    model: FairCP | FairTucker,
    X: Any,
    *,
    sensitive_features: Any,
    side: Any = None,
    name: str | None = None,
    audits: Mapping[str, Any] | None = None,
    X_test: Any = None,
    certificates: Mapping[str, Any] | str | None = None,
    team: Team = ALONE,
) -> Plan:
    """Check the arguments of `frontier` before the first fit."""
    instance_of("model", model, FairModel, "make one, such as FairCP(2)")
    settings = Settings.of(model)
    if not team.is_alone:
        check_together(settings)
    settings.check_side(side)
    if name is None:
        name = (
            model.method if isinstance(model.method, str) else type(model.method).__name__.lower()
        )
    valid = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name[0] != "."
    if not valid or any(character in name for character in "/\\\0"):
        raise ValueError(
            f"name must be a valid folder name of at most {LONGEST_NAME} characters, got "
            f"{shown(name)}"
        )
    if model.n_init not in ("auto", 1) and not moves_scale(settings.penalty):
        raise ValueError(f"n_init must be 1 in a frontier, got {model.n_init!r}; use seeds instead")
    if not isinstance(model.init, str):
        raise ValueError(
            "init must be a name in a frontier, where each seed has its start; use 'uniform'"
        )
    if isinstance(model.strength, str):
        raise ValueError(
            f"strength={model.strength!r} cannot be used in a frontier; pass strengths= instead"
        )
    if sensitive_features is None or isinstance(sensitive_features, Mapping):
        raise ValueError(
            "sensitive_features must be the features of one mode, because audits need them, got "
            f"{shown(sensitive_features)}; pass one row per person"
        )
    check_index(sensitive_features, X)
    features = SensitiveFeatures.of(sensitive_features)
    if audits is not None:
        _check_audits(audits, features.with_features())
    # Several processes convert the entries of their own people alone, and streams as they read.
    data = as_data(X)
    if team.is_alone or data.is_streamed:
        data = converted(data, model.device, model.dtype)
    if is_labeled(data.modes, data.labels):
        check_order(sensitive_features, data.labels[data.find_mode(model.mode)])
    test = None if X_test is None else as_data(X_test)
    if test is not None and test.shape != data.shape:
        raise ValueError(f"X_test must have the shape of X, {data.shape}, got {test.shape}")
    certified = check_certificates(certificates, len(features))
    if not team.is_alone:
        check_shareable(data, side)
        check_same(
            team,
            {
                **identity_of(settings, data, features),
                "name": name,
                "audits": plain(audits),
                "certificates": plain(certified),
                "X_test": test and fingerprint(test),
            },
        )
    task = settings.bind(data, features, match_index(side, X), team).share(team)
    test = None if test is None else task.seen(test)
    return Plan(name, task, audits and dict(audits), test, certified)


def _check_audits(audits: Mapping[str, Any], sensitive: SensitiveFeatures) -> None:
    """Raise if the audits would fail after the fits."""
    instance_of("audits", audits, Mapping, "pass the arguments of audit by name")  # type: ignore[type-abstract]
    known = [name for name in signature(audit).parameters if name not in NOT_SETTINGS]
    for name in audits:
        one_of("a key of audits", name, known)
    wanted = {name: audits[name] for name in CHECKED if name in audits}
    check_settings(sensitive, **wanted)


def check_seeds(seeds: Sequence[int] | int) -> tuple[int, ...]:
    """Return the seeds as a tuple."""
    if isinstance(seeds, (int, np.integer)):
        return tuple(range(whole_number("seeds", seeds, most=MOST_SEEDS)))
    given = items("seeds", seeds, "seeds, or their number")
    found = tuple(whole_number("each of seeds", seed, least=0, most=SEEDS - 1) for seed in given)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"seeds must be one or more distinct whole numbers, got {shown(seeds)}")
    return found


def check_noises(noises: Sequence[float] | None) -> tuple[float | None, ...]:
    """Return the noises in order; (None,) for that of the model."""
    if noises is None:
        return (None,)
    given = items("noises", noises, "noises")
    for noise in given:
        real_number("each of noises", noise, least=0, most=MOST_NOISE)
    found = sorted(map(float, given))
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"noises must be one or more distinct numbers, got {shown(noises)}; each is a share of "
            "the standard deviation of the embedding, such as 0.1"
        )
    return tuple(found)


def check_strengths(
    strengths: Sequence[float] | int, plan: Plan
) -> int | tuple[float, ...] | tuple[None]:
    """Return strengths, their number, or (None,) for a method without a strength."""
    if plan.task.problem.penalty is None:
        return (None,)
    if isinstance(strengths, (int, np.integer)):
        return whole_number("strengths", strengths, least=2, most=MOST_SEEDS)
    given = items("strengths", strengths, "strengths, or their number")
    found = tuple(real_number("each of strengths", strength, least=0) for strength in given)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"strengths must be one or more distinct numbers, got {shown(strengths)}")
    return tuple(sorted(found))
