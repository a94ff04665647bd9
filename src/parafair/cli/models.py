"""Options of the model and its solver, and the `FairCP` they stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from parafair.cli.encoders import EncoderOptions, with_encoder
from parafair.cli.options import COMPUTE, MODEL, SOLVER, Device, defaults, is_given, numbers, option
from parafair.losses import LOSSES
from parafair.model.checks import POPULATION
from parafair.model.estimator import FairCP
from parafair.model.methods import METHODS
from parafair.model.preparation import ENCODER_NOISE
from parafair.model.tucker import FairTucker
from parafair.model.tuning import tune
from parafair.penalties import Invariant
from parafair.solvers.gradient_bcd import GradientBCD
from parafair.solvers.init import INITS
from parafair.solvers.registry import SOLVERS

FIT, TUNE = defaults(FairCP), defaults(tune)

RANK = "Number of components"
RIDGE = (
    "Shrinkage equal to this many extra zero entries per person; or auto: 0 if no entry is "
    "missing (0.1 with a link), otherwise the one that predicts held-out entries best"
)
STRENGTH = "Multiplier of the penalty, or auto: the first on a path that passes the audit"
NOISE = (
    "Noise of the embedding, as a share of its standard deviation in every direction. [default: "
    f"{Invariant.default_noise:g} for invariant with a strength above 0, {ENCODER_NOISE:g} with an "
    "encoder, 0 for others]"
)
SETTING = (
    "with a setting after a colon, as binomial:10 for 10 trials, huber:0.5 for its delta or "
    "negative-binomial:2 for its shape"
)
SEVERAL = "; or several to choose from, as"

# Settings that `parafair tune` takes lists of.
LISTED = {"rank": int, "ridge": float, "strength": float}
NUMBERS = {**LISTED, "n_init": int}
# Settings that a Tucker decomposition does not have.
ONLY_CP = ("rank", "encoder", "non_negative")
AUTOMATIC = ("ridge", "strength", "n_init")  # those that may be "auto"


@dataclass(frozen=True)
class DecompositionOptions:
    """What every decomposition needs."""

    rank: Annotated[str, option(MODEL, f"{RANK}.", metavar="<int>")] = str(FIT["rank"])
    ranks: Annotated[
        str | None,
        option(
            MODEL,
            "Fit a Tucker decomposition with these ranks instead, one per mode, as 8,5,5.",
            metavar="<int,...>",
        ),
    ] = None
    ridge: Annotated[str, option(MODEL, f"{RIDGE}.", metavar="<float|auto>")] = FIT["ridge"]
    noise: Annotated[float | None, option(MODEL, NOISE)] = FIT["noise"]
    loss: Annotated[
        str,
        option(MODEL, f"Loss: {', '.join(LOSSES)}; {SETTING}.", metavar="<name[:number]>"),
    ] = FIT["loss"]
    center: Annotated[
        bool,
        option(
            MODEL,
            "Subtract the mean and the average deviation of each label, except of people; or, with "
            "a loss that has a link, fit them as intercepts.",
            "--center",
        ),
    ] = FIT["center"]
    side_weight: Annotated[
        float,
        option(
            MODEL,
            "How much --side counts: at 1, a share of it counts as much as the same share of the "
            "tensor.",
        ),
    ] = FIT["side_weight"]
    side_loss: Annotated[
        str,
        option(
            MODEL,
            "Loss of --side, as --loss: such as bernoulli for columns of 0 and 1.",
            metavar="<name[:number]>",
        ),
    ] = FIT["side_loss"]
    non_negative: Annotated[
        str | None,
        option(
            MODEL,
            "Make factors non-negative: all, or those of these modes.",
            metavar="<all|mode,...>",
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return arguments of `FairCP`; a list is an error."""
        return {name: _one(name, value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class ModelOptions(EncoderOptions, DecompositionOptions):
    """A decomposition and its method."""

    method: Annotated[str, option(MODEL, f"One of {', '.join(METHODS)}.")] = FIT["method"]
    strength: Annotated[str | None, option(MODEL, f"{STRENGTH}.", metavar="<float|auto>")] = None
    max_leakage: Annotated[
        float | None,
        option(MODEL, "With --strength auto: the largest leakage that passes the audit."),
    ] = FIT["max_leakage"]
    guarantee: Annotated[
        str | None,
        option(
            MODEL,
            "With --strength auto: what must be at most --max-leakage. audit: what attackers learn "
            "(the default); release: what every attacker learns who sees one released row; or "
            "audit,release.",
            metavar="<name,...>",
        ),
    ] = FIT["guarantee"]

    def settings(self) -> dict[str, Any]:
        """Return arguments of `FairCP`; a list is an error."""
        return with_encoder(super().settings())


@dataclass(frozen=True)
class GridOptions(ModelOptions):
    """Decompositions to choose from."""

    rank: Annotated[str, option(MODEL, f"{RANK}{SEVERAL} 4,8.", metavar="<int,...>")] = str(
        FIT["rank"]
    )
    ridge: Annotated[str, option(MODEL, f"{RIDGE}{SEVERAL} 1,10.", metavar="<float,...|auto>")] = (
        FIT["ridge"]
    )
    strength: Annotated[
        str | None, option(MODEL, f"{STRENGTH}{SEVERAL} 1,10.", metavar="<float,...|auto>")
    ] = None
    max_leakage: Annotated[
        float | None,
        option(
            MODEL,
            "Choose among settings that pass an audit at this leakage, such as 0.05; by default "
            "the error alone decides.",
        ),
    ] = TUNE["max_leakage"]

    def grid(self) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return arguments of `FairCP`, and the values to choose from where there are several.

        Without any, the ridge is to be chosen.
        """
        values = {name: _several(name, value) for name, value in vars(self).items()}
        if self.max_leakage is None:
            values["max_leakage"] = [FIT["max_leakage"]]
        grid = {name: found for name, found in values.items() if len(found) > 1}
        if not grid and self.ridge != FIT["ridge"]:
            raise ValueError(
                "there is nothing to choose from; give several values to --rank, --ridge or "
                "--strength, such as --rank 4,8, leave out --ridge to choose it, or use parafair "
                "fit"
            )
        return with_encoder({name: found[0] for name, found in values.items()}), grid


def make_model(**settings: Any) -> FairCP | FairTucker:
    """Return the model with these settings: a `FairTucker` if they have ranks, else a `FairCP`."""
    ranks = settings.pop("ranks")
    if ranks is None:
        return FairCP(**settings)
    for name in ONLY_CP:
        if settings.pop(name, FIT[name]) != FIT[name] or (name == "rank" and is_given(name)):
            raise ValueError(
                f"--{name.replace('_', '-')} is for CP decompositions, but --ranks asks for a "
                "Tucker decomposition; leave one of them out"
            )
    return FairTucker(ranks, **settings)


def _one(name: str, value: Any) -> Any:
    """Return the value of a setting, a number if it is one."""
    if name == "ranks" and value is not None:
        return tuple(numbers("--ranks", value, int))
    if name == "guarantee" and value is not None:
        return _guarantees(value)
    if name == "non_negative":
        modes = () if value in (None, "all") else value.split(",")
        return tuple(int(m) if m.isdecimal() else m for m in modes) or value == "all"
    if name in ("loss", "side_loss"):
        return _loss(f"--{name.replace('_', '-')}", value)
    if name not in NUMBERS or value is None or (name in AUTOMATIC and value == "auto"):
        return value
    if name in LISTED and "," in value:
        raise ValueError(
            f"--{name} must be one value, got {value}; use parafair tune to choose among several"
        )
    try:
        return NUMBERS[name](value)
    except ValueError as error:
        kind = "a whole number" if NUMBERS[name] is int else "a number"
        kind += " or auto" if name in AUTOMATIC else ""
        raise ValueError(f"--{name.replace('_', '-')} must be {kind}, got {value!r}") from error


def _guarantees(value: str) -> tuple[str, ...]:
    """Return the names of guarantees; that of a population needs people whom no option gives."""
    names = tuple(value.split(","))
    if POPULATION in names:
        raise ValueError(
            f"--guarantee must be audit, release or audit,release; got {value}. A population needs "
            "held-out people, whom this command does not read: fit with --noise, then use parafair "
            "certify with --new-tensor and --new-sensitive"
        )
    return names


def _loss(option: str, text: str) -> Any:
    """Return a loss by its name; with a number after a colon, the loss with this setting."""
    name, colon, number = text.partition(":")
    if not colon or name not in LOSSES:
        return text
    loss: Any = LOSSES[name]
    if not vars(loss):
        raise ValueError(f"{option} {name} has no setting, got {text!r}; leave :{number} out")
    ((setting, default),) = vars(loss).items()
    try:
        value = type(default)(number)
    except ValueError as error:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise ValueError(
            f"{option} {name} must have {kind} after the colon, its {setting}, got {text!r}"
        ) from error
    try:
        return replace(loss, **{setting: value})
    except ValueError as error:
        raise ValueError(f"{option} {text}: {error}") from error


def _several(name: str, value: Any) -> list[Any]:
    """Return the values of a setting."""
    if not isinstance(value, str) or name not in LISTED or "," not in value:
        return [_one(name, value)]
    return numbers(f"--{name}", value, LISTED[name])


@dataclass(frozen=True)
class SolverOptions:
    """How to minimize."""

    solver: Annotated[str, option(SOLVER, "How to minimize.", choices=("auto", *SOLVERS))] = FIT[
        "solver"
    ]
    step_sizes: Annotated[
        str | None,
        option(
            SOLVER,
            "With --solver gradient: steps for the people's mode and for the others. [default: "
            f"{','.join(f'{step:g}' for step in GradientBCD.step_sizes)}]",
            metavar="<float,float>",
        ),
    ] = None
    inner_steps: Annotated[
        int | None,
        option(
            SOLVER,
            "With --solver gradient: steps on one factor before the next. [default: "
            f"{GradientBCD.inner_steps}]",
        ),
    ] = None
    init: Annotated[str, option(SOLVER, "Where to begin.", choices=INITS)] = FIT["init"]
    max_iter: Annotated[
        int, option(SOLVER, "Maximum number of iterations of each stage of a fit.")
    ] = FIT["max_iter"]
    tol: Annotated[
        float,
        option(SOLVER, "Stop when the objective falls by less than this share per iteration."),
    ] = FIT["tol"]
    device: Device = FIT["device"]
    dtype: Annotated[
        str | None, option(COMPUTE, "float32 or float64; by default that of the data.")
    ] = FIT["dtype"]

    def settings(self) -> dict[str, Any]:
        """Return arguments of `FairCP`."""
        steps = ("step_sizes", "inner_steps")
        found = {name: _one(name, value) for name, value in vars(self).items()}
        kept = {name: value for name, value in found.items() if name not in steps}
        return {**kept, "solver": self._solver()}

    def _solver(self) -> Any:
        """Return the solver, with settings of its own if they are given."""
        given: dict[str, Any] = {}
        if self.step_sizes is not None:
            given["step_sizes"] = tuple(numbers("--step-sizes", self.step_sizes, float))
        if self.inner_steps is not None:
            given["inner_steps"] = self.inner_steps
        if not given:
            return self.solver
        solver = SOLVERS.get(self.solver)
        if not isinstance(solver, GradientBCD):
            name = next(iter(given)).replace("_", "-")
            raise ValueError(
                f"--{name} is for --solver gradient, but --solver is {self.solver}; leave it out"
            )
        return replace(solver, **given)


@dataclass(frozen=True)
class StartOptions(SolverOptions):
    """How to minimize, and from which starts."""

    n_init: Annotated[
        str, option(SOLVER, "Random starts; the best is kept.", metavar="<int|auto>")
    ] = FIT["n_init"]
    random_state: Annotated[
        int, option(SOLVER, "Seed of the random starts and of the held-out entries.")
    ] = FIT["random_state"]
