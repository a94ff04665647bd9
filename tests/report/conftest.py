import shutil

import numpy as np
import pytest

from parafair.report import render

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

METHODS = {"invariant": 0.0, "khsic": 0.06, "hsic": 0.1, "fatr": 0.16}
STRENGTHS = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0]


def example(*, people=200, shape=(200, 100, 100), rank=8, numeric=False, seed=0):
    """A frontier as a study would give it: four methods, forty points, and one that failed."""
    generator = np.random.default_rng(seed)
    group = generator.uniform(20, 70, people) if numeric else generator.integers(0, 2, people)
    apart = (group - group.mean()) / group.std()
    points = [
        make_point(generator, method, strength, step, floor, apart, group, shape, rank)
        for method, floor in METHODS.items()
        for step, strength in enumerate(STRENGTHS)
    ]
    for point in points:
        point["efficient"] = not any(
            p["residual"] < point["residual"] and p["leakage"] < point["leakage"] for p in points
        )
    points[7]["picked"] = points[7]["efficient"] = True
    failed = {**points[-1], "id": "fatr-failed", "strength": 1e4, "residual": float("nan")}
    failed |= {"leakage": None, "low": None, "high": None, "p_value": None, "efficient": False}
    failed |= {"status": "the objective became infinite or undefined", "attackers": []}
    failed |= {"verdict": None, "above": None, "below": None}
    points.append(failed)
    leakage = np.linspace(0, 0.45, 19)
    bound = 0.3 + 0.22 * (1 - leakage / 0.45) ** 2
    return {
        "title": "What parity costs: movie ratings by gender",
        "lead": "Four methods were run at ten strengths each on the ratings of 200 people.",
        "summary": {
            "Cost": "The picked fit has a residual of 0.50.",
            "Evidence": "Every fit was attacked by five kinds of models that try to tell people's "
            "gender. The leakage of the picked fit cannot be told from zero.",
            "About these numbers": "They are made up.",
        },
        "settings": {"rank": "8", "mode": "people", "seeds": "0", "tensor": "200 x 100 x 100"},
        "versions": {"parafair": "0.1.0", "torch": "2.13.0", "Python": "3.11.7"},
        "coverage": {"entries": "200 x 100 x 100", "fitted": "1,000,000 of 2,000,000 (50 %)"},
        "groups": [] if numeric else ["women", "men"],
        "limit": {"residual": bound.tolist(), "leakage": leakage.tolist()},
        "limit_note": "The limit is about these people: attackers that are tested on people they "
        "have not seen may miss a difference, so a point can lie left of it.",
        "points": points,
        "max_leakage": 0.05,
        "before": {"title": "plain fit", **make_embedding(generator, apart, group, 2.0)},
    }


def make_point(generator, method, strength, step, floor, apart, group, shape, rank):
    share = step / (len(STRENGTHS) - 1)
    leakage = max(0.0, 0.42 * (1 - share) ** 1.5 + floor * share + 0.015 * generator.normal())
    residual = 0.38 + 0.16 * share**1.4 + 0.2 * floor * share + 0.008 * generator.normal()
    modes = zip(("people", "movies", "weeks"), shape, strict=True)
    iterations = 40 + 15 * step
    decay = np.exp(-np.arange(iterations) / 12)
    return {
        "id": f"{method}-{step}",
        "method": method,
        "strength": strength,
        "seed": 0,
        "residual": residual,
        "leakage": leakage,
        "low": max(0.0, leakage - 0.03),
        "high": leakage + 0.03,
        "p_value": float(np.exp(-60 * leakage)),
        "criterion": 0.001 + 0.05 * leakage,
        "null": 0.0012,
        "status": "the objective stopped decreasing",
        "rmse": 1.0 + residual,
        "mae": 0.8 + residual,
        "rmse_gap": 0.1,
        "ks": 0.2,
        "errors": make_errors(residual),
        "iterations": iterations,
        "seconds": 0.05 * iterations,
        "verdict": "passes" if leakage <= 0.05 else "leaks",
        "efficient": False,
        "picked": False,
        "attackers": make_attackers(generator, leakage),
        "above": None,
        "below": None,
        "embedding": make_embedding(generator, apart, group, 5 * leakage),
        "components": [make_mode(generator, name, size, rank) for name, size in modes],
        "history": {
            "iteration": list(range(iterations)),
            "objective": (0.12 + 40 * decay**2).tolist(),
            "residual": (residual + 0.5 * decay).tolist(),
        },
    }


