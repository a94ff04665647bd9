import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings

import pytest
import torch

from parafair import FairCP, ParafairWarning, SensitiveFeatures, TensorData, frontier, temporaries
from parafair.frontiers import load
from parafair.frontiers.folder import Folder
from tests.frontiers.conftest import GROUPS, MATRIX, small
from tests.test_stored import changed_bytes

BRIEF = {"max_iter": 3, "tol": 0, "n_init": 1}

SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.frontiers.conftest import small
small(out={out!r}, strengths=(0.01, 0.1, 1.0, 10.0), seeds=2)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Frontiers of one and of two strengths on disk, by their number; tests work on copies."""
    found = {}
    for strengths in [(0.1,), (0.1, 10.0)]:
        folder = tmp_path_factory.mktemp("written")
        found[len(strengths)] = (small(out=folder, strengths=strengths), folder)
    return found


def copied(written, count, target):
    """Return a frontier whose folder is copied to `target`."""
    found, folder = written[count]
    shutil.copytree(folder, target, dirs_exist_ok=True)
    return found


@pytest.fixture
def one(written, tmp_path):
    return copied(written, 1, tmp_path)


@pytest.fixture
def two(written, tmp_path):
    return copied(written, 2, tmp_path)


def test_a_folder_holds_the_frontier(tmp_path, curve):
    written = small(out=tmp_path / "run", seeds=2)
    read = load(tmp_path / "run")
    assert read.to_frame().equals(written.to_frame())
    assert read.methods == ("invariant",)
    assert [c.name for c in read.sensitive.columns] == [c.name for c in curve.sensitive.columns]
    model = read.pick(max_leakage=0.4)
    assert model.embedding_.shape == (60, 3)


def test_finished_fits_are_not_computed_again(tmp_path, monkeypatch, two):
    from parafair.frontiers import run

    def refuse(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(run, "_fit_batch", refuse)
    monkeypatch.setattr(run, "_audit_rows", refuse)
    assert len(small(out=tmp_path)) == 2


def test_more_strengths_may_be_added(tmp_path, one):
    assert len(small(out=tmp_path, strengths=(0.1, 1.0))) == 2
    assert len(load(tmp_path)) == 2


@pytest.mark.parametrize(
    "change", [{"rank": 2}, {"model": {"max_iter": 7}}, {"model": {"tol": 1e-4}}]
)
def test_other_settings_are_refused(tmp_path, one, change):
    name = next(iter(change.get("model", change)))
    with pytest.raises(ValueError, match=f"holds results with other settings .*{name}"):
        small(out=tmp_path, strengths=(0.1,), **change)
    assert len(load(tmp_path)) == 1


def test_a_damaged_fit_is_made_again(tmp_path, two):
    broken = tmp_path / "invariant" / two.points[0].member.id / "factors.safetensors"
    broken.write_bytes(broken.read_bytes()[:20])
    with pytest.warns(ParafairWarning, match="could not be read .* and computed again"):
        again = small(out=tmp_path)
    # A batch of one rounds differently from a batch of two.
    assert again.points[0].residual == pytest.approx(two.points[0].residual, rel=1e-3)
    read = load(tmp_path)
    assert read.to_frame().equals(again.to_frame())
    assert read.pick(max_leakage=1.0).embedding_.shape == (60, 3)


def test_other_features_are_refused(tmp_path):
    numbers = [i % 4 for i in range(60)]
    settings = {"strengths": (1.0,), "limit": False, "audits": None, "out": tmp_path}
    first, second = (SensitiveFeatures.of(numbers, kinds=k) for k in ("categorical", "numeric"))
    frontier(FairCP(2, **BRIEF), MATRIX, sensitive_features=first, **settings)
    with pytest.raises(ValueError, match=r"holds results with other settings \(data: "):
        frontier(FairCP(2, **BRIEF), MATRIX, sensitive_features=second, **settings)


def test_other_people_are_refused(tmp_path):
    settings = {"strengths": (1.0,), "limit": False, "audits": None, "out": tmp_path}
    settings["sensitive_features"] = GROUPS
    for_names = [[f"{letter}{i}" for i in range(60)] for letter in "pq"]
    first, second = (TensorData.from_array(MATRIX, labels=(names, None)) for names in for_names)
    frontier(FairCP(2, **BRIEF), first, **settings)
    with pytest.raises(ValueError, match=r"holds results with other settings \(data: "):
        frontier(FairCP(2, **BRIEF), second, **settings)


def test_fits_of_another_version_are_not_mixed_with_new_ones(tmp_path, monkeypatch, one):
    versions = {"parafair": "99.0", "torch": torch.__version__}
    monkeypatch.setattr("parafair.frontiers.folder.current_versions", lambda: versions)
    with pytest.raises(ValueError, match=r"other settings \(versions parafair: .* '99.0' now\)"):
        small(out=tmp_path, strengths=(0.1, 1.0))


def test_a_fit_that_cannot_be_opened_stays_where_it_is(tmp_path, monkeypatch, one):
    (point,) = one.points

    def refuse(folder):
        raise PermissionError("this fit is not yours")

    monkeypatch.setattr("parafair.frontiers.folder.Fit.load", refuse)
    with pytest.raises(PermissionError, match="this fit is not yours"):
        small(out=tmp_path, strengths=(0.1,))
    assert (tmp_path / "invariant" / point.member.id).is_dir()


@pytest.mark.parametrize("name", ["fit.json", "factors.safetensors", "member.json", "audit.json"])
def test_no_changed_byte_of_a_fit_is_read(tmp_path, one, name):
    path = tmp_path / "invariant" / one.points[0].member.id / name
    for data in (*changed_bytes(path), b"{}", b"[" * 100_000):
        path.write_bytes(data)
        with pytest.raises(
            ValueError,
            match=rf"{name} (is damaged|does not match|is not readable|has format|must be)",
        ):
            load(tmp_path)
    with pytest.warns(ParafairWarning, match="could not be read .* and computed again"):
        small(out=tmp_path, strengths=(0.1,))
    assert load(tmp_path).points[0].residual == pytest.approx(one.points[0].residual)


@pytest.mark.parametrize("name", ["frontier.json", "training.json", "manifest.json"])
def test_no_changed_byte_of_the_settings_is_read(tmp_path, one, name):
    path = tmp_path / "invariant" / name
    for data in (*changed_bytes(path), b"{}"):
        path.write_bytes(data)
        with pytest.raises(
            ValueError, match=rf"{name} (is damaged|does not match|is not readable|has format)"
        ):
            load(tmp_path)


def test_what_killed_processes_left_behind_is_removed(tmp_path, one):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    end = f"{temporaries._host()}-{process.pid}-0123456789ab"
    # Of the frontier, of the fit that it has, and of one that nobody asks for again.
    for name in (
        f".invariant-{end}",
        f"invariant/.invariant-0-{end}.1-seed0",
        f"invariant/.x-{end}",
    ):
        (tmp_path / name / "content").mkdir(parents=True)
    again = small(out=tmp_path, strengths=(0.1,))
    assert again.to_frame().equals(one.to_frame())
    assert not list(tmp_path.rglob(".*"))


def test_an_audit_of_another_fit_is_refused(tmp_path, two):
    first, second = (tmp_path / "invariant" / point.member.id for point in two.points)
    (first / "audit.json").write_bytes((second / "audit.json").read_bytes())
    with pytest.raises(ValueError, match="audit.json does not match its checksum in"):
        load(tmp_path)


def test_what_a_frontier_lacks_is_told(tmp_path, two):
    folder = tmp_path / "invariant" / two.points[0].member.id
    (folder / "audit.json").unlink()
    with pytest.warns(ParafairWarning, match="invariant is not finished: 1 of 2 fits have no audi"):
        assert len(load(tmp_path).audited) == 1
    small(out=tmp_path)
    (folder / "certificate.json").unlink()
    with pytest.warns(ParafairWarning, match="not finished: 1 of 2 fits have no certificate; run"):
        load(tmp_path)
    small(out=tmp_path)
    assert len(load(tmp_path).audited) == 2
    (folder / "member.json").unlink()
    with pytest.raises(FileNotFoundError, match="member.json is missing; fit again"):
        load(tmp_path)


def test_a_fit_under_the_name_of_another_is_refused(tmp_path, one):
    (point,) = one.points
    folder = tmp_path / "invariant" / point.member.id
    folder.rename(folder.with_name("invariant-0.2-seed0"))
    with pytest.raises(ValueError, match=f"it is of another fit, {point.member.id}"):
        load(tmp_path)


def test_a_folder_of_an_earlier_version_is_refused(tmp_path, one):
    """It has rows without noise; it is neither read nor continued, and stays as it is."""
    path = tmp_path / "invariant" / "frontier.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 4}))
    kept = sorted(path.parent.iterdir())
    for use in (lambda: load(tmp_path), lambda: small(out=tmp_path)):
        with pytest.raises(ValueError, match=r"frontier.json has format 4, but .*; fit again, or"):
            use()
    assert sorted(path.parent.iterdir()) == kept


def test_two_processes_may_write_the_same_fit(tmp_path, monkeypatch, one):
    (point,) = one.points
    folder = Folder(tmp_path / "invariant")
    read, seen = Folder.read, []

    def late(self, member):
        seen.append(member)
        return None if len(seen) == 1 else read(self, member)  # the other was faster since

    monkeypatch.setattr(Folder, "read", late)
    folder.write(point.member, point.fit)
    assert len(seen) == 2
    assert len(load(tmp_path)) == 1


def test_folders_of_other_kinds_are_refused_before_the_work(tmp_path):
    (tmp_path / "invariant").mkdir()
    (tmp_path / "invariant" / "model.json").write_text("precious")
    with pytest.raises(FileExistsError, match="invariant already holds files; choose another"):
        small(out=tmp_path)
    assert [path.name for path in (tmp_path / "invariant").iterdir()] == ["model.json"]


@pytest.mark.slow  # kills at single file operations are in test_campaign_damage.py
@pytest.mark.parametrize("wait_for", [1, 3, 6, 8])
def test_killed_and_resumed_equals_uninterrupted(tmp_path, wait_for):
    root = os.fspath(__import__("pathlib").Path(__file__).parents[2])
    out = tmp_path / "run"
    script = SCRIPT.format(root=root, out=os.fspath(out))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    members = out / "invariant"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if members.is_dir() and len(list(members.glob("*/member.json"))) >= wait_for:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path.parent.name for path in members.glob("*/member.json")}
    assert kept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParafairWarning)  # it is not finished
        before = {point.member.id: point.residual for point in load(out).points}
    resumed = small(out=out, strengths=(0.01, 0.1, 1.0, 10.0), seeds=2)
    assert len(resumed) == 8
    # What was finished is kept as it was.
    after = {point.member.id: point.residual for point in resumed.points}
    assert {name: after[name] for name in before} == before
    whole = small(strengths=(0.01, 0.1, 1.0, 10.0), seeds=2)
    expected = {point.member.id: point.residual for point in whole.points}
    assert after == pytest.approx(expected, rel=1e-3)
    assert any(point.fit.noise for point in resumed.points)
    assert all(point.fit.noiseless is None for point in load(out).points)
    assert not list(members.glob(".*"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: None, "path must be a folder that `parafair frontier` wrote"),
        (lambda path: path.mkdir(), "has no finished fit of a frontier"),
    ],
)
def test_what_is_no_frontier_says_so(tmp_path, damage, message):
    damage(tmp_path / "run")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load(tmp_path / "run")
