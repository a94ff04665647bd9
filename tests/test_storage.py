import errno
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parafair import storage
from parafair.storage import (
    check_new_file,
    check_new_folder,
    check_same_settings,
    new_file,
    new_files,
    new_folder,
    read_json,
    read_tensor,
    write_json,
    write_text,
)


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    with (
        pytest.raises(RuntimeError, match="the disk is full"),
        new_folder(tmp_path / "run") as folder,
    ):
        (folder / "fit.json").write_text("half")
        raise RuntimeError("the disk is full")
    assert list(tmp_path.iterdir()) == []


def test_the_old_folder_survives_a_failed_replacement(tmp_path):
    old = tmp_path / "run"
    old.mkdir()
    (old / "fit.json").write_text("old")
    with (
        pytest.raises(RuntimeError, match="the disk is full"),
        new_folder(old, overwrite=True) as folder,
    ):
        (folder / "fit.json").write_text("new")
        raise RuntimeError("the disk is full")
    assert (old / "fit.json").read_text() == "old"
    with new_folder(old, overwrite=True) as folder:
        (folder / "fit.json").write_text("new")
    assert (old / "fit.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_old_folder_is_not_deleted_if_it_cannot_be_put_back(tmp_path, monkeypatch):
    run, rename = tmp_path / "run", Path.rename
    with new_folder(run) as folder:
        (folder / "fit.json").write_text("old")

    def fail(path, target):
        if path != run:
            raise OSError("the disk is full")
        return rename(path, target)

    with pytest.raises(OSError, match="the disk is full"), new_folder(run, overwrite=True):
        monkeypatch.setattr(Path, "rename", fail)
    (kept,) = tmp_path.glob(".run-*/old/fit.json")
    assert kept.read_text() == "old"


def test_folders_with_other_files_are_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with (
        pytest.raises(FileExistsError, match=r"holds other files \(thesis.tex\)"),
        new_folder(tmp_path, overwrite=True),
    ):
        pass
    assert (tmp_path / "thesis.tex").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    with (
        pytest.raises(FileExistsError, match="run is a file; give the name of a folder"),
        new_folder(tmp_path / "run"),
    ):
        pass


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    file = tmp_path / "out.csv"
    with (
        pytest.raises(RuntimeError, match="the disk is full"),
        new_file(file, overwrite=False) as beside,
    ):
        beside.write_text("half")
        raise RuntimeError("the disk is full")
    assert list(tmp_path.iterdir()) == []
    for overwrite in (False, True):
        with new_file(file, overwrite=overwrite) as beside:
            beside.write_text(f"whole {overwrite}")
    assert file.read_text() == "whole True"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    with (
        pytest.raises(FileExistsError, match="already exists; choose another file, or"),
        new_file(file, overwrite=False),
    ):
        pass
    with (
        pytest.raises(FileNotFoundError, match="folder of .* does not exist"),
        new_file(tmp_path / "no" / "out.csv", overwrite=False),
    ):
        pass


def test_several_files_appear_together(tmp_path):
    page, figure = tmp_path / "page.html", tmp_path / "figure.svg"
    figure.write_text("old")
    with (
        pytest.raises(RuntimeError, match="the disk is full"),
        new_files([page, figure], overwrite=True) as beside,
    ):
        beside[page].write_text("new")
        raise RuntimeError("the disk is full")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.svg"]
    with new_files([page, figure], overwrite=True) as beside:
        for path in beside.values():
            path.write_text("new")
    assert [path.read_text() for path in (page, figure)] == ["new", "new"]
    assert len(list(tmp_path.iterdir())) == 2
    with (
        pytest.raises(FileExistsError, match="figure.svg already exists; choose another file"),
        new_files([tmp_path / "other.html", figure]),
    ):
        pass


def test_factors_of_a_run_do_not_protect_its_folder(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("fit.json", "factor_module.csv", "evaluation.json"):
        (run / name).write_text("old")
    with new_folder(run, overwrite=True) as folder:
        (folder / "fit.json").write_text("new")
    assert sorted(path.name for path in run.iterdir()) == ["fit.json", "manifest.json"]


def test_text_replaces_a_file_whole(tmp_path):
    file = tmp_path / "page.html"
    for text in ("first\r\n", "é"):
        write_text(file, text)
        assert file.read_bytes().decode("utf-8") == text
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        write_text(file, "half \ud800")
    assert file.read_text(encoding="utf-8") == "é"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(FileNotFoundError, match="folder of .* does not exist"):
        write_text(tmp_path / "no" / "page.html", "")


def test_json_comes_back_as_plain_values(tmp_path):
    record = {"shape": (2, np.int64(3)), "loss": np.nan, "objective": -np.inf, 4: None}
    write_json(tmp_path / "a.json", record)
    expected = {"shape": [2, 3], "loss": None, "objective": None, "4": None}
    assert read_json(tmp_path / "a.json") == expected


def test_equal_settings_pass_and_others_are_named(tmp_path):
    before = {"rank": 2, "scale": {"shape": [3, 2], "name": "full"}}
    check_same_settings(tmp_path, before, {"scale": {"shape": (3, 2), "name": "full"}, "rank": 2})
    changed = {"scale": {"shape": (3, 4), "name": "full"}, "tol": 0.1}
    message = r"rank: 2 there, None now; scale shape: \[3, 2\] there, \[3, 4\] now; tol: None there"
    with pytest.raises(ValueError, match=f"holds results with other settings .{message}"):
        check_same_settings(tmp_path, before, changed)


def test_json_must_be_an_object(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(ValueError, match="must hold a JSON object, got list"):
        read_json(tmp_path / "a.json")


def test_json_of_any_depth_is_refused_in_words(tmp_path):
    (tmp_path / "a.json").write_text('{"a":' * 100_000)
    with pytest.raises(ValueError, match="a.json is not readable as JSON .maximum recursion"):
        read_json(tmp_path / "a.json")


def test_missing_and_strange_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.npy does not exist or is not a file"):
        read_tensor(tmp_path / "nothing.npy")
    (tmp_path / "data.xyz").write_text("1")
    with pytest.raises(ValueError, match="must end in one of .npy, .npz, got '.xyz'; convert it$"):
        read_tensor(tmp_path / "data.xyz")


@pytest.mark.parametrize("header", [b"(" * 300, b"{", b"[" * 5000, b"\xff" * 9])
def test_strange_headers_of_arrays_are_refused(tmp_path, header):
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ValueError, match="a.npy could not be read as a NumPy array"):
        read_tensor(tmp_path / "a.npy")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_an_array_that_claims_more_than_any_memory_is_named(tmp_path, suffix):
    header = io.BytesIO()
    claimed = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(header, claimed)
    file = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        file.write_bytes(header.getvalue())
    else:
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr("a.npy", header.getvalue())
    with pytest.raises(
        MemoryError, match=r"a\.np[yz] does not fit into memory .*; check that it is"
    ):
        read_tensor(file)


def test_the_input_of_a_run_protects_its_folder(tmp_path):
    (tmp_path / "tensor.npy").write_text("data")
    with (
        pytest.raises(
            FileExistsError, match=r"holds other files \(tensor.npy\), which would be lost"
        ),
        new_folder(tmp_path, overwrite=True),
    ):
        pass


def test_links_are_followed_and_the_current_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new_folder(tmp_path / "link") as folder:
        (folder / "fit.json").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "fit.json").read_text() == "new"
    monkeypatch.chdir(tmp_path / "real")
    with pytest.raises(FileExistsError, match="is the current folder"), new_folder("."):
        pass


def test_a_place_that_cannot_hold_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FileExistsError, match="file is a file; give the name of a folder"),
        new_folder(tmp_path / "file" / "run"),
    ):
        pass


