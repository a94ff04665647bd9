import os
import re
import subprocess
import sys

import pytest

from parafair import temporaries
from parafair.storage import (
    check_file,
    check_new_file,
    check_new_folder,
    new_file,
    new_folder,
    read_json,
)


def dead_process():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def name_of_killed(stem, suffix=""):
    """The name of a temporary file of a process that was killed."""
    return f".{stem}-{temporaries._host()}-{dead_process()}-0123456789ab{suffix}"


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    run = tmp_path / "run"
    with new_folder(run) as folder:
        (folder / "fit.json").write_text("old")
    half = tmp_path / name_of_killed("run") / "content"
    half.mkdir(parents=True)
    (half / "fit.json").write_text("half")
    check_new_folder(run, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (run / "fit.json").read_text() == "old"


def test_leftovers_inside_a_folder_do_not_keep_it_from_being_replaced(tmp_path):
    run = tmp_path / "run"
    with new_folder(run) as folder:
        (folder / "fit.json").write_text("old")
    (run / name_of_killed("audit", ".json")).write_text("half")
    (run / name_of_killed("none") / "content").mkdir(parents=True)
    check_new_folder(run, overwrite=True)
    assert sorted(path.name for path in run.iterdir()) == ["fit.json", "manifest.json"]


def test_a_temporary_of_a_temporary_is_one_of_the_same_file(tmp_path):
    first = temporaries.temporary(tmp_path / "picture of 1-2.svg")
    second = temporaries.temporary(first)
    assert second != first
    pattern = rf"\.picture\ of\ 1\-2-{temporaries._host()}-{os.getpid()}-[0-9a-f]{{12}}\.svg"
    assert re.fullmatch(pattern, first.name)
    assert re.fullmatch(pattern, second.name)


@pytest.mark.parametrize(("complete", "expected"), [(True, "new"), (False, "old")])
def test_a_run_that_was_being_replaced_comes_back(tmp_path, complete, expected):
    run = tmp_path / "run"
    beside = tmp_path / name_of_killed("run")
    for name, text in (("old", "old"), ("content", "new")):
        (beside / name).mkdir(parents=True)
        (beside / name / "fit.json").write_text(text)
    if complete:
        (beside / "content" / "manifest.json").write_text("{}")
    with pytest.raises(FileExistsError, match="already holds files; choose another folder"):
        check_new_folder(run, overwrite=False)
    assert (run / "fit.json").read_text() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_files_of_processes_that_run_are_kept(tmp_path):
    with new_file(tmp_path / "a.csv") as beside, new_folder(tmp_path / "run") as folder:
        beside.write_text("half")
        check_new_file(tmp_path / "a.csv")
        check_new_folder(tmp_path / "run", overwrite=False)
        assert beside.exists()
        assert folder.exists()
    left = tmp_path / name_of_killed("a", ".csv")
    other = tmp_path / f".a-elsewhere-{dead_process()}-0123456789ab.csv"
    for path in (left, other):
        path.write_text("half")
    check_new_file(tmp_path / "a.csv", overwrite=True)
    assert not left.exists()
    assert other.exists()
    os.utime(other, (0, 0))
    check_new_file(tmp_path / "a.csv", overwrite=True)
    assert not other.exists()


def test_a_folder_of_another_machine_is_as_old_as_its_newest_file(tmp_path):
    beside = tmp_path / f".run-elsewhere-{dead_process()}-0123456789ab"
    (beside / "content").mkdir(parents=True)
    growing = beside / "content" / "part-00000.parquet"
    growing.write_text("half")
    for path in (beside / "content", beside):
        os.utime(path, (0, 0))  # it was begun long ago, and is still written to
    check_new_folder(tmp_path / "run", overwrite=False)
    assert growing.exists()
    os.utime(growing, (0, 0))
    check_new_folder(tmp_path / "run", overwrite=False)
    assert not beside.exists()


def test_leftovers_are_removed_even_if_the_file_is_then_refused(tmp_path):
    left = tmp_path / name_of_killed("a", ".csv")
    for path in (tmp_path / "a.csv", left):
        path.write_text("whole")
    with pytest.raises(FileExistsError, match="already exists; choose another file"):
        check_new_file(tmp_path / "a.csv")
    assert not left.exists()


def test_a_run_that_was_being_replaced_can_be_read(tmp_path):
    beside = tmp_path / name_of_killed("run")
    (beside / "old").mkdir(parents=True)
    (beside / "old" / "fit.json").write_text("{}")
    assert read_json(tmp_path / "run" / "fit.json") == {}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    beside.mkdir()
    (tmp_path / "run").rename(beside / "old")
    check_file(tmp_path / "run" / "fit.json", (".json",))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("complete", [True, False])
def test_a_replaced_folder_inside_another_is_removed_only_if_the_new_one_is_in_place(
    tmp_path, complete
):
    dead = tmp_path / name_of_killed("fit-0", ".1-seed0")
    (dead / "old").mkdir(parents=True)
    if not complete:
        (dead / "content").mkdir()
    temporaries.put_back(tmp_path)
    assert dead.exists() is not complete
