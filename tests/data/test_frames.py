import numpy as np
import pandas as pd
import pytest

from parafair.data import frames
from parafair.data.frames import (
    check_columns,
    check_memory,
    open_table,
    read_labels,
    read_numbers,
    read_table,
)
from parafair.data.labels import as_labels, check_positions, find_labels

pytest.importorskip("narwhals")


def test_missing_and_strange_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.csv does not exist or is not a file"):
        read_table(tmp_path / "nothing.csv")
    (tmp_path / "data.xyz").write_text("1")
    with pytest.raises(
        ValueError,
        match="data.xyz' must end in one of .csv, .tsv, .tab, .txt, .parquet, got '.xyz'; convert "
        "it, or rename a table of text to .csv, whatever its separator",
    ):
        read_table(tmp_path / "data.xyz")


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".TXT"])
def test_the_header_shows_the_separator(tmp_path, separator, suffix):
    file = tmp_path / f"a{suffix}"
    rows = [["id", "a, b; c", "score"], ["x", "y", "1"], ["z", "w, v", "2"]]
    lines = [separator.join(f'"{text}"' for text in row) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8-sig")
    table = read_table(file)
    assert table.columns.tolist() == rows[0]
    assert table["score"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "could not be read as a table .No columns"),
        (b"id,score\n", "holds no rows; expected a header"),
        ("id,größe\na,1\n".encode("latin-1"), "is not encoded as UTF-8 .* save it as UTF-8"),
        (b'id,score\n"a,1\n', "could not be read as a table"),
    ],
)
def test_unreadable_text_files_are_explained(tmp_path, content, message):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "x.csv")


def test_a_long_column_has_one_type(tmp_path):
    lines = ["number,group", *(f"{i},{i % 2}" for i in range(300_000)), "0,other"]
    (tmp_path / "long.csv").write_text("\n".join(lines))
    assert {type(value) for value in read_table(tmp_path / "long.csv")["group"]} == {str}


def test_labels_are_kept_as_written_and_na_may_be_a_group(tmp_path):
    (tmp_path / "people.csv").write_text(
        "id,number,share,long,group\n007,7,0.5,99999999999999999999,NA\n008,10,1.5,1,DE\n"
    )
    table = read_table(tmp_path / "people.csv", labels=["id", "number", "share", "long", "absent"])
    assert table["id"].tolist() == ["007", "008"]
    assert table["number"].tolist() == [7, 10]
    assert table["share"].tolist() == [0.5, 1.5]
    assert table["long"].tolist() == ["99999999999999999999", "1"]
    assert table["group"].tolist() == ["NA", "DE"]


def test_what_is_no_table_is_refused():
    with pytest.raises(TypeError, match="table must be a data frame .* got list"):
        open_table([1, 2])
    with pytest.raises(ValueError, match="table holds no rows; expected at least one"):
        open_table(pd.DataFrame({"a": []}))
    with pytest.raises(ValueError, match="columns of the same name"):
        open_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_columns_need_not_be_text():
    with pytest.raises(ValueError, match="a mode must be one of 0, 1; got 'x'"):
        check_columns(open_table(pd.DataFrame([[1, 2]])), ["x"], "a mode")


def test_lazy_frames_must_be_collected():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="a lazy one collected first"):
        open_table(polars.LazyFrame({"a": [1]}))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1], [3, 1]),
        ([3.0, 1.0], [3, 1]),
        ([0.5, 1.0], [0.5, 1.0]),
        (["b", "a"], ["b", "a"]),
        (pd.Categorical(["b", "a"]), ["b", "a"]),
        (pd.to_datetime(["2020-01-02"]), ["2020-01-02T00:00:00"]),
    ],
)  # fmt: skip
def test_labels_have_one_type(values, expected):
    labels = read_labels(open_table(pd.DataFrame({"x": values})), "x")
    assert labels.tolist() == expected
    assert labels.dtype.kind in "ifU"


def test_dates_are_the_same_labels_from_arrays():
    dates = np.array(["2020-01-02", "2020-01-01"], "datetime64[ns]")
    assert as_labels(dates, "dates")[1] == "2020-01-01T00:00:00"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "a"], "'x' mixes labels of different types .int, str."),
        (["a", None], "'x' has 1 rows without a label, the first is row 1"),
        ([1.0, np.nan], "'x' has 1 rows without a label, the first is row 1"),
        ([(1, 2), (3, 4)], "must hold labels such as text or numbers"),
    ],
)
def test_strange_labels_are_refused(values, message):
    frame = open_table(pd.DataFrame({"x": pd.Series(values)}))
    with pytest.raises(ValueError, match=message):
        read_labels(frame, "x")