def test_of_two_that_create_the_same_folder_one_wins(tmp_path):
    with (
        pytest.raises(FileExistsError, match="run was written by another process at the"),
        new_folder(tmp_path / "run") as slow,
    ):
        with new_folder(tmp_path / "run") as fast:
            (fast / "fit.json").write_text("fast")
        (slow / "fit.json").write_text("slow")
    assert (tmp_path / "run" / "fit.json").read_text() == "fast"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_of_two_that_replace_the_same_folder_one_wins(tmp_path, monkeypatch, late):
    run, rename, calls = tmp_path / "run", Path.rename, []
    with new_folder(run) as folder:
        (folder / "fit.json").write_text("old")

    def interrupted(path, target):
        """Let another process replace the folder at the first rename of this one."""
        if late:
            rename(path, target)
        calls.append(path)
        if len(calls) == 1:
            monkeypatch.setattr(Path, "rename", rename)
            if late:
                with new_folder(run, overwrite=True) as fast:
                    (fast / "fit.json").write_text("fast")
            else:
                rename(run, tmp_path / "moved by another")
        return None if late else rename(path, target)

    def replace_slowly():
        with new_folder(run, overwrite=True) as slow:
            (slow / "fit.json").write_text("slow")
            monkeypatch.setattr(Path, "rename", interrupted)

    if late:
        with pytest.raises(FileExistsError, match="run was written by another process at the"):
            replace_slowly()
    else:
        replace_slowly()
    assert (run / "fit.json").read_text() == ("fast" if late else "slow")
    assert not list(tmp_path.glob(".*"))


