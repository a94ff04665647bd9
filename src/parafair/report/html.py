"""The report as one HTML page that opens from a file and needs no network."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from parafair.records import plain

PARTS = (
    "title",
    "lead",
    "summary",
    "settings",
    "versions",
    "coverage",
    "groups",
    "limit",
    "limit_note",
    "points",
    "max_leakage",
    "before",
)

# In the order in which they are joined; the last one draws the page.
SCRIPTS = (
    "drawing.js",
    "plot.js",
    "tables.js",
    "pictures.js",
    "guarantees.js",
    "cost.js",
    "page.js",
)

# Characters of a value that fit on one line.
ONE_LINE = 40

# Characters that could end a script element or begin markup, and their JSON escapes.
ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def render(data: Mapping[str, Any]) -> str:
    """Return the page that shows a frontier, complete with its style, script and data.

    The page has a plot of residual, or held-out error, against leakage, a panel for the selected
    fit, a table of methods and a table of all fits. Undefined numbers (NaN or infinite) are shown
    as a dash.

    Args:
        data: Plain values, as from JSON, under these names:

            - ``title``: the heading; ``lead``: what matters most, in one sentence; ``summary``:
              headings and their paragraphs.
            - ``settings``, ``versions``, ``coverage``: names and values as text.
            - ``groups``: names of the groups; empty if the sensitive feature is a number.
            - ``measure``: None for the relative residual, or what else ``residual`` is; may be left
              out.
            - ``limit``: None, or the curve of the limit as ``residual`` and ``leakage``.
              ``limit_note`` is shown below the plot.
            - ``points``: one entry per fit, with ``id``, ``method``, ``strength``, ``noise``,
              ``seed``, ``residual``, ``leakage`` and its interval ``low`` to ``high``,
              ``p_value``, ``criterion``, ``null``, ``status``, ``verdict``, ``iterations``,
              ``seconds``, ``efficient``, ``picked``, ``attackers``, ``embedding``, ``components``
              and ``history``; ``above`` and ``below``, how far attackers are significantly above
              and below chance, or None; with held-out entries also ``rmse``, ``mae``, ``rmse_gap``,
              ``ks`` of the predictions and ``errors`` of each group; with noise also
              ``certificate`` (its ``statements``, ``exposures``, ``percentile`` and ``notes``) and
              the columns of the certificate.
            - ``max_leakage``: the largest leakage that passes.
            - ``before``: None, or an embedding to compare with, and its ``title``.

    Returns:
        The text of the page, to be written as UTF-8.

    >>> data = {"title": "A < B", "lead": "", "summary": {}, "settings": {}, "versions": {}}
    >>> data |= {"coverage": {}, "groups": [], "limit": None, "limit_note": "", "before": None}
    >>> point = {"id": "a", "method": "khsic", "residual": 0.5, "leakage": float("nan")}
    >>> page = render({**data, "points": [point], "max_leakage": 0.05})
    >>> "<title>A &lt; B</title>" in page
    True
    """
    _check(data)
    style, script = _part("page.css"), _script()
    return Template(_part("page.html")).substitute(
        title=escape(str(data["title"])),
        lead=escape(str(data["lead"])),
        summary=_headed(data["summary"]),
        limit_note=escape(str(data["limit_note"])),
        settings=_listing(data["settings"]),
        versions=_listing(data["versions"]),
        coverage=_listing(data["coverage"]),
        without_coverage="" if data["coverage"] else "hidden",
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_embed(data),
    )


def _part(name: str) -> str:
    return (files("parafair.report") / "page" / name).read_text(encoding="utf-8")


def _script() -> str:
    """Return the script of the page, whose names are not those of the window."""
    return '"use strict";\n(() => {\n' + "\n".join(map(_part, SCRIPTS)) + "\n})();\n"


def _hash(text: str) -> str:
    """Return the source that a content security policy allows: this text and no other."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _check(data: Mapping[str, Any]) -> None:
    missing = [name for name in PARTS if name not in data]
    if missing:
        raise ValueError(
            f"data lacks {', '.join(map(repr, missing))}; a report needs {', '.join(PARTS)}"
        )
    if not data["points"]:
        raise ValueError(
            "data['points'] is empty, so there is nothing to report; add at least one fit, "
            "diverged fits included"
        )


def _embed(data: Mapping[str, Any]) -> str:
    """Return the data as JSON that is safe inside a script element."""
    text = json.dumps(plain(data), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.translate(ESCAPES)


def _headed(texts: Mapping[str, str]) -> str:
    """Return headings with a paragraph each."""
    return "\n".join(
        f"<section><h2>{escape(str(heading))}</h2><p>{escape(str(words))}</p></section>"
        for heading, words in texts.items()
    )


def _listing(entries: Mapping[str, Any]) -> str:
    """Return names and values as the rows of a table; values of several lines begin on the left."""
    return "\n".join(
        f'<tr><th scope="row">{escape(str(name))}</th>'
        f"<td{' class=long' if len(str(value)) > ONE_LINE else ''}>{escape(str(value))}</td></tr>"
        for name, value in entries.items()
    )
