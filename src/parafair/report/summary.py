"""The summary of a report: what is certified, what it costs, what was measured, what was fitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from parafair.audits import Verdict
from parafair.frontiers import Frontier, Point
from parafair.frontiers.choice import Wanted
from parafair.frontiers.pictures import measure_of
from parafair.guarantees.statements import RELEASE, rounded_up
from parafair.solvers.result import Status


def lead_with(frontier: Frontier, picked: Point | None, wanted: Wanted) -> str:
    """Return what matters most, in one sentence: what is certified, beside what was measured.

    The two are about different attackers, so it names both.

    Args:
        frontier: The fits.
        picked: The best fit that qualifies; None if there is none.
        wanted: What it had to have.
    """
    if not frontier.audited:
        return "The fits were not audited, so it is not known what they reveal."
    point = _of_certificate(frontier, picked)
    if point is None:
        return (
            "No fit has a certificate, so no bound holds for every attacker: all that follows was "
            "measured with the attackers that were tried."
        )
    limit, bound = wanted.max_certified, rounded_up(point.certified())
    which = "The picked fit" if point is picked else f"The fit {name_of(point)}"
    certified = "is certified" if bound <= limit else "is not certified"
    tried = (
        f"attackers who learn from other people were tried, not bounded, and gain "
        f"{point.leakage:.3f}"
    )
    if point.verdict(wanted.max_leakage) is not Verdict.PASSES:
        tried += ", which does not pass"
    return (
        f"{which} {certified} at {limit:g} against someone who holds all exact rows and sees a "
        f"released one, who gains at most {bound:.4f} over chance; {tried}."
    )


def summarize(frontier: Frontier, picked: Point | None, wanted: Wanted) -> dict[str, str]:
    """Return the summary, a few sentences under each heading; arguments as in `lead_with`."""
    parts: dict[str, Iterable[str]] = {}
    if frontier.audited:
        parts = {
            "Certificate": _certified(frontier, picked),
            "Cost": [*_cost(frontier, picked), *_prediction(frontier, picked)],
            "Evidence": _choice(frontier, picked, wanted),
        }
    parts["About these numbers"] = [_setting(frontier), *_limits(frontier)]
    texts = {heading: " ".join(sentences) for heading, sentences in parts.items()}
    return {heading: text for heading, text in texts.items() if text}


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
        why = "all of them leak"
        if Verdict.INCONCLUSIVE in verdicts:
            count = verdicts.count(Verdict.INCONCLUSIVE)
            why = (
                f"no audit passes: {count} of {len(verdicts)} are inconclusive, which means that "
                "these people are too few to exclude an attacker who is always right"
            )
        yield (
            f"None is picked, because {why}. The least leakage is {least.leakage:.3f}, of "
            f"{name_of(least)}."
        )


def _of_certificate(frontier: Frontier, picked: Point | None) -> Point | None:
    """Return the fit whose certificate the summary is about: the picked one, if it has one."""
    if picked is not None and picked.certificate is not None:
        return picked
    certified = [point for point in frontier.audited if point.certificate is not None]
    return min(certified, key=lambda point: point.certified(), default=None)


def _certified(frontier: Frontier, picked: Point | None) -> Iterator[str]:
    """Yield what is certified, and which attackers that leaves out."""
    point = _of_certificate(frontier, picked)
    if point is None or point.certificate is None:
        return
    own = [each for each in point.certificate.statements if each.kind == RELEASE]
    yield max(own, key=lambda each: each.upper).sentence
    yield "What those gain who learn from people whose group is known is measured, not certified."
    vote = point.row()["vote"]
    if vote is not None:
        yield f"A vote of all others has a measured advantage of {vote:.3f}."


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
