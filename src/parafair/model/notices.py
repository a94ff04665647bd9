"""Warnings about fits and their people, and about new people and their sensitive features."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parafair.data.labels import preview
from parafair.data.modes import is_labeled
from parafair.data.raw_features import check_order
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.encoders.kernel import KernelEncoder
from parafair.encoders.result import encoder_of
from parafair.errors import ParafairWarning, warn
from parafair.model.record import Record
from parafair.model.side import NewSide, observed_of
from parafair.model.training import Training
from parafair.model.unfolding import Unfolding
from parafair.solvers import Fit, Status
from parafair.solvers.problem import Problem

if TYPE_CHECKING:
    from parafair.model.preparation import Settings

# Arguments that a fit with a learned encoder does not use, and those that the closed form of a
# reduction does not.
UNUSED_BY_ENCODERS: tuple[str, ...] = ("solver",)
UNUSED_BY_REDUCTIONS = ("solver", "init", "n_init", "max_iter", "tol")


def warn_of_data(problem: Problem, settings: Settings, unfolding: Unfolding | None) -> None:
    """Warn about data and settings of a fit that are likely not meant so.

    Args:
        problem: What is minimized.
        settings: The resolved arguments of the model.
        unfolding: How the data was unfolded; None if it was not.
    """
    _warn_empty(problem)
    _warn_full_rank(problem, unfolding)
    _warn_without_effect(settings, problem.order)


def _warn_empty(problem: Problem) -> None:
    """Warn about rows without observed entries."""
    # A structured factor has rows of its own at indices without entries.
    modes = range(problem.order) if problem.structure is None else (problem.mode,)
    found = {mode: len(problem.empty[mode]) for mode in modes}
    found[problem.mode] = problem.team.count(found[problem.mode])
    if any(found.values()):
        places = ", ".join(
            f"{count} of {problem.shape[mode]} indices of mode {mode}"
            for mode, count in found.items()
            if count
        )
        warn(
            f"no observed entries for {places}; their rows are the mean of the other rows, and "
            "people among them are not penalized",
            ParafairWarning,
            stacklevel=4,
        )


def _warn_full_rank(problem: Problem, unfolding: Unfolding | None) -> None:
    """Warn about sensitive modes of a Tucker model whose factors span everything.

    Columns can be mixed, so a factor is the space of its columns. Rows of a full space are equally
    far from each other once they are whitened: the criterion is the same for all of them.
    """
    if unfolding is None or problem.penalty is None:
        return
    own = {unfolding.number_of(m): m for m in range(len(unfolding.shape)) if m != unfolding.mode}
    own[problem.mode] = unfolding.mode
    for mode in (own[number] for number in problem.sensitive_by_mode):
        rank, size = unfolding.ranks[mode], unfolding.shape[mode]
        if rank >= size - 1:
            warn(
                f"ranks has {rank} for {unfolding.modes[mode]}, which has {size} indices: with so "
                "many columns every index has a direction of its own, and no strength hides "
                f"anything; lower it to less than {size - 1}",
                ParafairWarning,
                stacklevel=4,
            )


def _warn_without_effect(settings: Settings, order: int) -> None:
    """Warn about arguments that were given and that the fit does not use.

    Args:
        settings: The arguments of the model.
        order: Number of modes of the data.
    """
    model = settings.model
    if settings.encoder is not None:
        unused, why = UNUSED_BY_ENCODERS, f"encoder={model.encoder!r} has an optimizer of its own"
    elif settings.reduction is not None and order == 2:
        unused, why = UNUSED_BY_REDUCTIONS, f"method={model.method!r} of a matrix is a formula"
    else:
        return
    usual = signature(type(model)).parameters
    # Factors have no truth value.
    given = [
        name
        for name in unused
        if type(getattr(model, name)) is not type(usual[name].default)
        or getattr(model, name) != usual[name].default
    ]
    if given:
        warn(
            f"{', '.join(given)} {'has' if len(given) == 1 else 'have'} no effect: {why}; leave "
            f"{'it' if len(given) == 1 else 'them'} out",
            ParafairWarning,
            stacklevel=4,
        )


def warn_of_leaks(features: SensitiveFeatures | None) -> None:
    """Warn about rows of new people that nothing hides.

    Args:
        features: Their sensitive features; None if they are not known.
    """
    remedy = "pass sensitive_features" if features is None else "fit again with FairCP"
    warn(
        "transform embeds new people without regard to fairness, so their rows may "
        f"reveal the sensitive features; {remedy}, or audit them before use",
        ParafairWarning,
        stacklevel=4,
    )


def warn_of_contents(fit: Fit, *, stacklevel: int) -> None:
    """Warn if a folder has more of the training people than released rows and shifts with noise.

    Args:
        fit: The fit that was written.
        stacklevel: As in `warn`.
    """
    encoder = encoder_of(fit)
    if fit.moves is not None and fit.noise:
        warn(
            "the folder contains the map that new people follow, with quantiles of the rows "
            "without noise in many directions: whoever has it can find these rows, and no "
            "certificate holds against them. Keep it like the data, and publish embedding_ alone",
            ParafairWarning,
            stacklevel=stacklevel + 1,
        )
    if isinstance(encoder, KernelEncoder):
        warn(
            f"the folder contains the entries of {len(encoder.centers)} training people, which the "
            "kernel encoder needs: whoever has it has their data and their rows without noise. "
            "Keep it like the data, and publish embedding_ alone; other methods store no entries",
            ParafairWarning,
            stacklevel=stacklevel + 1,
        )


def warn_empty_people(data: TensorData, mode: int, side: NewSide | None = None) -> None:
    """Warn about new people without entries."""
    empty = int((observed_of(data, mode, side) == 0).sum())
    if empty:
        warn(
            f"{empty} of {data.shape[mode]} new people have no observed entries; their rows "
            "are the mean training row",
            ParafairWarning,
            stacklevel=3,
        )


def warn_of_interruption(fit: Fit, record: Record, folder: Path) -> None:
    """Warn if the fit of a stored model was interrupted; the record is that of the fit."""
    if fit.status is not Status.INTERRUPTED:
        return
    what = "it may reveal more, and fit worse, than a finished one"
    if record.strength == 0 and record.params.get("strength") != 0:
        what = "its embedding is that of a plain decomposition, without the penalty"
    warn(
        f"the fit in {folder} was interrupted after {fit.n_iter} iterations: {what}; audit it, or "
        "fit it again",
        ParafairWarning,
        stacklevel=3,
    )


def read_new_features(
    training: Training, data: TensorData, sensitive_features: Any
) -> SensitiveFeatures:
    """Return features of new people, encoded as in training; warn about missing ones."""
    if training.features is None:
        raise ValueError(
            "sensitive_features were given, but the model was fitted without; omit them"
        )
    if is_labeled(data.modes, data.labels):
        check_order(sensitive_features, data.labels[training.mode])
    features = training.features.read(sensitive_features)
    people = data.shape[training.mode]
    if len(features) != people:
        raise ValueError(
            f"sensitive_features has {len(features)} rows but X has {people} people; pass "
            "one row per person, in the same order"
        )
    return features


def warn_without_features(features: SensitiveFeatures, data: TensorData, mode: int) -> None:
    """Warn about new people who lack sensitive features."""
    if features.has_features is not None:
        names = data.labels[mode][~features.has_features]
        warn(
            f"{len(names)} of {data.shape[mode]} new people lack sensitive features "
            f"({preview(names)}): they are embedded from their entries alone, so their rows may "
            "reveal the features",
            ParafairWarning,
            stacklevel=3,
        )
