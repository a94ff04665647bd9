"""A frontier on disk: every finished fit is written atomically."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from parafair.arguments import as_path, classes_of
from parafair.audits import Audit
from parafair.audits.evaluation import Evaluation
from parafair.data.sensitive import SensitiveFeatures
from parafair.disk import check_writable
from parafair.encoders.files import ENCODER_ARRAYS_FILE, ENCODER_FILE
from parafair.encoders.result import load_fit
from parafair.errors import ParafairWarning
from parafair.frontiers.coverage import Coverage
from parafair.frontiers.point import Member, Point
from parafair.frontiers.result import Frontier, join
from parafair.guarantees.certificate import CERTIFICATE_FILE, Certificate
from parafair.model.record import current_versions
from parafair.model.training import Training
from parafair.solvers.result import FACTORS_FILE, FIT_FILE, Fit, Status
from parafair.storage import (
    check_new_folder,
    check_same_settings,
    new_folder,
)
from parafair.stored import is_stored, read_record, reading, write_record
from parafair.temporaries import MANIFEST_FILE, put_back

FORMAT = 5
# No file of another kind is ever deleted to make place for a frontier.
NOTHING: frozenset[str] = frozenset()
RUN_AGAIN = "run the frontier again in another folder"
SETTINGS_FILE, MEMBER_FILE = "frontier.json", "member.json"
AUDIT_FILE, EVALUATION_FILE = "audit.json", "evaluation.json"
# What the folder of a fit may hold.
MEMBER_FILES = frozenset(
    {
        MANIFEST_FILE,
        FIT_FILE,
        FACTORS_FILE,
        ENCODER_FILE,
        ENCODER_ARRAYS_FILE,
        MEMBER_FILE,
        AUDIT_FILE,
        EVALUATION_FILE,
        CERTIFICATE_FILE,
    }
)


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
        self.check()
        record = {
            "format": FORMAT,
            "settings": settings,
            "versions": current_versions(),
            "sensitive": found.sensitive.to_list(),
            "limit": [list(pair) for pair in found.limit],
            "coverage": found.coverage and found.coverage.to_dict(),
            "baseline": found.baseline and found.baseline.to_list(),
        }
        if not self.exists:
            try:
                with new_folder(self.path, ours=NOTHING) as target:
                    found.training[settings["name"]].write(target)
                    write_record(target / SETTINGS_FILE, record)
            except FileExistsError:
                if not self.exists:  # another process may have created the same frontier
                    raise
        there, now = self._settings(), {**settings, "versions": current_versions()}
        with reading(self.path / SETTINGS_FILE, RUN_AGAIN):
            before = {**there["settings"], "versions": there["versions"]}
        check_same_settings(self.path, before, now)

    @property
    def exists(self) -> bool:
        """Whether there is a frontier in the folder."""
        return (self.path / SETTINGS_FILE).is_file()

    def check(self) -> None:
        """Raise if the folder holds anything but a frontier; call it before any work is done."""
        if self.exists:
            put_back(self.path)
            check_writable(self.path)
        else:
            check_new_folder(self.path, overwrite=False, ours=NOTHING)

    @property
    def limit(self) -> tuple[tuple[float, float], ...]:
        """The limit, if an earlier run computed it."""
        if not self.exists:
            return ()
        with reading(self.path / SETTINGS_FILE, RUN_AGAIN):
            return _pairs(self._settings()["limit"])

    def _settings(self) -> dict[str, Any]:
        return read_record(self.path / SETTINGS_FILE, file_format=FORMAT)

    def write(self, member: Member, fit: Fit) -> None:
        """Write a fit, completely or not at all; an existing one is kept."""
        if self.read(member) is not None:
            return
        try:
            with new_folder(self.path / member.id) as target:
                _write(target, member, fit)
        except FileExistsError:
            if self.read(member) is None:  # another process may have written the same fit
                raise

    def replace(self, member: Member, fit: Fit) -> None:
        """Write another fit instead of the present one; its audit, errors and certificate go."""
        with new_folder(self.path / member.id, overwrite=True, ours=MEMBER_FILES) as target:
            _write(target, member, fit)

    def members(self) -> list[Member]:
        """Return the members with a fit."""
        found = []
        for folder in _folders_with(MEMBER_FILE, self.path):
            with suppress(ValueError, FileNotFoundError):  # a damaged one is computed again
                found.append(_read_member(folder))
        return found

    def strengths(self, seeds: Iterable[int]) -> list[float]:
        """Return the strengths at which there is a fit of every seed, in order."""
        members = self.members()
        found = [{m.strength for m in members if m.seed == seed} for seed in seeds]
        return sorted(s for s in set.intersection(*found) if s is not None)

    def write_audit(self, member: Member, audit: Audit) -> None:
        """Write the audit of a fit."""
        write_record(self.path / member.id / AUDIT_FILE, audit.to_dict())

    def write_evaluation(self, member: Member, evaluation: Evaluation) -> None:
        """Write the errors of a fit on held-out entries."""
        record = {"scores": evaluation.to_list()}
        write_record(self.path / member.id / EVALUATION_FILE, record)

    def write_certificate(self, member: Member, certificate: Certificate) -> None:
        """Write the certificate of a fit, without numbers of single people."""
        certificate.write(self.path / member.id / CERTIFICATE_FILE, overwrite=True)

    def read(self, member: Member) -> Point | None:
        """Return a member's fit, with what was computed for it; None without a fit.

        A fit that cannot be read, such as after a crash, is moved aside and computed again.
        """
        path = self.path / member.id
        if not path.is_dir():
            return None
        try:
            return _read_point(path)
        except (ValueError, FileNotFoundError) as error:
            aside = path.with_name(f".{path.name}-damaged-{uuid4().hex[:12]}")
            path.rename(aside)
            warnings.warn(
                f"{path} could not be read ({error}); renamed to {aside.name} and computed again",
                ParafairWarning,
                stacklevel=2,
            )
            return None


def _write(target: Path, member: Member, fit: Fit) -> None:
    fit.write(target)
    write_record(target / MEMBER_FILE, asdict(member))


def load(path: str | Path, *, classes: Iterable[type] = ()) -> Frontier:
    """Read the frontiers of all methods in a folder.

    Args:
        path: A folder that `frontier` or the command line wrote.
        classes: Your own classes of penalties and solvers; required to pick a model with one.
    """
    own, path = classes_of("classes", classes), as_path("path", path)
    if not path.is_dir():
        raise FileNotFoundError(
            f"path must be a folder that `parafair frontier` wrote, but {path} is no folder"
        )
    parts = method_folders(path)
    parts += [path] if Folder(path).exists else []
    found = [part for part in (_load_one(part, own) for part in parts) if len(part)]
    if not found:
        raise ValueError(
            f"path must be a folder that `parafair frontier` wrote, but {path} has no finished fit "
            "of a frontier"
        )
    with reading(" or ".join(map(str, parts)), RUN_AGAIN):
        return join(found)


def method_folders(path: Path) -> list[Path]:
    """Return the folders of the methods of a frontier."""
    return _folders_with(SETTINGS_FILE, path)


def _folders_with(file: str, path: Path) -> list[Path]:
    """Return the folders in `path` that hold a file; what is hidden was put aside."""
    folders = sorted(each for each in path.glob("*/") if not each.name.startswith("."))
    return [folder for folder in folders if is_stored(folder / file)]


def _load_one(path: Path, classes: tuple[type, ...]) -> Frontier:
    file = path / SETTINGS_FILE
    record = read_record(file, file_format=FORMAT)
    points = [_read_point(folder, classes) for folder in _folders_with(MEMBER_FILE, path)]
    training = Training.read(path, points[0].fit.cp.shape if points else None)
    for point in points:
        with reading(path / point.member.id / FACTORS_FILE, RUN_AGAIN):
            training.check(point.fit.cp.shape)
    points.sort(key=lambda p: p.member.order)
    with reading(file, RUN_AGAIN):
        for part in ("audits", "certificates"):
            if not isinstance(record["settings"][part], dict | None):
                raise ValueError(f"its {part} must be settings by name")
        _warn_unfinished(path, record["settings"], points)
        name = record["settings"]["name"]
        coverage, baseline = record["coverage"], record["baseline"]
        return Frontier(
            points=tuple(points),
            limit=_pairs(record["limit"]),
            sensitive=SensitiveFeatures.from_list(record["sensitive"]),
            settings={name: {**record["settings"], **record["versions"]}},
            training={name: training},
            coverage=coverage and Coverage.from_dict(coverage),
            baseline=baseline and Evaluation.from_list(baseline),
            classes=classes,
        )


def _warn_unfinished(path: Path, settings: Mapping[str, Any], points: Iterable[Point]) -> None:
    """Warn if fits lack the audits, errors or certificates that the frontier asks for."""
    sound = [point for point in points if point.fit.status is not Status.DIVERGED]
    wanted = {
        "certificate": settings["certificates"] is not None
        and sum(bool(p.member.noise) and p.certificate is None for p in sound),
        "audit": settings["audits"] is not None and sum(p.audit is None for p in sound),
        "errors of held-out entries": settings["test"] is not None
        and sum(p.evaluation is None for p in sound),
    }
    for what, missing in wanted.items():
        if missing:
            warnings.warn(
                f"{path} is not finished: {missing} of {len(sound)} fits have no {what}; run the "
                "same frontier again to complete it",
                ParafairWarning,
                stacklevel=4,
            )


def _read_member(path: Path) -> Member:
    file = path / MEMBER_FILE
    record = read_record(file)
    with reading(file, RUN_AGAIN):
        member = Member(**record)
        if member.id != path.name:
            raise ValueError(f"it is of another fit, {member.id}")
        return member


def _read_point(path: Path, classes: Iterable[type] = ()) -> Point:
    member = _read_member(path)
    audit = errors = None
    file = path / AUDIT_FILE
    if is_stored(file):
        with reading(file, RUN_AGAIN):
            audit = Audit.from_dict(read_record(file))
    file = path / EVALUATION_FILE
    if is_stored(file):
        with reading(file, RUN_AGAIN):
            errors = Evaluation.from_list(read_record(file)["scores"])
    file = path / CERTIFICATE_FILE
    certificate = Certificate.read(file) if is_stored(file) else None
    return Point(member, load_fit(path, classes=classes), audit, errors, certificate)


def _pairs(values: Iterable[Any]) -> tuple[tuple[float, float], ...]:
    return tuple((float(leakage), float(residual)) for leakage, residual in values)
