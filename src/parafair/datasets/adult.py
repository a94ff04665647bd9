"""Adult: answers of people in the United States census of 1994, and whether they earn much."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import one_of
from parafair.data.frames import frame_of
from parafair.datasets.base import Dataset, register
from parafair.datasets.files import Source, fingerprint
from parafair.errors import ParafairWarning

SOURCE = Source(
    name="adult",
    files=("adult.data", "adult.test"),
    addresses=("https://archive.ics.uci.edu/static/public/2/adult.zip",),
    size="about 600 kB",
)
ABOUT = (
    "Adults in the United States census of 1994 (48842 in both subsets): age, work, education, "
    "family and country as 80 standardized columns; sex and race; whether the income is above "
    "50,000 dollars. Becker and Kohavi 1996, UCI Machine Learning Repository, data set 2, CC BY 4.0"
)
COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
)
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORIES = (
    *("workclass", "education", "marital-status", "occupation", "relationship", "native-country"),
)
SENSITIVE = ("sex", "race")
TARGET = "income"
LEVELS = {
    "sex": ("Female", "Male"),
    "race": ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"),
    "income": ("<=50K", ">50K"),
}
LEAST_SHARE = 0.001
SUBSETS = {"train": ("adult.data",), "test": ("adult.test",), "all": ("adult.data", "adult.test")}
ROWS = {"adult.data": 32_561, "adult.test": 16_281}
FINGERPRINT = "67487ce48b9c3c2b074db89bcf35d22ba6de6a313e96e3d9e6b34585ffcb7ddb"

Table = dict[str, NDArray[np.str_]]


@register(ABOUT, SOURCE)
def adult(folder: str | Path | None = None, *, subset: str = "train") -> Dataset:
    """Load the census data Adult, a matrix of people and 80 standardized columns.

    The matrix has five numbers (`age`, `education-num`, `capital-gain`, `capital-loss`,
    `hours-per-week`) and one column of 0 and 1 per category of `workclass`, `education`,
    `marital-status`, `occupation`, `relationship` and `native-country`, such as
    `workclass_Private`. A missing answer is the category `?`. Categories of less than 0.1 % of the
    training people have no column: 16 countries, `Never-worked`, `Without-pay`,
    `Married-AF-spouse` and `Armed-Forces`. Every column is then standardized by the mean and the
    standard deviation of the training people, in all subsets.

    The sensitive features are a data frame with `sex` (33 % "Female", 67 % "Male") and `race` (five
    categories; 85 % "White"). The target is `income`, "<=50K" or ">50K" (24 %). None of them is in
    the matrix. Neither is `fnlwgt`, the weight of a person in the survey, which was computed from
    age, sex and race. With `fnlwgt` and the five categories of race there would be 86 columns.

    People are numbered from 0 in the order of the files; in "all", the training people come first.

    Args:
        folder: A folder with `adult/adult.data` and `adult/adult.test`; by default the environment
            variable PARAFAIR_DATA. Without both, the files are downloaded once.
        subset: The people to return, as the files divide them: "train" (32561), "test" (16281) or
            "all".
    """
    one_of("subset", subset, SUBSETS)
    parts = {name: _read(name, path) for name, path in SOURCE.find(folder).items()}
    _compare(parts)
    train = parts["adult.data"]
    table = _join([parts[name] for name in SUBSETS[subset]])
    people = np.arange(len(table[TARGET]))
    names, values = _encode(table, train)
    columns = {name: table[name] for name in (*SENSITIVE, TARGET)}
    features = (
        frame_of(columns, for_what="the data set adult").set_index(people).rename_axis("person")
    )
    return Dataset(
        name="adult",
        about=ABOUT,
        tensor=values,
        sensitive_features=features[list(SENSITIVE)],
        modes=("person", "column"),
        labels=(people, names),
        target=features[TARGET],
    )


def _read(name: str, path: Path) -> Table:
    """Read a file by columns and check it; comments and blank lines do not matter."""
    again = f"get it again from {SOURCE.addresses[0]} (delete it first if it is in a cache)"
    # The labels of the test file end in a dot, and its first line is a comment.
    lines = [line.strip() for line in path.read_text(encoding="latin-1").splitlines()]
    rows = [
        [value.strip() for value in line.removesuffix(".").split(",")]
        for line in lines
        if line and not line.startswith("|")
    ]
    if len(rows) != ROWS[name]:
        raise ValueError(f"{path} must have {ROWS[name]} rows, got {len(rows)}; {again}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(COLUMNS):
            raise ValueError(
                f"{path}, row {number}: expected {len(COLUMNS)} values separated by commas, got "
                f"{len(row)}; {again}"
            )
    table = dict(zip(COLUMNS, np.array(rows).T, strict=True))
    for column, levels in LEVELS.items():
        strange = set(table[column].tolist()) - set(levels)
        if strange:
            raise ValueError(
                f"{path}, column {column}: values must be {', '.join(levels)}; got "
                f"{min(strange)!r}; {again}"
            )
    for column in NUMBERS:
        strange = table[column][~np.char.isdigit(table[column])]
        if len(strange):
            raise ValueError(
                f"{path}, column {column}: values must be whole numbers; got "
                f"{str(strange[0])!r}; {again}"
            )
    return table


def _join(tables: list[Table]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in COLUMNS}


def _encode(table: Table, train: Table) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """Return the names and the values of the columns, standardized as the training people are."""
    names = list(NUMBERS)
    own, known = ([each[name].astype(np.float64) for name in NUMBERS] for each in (table, train))
    for name in CATEGORIES:
        categories, counts = np.unique(train[name], return_counts=True)
        for category in categories[counts >= LEAST_SHARE * len(train[name])]:
            names.append(f"{name}_{category}")
            own.append((table[name] == category).astype(np.float64))
            known.append((train[name] == category).astype(np.float64))
    values, reference = np.column_stack(own), np.column_stack(known)
    return np.array(names), (values - reference.mean(0)) / reference.std(0)


def _compare(parts: dict[str, Table]) -> None:
    """Warn if the values differ from those that this loader was checked with."""
    if fingerprint(_join([parts[name] for name in SOURCE.files])) != FINGERPRINT:
        warnings.warn(
            "adult has the expected form, but its values differ from the copy that this loader was "
            "checked with; if that is not intended, get the files again from "
            f"{SOURCE.addresses[0]}",
            ParafairWarning,
            stacklevel=3,
        )
