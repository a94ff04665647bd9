"""Paths of files and folders to read and to write, as arguments."""

from __future__ import annotations

from tests.campaign.values import choice

FOLDERS = choice(
    ("FOLDER / 'model'", "str(FOLDER / 'model')"),
    ("FOLDER / 'damaged'", "FOLDER / 'nothing'", "FOLDER / 'curve'", "FOLDER / 'scores.csv'",
     "FOLDER", "FOLDER / 'empty'", "'\\x00'", "'x' * 5000", "'/dev/null'",
     "FOLDER / 'curve' / 'fits'", "'~/model'"),
)  # fmt: skip
OUTS = choice(
    ("FOLDER / 'out'", "str(FOLDER / 'out' / 'deep' / 'er')"),
    ("FOLDER / 'model'", "FOLDER / 'scores.csv'", "FOLDER / 'scores.csv' / 'x'", "FOLDER",
     "'/proc/x'", "FOLDER / ('x' * 300)", "FOLDER / 'out\\x00'", "'/dev/null/x'", "'~'"),
)  # fmt: skip
PAGES = choice(
    ("FOLDER / 'out' / 'page.html'",),
    ("FOLDER / 'out' / 'page'", "FOLDER / 'out' / 'page.pdf'", "FOLDER", "FOLDER / 'scores.csv'",
     "'/proc/x.html'", "FOLDER / 'out' / 'x.html' / 'y.html'"),
)  # fmt: skip
AUDIT_FILES = choice(
    ("FOLDER / 'audit.json'", "str(FOLDER / 'audit.json')"),
    ("FOLDER / 'damaged' / 'model.json'", "FOLDER / 'nothing'", "FOLDER / 'scores.csv'", "FOLDER",
     "FOLDER / 'model' / 'model.json'", "'\\x00'", "'x' * 5000", "'/dev/null'"),
)  # fmt: skip
OUT_FILES = choice(
    ("FOLDER / 'new.json'", "str(FOLDER / 'new.json')"),
    ("FOLDER / 'audit.json'", "FOLDER / 'scores.csv' / 'x'", "FOLDER", "'/proc/x'",
     "FOLDER / ('x' * 300)", "FOLDER / 'a\\x00'", "'/dev/null/x'", "FOLDER / 'no' / 'x.json'"),
)  # fmt: skip
