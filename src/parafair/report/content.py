"""What a report says: plain values from a frontier, and sentences about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan, prod
from typing import Any

import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Standardized
from parafair.frontiers import Frontier, Point
from parafair.solvers.result import Status

# People drawn in a picture, rows of a factor, and rounds of a history: more cannot be seen.
MOST_PEOPLE, MOST_ROWS, MOST_ROUNDS = 1000, 300, 200
# Labels named for each component.
MOST_NAMED = 5

LIMIT_NOTE = (
    "No model of any kind lies left of the limit if its groups differ by no more than the leakage "
    "says. Points left of it are there because attackers, tested on people they have not seen, "
    "are weaker than the best possible one, or because there are few people."
)


def content(frontier: Frontier, *, title: str, leakage: float = 0.05) -> dict[str, Any]:
    """Return all that a page shows.

    Args:
        frontier: What was found.
        title: The heading.
        leakage: The most leakage of the point that is shown first.
    """
    picked = pick_point(frontier, leakage)
    people = _every(len(frontier.sensitive), MOST_PEOPLE)
    # In data sorted by group the last group would be drawn over all others.
    people = people[torch.randperm(len(people), generator=torch.Generator().manual_seed(0))]
    groups, codes = _groups(frontier.sensitive, people)
    plain = [point for point in frontier.points if point.member.method == "none"]
    first = min(plain or frontier.points, key=lambda point: point.residual)
    rows = frontier.rows()
    points = [
        {
            "id": point.member.id,
            **row,
            "status": point.fit.status.value,
            "picked": point is picked,
            "attackers": _attackers(point),
            "errors": _errors(frontier, point),
            "embedding": _picture(frontier, point, people, codes),
            "components": _components(frontier, point),
            "history": _history(point),
        }
        for point, row in zip(frontier.points, rows, strict=True)
    ]
    return {
        "title": title,
        "summary": list(sentences(frontier, picked, leakage)),
        "settings": dict(_settings(frontier)),
        "versions": _versions(frontier),
        "coverage": dict(_coverage(frontier)),
        "groups": groups,
        "limit": _limit(frontier),
        "limit_note": LIMIT_NOTE if len(frontier.limit) > 1 else "",
        "points": points,
        "level": leakage,
        "before": {
            "title": "plain decomposition" if plain else f"closest fit, {_name(first)}",
            **_picture(frontier, first, people, codes),
        },
    }


def pick_point(frontier: Frontier, leakage: float) -> Point | None:
    """Return the least costly point at this leakage, or the least leaking one."""
    if not frontier.audited:
        return None
    try:
        return frontier.best(max_leakage=leakage)
    except ValueError:
        return frontier.efficient[-1]


def sentences(frontier: Frontier, picked: Point | None, leakage: float) -> Iterable[str]:
    """Say in plain words what was and what was not achieved."""
    names = " and ".join(column.name for column in frontier.sensitive.columns)
    yield (
        f"{_count(len(frontier), 'fit')} of {', '.join(frontier.methods)}, to data of "
        f"{len(frontier.sensitive)} "
        f"people, whose embedding should not reveal {names}. Residual is the share of the data's "
        "norm that a model leaves unexplained; leakage is how far the strongest of several "
        "attackers gets above chance in guessing the feature."
    )
    if picked is None:
        yield "The fits were not audited, so nothing is known about what they reveal."
        return
    open_ = min(frontier.audited, key=lambda point: point.residual)
    yield (
        f"The closest fit leaves {open_.residual:.3f} unexplained, and an attacker is "
        f"{open_.leakage:.2f} above chance."
    )
    if picked.leakage <= leakage:
        yield (
            f"The least residual at a leakage of at most {leakage:g} is {picked.residual:.3f}: "
            f"{_name(picked)}, leakage {picked.leakage:.3f}."
        )
    else:
        yield (
            f"No fit has a leakage of at most {leakage:g}. The least is {picked.leakage:.3f}, at "
            f"residual {picked.residual:.3f}: {_name(picked)}."
        )
    if picked.audit is not None and picked.audit.below_chance:
        yield (
            "Some attackers of this fit are below chance: people are matched one by one across "
            "groups, which is a warning and not a success."
        )
    if picked.evaluation is not None and frontier.baseline is not None:
        yield (
            "Of entries that were held out this fit has a root mean squared error of "
            f"{picked.evaluation.value('rmse'):.3g}, the closest fit "
            f"{_rmse(open_)}, and a prediction that knows nothing about people "
            f"{frontier.baseline.value('rmse'):.3g}."
        )
    if frontier.limit:
        yield (
            f"Whatever the model, exact parity among these people costs a residual of at least "
            f"{frontier.limit[0][1]:.3f}."
        )
    failed = sum(point.fit.status is Status.DIVERGED for point in frontier.points)
    if failed:
        yield f"{_count(failed, 'fit')} diverged and say nothing; see the table."
    yield (
        "Attackers can show that an embedding reveals something, never that it reveals nothing: "
        "a stronger one may exist, and other people may differ from these."
    )


def _name(point: Point) -> str:
    strength = point.member.strength
    return point.member.method + ("" if strength is None else f" at strength {strength:.3g}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _limit(frontier: Frontier) -> dict[str, list[float]] | None:
    if len(frontier.limit) < 2:  # of exact parity only, which the sentences tell
        return None
    leakages, residuals = zip(*frontier.limit, strict=True)
    return {"leakage": list(leakages), "residual": list(residuals)}


def _attackers(point: Point) -> list[dict[str, Any]]:
    names = ("feature", "model", "input", "measure", "value", "low", "high", "chance")
    rows = point.audit.attackers if point.audit else ()
    return [{name: getattr(row, name) for name in names} for row in rows]


def _rmse(point: Point) -> str:
    return "an unknown one" if point.evaluation is None else f"{point.evaluation.value('rmse'):.3g}"


def _errors(frontier: Frontier, point: Point) -> list[dict[str, Any]]:
    """Return the errors of held-out entries, of everybody and of each group."""
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
    """Say how much of the data there was."""
    found = frontier.coverage
    if found is None:
        return
    people = found.modes[found.mode]
    sizes = zip(found.shape, found.modes, strict=True)
    yield "entries", " x ".join(f"{size:,} {name}" for size, name in sizes)
    yield "fitted", f"{found.observed:,} of {prod(found.shape):,} ({100 * found.share:.3g} %)"
    if found.held_out:
        yield "held out", f"{found.held_out:,}"
    least, median, most = found.per_person
    yield f"fitted entries of each {people}", f"{least:,} to {most:,}, median {median:,g}"
    empty = [f"{n:,} {name}" for n, name in zip(found.empty, found.modes, strict=True) if n]
    yield "without any entry", ", ".join(empty) or "none"
    if found.unknown:
        everybody = found.shape[found.mode]
        yield "not known, left out of the criterion", f"{found.unknown:,} of {everybody:,} {people}"


def _groups(sensitive: SensitiveFeatures, people: Tensor) -> tuple[list[str], list[float | None]]:
    """Return names of groups and everybody's group by the first feature, or their numbers.

    None stands for a person who is not known.
    """
    column = sensitive.columns[0]
    values = column.values[people.numpy()]
    known = values >= 0 if column.categories else values == values
    pairs = zip(values.tolist(), known, strict=True)
    return list(column.categories), [value if there else None for value, there in pairs]


def _every(n: int, most: int) -> Tensor:
    """Return at most this many of n indices, evenly spread."""
    return torch.arange(n) if n <= most else torch.linspace(0, n - 1, most).round().long()


def _picture(
    frontier: Frontier, point: Point, people: Tensor, codes: list[float | None]
) -> dict[str, list[Any]]:
    """Return the two principal components of the standardized embedding."""
    columns = Standardized.of(point.fit.cp.factors[_mode(frontier, point)].cpu()).columns
    left, singular, _ = torch.linalg.svd(columns, full_matrices=False)
    plane = (left * singular)[:, :2]
    plane = torch.nn.functional.pad(plane, (0, 2 - plane.shape[1]))[people]
    return {"x": _rounded(plane[:, 0]), "y": _rounded(plane[:, 1]), "group": codes}


def _components(frontier: Frontier, point: Point) -> list[dict[str, Any]]:
    """Return the factors as far as they can be seen, and the labels of the largest loadings."""
    training = frontier.training.get(point.member.method)
    modes = training.modes if training else None
    labels = training.labels if training else None
    mode_of_people = _mode(frontier, point)
    found = []
    for mode, factor in enumerate(point.fit.cp.factors):
        rows, factor = _every(len(factor), MOST_ROWS), factor.cpu()
        people = mode == mode_of_people
        title = (modes[mode] if modes else f"mode {mode}") + (" (people)" if people else "")
        names = labels[mode] if labels else range(len(factor))
        found.append(
            {
                "mode": title,
                "size": len(factor),
                "labels": [str(names[row]) for row in rows.tolist()],
                "values": [_rounded(column) for column in factor[rows].mT],
                # Whose loading is largest is nobody's business; which module's is.
                "largest": [] if people else [_largest(column, names) for column in factor.mT],
            }
        )
    return found


def _largest(column: Tensor, names: Any) -> list[list[Any]]:
    """Return label and value of the largest loadings of a component, either sign."""
    rows = column.abs().argsort(descending=True)[:MOST_NAMED]
    values = _rounded(column[rows])
    return [[str(names[row]), value] for row, value in zip(rows.tolist(), values, strict=True)]


def _history(point: Point) -> dict[str, list[Any]]:
    history = point.fit.history
    rounds = _every(len(history), MOST_ROUNDS).tolist()
    return {
        "round": rounds,
        "objective": [history[i].objective for i in rounds],
        "residual": [history[i].residual for i in rounds],
    }


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def _mode(frontier: Frontier, point: Point) -> int:
    return int(frontier.settings[point.member.method]["mode"])


def _settings(frontier: Frontier) -> Iterable[tuple[str, str]]:
    """Yield settings: once where all methods agree, otherwise one by one."""
    every = [dict(frontier.settings[method]) for method in frontier.methods]
    for name in every[0]:
        values = [settings.get(name) for settings in every]
        if name in ("parafair", "torch", "method"):
            continue
        if all(value == values[0] for value in values):
            yield name, _text(values[0])
        else:
            for method, value in zip(frontier.methods, values, strict=True):
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
