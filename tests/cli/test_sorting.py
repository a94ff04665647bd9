"""parafair sort, and fits to what it wrote."""

import numpy as np
import pandas
import pytest

from tests.cli.conftest import run as run_words
from tests.test_temporaries import name_of_killed

pytest.importorskip("pyarrow")


def run(line, code=0):
    return run_words(*line.split(), code=code)


@pytest.fixture
def files(working):
    """Entries in two files and a table of people, in the current folder."""
    random = np.random.default_rng(0)
    cells = np.argwhere(random.random((40, 6)) < 0.7)
    table = pandas.DataFrame({"user": cells[:, 0], "film": cells[:, 1]})
    table["stars"] = random.standard_normal(40)[cells[:, 0]] + random.standard_normal(len(cells))
    (working / "log").mkdir()
    table[::2].to_parquet("log/a.parquet", index=False)
    table[1::2].to_parquet("log/b.parquet", index=False)
    pandas.DataFrame({"user": range(40), "age": np.arange(40) % 2}).to_csv("people.csv")
    return table


SORT = "sort log --modes user,film --value stars --out sorted"
FIT = "fit sorted --sensitive people.csv --key user --sensitive-columns age --rank 1"


def test_sorted_entries_are_fitted_like_a_file(files):
    assert "40 user x 6 film" in run(SORT)
    files.to_csv("entries.csv", index=False)
    common = "--method none --ridge 1 --max-iter 5 --tol 0 --n-init 1"
    run(f"{FIT} {common} --memory 2GB --out streamed")
    run(f"{FIT.replace('sorted', 'entries.csv')} --modes user,film --value stars {common} --out m")
    found, expected = (pandas.read_csv(f"{name}/embedding.csv") for name in ("streamed", "m"))
    assert found["user"].tolist() == expected["user"].tolist()
    run("recommend streamed --k 1 --out lists.csv")
    run("recommend m --k 1 --out others.csv")
    recommended, others = (pandas.read_csv(f"{name}.csv") for name in ("lists", "others"))
    assert recommended[["user", "film"]].equals(others[["user", "film"]])


def test_a_sorted_folder_that_a_killed_process_was_replacing_is_fitted(files, working):
    run(SORT)
    beside = working / name_of_killed("sorted")
    beside.mkdir()
    (working / "sorted").rename(beside / "old")
    common = "--method none --ridge 1 --max-iter 1 --tol 0.5 --n-init 1"
    run(f"{FIT} {common} --memory 2GB --out m")
    assert (working / "sorted").is_dir()


def test_bad_options_are_named(files):
    run(SORT)
    assert "already holds files" in run(SORT, code=2)
    assert "--memory 0.10 GB is too little" in run(f"{FIT} --memory 100MB --out r", code=2)
    assert "--memory must be a size" in run(f"{FIT} --memory lots --out r", code=2)
    assert "--value and --duplicates are for" in run(f"{FIT} --value stars --out r", code=2)
    assert "--absent zero is for data in memory" in run(f"{FIT} --absent zero --out r", code=2)
    assert "--modes are user,film in sorted" in run(f"{FIT} --modes a,b --out r", code=2)
    assert "need data in memory" in run(f"{FIT} --test-size 0.2 --out r", code=2)
    files.to_csv("entries.csv", index=False)
    table = FIT.replace("sorted", "entries.csv")
    assert "--memory is for folders" in run(f"{table} --memory 1GB --out r", code=2)


def test_a_file_without_a_column_is_named_as_one_of_the_source(files, working):
    pandas.DataFrame({"label": [1], "entries": [2]}).to_parquet("log/c.parquet", index=False)
    said = run(SORT, code=2)
    assert "source file log/c.parquet has no column 'user'; it has label, entries" in said


def test_a_csv_file_must_be_converted(files):
    text = run("sort people.csv --modes user,film --value stars --out sorted", code=2)
    assert (
        "people.csv is a table of text, but only .parquet files can be sorted; convert it first"
        in text
    )