def make_attackers(generator, leakage):
    rows = []
    for model in ("linear", "svm", "forest", "boosting", "neighbors"):
        for form in ("standardized", "whitened"):
            value = 0.5 + leakage * generator.uniform(0.5, 1) + 0.01 * generator.normal()
            row = {"feature": "gender", "model": model, "input": form, "value": value}
            row |= {"measure": "balanced accuracy", "chance": 0.5, "side": None}
            ranking = {"measure": "AUC", "value": value + 0.1, "chance": 0.5, "side": None}
            ranking |= {"low": None, "high": None}
            rows.append(row | {"low": value - 0.04, "high": value + 0.04, "ranking": ranking})
    return rows


def make_errors(residual):
    groups = {("", "all"): 500, ("gender", "women"): 300, ("gender", "men"): 200}
    return [
        {"feature": feature, "group": group, "entries": count, "rmse": 1 + residual + count / 1e4}
        | {"mae": 0.8 + residual, "baseline": 2.0}
        for (feature, group), count in groups.items()
    ]


def make_embedding(generator, apart, group, distance):
    x = generator.normal(size=len(apart)) + 0.7 * distance * apart
    y = 0.8 * generator.normal(size=len(apart)) + 0.2 * distance * apart
    return {"x": x.tolist(), "y": y.tolist(), "group": group.tolist()}


def make_mode(generator, name, size, rank):
    steps = generator.normal(size=(rank, size)) + 0.3
    values = steps if size < 20 else np.cumsum(steps - 0.3, axis=1) / np.sqrt(size)
    return {
        "mode": name,
        "people": name == "people",
        "drawn": "bars" if size <= 40 else "line",
        "size": 5 * size,
        "largest": [[[f"{name} {i}", values.max()] for i in range(5)]] * rank,
        "labels": [f"{name} {i + 1}" for i in range(size)],
        "values": values.tolist(),
    }


def put_off_chance(point, *, above=None, below=None):
    """Let one attacker of a point be significantly above chance, and another below."""
    point |= {"above": above, "below": below}
    first, second = point["attackers"][:2]
    for row, side, distance in ((first, "above", above), (second, "below", below)):
        if distance is not None:
            value = 0.5 + distance if side == "above" else 0.5 - distance
            row |= {"side": side, "value": value, "low": value - 0.01, "high": value + 0.01}
            row["ranking"] |= {"value": value, "side": side}


def certify_point(point, *, column="gender", bound=0.3):
    """Give a point a certificate, as that of a fit with noise."""
    statements = [
        {"letter": letter, "column": column, "measure": "balanced accuracy", "chance": 0.5}
        | {"upper": upper, "sentence": f"No attacker knows {column} ({letter})."}
        for letter, upper in (("F", bound), ("C", bound + 0.1))
    ]
    exposures = [
        {"column": column, "threat": threat, "chance": 0.5, "largest": 0.9871, "percentile": 0.75}
        | {"advantage": None, "by_chance": None, "counts": [10, 20, 9, 1]}
        | {"sentence": f"How sure ({threat}) is about {column}."}
        for threat in "ba"
    ]
    point |= {"noise": 0.5, "certified_release": bound, "certified_matrix": bound + 0.1}
    point |= {"exposure_b": 0.9871, "exposure_a": 0.9871, "vote": 0.41}
    point["certificate"] = {"statements": statements, "exposures": exposures}
    point["certificate"] |= {"percentile": 95, "notes": ["A note."]}


@pytest.fixture(scope="session")
def frontier():
    return example(people=40, shape=(40, 8, 30), rank=3)


@pytest.fixture(scope="module")
def browser():
    """A real browser; tests are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser found, looked for {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as control:
        # Without a sandbox it also runs in containers; the page is our own.
        started = control.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open a report; at the end nothing may have gone wrong and nothing been requested."""
    contexts, troubles = [], []

    def open_page(data, **settings):
        (tmp_path / "report.html").write_text(render(data), encoding="utf-8")
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)  # milliseconds
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        address = (tmp_path / "report.html").as_uri()
        page.on("request", lambda r: r.url.split("#")[0] == address or troubles.append(r.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles
