import numpy as np
import pytest

from parafair.storage import (
    check_same_settings,
    new_file,
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


def test_factors_of_a_run_do_not_protect_its_folder(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("fit.json", "factor_module.csv", "evaluation.json"):
        (run / name).write_text("old")
    with new_folder(run, overwrite=True) as folder:
        (folder / "fit.json").write_text("new")
    assert [path.name for path in run.iterdir()] == ["fit.json"]


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


def test_missing_and_strange_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.npy does not exist or is not a file"):
        read_tensor(tmp_path / "nothing.npy")
    (tmp_path / "data.xyz").write_text("1")
    with pytest.raises(ValueError, match="must be a .npy or .npz file, got '.xyz'"):
        read_tensor(tmp_path / "data.xyz")


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
