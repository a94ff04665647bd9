"""A sorted folder that is not what was written is refused, before or during a fit."""

import os

import numpy as np
import pytest

from parafair import TensorData, sort_parquet
from tests.test_temporaries import name_of_killed

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
MODES = ("who", "what", "when")


@pytest.fixture
def folder(entries, tmp_path, small):
    entries.to_parquet(tmp_path / "raw.parquet", index=False)
    sort_parquet(tmp_path / "raw.parquet", tmp_path / "s", modes=MODES, value="x", memory="4MB")
    return tmp_path / "s"


def read_all(folder):
    for _ in TensorData.from_parquet(folder).stream():
        pass


def rewrite(path, change):
    """Write a part again with the same row groups, and make its record fit its size."""
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(i).to_pandas() for i in range(file.num_row_groups)]
    groups = change(groups)
    with pq.ParquetWriter(path, file.schema_arrow) as writer:
        for group in groups:
            writer.write_table(pa.Table.from_pandas(group, schema=file.schema_arrow))


@pytest.fixture
def any_bytes(monkeypatch):
    """Skip the comparison of sizes and checksums, to reach the checks of the content."""
    from parafair.data import parquet

    open_part = parquet.Part.open.__func__

    def open_any(cls, path, size, rows):
        return open_part(cls, path, path.stat().st_size, rows)

    monkeypatch.setattr(parquet.Part, "open", classmethod(open_any))
    monkeypatch.setattr(parquet, "check_digest", lambda path, remedy: None)


def test_a_folder_that_is_not_sorted_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="make one with parafair.sort_parquet"):
        TensorData.from_parquet(tmp_path)


def test_a_folder_that_a_killed_process_was_replacing_is_put_back(folder):
    before = TensorData.from_parquet(folder)
    beside = folder.with_name(name_of_killed("s"))
    beside.mkdir()
    folder.rename(beside / "old")
    assert TensorData.from_parquet(folder).observed == before.observed
    assert not beside.exists()


def test_a_file_of_another_size_is_refused(folder):
    path = folder / "part-00001.parquet"
    rewrite(path, lambda groups: [group.assign(x=0.123456789) for group in groups])
    with pytest.raises(ValueError, match="was changed after it was written"):
        TensorData.from_parquet(folder)


def test_a_missing_file_is_named(folder):
    (folder / "part-00001.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"part-00001\.parquet is missing; sort the data"):
        TensorData.from_parquet(folder)


def test_a_file_that_changes_between_passes_is_found(folder):
    data = TensorData.from_parquet(folder)
    assert sum(len(tile.values) for tile in data.stream()) == data.observed
    path = folder / "part-00000.parquet"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    with pytest.raises(ValueError, match="was changed between two passes"):
        next(data.stream())
    path.unlink()
    with pytest.raises(ValueError, match="was removed during the fit"):
        next(data.stream())


def test_damaged_bytes_are_found(folder):
    path = folder / "part-00000.parquet"
    values = pq.read_metadata(path).row_group(1).column(3)
    content = bytearray(path.read_bytes())
    content[values.dictionary_page_offset + values.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"part-00000\.parquet is damaged or incomplete"):
        read_all(folder)


@pytest.mark.parametrize("name", ["part-00000.parquet", "labels-0.parquet"])
def test_a_byte_that_parquet_does_not_check_is_found(folder, name):
    path = folder / name
    content = path.read_bytes()
    assert content.count(b"parquet-cpp") == 1
    path.write_bytes(content.replace(b"parquet-cpp", b"parquet-cpq"))
    assert pq.read_table(path).equals(pq.read_table(pa.BufferReader(content)))
    with pytest.raises(ValueError, match=rf"{name} is damaged .* checksum .*; sort the data again"):
        read_all(folder)


def test_a_folder_without_its_checksums_is_refused(folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError, match="manifest.json is missing; sort the data again"):
        TensorData.from_parquet(folder)


def test_unsorted_row_groups_are_refused(folder, any_bytes):
    path = folder / "part-00000.parquet"
    rewrite(path, lambda groups: [groups[0][::-1], *groups[1:]])
    with pytest.raises(ValueError, match="not sorted by 'who' in its row groups 0 to"):
        read_all(folder)


def test_a_person_in_two_files_is_refused(folder, any_bytes):
    def change(groups):
        groups[0].loc[0, "who"] = np.int32(59)
        return groups

    rewrite(folder / "part-00000.parquet", change)
    with pytest.raises(ValueError, match="positions in 'who' outside of 0-"):
        read_all(folder)


def test_values_that_are_not_finite_are_refused(folder, any_bytes):
    rewrite(folder / "part-00000.parquet", lambda groups: [g.assign(x=np.nan) for g in groups])
    with pytest.raises(ValueError, match="values that are not finite numbers"):
        read_all(folder)


def test_labels_that_do_not_fit_are_refused(folder):
    path = folder / "labels-1.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(ValueError, match=r"labels-1\.parquet is damaged"):
        TensorData.from_parquet(folder)
