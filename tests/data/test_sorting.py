"""Sorting entries by person gives the tensor of the table, or an error and nothing on disk."""

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair import TensorData, sort_parquet

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
MODES = ("who", "what", "when")
pytestmark = pytest.mark.usefixtures("small")


def write(table, folder, files=3):
    folder.mkdir()
    for number in range(files):
        table.iloc[number::files].to_parquet(folder / f"{number}.parquet", index=False)
    return folder


def in_memory(streamed):
    return streamed.take(0, np.arange(streamed.shape[0]))


def assert_same(found, expected):
    assert found.shape == expected.shape
    assert found.modes == expected.modes
    for own, other in zip(found.labels, expected.labels, strict=True):
        assert own.tolist() == other.tolist()
    assert torch.equal(found.cells, expected.cells)
    assert torch.equal(found.entries, expected.entries)


def sort(source, out, **settings):
    return sort_parquet(source, out, **{"modes": MODES, "value": "x", "memory": "4MB", **settings})


def test_it_is_the_tensor_of_the_table(entries, tmp_path):
    found = sort(write(entries, tmp_path / "raw"), tmp_path / "sorted")
    assert len(found.source.parts) > 1
    assert len(found.ranges) > 2
    assert_same(in_memory(found), TensorData.from_table(entries, modes=MODES, value="x"))
    assert_same(in_memory(TensorData.from_parquet(tmp_path / "sorted")), in_memory(found))
    # The person without a value is there, without entries.
    assert found.observed_per("who")[5] == 0


def test_row_order_and_file_boundaries_do_not_matter(entries, tmp_path):
    first = sort(write(entries, tmp_path / "one", files=1), tmp_path / "a")
    other = entries.sample(frac=1, random_state=1)
    second = sort(write(other, tmp_path / "many", files=5), tmp_path / "b")
    for name in ("part-00000.parquet", "part-00001.parquet", "labels-0.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert first.norm == second.norm


def test_files_can_be_listed_and_lie_in_folders(entries, tmp_path):
    raw = write(entries, tmp_path / "raw")
    (raw / "year=1").mkdir()
    shutil.move(raw / "2.parquet", raw / "year=1" / "2.parquet")
    everything = in_memory(sort(raw, tmp_path / "a"))
    listed = sort([raw / "0.parquet", raw / "1.parquet", raw / "year=1"], tmp_path / "b")
    assert_same(in_memory(listed), everything)


@pytest.mark.parametrize("duplicates", ["mean", "sum", "max", "first", "last"])
def test_rows_of_the_same_entry_are_merged_across_files(entries, tmp_path, duplicates):
    folder = tmp_path / "raw"
    write(entries, folder, files=1)
    again = entries.iloc[:40].assign(x=7.0)
    again.to_parquet(folder / "1.parquet", index=False)
    together = pandas.concat([entries, again])
    expected = TensorData.from_table(together, modes=MODES, value="x", duplicates=duplicates)
    assert_same(in_memory(sort(folder, tmp_path / "s", duplicates=duplicates)), expected)
    with pytest.raises(ValueError, match="given more than once, such as who p"):
        sort(folder, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_progress_ends_at_the_total(entries, tmp_path):
    seen = []
    sort(
        write(entries, tmp_path / "raw"),
        tmp_path / "s",
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == (3 * len(entries), 3 * len(entries))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.assign(who=t["who"].where(t["what"] > 0)), "rows without a label, the first"),
        (lambda t: t.assign(x=np.inf), "has infinite values; remove them"),
        (lambda t: t.assign(x="much"), "must hold numbers, got"),
        (lambda t: t.assign(x=np.nan), "has no values: all are missing"),
        (lambda t: t.drop(columns="x"), "has no column 'x'; it has"),
    ],
)
def test_broken_tables_are_refused_and_leave_nothing(entries, tmp_path, change, message):
    raw = write(change(entries), tmp_path / "raw")
    with pytest.raises(ValueError, match=message):
        sort(raw, tmp_path / "sorted")
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_row_without_a_label_is_named_by_its_place_in_the_file(entries, tmp_path):
    assert len(entries) > 150  # more than one batch
    label = entries["who"].where(np.arange(len(entries)) != 142)
    raw = write(entries.assign(who=label), tmp_path / "raw", files=1)
    with pytest.raises(
        ValueError, match=r"0\.parquet has rows without a label, the first is row 142,"
    ):
        sort(raw, tmp_path / "sorted")


def test_text_and_numbers_do_not_mix(entries, tmp_path):
    raw = write(entries, tmp_path / "raw", files=1)
    entries.assign(who=range(len(entries))).to_parquet(raw / "1.parquet", index=False)
    with pytest.raises(ValueError, match=r"1\.parquet has labels of another type"):
        sort(raw, tmp_path / "sorted")


def test_a_damaged_file_is_named(entries, tmp_path):
    raw = write(entries, tmp_path / "raw")
    (raw / "1.parquet").write_bytes((raw / "1.parquet").read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"1\.parquet could not be read as Parquet"):
        sort(raw, tmp_path / "sorted")


def test_a_changed_page_is_found_if_its_writer_made_checksums(entries, tmp_path):
    raw = write(entries, tmp_path / "raw")
    file = raw / "1.parquet"
    pandas.read_parquet(file).to_parquet(
        file, index=False, compression="none", use_dictionary=False, write_page_checksum=True
    )
    data = bytearray(file.read_bytes())
    place = data.find(np.float64(entries["x"].iloc[4]).tobytes())
    data[place] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"1\.parquet could not be read as Parquet"):
        sort(raw, tmp_path / "sorted")


def test_a_disk_that_is_too_small_is_refused_before_any_work(entries, tmp_path, monkeypatch):
    raw = write(entries, tmp_path / "raw")
    free = shutil.disk_usage(tmp_path)._replace(free=10**6 // 2)
    monkeypatch.setattr("parafair.data.sorting._disk", lambda table: 10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    with pytest.raises(
        OSError, match=r"has 0\.50 MB free, but sorting \d+ rows needs about 1\.00 MB"
    ):
        sort(raw, tmp_path / "sorted")


def test_a_disk_that_becomes_full_leaves_nothing(entries, tmp_path, monkeypatch):
    raw = write(entries, tmp_path / "raw")
    keep = sort(raw, tmp_path / "sorted").observed

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="became full while .* nothing was written"):
        sort(raw, tmp_path / "sorted", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw", "sorted"]
    assert TensorData.from_parquet(tmp_path / "sorted").observed == keep


def test_bad_arguments_are_refused(entries, tmp_path):
    raw = write(entries, tmp_path / "raw")
    with pytest.raises(ValueError, match="memory must be at least"):
        sort(raw, tmp_path / "s", memory="10kB")
    with pytest.raises(ValueError, match="memory must be a size such as '8GB'"):
        sort(raw, tmp_path / "s", memory="much")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        sort(tmp_path / "nothing", tmp_path / "s")
    with pytest.raises(ValueError, match="source is an empty list"):
        sort([], tmp_path / "s")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no \.parquet files"):
        sort(tmp_path / "empty", tmp_path / "s")
    sort(raw, tmp_path / "s")
    with pytest.raises(FileExistsError, match="already holds files"):
        sort(raw, tmp_path / "s")
    with pytest.raises(ValueError, match="is sorted already"):
        sort(tmp_path / "s", tmp_path / "t")
