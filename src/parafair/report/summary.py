"""The summary of a report: what was fitted, what passes, what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from parafair.audits import Verdict
from parafair.frontiers import Frontier, Point
from parafair.solvers.result import Status


def summarize(frontier: Frontier, picked: Point | None, max_leakage: float) -> list[str]:
    """Return the summary, a few sentences each.

    Args:
        frontier: The fits.
        picked: The best fit that does not leak; None if there is none.
        max_leakage: The largest leakage allowed.
    """
    parts = [_setting(frontier)]
    if frontier.audited:
        parts.append(" ".join(_choice(frontier, picked, max_leakage)))
        parts += _prediction(frontier, picked)
    else:
        parts.append("The fits were not audited, so it is not known what they reveal.")
    parts += _limits(frontier)
    return parts


def name_of(point: Point) -> str:
    """Return the method of a point and its strength."""
    strength = point.member.strength
    return point.member.method + ("" if strength is None else f" at strength {strength:.3g}")


def _setting(frontier: Frontier) -> str:
    features = ", ".join(column.name for column in frontier.sensitive.columns)
    fits = "1 fit" if len(frontier) == 1 else f"{len(frontier)} fits"
    return (
        f"{fits} to the data of {len(frontier.sensitive)} people. Methods: "
        f"{', '.join(frontier.methods)}. Sensitive features: {features}. The residual is a "
        "ratio of norms, ‖X - model‖ / ‖X‖. The leakage is the advantage over chance of an "
        "attacker who guesses a sensitive feature from the embedding, and may turn its answers "
        "around."
    )


def _choice(frontier: Frontier, picked: Point | None, max_leakage: float) -> Iterator[str]:
    smallest = _smallest_residual(frontier)
    yield (
        f"The fit with the smallest residual has residual {smallest.residual:.3f} (it leaves "
        f"{_squares(smallest.residual)} of the sum of squares unexplained) and leakage "
        f"{smallest.leakage:.3f}."
    )
    verdicts = [point.verdict(max_leakage) for point in frontier.audited]
    yield (
        f"{verdicts.count(Verdict.PASSES)} of {len(verdicts)} audited fits pass. A fit passes if "
        f"its leakage is at most {max_leakage:g} and no attacker is significantly above or below "
        "chance (95 %, simultaneous)."
    )
    if picked is None:
        least = min(frontier.audited, key=lambda point: point.leakage)
        yield (
            f"None is picked, because all of them leak. The least leakage is "
            f"{least.leakage:.3f}, of {name_of(least)}."
        )
        return
    yield (
        f"Picked: {name_of(picked)}, with residual {picked.residual:.3f} and leakage "
        f"{picked.leakage:.3f}. It passes."
    )


def _prediction(frontier: Frontier, picked: Point | None) -> Iterator[str]:
    """Yield the errors on held-out entries, if there are any."""
    smallest = _smallest_residual(frontier)
    if smallest.evaluation is None or frontier.baseline is None:
        return
    errors = {"the fit with the smallest residual": smallest.evaluation}
    if picked is not None and picked.evaluation is not None:
        errors = {"the picked fit": picked.evaluation, **errors}
    errors["a baseline without people"] = frontier.baseline
    listed = "; ".join(f"of {name} {found.value('rmse'):.3g}" for name, found in errors.items())
    yield f"Root mean squared error on held-out entries: {listed}."


def _limits(frontier: Frontier) -> Iterator[str]:
    """Yield what the numbers do not show."""
    if frontier.limit:
        yield (
            "Exact parity among these people costs any model a residual of at least "
            f"{frontier.limit[0][1]:.3f}."
        )
    failed = sum(point.fit.status is Status.DIVERGED for point in frontier.points)
    if failed:
        yield f"{failed} of {len(frontier)} fits diverged and have no audit."
    yield (
        "An attacker can show that an embedding reveals something. No attacker can show that it "
        "reveals nothing: a stronger attacker may exist, and other people may differ from these."
    )


def _squares(residual: float) -> str:
    """Return a ratio of norms as percent of the sum of squares."""
    share = 100 * residual**2
    return "less than 0.1 %" if share < 0.1 else f"{share:.{0 if share >= 10 else 1}f} %"


def _smallest_residual(frontier: Frontier) -> Point:
    return min(frontier.audited, key=lambda point: point.residual)
