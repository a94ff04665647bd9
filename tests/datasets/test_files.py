import io
import zipfile
from pathlib import Path

import pytest

from parafair import datasets
from parafair.datasets.files import VARIABLE, Source

pooch = pytest.importorskip("pooch")

SOURCE = Source(
    "wine", ("a.csv", "b.csv"), ("https://one.invalid/w.zip", "https://two.invalid/w"), "1 kB"
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "parafair"


@pytest.fixture
def served(monkeypatch):
    """What the network holds, by address; anything else is unreachable."""
    content: dict[str, bytes] = {}

    def retrieve(address, known_hash, fname, path):
        if address not in content:
            raise ConnectionError(f"no route to {address}")
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / fname).write_bytes(content[address])
        return str(Path(path) / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return content


def archive(**files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        for name, text in files.items():
            target.writestr(f"some/folder/{name}.csv", text)
    return packed.getvalue()


def test_a_folder_comes_before_the_environment(tmp_path, monkeypatch):
    for home in ("given", "environment"):
        (tmp_path / home / "wine").mkdir(parents=True)
        for name in SOURCE.files:
            (tmp_path / home / "wine" / name).write_text(home)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "environment"))
    assert SOURCE.find()["a.csv"].read_text() == "environment"
    assert SOURCE.find(tmp_path / "given")["b.csv"].read_text() == "given"
    assert SOURCE.where(tmp_path / "given") == str(tmp_path / "given" / "wine")


def test_missing_local_files_say_what_is_expected(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"must hold wine/a.csv, wine/b.csv .*one.invalid"):
        SOURCE.find(tmp_path)
    with pytest.raises(FileNotFoundError, match="folder must be an existing folder, got '/no"):
        SOURCE.find("/nowhere")
    monkeypatch.setenv(VARIABLE, "/nowhere")
    with pytest.raises(FileNotFoundError, match="PARAFAIR_DATA must be an existing folder"):
        SOURCE.find()


def test_a_download_is_unpacked_once(served, cache):
    served[SOURCE.addresses[0]] = archive(a="1", b="2", huge="3")
    assert SOURCE.find()["b.csv"].read_text() == "2"
    assert sorted(path.name for path in (cache / "wine").iterdir()) == ["a.csv", "b.csv"]
    served.clear()
    assert SOURCE.find()["a.csv"].read_text() == "1"


@pytest.mark.parametrize("broken", [b"<html>please log in</html>", b"PK\3\4", archive(a="1")])
def test_a_broken_download_is_passed_over(served, cache, broken):
    served[SOURCE.addresses[0]] = broken
    with pytest.raises(ConnectionError, match=r"one.invalid/w.zip \(BadZipFile\) nor from https"):
        SOURCE.find()
    served[SOURCE.addresses[1]] = archive(a="1", b="2")
    assert SOURCE.find()["a.csv"].read_text() == "1"
    assert not [path for path in (cache / "wine").iterdir() if "download" in path.name]


def test_offline_gets_one_clear_message(served):
    message = (
        r"cmc could not be downloaded from https://archive.ics.uci.edu/.* \(ConnectionError\)"
        r".*set PARAFAIR_DATA: the folder of all data must hold cmc/cmc.data"
    )
    with pytest.raises(ConnectionError, match=message):
        datasets.contraceptive()
    assert datasets.DATASETS["contraceptive"].source.where() == "download, about 50 kB"


def test_a_single_file_needs_no_archive(served):
    source = Source("one", ("x.data",), ("https://one.invalid/x.data",), "1 kB")
    served[source.addresses[0]] = b"1,2\n"
    assert source.find()["x.data"].read_text() == "1,2\n"
