"""The report as one HTML page that opens from a file and asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from parafair.records import plain

PARTS = (
    "title",
    "summary",
    "settings",
    "versions",
    "coverage",
    "groups",
    "limit",
    "limit_note",
    "points",
    "level",
    "before",
)

# None of these can end a script element or begin markup; JSON reads them back unchanged.
ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def render(data: Mapping[str, Any]) -> str:
    """Return the page that shows a frontier, complete with its style, script and data.

    The page has a plot of residual against leakage in which points can be selected, a panel for
    the selected point, a comparison of methods and a table of all points. What is undefined (NaN
    or infinite) is shown as a dash.

    Args:
        data: Plain values, as from JSON, under these names:

            - ``title``, and ``summary``: paragraphs in plain words.
            - ``settings``, ``versions``, ``coverage``: names and values as text.
            - ``groups``: names of the groups; empty if the sensitive feature is a number.
            - ``limit``: None, or ``residual`` and ``leakage`` of a curve: a fit with that leakage
              has at least that residual. ``limit_note`` is shown below the plot.
            - ``points``: one entry per fit, with ``id``, ``method``, ``strength``, ``seed``,
              ``residual``, ``leakage`` and its interval ``low`` to ``high``, ``p_value``,
              ``criterion``, ``null``, ``status``, ``rounds``, ``seconds``, ``efficient``,
              ``picked``, ``attackers``, ``embedding``, ``components`` and ``history``; if entries
              were held out, ``rmse``, ``mae``, ``rmse_gap`` and ``errors`` of each group.
            - ``level``: the leakage at which methods are compared.
            - ``before``: None, or an embedding to compare with, and its ``title``.

    Returns:
        The text of the page, to be written as UTF-8.

    >>> data = {"title": "A < B", "summary": [], "settings": {}, "versions": {}, "groups": []}
    >>> data |= {"limit": None, "limit_note": "", "level": 0.05, "before": None, "coverage": {}}
    >>> point = {"id": "a", "method": "khsic", "residual": 0.5, "leakage": float("nan")}
    >>> page = render({**data, "points": [point]})
    >>> "<title>A &lt; B</title>" in page
    True
    """
    _check(data)
    folder = files("parafair.report")
    text = {
        name: (folder / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "page.js")
    }
    return Template(text["page.html"]).substitute(
        title=escape(str(data["title"])),
        summary="\n".join(f"<p>{escape(str(words))}</p>" for words in data["summary"]),
        limit_note=escape(str(data["limit_note"])),
        settings=_listing(data["settings"]),
        versions=_listing(data["versions"]),
        coverage=_listing(data["coverage"]),
        without_coverage="" if data["coverage"] else "hidden",
        style=text["page.css"],
        script=text["page.js"],
        data=_embed(data),
    )


def _check(data: Mapping[str, Any]) -> None:
    missing = [name for name in PARTS if name not in data]
    if missing:
        raise ValueError(
            f"data lacks {', '.join(map(repr, missing))}; a report needs {', '.join(PARTS)}"
        )
    if not data["points"]:
        raise ValueError(
            "data['points'] is empty, so there is nothing to report; run at least one fit and "
            "add it as a point, failed fits included"
        )


def _embed(data: Mapping[str, Any]) -> str:
    """Return the data as JSON that can stand inside a script element."""
    text = json.dumps(plain(data), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.translate(ESCAPES)


def _listing(entries: Mapping[str, Any]) -> str:
    """Return names and values as the rows of a table."""
    return "\n".join(
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(str(value))}</td></tr>'
        for name, value in entries.items()
    )
