"""The summary of a report: what is certified, what it costs, what was measured, what was fitted."""

from __future__ import annotations

from collections.abc import Iterator

from parafair.audits import Verdict
from parafair.frontiers import Frontier, Point
from parafair.frontiers.choice import Wanted
from parafair.frontiers.pictures import measure_of
from parafair.guarantees.statements import RELEASE, rounded_up
from parafair.solvers.result import Status


def summarize(frontier: Frontier, picked: Point | None, wanted: Wanted) -> list[str]:
    """Return the summary, a few sentences each.

    Args:
        frontier: The fits.
        picked: The best fit that qualifies; None if there is none.
        wanted: What it had to have.
    """
    parts = ["The fits were not audited, so it is not known what they reveal."]
    if frontier.audited:
        cost = [*_cost(frontier, picked), *_prediction(frontier, picked)]
        evidence = _choice(frontier, picked, wanted)
        parts = [_promise(frontier, picked, wanted), *([" ".join(cost)] if cost else [])]
        parts += [" ".join(evidence), *_certified(frontier, picked)]
    return [*parts, _setting(frontier), *_limits(frontier)]


def name_of(point: Point) -> str:
    """Return the method of a point and its strength."""
    strength, noise = point.member.strength, point.member.noise
    parts = [f"strength {strength:.3g}"] if strength is not None else []
    parts += [f"noise {noise:g}"] if noise else []
    return point.member.method + (f" at {' and '.join(parts)}" if parts else "")


def _setting(frontier: Frontier) -> str:
    features = ", ".join(column.name for column in frontier.sensitive.columns)
    measure = measure_of(frontier) or "a ratio of norms, ‖X - model‖ / ‖X‖"
    fits = "1 fit" if len(frontier) == 1 else f"{len(frontier)} fits"
    return (
        f"{fits} to the data of {len(frontier.sensitive)} people. Methods: "
        f"{', '.join(frontier.methods)}. Sensitive features: {features}. The residual is "
        f"{measure}. The leakage is the advantage over chance of an "
        "attacker who guesses a sensitive feature from the embedding, and may turn its answers "
        "around."
    )


def _choice(frontier: Frontier, picked: Point | None, wanted: Wanted) -> Iterator[str]:
    max_leakage = wanted.max_leakage
    smallest = _smallest_residual(frontier)
    if picked is not None:
        yield f"Picked: {name_of(picked)}, with leakage {picked.leakage:.3f}. It passes."
    if picked is None:
        yield (
            f"The fit with the smallest residual has residual {smallest.residual:.3f} (it leaves "
            f"{_unexplained(frontier, smallest.residual)} unexplained) and leakage "
            f"{smallest.leakage:.3f}."
        )
    elif picked is not smallest:
        yield f"The fit with the smallest residual has leakage {smallest.leakage:.3f}."
    verdicts = [point.verdict(max_leakage) for point in frontier.audited]
    yield (
        f"{verdicts.count(Verdict.PASSES)} of {len(verdicts)} audited fits pass. A fit passes if "
        f"its leakage is at most {max_leakage:g} and no attacker is significantly above or below "
        "chance (95 %, simultaneous)."
    )
    if wanted.guarantee is not None:
        yield (
            f"The picked fit must also have a certified leakage ({wanted.guarantee}) of at most "
            f"{wanted.max_certified:g}."
        )
    if picked is None and Verdict.PASSES in verdicts:
        yield "None is picked, because no passing fit is certified at this level."
    elif picked is None:
        least = min(frontier.audited, key=lambda point: point.leakage)
        yield (
            f"None is picked, because all of them leak. The least leakage is "
            f"{least.leakage:.3f}, of {name_of(least)}."
        )


def _of_certificate(frontier: Frontier, picked: Point | None) -> Point | None:
    """Return the fit whose certificate the summary is about: the picked one, if it has one."""
    if picked is not None and picked.certificate is not None:
        return picked
    certified = [point for point in frontier.audited if point.certificate is not None]
    return min(certified, key=lambda point: point.certified(), default=None)


def _promise(frontier: Frontier, picked: Point | None, wanted: Wanted) -> str:
    """Return what holds for every attacker, beside the limit and what was measured.

    Without the comparison, a sentence that begins with "No attacker" reads like a success.
    """
    point = _of_certificate(frontier, picked)
    if point is None or point.certificate is None:
        return (
            "No fit has a certificate, so no bound holds for every attacker: all that follows was "
            "measured with the attackers that were tried."
        )
    own = [each for each in point.certificate.statements if each.kind == RELEASE]
    sentence = max(own, key=lambda each: each.upper).sentence
    which = "the picked fit" if point is picked else name_of(point)
    limit, bound = wanted.max_certified, rounded_up(point.certified())
    side = "within" if bound <= limit else "above"
    return (
        f"{sentence} This is about {which}: a certified leakage of at most {bound:.4f} ({side} the "
        f"limit of {limit:g}) and a measured leakage of {point.leakage:.3f}."
    )


def _certified(frontier: Frontier, picked: Point | None) -> Iterator[str]:
    """Yield what is certified beside what was measured: the two are about different attackers."""
    point = _of_certificate(frontier, picked)
    if point is None:
        return
    row = point.row()
    text = (
        "Measured and certified numbers are about different attackers. The leakage is measured: it "
        "is that of the attackers that were tried, who learn from people whose group is known "
        "(threat a). The certified leakage bounds every attacker who holds all exact rows with "
        "everybody's group and sees one released row (threat b). It does not cover threat (a)."
    )
    if row["vote"] is not None:
        text += f" The measured advantage of a vote of all others is {row['vote']:.3f}."
    yield text


def _cost(frontier: Frontier, picked: Point | None) -> Iterator[str]:
    """Yield what the picked fit loses against the one with the smallest residual."""
    if picked is None:
        return
    smallest = _smallest_residual(frontier)
    yield (
        f"The picked fit has residual {picked.residual:.3f}, which leaves "
        f"{_unexplained(frontier, picked.residual)} unexplained; the smallest residual is "
        f"{smallest.residual:.3f}, which leaves {_unexplained(frontier, smallest.residual)}."
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


def _unexplained(frontier: Frontier, residual: float) -> str:
    """Return the share of the sum of squares, or of the deviance, that a residual means."""
    squares = measure_of(frontier) is None
    share = 100 * (residual**2 if squares else residual)
    text = "less than 0.1 %" if share < 0.1 else f"{share:.{0 if share >= 10 else 1}f} %"
    return f"{text} of the {'sum of squares' if squares else 'loss'}"


def _smallest_residual(frontier: Frontier) -> Point:
    return min(frontier.audited, key=lambda point: point.residual)
