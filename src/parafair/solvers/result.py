"""The result of a fit: the decomposition, its history and why the solver stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from math import isfinite, nan
from pathlib import Path

from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, Factors
from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import as_path, real_number, whole_number
from parafair.dependence.quantile_map import QuantileMap
from parafair.display import view
from parafair.solvers.objective import Objective
from parafair.solvers.packing import packed
from parafair.solvers.problem import Problem
from parafair.solvers.ridge import ridge_diagonal
from parafair.solvers.rows import minimize_rows
from parafair.solvers.stored_factors import LARGEST, check_factors, check_modes
from parafair.solvers.sweep import Sweep
from parafair.solvers.view import fit_parts
from parafair.stored import (
    check_numbers,
    read_arrays,
    read_record,
    reading,
    write_arrays,
    write_record,
)

FACTORS_FILE, FIT_FILE = "factors.safetensors", "fit.json"
# Rows of the sensitive mode that a fit may have beside those of its decomposition.
SHIFTS = "shifts"
# The factor of the side information.
SIDE = "side"
# The intercepts of its columns.
INTERCEPTS = "side_intercepts"
# Rows that are confidential: they are stored only if asked for.
EXACT = ("plain", "noiseless")
# Arrays of a mode have one of these names and the number of the mode.
NOISE, OTHER_ROWS = "noise_", "noiseless_"
FORMAT = 4


@packed
class Status(Enum):
    """Why a solver stopped, as text for reports."""

    RUNNING = "still running"
    CONVERGED = "the objective stopped decreasing"
    STALLED = "no step decreased the objective further; use solver='block', or dtype='float64'"
    FINISHED = "took all its steps"
    OUT_OF_ITERATIONS = "did not converge in max_iter iterations; raise max_iter or tol"
    OUT_OF_TIME = "did not converge in max_seconds; raise max_seconds or tol"
    BEATEN = "another start has a lower objective"
    DIVERGED = "the objective became infinite or undefined; these are the last finite factors"
    INTERRUPTED = "interrupted; these are the factors of the last finished iteration"


@packed
@dataclass(frozen=True)
class Iteration:
    """One entry of a history: the objective after an iteration, and the time.

    Attributes:
        objective: Loss plus penalty, and `side`.
        loss: ``||X - model||**2 / |X|``, or the mean deviance.
        penalty: The penalty, its strength included.
        residual: ``||X - model|| / ||X||``, or the deviance over that of the best constant.
        seconds: Time since the solver started.
        side: The error of the table of side information, times its weight; 0 without one.
    """

    objective: float
    loss: float
    penalty: float
    residual: float
    seconds: float
    side: float = 0.0

    @classmethod
    def of(cls, objective: Objective, seconds: float) -> Iteration:
        """Return the entry of an objective of one member."""
        return cls(
            objective=float(objective.value),
            loss=float(objective.loss),
            penalty=float(objective.penalty),
            residual=float(objective.residual),
            seconds=seconds,
            side=float(objective.side),
        )


@dataclass(frozen=True)
class Stop:
    """When a solver stops.

    Attributes:
        max_iter: Maximum number of iterations.
        tol: Stop when the objective decreases by less than this share per iteration, on average
            over `window` iterations. With 0, only the limits apply.
        max_seconds: Stop after the iteration in which this time is reached.
        window: Iterations to average over, because extrapolated steps progress unevenly.
        enough: Stop if the objective is below this share of the mean square of the data, unless
            `tol` is 0.
        noise_cost: What noise will add to the objective. A decrease is compared with this if the
            objective is smaller: of the released rows, nobody sees more of it.
    """

    max_iter: int = 2000
    tol: float = 3e-5
    max_seconds: float | None = None
    window: int = 10
    enough: float = 0.0
    noise_cost: float = 0.0

    def __post_init__(self) -> None:
        whole_number("max_iter", self.max_iter)
        real_number("tol", self.tol, least=0)
        if self.max_seconds is not None:
            real_number("max_seconds", self.max_seconds, above=0)
        whole_number("window", self.window)
        real_number("enough", self.enough, least=0)

    def judge(self, history: Sequence[Iteration], floor: float = 0.0) -> Status:
        """Return the status after these iterations; an objective below `floor` counts as zero."""
        now = history[-1]
        if not isfinite(now.objective):
            return Status.DIVERGED
        if self.tol > 0 and now.objective <= floor:
            return Status.CONVERGED
        if self.tol > 0 and len(history) > self.window:
            gained = abs(history[-1 - self.window].objective - now.objective)
            if gained <= self.window * self.tol * max(now.objective, self.noise_cost):
                return Status.CONVERGED
        if len(history) > self.max_iter:
            return Status.OUT_OF_ITERATIONS
        if self.max_seconds is not None and now.seconds >= self.max_seconds:
            return Status.OUT_OF_TIME
        return Status.RUNNING


@packed
@dataclass(frozen=True, eq=False)
class Fit:
    """The decomposition that a solver found, and its history.

    Attributes:
        cp: The decomposition.
        status: Why the solver stopped.
        history: One entry per iteration, after one for the start; if noise was added, one more.
        counts: Counters of the solver, such as the number of shortened steps.
        noise: The matrix that standard normal rows were multiplied with, shape (rank, rank), by
            mode; empty without noise. Those of the modes of a structure follow after
            people and cells, with the rank of their basis; see `parafair.solvers.parameters`.
        shifts: Rows of the sensitive mode before noise minus `plain`, with noise of their own if
            the rows have noise. None without sensitive features.
        moves: The map that moved `plain` to the rows before noise, which new people follow; None
            for other methods.
        plain: The rows of the sensitive mode with the least loss, with all other factors fixed and
            without the penalty. None without sensitive features, and after `load` of a fit that
            was written without exact rows.
        noiseless: The rows of the sensitive mode before noise was added; None without noise, and
            after such a `load`.
        noiseless_others: The same for every other mode with sensitive features, by mode; of a
            structure, its bases.
        side: The factor of the table of side information, shape (columns, rank): its least-squares
            fit to the rows of the people, as released. None without side information.
        side_intercepts: The intercepts of its columns; None if they have none.
        side_residual: ``||Y - A D^T|| / ||Y||`` with this factor, or the deviance over that of the
            intercepts; None without side information.
    """

    cp: CPTensor
    status: Status
    history: tuple[Iteration, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    noise: Mapping[int, Tensor] = field(default_factory=dict)
    shifts: Tensor | None = None
    moves: QuantileMap | None = None
    plain: Tensor | None = None
    noiseless: Tensor | None = None
    noiseless_others: Mapping[int, Tensor] = field(default_factory=dict)
    side: Tensor | None = None
    side_intercepts: Tensor | None = None
    side_residual: float | None = None

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.history) - (2 if self.noise else 1)

    @property
    def before_noise(self) -> Iteration:
        """The last entry of the history before noise was added."""
        return self.history[-2 if self.noise else -1]

    @property
    def noise_cost(self) -> float:
        """How much noise has increased the residual; 0 without noise."""
        return self.residual - self.before_noise.residual

    @property
    def objective(self) -> float:
        """The last objective."""
        return self.history[-1].objective

    @property
    def residual(self) -> float:
        """The last relative residual, ``||X - model|| / ||X||``, or deviance ratio."""
        return self.history[-1].residual

    @property
    def seconds(self) -> float:
        """Time taken."""
        return self.history[-1].seconds

    def __repr__(self) -> str:
        side = "" if self.side_residual is None else f", of the side {self.side_residual:.4f}"
        return (
            f"Fit(rank {self.cp.rank}, {self.n_iter} iterations in {self.seconds:.2f} s, "
            f"residual {self.residual:.4f}{side}: {self.status.value})"
        )

    def _repr_html_(self) -> str:
        return view(f"Fit of rank {self.cp.rank}", *fit_parts(self))

    def after(self, seconds: float, counts: Mapping[str, int]) -> Fit:
        """Return the fit with the time of fits before it, and with their iterations as counts."""
        history = tuple(replace(each, seconds=each.seconds + seconds) for each in self.history)
        return replace(self, history=history, counts={**self.counts, **counts})

    def with_factors(self, problem: Problem, factors: Factors, *, seconds: float = 0.0) -> Fit:
        """Return this fit with other factors and one more history entry.

        Args:
            problem: The problem that was solved.
            factors: One factor (size, rank) per mode.
            seconds: Time that the change took.
        """
        judged = problem.evaluate([factor.unsqueeze(0) for factor in factors])
        last = Iteration.of(judged, self.seconds + seconds)
        cp = CPTensor.from_factors(factors)
        return replace(self, cp=cp, history=(*self.history, last)).with_side(problem)

    def with_side(self, problem: Problem) -> Fit:
        """Return this fit with the factor of the side information, if the problem has any."""
        if problem.side is None:
            return self
        rows = self.cp.factors[problem.mode]
        found = problem.side.at(rows[None])
        intercepts = None if found.intercepts is None else found.intercepts[0, :, 0].to(rows)
        return replace(
            self,
            side=found.factor[0].to(rows),
            side_intercepts=intercepts,
            side_residual=problem.side.residual(rows),
        )

    def with_plain(self, problem: Problem) -> Fit:
        """Return this fit with its plain rows, if the problem has sensitive features."""
        if problem.sensitive is None:
            return self
        factors = [factor.unsqueeze(0) for factor in self.cp.factors]
        side = problem.side_at(factors[problem.mode])
        if problem.is_squared and (side is None or side.is_squared):
            block = Sweep(problem, factors).block(problem.mode)
            plain = block.minimizer(QuadraticForm.zero(factors[problem.mode]))
        else:
            ridge = ridge_diagonal(factors, problem.mode, problem.mode, problem.ridge)
            plain = minimize_rows(
                problem.deviance,
                factors,
                problem.mode,
                ridge=ridge,
                non_negative=problem.mode in problem.non_negative,
                side=side,
            )
        return replace(self, plain=plain[0])

    def write(self, folder: Path, *, keep_exact: bool = False) -> None:
        """Write the files of the fit into an existing folder.

        Args:
            folder: The folder.
            keep_exact: Whether to write rows before noise too, and what gives them away.
        """
        arrays = {"weights": self.cp.weights, **_by_mode("factor_", enumerate(self.cp.factors))}
        arrays |= _by_mode(NOISE, self.noise.items())
        rows = (SHIFTS, SIDE, INTERCEPTS, *(EXACT if keep_exact else ()))
        arrays |= {name: found for name in rows if (found := getattr(self, name)) is not None}
        if keep_exact:
            arrays |= _by_mode(OTHER_ROWS, self.noiseless_others.items())
        arrays |= {} if self.moves is None else self.moves.arrays
        write_arrays(folder / FACTORS_FILE, arrays)
        record = {
            "format": FORMAT,
            "status": self.status.name,
            "status_text": self.status.value,
            "counts": dict(self.counts),
            "history": [asdict(iteration) for iteration in self.history],
            "side_residual": self.side_residual,
        }
        write_record(folder / FIT_FILE, record)

    @classmethod
    def load(cls, folder: str | Path) -> Fit:
        """Read a fit that `write` wrote."""
        folder = as_path("folder", folder)
        record = read_record(folder / FIT_FILE, file_format=FORMAT)
        arrays = read_arrays(folder / FACTORS_FILE)
        with reading(folder / FACTORS_FILE):
            check_numbers(arrays, "factors", largest=LARGEST)
            rows = {name: arrays.pop(name, None) for name in (SHIFTS, *EXACT)}
            side, intercepts = arrays.pop(SIDE, None), arrays.pop(INTERCEPTS, None)
            moves = QuantileMap.pop(arrays, rank=len(arrays["weights"]))
            noise, others = _pop_modes(arrays, NOISE), _pop_modes(arrays, OTHER_ROWS)
            factors = [arrays[f"factor_{mode}"] for mode in range(len(arrays) - 1)]
            cp = CPTensor(arrays["weights"], tuple(factors))
            check_factors(cp, rows=rows, side=side, intercepts=intercepts)
            check_modes(cp, noise=noise, rows=others)
        with reading(folder / FIT_FILE):
            if noise and len(record["history"]) < 2:
                raise ValueError("its history has no entry before noise was added")
            return cls(
                cp=cp,
                status=Status[record["status"]],
                history=tuple(
                    Iteration(**{k: nan if v is None else float(v) for k, v in entry.items()})
                    for entry in record["history"]
                ),
                counts=dict(record["counts"]),
                noise=noise,
                **rows,
                moves=moves,
                noiseless_others=others,
                side=side,
                side_intercepts=intercepts,
                side_residual=record.get("side_residual"),
            )


def _by_mode(name: str, arrays: Iterable[tuple[int, Tensor]]) -> dict[str, Tensor]:
    """Return arrays of modes under the names that they have in a file."""
    return {f"{name}{mode}": array for mode, array in arrays}


def _pop_modes(arrays: dict[str, Tensor], name: str) -> dict[int, Tensor]:
    """Remove and return the arrays of modes that have this name in a file."""
    names = [each for each in arrays if each.startswith(name)]
    return {int(each.removeprefix(name)): arrays.pop(each) for each in names}


def best(fits: Sequence[Fit]) -> Fit:
    """Return the fit with the smallest objective before noise.

    A diverged fit is returned only if all diverged.
    """

    def rank(fit: Fit) -> tuple[bool, float]:
        value = fit.before_noise.objective
        value = value if isfinite(value) else float("inf")
        return fit.status is Status.DIVERGED, value

    return min(fits, key=rank)
