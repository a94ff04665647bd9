"""The content of a report: a frontier as plain values that the page and the figures show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan, prod
from typing import Any

import torch
from torch import Tensor

from parafair.audits.result import AUC, RANK_CORRELATION, Measure
from parafair.data.modes import default_modes
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.whitening import principal_plane
from parafair.frontiers import Frontier, Point
from parafair.frontiers.certified import COLUMNS as CERTIFIED
from parafair.frontiers.choice import Wanted
from parafair.frontiers.pictures import limit_of, measure_of, off_chance
from parafair.guarantees.certificate import LETTERS, describe
from parafair.guarantees.exposure import PERCENTILE
from parafair.report.summary import lead_with, name_of, summarize

# People drawn in a picture, rows of a factor, iterations of a history: more cannot be told apart.
MOST_PEOPLE, MOST_ROWS, MOST_ITERATIONS = 1000, 300, 200
# Bars of a component, and labels named for it.
MOST_BARS, MOST_NAMED = 40, 5
# Scores of an attacker that order people and need no threshold.
RANKINGS = (AUC, RANK_CORRELATION)
# Labels are in a meaningful order, such as time, if neighbors correlate more than this.
ALIKE = 0.5

# Columns of the frontier's table that the page shows.
SHOWN = (
    "method",
    "strength",
    "noise",
    "seed",
    "residual",
    "leakage",
    "low",
    "high",
    "p_value",
    "criterion",
    "null",
    "rmse",
    "mae",
    "rmse_gap",
    "ks",
    "seconds",
    "efficient",
    *CERTIFIED,
)

LIMIT_NOTE = (
    "The limit is the least residual that any model of these people can have if the best possible "
    "attacker has this leakage. If a fit is left of the limit, the best possible attacker finds "
    "more than was measured: our attackers are weaker, or there are few people to learn from."
)


def content(
    frontier: Frontier,
    *,
    title: str,
    max_leakage: float = 0.05,
    guarantee: str | None = None,
    max_certified: float | None = None,
) -> dict[str, Any]:
    """Return everything that a page shows.

    Args:
        frontier: The fits.
        title: The heading.
        max_leakage: The largest leakage allowed, for the verdicts and the picked fit.
        guarantee: As in `Frontier.best`, for the picked fit.
        max_certified: As in `Frontier.best`.
    """
    wanted = Wanted.of(max_leakage, guarantee, max_certified)
    assert wanted is not None
    picked = wanted.best(frontier.audited)
    people = _every(len(frontier.sensitive), MOST_PEOPLE)
    # In data sorted by group the last group would be drawn over all others.
    generator = torch.Generator().manual_seed(0)
    people = people[torch.randperm(len(people), generator=generator, device="cpu")]
    groups, codes = _groups(frontier.sensitive, people)
    points = []
    for point, row in zip(frontier.points, frontier.rows(), strict=True):
        verdict = None if point.audit is None else point.verdict(max_leakage).value
        judged = {"verdict": verdict, "picked": point is picked}
        picture = {"embedding": _picture(frontier, point, people, codes)}
        shown = {name: row[name] for name in SHOWN}
        points.append(shown | judged | picture | _details(frontier, point))
    return {
        "title": title,
        "lead": lead_with(frontier, picked, wanted),
        "summary": summarize(frontier, picked, wanted),
        "settings": dict(_settings(frontier)),
        "versions": _versions(frontier),
        "coverage": dict(_coverage(frontier)),
        "groups": groups,
        "measure": measure_of(frontier),
        "limit": limit_of(frontier),
        "limit_note": LIMIT_NOTE if len(frontier.limit) > 1 else "",
        "points": points,
        "max_leakage": max_leakage,
        "before": _before(frontier, people, codes),
    }


def _details(frontier: Frontier, point: Point) -> dict[str, Any]:
    return {
        "id": point.member.id,
        "status": point.fit.status.value,
        "iterations": point.fit.n_iter,
        "attackers": _attackers(point),
        **off_chance(point),
        "certificate": _certificate(point),
        "errors": _errors(frontier, point),
        "components": _components(frontier, point),
        "history": _history(point),
    }


def _attackers(point: Point) -> list[dict[str, Any]]:
    """Return one entry per attacker: its first score, and the score of its ranking."""
    if point.audit is None:
        return []
    own = [row for row in point.audit.rows if row.section == "attackers"]
    rankings = {(r.feature, r.model, r.input): r for r in own if r.measure in RANKINGS}
    entries = []
    for row in point.audit.attackers:
        ranking = rankings.get((row.feature, row.model, row.input))
        named = {"feature": row.feature, "model": row.model, "input": row.input}
        entries.append({**named, **_score(row), "ranking": ranking and _score(ranking)})
    return entries


def _score(row: Measure) -> dict[str, Any]:
    names = ("measure", "value", "low", "high", "chance")
    side = "above" if row.above_chance else "below" if row.below_chance else None
    return {**{name: getattr(row, name) for name in names}, "side": side}


def _certificate(point: Point) -> dict[str, Any] | None:
    """Return what is certified, and the exposures as a distribution over people."""
    found = point.certificate
    if found is None:
        return None
    names = ("column", "measure", "chance", "upper", "sentence")
    return {
        "statements": [
            {"letter": LETTERS[each.kind], **{name: getattr(each, name) for name in names}}
            for each in found.statements
        ],
        "exposures": [
            {**exposure.to_dict(), "sentence": describe(exposure)} for exposure in found.exposures
        ],
        "percentile": PERCENTILE,
        "notes": list(found.notes),
    }


def _errors(frontier: Frontier, point: Point) -> list[dict[str, Any]]:
    """Return the errors on held-out entries, for everybody and for each group."""
    if point.evaluation is None or frontier.baseline is None:
        return []
    return [
        {
            "feature": score.feature,
            "group": score.group,
            "entries": score.count,
            "rmse": score.value,
            "mae": point.evaluation.value("mae", score.group, feature=score.feature),
            "baseline": frontier.baseline.value("rmse", score.group, feature=score.feature),
        }
        for score in point.evaluation.scores
        if score.measure == "rmse"
    ]


def _coverage(frontier: Frontier) -> Iterable[tuple[str, str]]:
    """Yield how much of the data was observed."""
    found = frontier.coverage
    if found is None:
        return
    named = found.modes != default_modes(len(found.shape))
    people = found.modes[found.mode] if named else "person"
    sizes = zip(found.shape, found.modes, strict=True)
    yield "shape", " x ".join(f"{size:,} {name}" if named else f"{size:,}" for size, name in sizes)
    fitted = f"{found.observed:,} of {prod(found.shape):,} ({100 * found.share:.3g} %)"
    yield "fitted entries", fitted
    if found.held_out:
        yield "held-out entries", f"{found.held_out:,}"
    least, median, most = found.per_person
    yield f"fitted entries per {people}", f"{least:,} to {most:,}, median {median:,g}"
    empty = [f"{n:,} {name}" for n, name in zip(found.empty, found.modes, strict=True) if n]
    yield "without fitted entries", ", ".join(empty) or "none"
    if found.unknown:
        everybody = found.shape[found.mode]
        text = f"{found.unknown:,} of {everybody:,} {people}"
        yield "without sensitive features (not penalized, not audited)", text


def _groups(sensitive: SensitiveFeatures, people: Tensor) -> tuple[list[str], list[float | None]]:
    """Return the groups of the first feature and each person's group, or each person's number.

    A person without the feature has None.
    """
    column = sensitive.columns[0]
    values = column.values[people.numpy()]
    known = values >= 0 if column.categories else values == values
    pairs = zip(values.tolist(), known, strict=True)
    return list(column.categories), [value if there else None for value, there in pairs]


def _every(n: int, most: int) -> Tensor:
    """Return at most `most` of n indices, evenly spaced."""
    return torch.linspace(0, n - 1, min(n, most), dtype=torch.float64, device="cpu").round().long()


def _picture(
    frontier: Frontier, point: Point, people: Tensor, codes: list[float | None]
) -> dict[str, list[Any]]:
    """Return the two principal components of the standardized embedding."""
    plane = principal_plane(point.fit.cp.factors[_mode(frontier, point)].cpu())[people]
    return {"x": _rounded(plane[:, 0]), "y": _rounded(plane[:, 1]), "group": codes}


def _before(frontier: Frontier, people: Tensor, codes: list[float | None]) -> dict[str, Any]:
    """Return the picture to compare with: plain, or the fit with the smallest residual."""
    plain = [point for point in frontier.points if point.member.method == "none"]
    first = min(plain or frontier.points, key=lambda point: point.residual)
    title = "plain decomposition" if plain else f"smallest residual, {name_of(first)}"
    return {"title": title, **_picture(frontier, first, people, codes)}


def _components(frontier: Frontier, point: Point) -> list[dict[str, Any]]:
    """Return what to draw of each factor, and the labels of the largest loadings."""
    training = frontier.training.get(point.member.method)
    modes = training.modes if training else None
    labels = training.labels if training else None
    mode_of_people = _mode(frontier, point)
    found, factors = [], point.fit.cp.factors
    if training is not None and training.unfolding is not None:
        unfolding = training.unfolding
        modes, labels, mode_of_people = unfolding.modes, unfolding.labels, unfolding.mode
        factors = unfolding.tucker(point.fit.cp).factors
    for mode, factor in enumerate(factors):
        people, factor = mode == mode_of_people, factor.cpu()
        title = (modes[mode] if modes else f"mode {mode}") + (" (people)" if people else "")
        names = labels[mode] if labels else range(len(factor))
        # A report does not name people.
        largest = [] if people else [_largest(column, names) for column in factor.mT]
        drawing = _drawing(factor, names, people=people)
        shown = {"mode": title, "people": people, "size": len(factor), "largest": largest}
        found.append({**shown, **drawing})
    return found


def _drawing(factor: Tensor, names: Any, *, people: bool) -> dict[str, Any]:
    """Return the values to draw: by label if their order can be read, otherwise their range.

    Of a mode with many labels in no order, the page draws the largest. People are not named, and
    their values are sorted.
    """
    rows = _every(len(factor), MOST_ROWS)
    if people:
        ordered = factor.sort(0).values
        return {"drawn": "sorted", "labels": [], "values": [_rounded(c) for c in ordered[rows].mT]}
    if len(factor) > MOST_BARS and not _neighbors_are_alike(factor):
        ends = torch.stack([factor.amin(0), factor.amax(0)], 1)
        return {"drawn": "largest", "labels": [], "values": [_rounded(pair) for pair in ends]}
    return {
        "drawn": "bars" if len(factor) <= MOST_BARS else "line",
        "labels": [str(names[row]) for row in rows.tolist()],
        "values": [_rounded(column) for column in factor[rows].mT],
    }


def _neighbors_are_alike(factor: Tensor) -> bool:
    """Whether values of neighboring labels correlate, on average over the components."""
    columns = factor.double() - factor.double().mean(0)
    squares = columns.square().sum(0)
    products = (columns[1:] * columns[:-1]).sum(0)
    return bool((products / squares.clamp(min=1e-300)).mean() > ALIKE)


def _largest(column: Tensor, names: Any) -> list[list[Any]]:
    """Return labels and values of the loadings with the largest absolute values."""
    rows = column.abs().argsort(descending=True)[:MOST_NAMED]
    values = _rounded(column[rows])
    return [[str(names[row]), value] for row, value in zip(rows.tolist(), values, strict=True)]


def _history(point: Point) -> dict[str, list[Any]]:
    history = point.fit.history[: point.fit.n_iter + 1]  # without that of noise
    iterations = _every(len(history), MOST_ITERATIONS).tolist()
    return {
        "iteration": iterations,
        "objective": [history[i].objective for i in iterations],
        "residual": [history[i].residual for i in iterations],
    }


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def _mode(frontier: Frontier, point: Point) -> int:
    return int(frontier.settings[point.member.method]["mode"])


def _settings(frontier: Frontier) -> Iterable[tuple[str, str]]:
    """Yield each setting: once if all methods agree, otherwise once per method.

    Of the parameters of models, those that all methods share are one entry.
    """
    methods = frontier.methods
    every = [dict(frontier.settings[method]) for method in methods]
    params = [dict(settings.pop("params")) for settings in every]
    shared = {name for name in params[0] if all(p.get(name) == params[0][name] for p in params)}
    own = [{name: value for name, value in p.items() if name not in shared} for p in params]
    for method, different in zip(methods, own, strict=True):
        if different:
            yield f"model ({method})", _text(different)
    yield (
        "model" if len(methods) == 1 else "model (all methods)",
        _text({name: params[0][name] for name in params[0] if name in shared}),
    )
    for name in every[0]:
        values = [settings.get(name) for settings in every]
        if name in ("parafair", "torch", "method", "name"):
            continue
        if all(value == values[0] for value in values):
            yield name, _text(values[0])
        else:
            for method, value in zip(methods, values, strict=True):
                yield f"{name} ({method})", _text(value)
    seeds = sorted({point.member.seed for point in frontier.points})
    yield "seeds", ", ".join(map(str, seeds))


def _versions(frontier: Frontier) -> dict[str, str]:
    settings = frontier.settings[frontier.methods[0]]
    return {name: str(settings[name]) for name in ("parafair", "torch")}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        name = value.get("name", "")
        rest = ", ".join(f"{k}={_text(v)}" for k, v in value.items() if k != "name")
        return f"{name}({rest})" if name else rest
    if isinstance(value, (list, tuple)):
        return (
            " x ".join(map(str, value))
            if all(isinstance(v, int) for v in value)
            else ", ".join(map(str, value))
        )
    if isinstance(value, float) and not isnan(value):
        return f"{value:g}"
    return "none" if value is None else str(value)
