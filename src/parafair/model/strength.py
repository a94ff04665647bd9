"""The strength at which an embedding passes at the least cost, and no further than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parafair.audits import Audit, audit
from parafair.dependence.criterion import Criterion
from parafair.dependence.whitening import Standardized
from parafair.errors import Interrupted
from parafair.penalties import Invariant
from parafair.solvers import Solver, solve_batch
from parafair.solvers.loop import OnIteration
from parafair.solvers.path import fill_empty
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status, Stop, best

# The path begins where dependence hardly matters and takes long steps until the criterion is at
# its null level; from there each step is audited.
FIRST_STRENGTH, LONG_STEP, SHORT_STEP, LAST_STRENGTH = 1.0, 2.0, 2**0.5, 1e4

# Begun near a solution, a fit gains little before extrapolation sets in: it must not stop there.
PATH_SHARE, PATH_WINDOW = 0.3, 20

# Attackers of the search, the quick ones first: most strengths fail at those. Networks take
# longest, and are asked only about what all others let pass.
QUICK, THOROUGH = ("linear", "svm"), ("linear", "svm", "forest", "boosting", "neighbors")
EVERYBODY = (*THOROUGH, "network", "paper-network")
MOST_PEOPLE = 2000

# Corrected for having been picked, the strongest attacker's advantage must be well below the
# level: another audit, with other folds, finds a little more or less.
MARGIN = 0.5

# Strengths to try after people are matched one by one: more strength makes it worse.
MOST_BELOW_CHANCE = 3

# Noise, as shares of the spread in every whitened direction.
NOISES = (0.1, 0.15, 0.2, 0.3, 0.4)


@dataclass(frozen=True)
class Trial:
    """One strength on the path.

    Attributes:
        strength: The strength.
        residual: The residual there.
        criterion: The invariant criterion.
        null: What it is on average if people exchange their features at random.
        leakage: The strongest attacker's advantage over chance, corrected for having picked the
            strongest; None where none was tried.
        verdict: What the audit said: "not audited", "leaks", "passes" or "below_chance".
        noise: Noise added to the rows, as a share of their spread in every whitened direction.
    """

    strength: float
    residual: float
    criterion: float
    null: float
    leakage: float | None
    verdict: str
    noise: float = 0.0


OnTrial = Callable[[Trial], None]


@dataclass(frozen=True, eq=False)
class Selection:
    """The strength that was chosen, and the path to it.

    Attributes:
        fit: The fit at the chosen strength.
        strength: The chosen strength.
        passed: Whether it passed the audit; if not, it is the nearest to passing.
        trials: All strengths tried, in order.
        noise: Noise that was added to the rows, as a share of their spread.
    """

    fit: Fit
    strength: float
    passed: bool
    trials: tuple[Trial, ...]
    noise: float = 0.0

    def to_list(self) -> list[dict[str, Any]]:
        """Return the path as plain values that can be written as JSON."""
        return [asdict(trial) for trial in self.trials]

    @classmethod
    def from_list(
        cls, records: Sequence[Mapping[str, Any]], *, fit: Fit, strength: float, noise: float
    ) -> Selection:
        """Return the selection whose path `to_list` wrote."""
        trials = tuple(Trial(**record) for record in records)
        passed = any(trial.verdict == "passes" for trial in trials)
        return cls(fit, strength, passed, trials, noise)


def select_strength(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    level: float,
    seed: int = 0,
    on_iteration: OnIteration | None = None,
    on_trial: OnTrial | None = None,
) -> Selection:
    """Follow a path of strengths, each fit begun where the last ended, until the audit passes.

    An embedding passes if the criterion is at most at its null level, no attacker's advantage is
    above `level` (or, with few people, leakage not above half of it), and no attacker is beyond
    doubt off chance, in either direction. Below chance people are matched across groups one by
    one, and attackers mistake them for each other; and trees may find what is left along a single
    axis. A little noise ends both, and is tried where nothing coarser is left; then the path goes
    on as long as more strength without noise may cost less.

    Args:
        problem: A problem with an `Invariant` penalty, whose strength is replaced.
        solver: How to minimize.
        starts: One factor (batch, size, rank) per mode; the best start goes on.
        stop: When a fit stops.
        level: The most leakage allowed, as in `Audit.passes`.
        seed: Seed of the audits.
        on_iteration: Called after each round, as in `solve_batch`.
        on_trial: Called after each strength.

    Raises:
        Interrupted: On Ctrl-C, with the fit at the last strength that was finished.
    """
    penalty, sensitive = problem.penalty, problem.sensitive
    if not isinstance(penalty, Invariant) or sensitive is None:
        raise ValueError(
            "strength='auto' needs method='invariant', whose strength has the same meaning on any "
            f"data; got {penalty!r}. Give strength as a number"
        )
    criterion = penalty.criterion(problem.features, problem.like)
    stop = replace(stop, tol=PATH_SHARE * stop.tol, window=max(stop.window, PATH_WINDOW))
    found: list[tuple[Fit, Trial]] = []
    verdicts: list[str] = []
    latest: Fit | None = None
    try:
        for strength in _strengths(found):
            member = replace(problem, penalty=replace(penalty, strength=strength))
            fits = solve_batch(member, solver, starts=starts, stop=stop, on_iteration=on_iteration)
            fit = best(fits)
            latest = fit = _after(replace(fit, cp=fill_empty(problem, fit.cp)), found)
            starts = tuple(factor.unsqueeze(0) for factor in fit.cp.factors)
            if fit.residual >= _least_passing(found):
                break
            for pair in _judged(member, criterion, fit, strength, level, seed):
                if pair[1].residual < _least_passing(found):
                    found.append(pair)
                    if on_trial is not None:
                        on_trial(pair[1])
            verdicts.append(found[-1][1].verdict)
            sufficient = verdicts[-1] == "passes" and not found[-1][1].noise
            if sufficient or verdicts.count("below_chance") == MOST_BELOW_CHANCE:
                break
    except KeyboardInterrupt as error:
        # A finished strength is worth more than a half-finished one.
        if latest is None:
            raise
        raise Interrupted(replace(latest, status=Status.INTERRUPTED)) from error
    chosen = _choose(found)
    return replace(chosen, fit=chosen.fit.with_plain(problem))


def _strengths(found: list[tuple[Fit, Trial]]) -> Iterator[float]:
    """Yield strengths: far apart until the criterion is at its null level, then close."""
    strength = FIRST_STRENGTH
    while strength <= LAST_STRENGTH:
        yield strength
        trial = found[-1][1]
        strength *= LONG_STEP if trial.criterion > 2 * trial.null else SHORT_STEP


def _after(fit: Fit, found: list[tuple[Fit, Trial]]) -> Fit:
    """Return the fit with the time of the path so far added to its own."""
    before = found[-1][0].seconds if found else 0.0
    history = tuple(replace(entry, seconds=entry.seconds + before) for entry in fit.history)
    return replace(fit, history=history)


def _judged(
    problem: Problem, criterion: Criterion, fit: Fit, strength: float, level: float, seed: int
) -> Iterator[tuple[Fit, Trial]]:
    """Yield a fit and what is thought of it, then with more and more noise, until it passes."""
    rows = fit.cp.factors[problem.mode]
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(rows.shape, generator=generator, dtype=torch.float64).to(rows)
    drawn = drawn @ Standardized.of(problem.penalized_rows(rows)).basis.to(rows)
    for noise in (0.0, *NOISES):
        judged = fit.with_embedding(problem, rows + noise * drawn) if noise else fit
        embedding = problem.penalized_rows(judged.cp.factors[problem.mode])
        value = float(criterion.value_and_gradient(embedding)[0])
        null = float(criterion.null(embedding))
        examined = _examine(embedding, problem, level, seed) if value <= null else _NOT_EXAMINED
        leakage, verdict, coarse = examined
        yield judged, Trial(strength, judged.residual, value, null, leakage, verdict, noise)
        if verdict == "passes" or coarse:
            return


class _Examined(NamedTuple):
    """Leakage, the verdict, and whether quick attackers find more than noise would hide."""

    leakage: float | None
    verdict: str
    coarse: bool


_NOT_EXAMINED = _Examined(None, "not audited", coarse=True)


def _examine(rows: Tensor, problem: Problem, level: float, seed: int) -> _Examined:
    """Audit an embedding, with more attackers as long as nothing speaks against it."""
    for attackers in (QUICK, THOROUGH, EVERYBODY):
        result = audit(
            rows.cpu(),
            problem.features,
            attackers=attackers,
            permutations=1,
            max_people=MOST_PEOPLE,
            random_state=seed,
        )
        verdict = _verdict(result, level)
        if verdict == "leaks" or (verdict == "below_chance" and attackers != QUICK):
            break
    coarse = verdict == "leaks" and attackers == QUICK and result.leakage > level
    return _Examined(result.leakage, verdict, coarse)


def _verdict(result: Audit, level: float) -> str:
    seen = max(result.advantages) > level and result.leakage > MARGIN * level
    if result.leaks or seen:
        return "leaks"
    return "below_chance" if result.below_chance else "passes"


def _least_passing(found: list[tuple[Fit, Trial]]) -> float:
    """Return the least residual of those that passed."""
    passed = (trial.residual for _, trial in found if trial.verdict == "passes")
    return min(passed, default=float("inf"))


def _choose(found: list[tuple[Fit, Trial]]) -> Selection:
    """Take the least residual that passed, otherwise the weakest attackers."""
    trials = tuple(trial for _, trial in found)
    passed = [pair for pair in found if pair[1].verdict == "passes"]
    if passed:
        fit, trial = min(passed, key=lambda pair: pair[1].residual)
    else:
        audited = [pair for pair in found if pair[1].leakage is not None] or found[-1:]
        fit, trial = min(audited, key=lambda pair: abs(pair[1].leakage or 0.0))
    return Selection(fit, trial.strength, bool(passed), trials, trial.noise)