@pytest.mark.parametrize(
    "values",
    [
        [1, 0, None],
        [1.0, 0.0, np.nan],
        pd.array([1, 0, None], dtype="Int64"),
        pd.array([1, 0, None], dtype="Float64"),
        pd.array([True, False, None], dtype="boolean"),
        pd.Series([1, 0.0, None], dtype=object),
    ],
)
def test_numbers_of_every_type(values):
    found = read_numbers(open_table(pd.DataFrame({"x": values})), "x")
    np.testing.assert_array_equal(found, [1, 0, np.nan])


@pytest.mark.parametrize("values", [[1, 0, None], [1.0, 0.0, None], [True, False, None]])
def test_numbers_of_every_library(values):
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for table in (polars.DataFrame({"x": values}), arrow.table({"x": values})):
        np.testing.assert_array_equal(read_numbers(open_table(table), "x"), [1, 0, np.nan])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "2"], "column 'x' must hold numbers, got '1' in row 0"),
        ([1, "absent"], "column 'x' must hold numbers, got 'absent' in row 1"),
        ([1.0, np.inf], "column 'x' has 1 infinite values, the first in row 1"),
        (pd.to_datetime(["2020-01-01"]), "column 'x' must hold numbers, got Timestamp"),
    ],
)
def test_values_that_are_no_numbers_are_refused(values, message):
    frame = open_table(pd.DataFrame({"x": values}))
    with pytest.raises(ValueError, match=message):
        read_numbers(frame, "x")


def test_labels_are_found_as_numbers_or_text():
    labels = np.array([30, 10, 20])
    assert find_labels(np.array([10, 20, 40, 5]), labels).tolist() == [1, 2, -1, -1]
    assert find_labels(np.array(["10", "x"]), labels).tolist() == [1, -1]
    assert find_labels(np.array([10.0, 10.5]), labels).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([0, 3], "must be from 0 to 2, got 0 to 3"),
        ([1, 1], "has 1 more than once; give each position once"),
        ([0.5], "must be a list of whole numbers"),
        ([False] * 3, "with at least one True; got"),
        ([True] * 2, "a boolean mask of length 3 with at least one True"),
    ],
)
def test_positions_are_checked(positions, message):
    with pytest.raises(ValueError, match=message):
        check_positions("positions", positions, 3)


def test_memory_is_estimated_first(tmp_path, monkeypatch):
    check_memory(1000, "this", "that")
    with pytest.raises(MemoryError, match=r"a tensor needs about 1,000,000.0 GB .* keep it sparse"):
        check_memory(10**15, "a tensor", "keep it sparse")
    (tmp_path / "x.csv").write_text("a\n1\n")
    monkeypatch.setattr(frames, "MEMORY_PER_BYTE_OF_TEXT", 10**15)
    with pytest.raises(MemoryError, match="reading .*x.csv needs about .* use Parquet"):
        read_table(tmp_path / "x.csv")


def test_memory_of_parquet_is_estimated_first(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1] * 1000, "b": ["x"] * 1000}).to_parquet(tmp_path / "x.parquet")
    asked = []
    monkeypatch.setattr(frames, "check_memory", lambda needed, *_: asked.append(needed))
    assert len(read_table(tmp_path / "x.parquet")) == 1000
    assert asked == [16_000]
    monkeypatch.undo()
    monkeypatch.setattr(frames, "BYTES_PER_VALUE", 10**15)
    with pytest.raises(MemoryError, match=r"reading .*x.parquet needs .* only the columns that"):
        read_table(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("who,age\n0,1,2\n1,3,4\n", 2),
        ("who,age\n0,1,\n1,3,\n", 2),
        ("who,age\n0,1\n1,3\n2,3,4\n", 4),
        ('who,age\n"a\nb",1\n1,3,4\n', 4),
        ("\nwho,age\n\n0,1,2\n", 4),
        ("\ufeffwho,age\n0,1,2,3\n", 2),
    ],
)
def test_a_row_longer_than_the_header_is_refused_with_its_line(tmp_path, text, line):
    file = tmp_path / "people.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"people.csv .*\(line {line} has . fields, but"):
        read_table(file)


def test_quoted_separators_are_no_fields(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text('who,"a,ge"\n"x,y",1\n')
    assert read_table(file).to_dict("list") == {"who": ["x,y"], "a,ge": [1]}
