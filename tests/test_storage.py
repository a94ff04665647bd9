import pytest

from parafair.storage import new_folder, read_json, read_tensor


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    with pytest.raises(RuntimeError), new_folder(tmp_path / "run") as folder:
        (folder / "fit.json").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_old_folder_survives_a_failed_replacement(tmp_path):
    old = tmp_path / "run"
    old.mkdir()
    (old / "fit.json").write_text("old")
    with pytest.raises(RuntimeError), new_folder(old, overwrite=True) as folder:
        (folder / "fit.json").write_text("new")
        raise RuntimeError
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
    with pytest.raises(FileExistsError, match="is a file"), new_folder(tmp_path / "run"):
        pass


def test_json_must_be_an_object(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(ValueError, match="must hold a JSON object, got list"):
        read_json(tmp_path / "a.json")


def test_missing_and_strange_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_tensor(tmp_path / "nothing.npy")
    (tmp_path / "data.xyz").write_text("1")
    with pytest.raises(ValueError, match="file, got '.xyz'"):
        read_tensor(tmp_path / "data.xyz")


def test_the_input_of_a_run_protects_its_folder(tmp_path):
    (tmp_path / "tensor.npy").write_text("data")
    with (
        pytest.raises(FileExistsError, match="holds other files"),
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
    with pytest.raises(FileExistsError, match="is a file"), new_folder(tmp_path / "file" / "run"):
        pass
