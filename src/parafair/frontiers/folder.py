"""A frontier on disk: every finished fit is written atomically."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from parafair.audits import Audit
from parafair.audits.evaluation import Evaluation
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import ParafairWarning
from parafair.frontiers.coverage import Coverage
from parafair.frontiers.result import Frontier, Member, Point, join
from parafair.model.record import current_versions
from parafair.model.training import Training
from parafair.solvers.result import Fit
from parafair.storage import check_same_settings, new_folder, read_json, write_json

FORMAT = 4
SETTINGS_FILE, MEMBER_FILE = "frontier.json", "member.json"
AUDIT_FILE, EVALUATION_FILE = "audit.json", "evaluation.json"


@dataclass(frozen=True)
class Folder:
    """One method's part of a frontier's folder."""

    path: Path

    def open(self, found: Frontier, settings: Mapping[str, Any]) -> None:
        """Create the folder, or check that it holds the same frontier.

        Args:
            found: The frontier before its first point.
            settings: The settings that affect the results; must be equal to those in the folder.
        """
        file = self.path / SETTINGS_FILE
        if file.exists():
            check_same_settings(self.path, read_json(file).get("settings", {}), settings)
            return
        self.path.mkdir(parents=True, exist_ok=True)
        found.training[settings["name"]].write(self.path)
        record = {
            "format": FORMAT,
            "settings": settings,
            "versions": current_versions(),
            "sensitive": found.sensitive.to_list(),
            "limit": [list(pair) for pair in found.limit],
            "coverage": found.coverage and found.coverage.to_dict(),
            "baseline": found.baseline and found.baseline.to_list(),
        }
        write_json(file, record)

    @property
    def limit(self) -> tuple[tuple[float, float], ...]:
        """The limit, if an earlier run computed it."""
        file = self.path / SETTINGS_FILE
        pairs = read_json(file).get("limit", []) if file.exists() else []
        return tuple((leakage, residual) for leakage, residual in pairs)

    def write(self, member: Member, fit: Fit) -> None:
        """Write a fit, completely or not at all; an existing one is kept."""
        if self.read(member) is not None:
            return
        with new_folder(self.path / member.id) as target:
            fit.write(target)
            record = {"method": member.method, "strength": member.strength, "seed": member.seed}
            write_json(target / MEMBER_FILE, record)

    def write_audit(self, member: Member, audit: Audit) -> None:
        """Write the audit of a fit."""
        write_json(self.path / member.id / AUDIT_FILE, audit.to_dict())

    def write_evaluation(self, member: Member, evaluation: Evaluation) -> None:
        """Write the errors of a fit on held-out entries."""
        record = {"scores": evaluation.to_list()}
        write_json(self.path / member.id / EVALUATION_FILE, record)

    def read(self, member: Member) -> Point | None:
        """Return a member's fit, with its audit and errors if they exist; None without a fit.

        A fit that cannot be read, such as after a crash, is moved aside and computed again.
        """
        path = self.path / member.id
        if not path.is_dir():
            return None
        try:
            return _read_point(path)
        except (ValueError, OSError) as error:
            aside = path.with_name(f".{path.name}-{uuid4().hex}")
            path.rename(aside)
            warnings.warn(
                f"{path} could not be read ({error}); renamed to {aside.name} and computed again",
                ParafairWarning,
                stacklevel=2,
            )
            return None


def load(path: str | Path, *, penalties: Iterable[type] = ()) -> Frontier:
    """Read the frontiers of all methods in a folder.

    Args:
        path: A folder that `frontier` or the command line wrote.
        penalties: Classes of your own penalties; required to pick a model that uses one.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; pass one that `parafair frontier` wrote")
    parts = sorted(file.parent for file in path.glob(f"*/{SETTINGS_FILE}"))
    parts += [path] if (path / SETTINGS_FILE).is_file() else []
    own = tuple(penalties)
    found = [part for part in (_load_one(part, own) for part in parts) if len(part)]
    if not found:
        raise ValueError(f"{path} has no finished fit of a frontier; run `parafair frontier`")
    return join(found)


def _load_one(path: Path, penalties: tuple[type, ...]) -> Frontier:
    record = read_json(path / SETTINGS_FILE)
    if record.get("format") != FORMAT:
        raise ValueError(
            f"{path / SETTINGS_FILE} has format {record.get('format')!r}, but this version of "
            f"parafair reads format {FORMAT}; run the frontier again"
        )
    points = [_read_point(file.parent) for file in sorted(path.glob(f"*/{MEMBER_FILE}"))]
    points.sort(key=lambda p: (p.member.strength or 0.0, p.member.seed))
    name = record["settings"]["name"]
    coverage, baseline = record.get("coverage"), record.get("baseline")
    return Frontier(
        points=tuple(points),
        limit=tuple((leakage, residual) for leakage, residual in record["limit"]),
        sensitive=SensitiveFeatures.from_list(record["sensitive"]),
        settings={name: {**record["settings"], **record["versions"]}},
        training={name: Training.read(path)},
        coverage=coverage and Coverage.from_dict(coverage),
        baseline=baseline and Evaluation.from_list(baseline),
        penalties=penalties,
    )


def _read_point(path: Path) -> Point:
    record = read_json(path / MEMBER_FILE)
    member = Member(record["method"], record["strength"], record["seed"])
    file = path / AUDIT_FILE
    audit = Audit.from_dict(read_json(file)) if file.exists() else None
    file = path / EVALUATION_FILE
    errors = Evaluation.from_list(read_json(file)["scores"]) if file.exists() else None
    return Point(member, Fit.load(path), audit, errors)