def test_of_two_that_create_the_same_file_one_wins(tmp_path):
    with (
        pytest.raises(FileExistsError, match="already exists; choose another file"),
        new_file(tmp_path / "a") as slow,
    ):
        with new_file(tmp_path / "a") as fast:
            fast.write_text("fast")
        slow.write_text("slow")
    assert (tmp_path / "a").read_text() == "fast"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


LIMITED = """
import resource, signal, sys
from pathlib import Path
import torch
from parafair.storage import new_folder, write_json, write_text
from parafair.stored import write_arrays
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
def run():
    with new_folder("new/run") as folder:
        (folder / "fit.json").write_text("x" * 5000)
for write in (
    lambda: write_text(Path("page.html"), "x" * 5000),
    lambda: write_json(Path("audit.json"), {"x": "x" * 5000}),
    lambda: write_arrays(Path("factors.safetensors"), {"a": torch.ones(5000)}),
    run,
):
    try:
        write()
    except OSError as error:
        print(error.errno)
"""


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_behind(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(storage.__file__).parents[1])}
    command = [sys.executable, "-c", LIMITED]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["27", "27", "27", "27"]
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_written_to_are_refused_at_once(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "fit.json").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(PermissionError, match="cannot be written to; choose another folder"):
        check_new_file(tmp_path / "a.json")
    for name in ("run", "new", "new/run"):
        with pytest.raises(PermissionError, match="cannot be written to; choose another folder"):
            check_new_folder(tmp_path / name, overwrite=True)


def test_a_full_disk_is_found_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(total=9000, free=1000))
    with pytest.raises(OSError, match="the disk of .* is full; free some space, or choose"):
        check_new_file(tmp_path / "a.json")
    with pytest.raises(OSError, match="the disk of .* is full; free some space, or choose"):
        check_new_folder(tmp_path / "new" / "run", overwrite=False)


def writers(folder):
    """What writes a folder, a file, and several files."""
    return new_folder(folder / "run"), new_file(folder / "a.csv"), new_files([folder / "b.csv"])


@pytest.mark.parametrize("place", range(3))
def test_a_disk_that_becomes_full_is_named_and_keeps_nothing(tmp_path, place):
    writer = writers(tmp_path)[place]
    with pytest.raises(OSError, match="the disk of .* is full; free some space"), writer:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_named_whose_temporary_file_found_the_disk_full(tmp_path):
    with (
        pytest.raises(OSError, match=r"the disk of \S*/run is full"),
        new_folder(tmp_path / "run") as folder,
        new_file(folder / "fit.json"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
