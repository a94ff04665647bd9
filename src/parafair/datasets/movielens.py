"""MovieLens: ratings of films, from the reader's own copy, because it may not be redistributed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import one_of
from parafair.data.frames import frame_of
from parafair.datasets.base import Dataset, register
from parafair.datasets.files import Source, data_folder
from parafair.datasets.ratings import rated

if TYPE_CHECKING:
    import pandas

ABOUT = (
    "Ratings of films from 1 to 5 by users of MovieLens, with times: 100,000 by 943 users or "
    "1,000,209 by 6,040; gender, age and occupation. Harper and Konstan 2015; from your own copy, "
    "as its license forbids redistribution"
)
TERMS = (
    "its license forbids redistribution, so it is never downloaded; read the license and get "
    "{archive} yourself from https://grouplens.org/datasets/movielens/"
)


class Form(NamedTuple):
    """The files of one size.

    Attributes:
        source: Where they are.
        separators: What is between the fields of each file, one character.
        step: How often it is there: the larger data has two colons.
        ratings: Number of rows of the first file.
        users: Number of rows of the second file.
        order: Places of gender, age and occupation in a row of the second file.
    """

    source: Source
    separators: tuple[str, str]
    step: int
    ratings: int
    users: int
    order: tuple[int, int, int]


def _source(name: str, files: tuple[str, str], size: str) -> Source:
    return Source(name, files, (), size, terms=TERMS.format(archive=f"{name}.zip"))


FORMS = {
    "100k": Form(
        _source("ml-100k", ("u.data", "u.user"), "5 MB"), ("\t", "|"), 1, 100_000, 943, (2, 1, 3)
    ),
    "1m": Form(
        _source("ml-1m", ("ratings.dat", "users.dat"), "6 MB"),
        (":", ":"),
        2,
        1_000_209,
        6040,
        (1, 2, 3),
    ),
}
# The codes of the larger data, from its description.
AGES = {
    **{"1": "under 18", "18": "18-24", "25": "25-34", "35": "35-44"},
    **{"45": "45-49", "50": "50-55", "56": "56+"},
}
OCCUPATIONS = (
    *("other", "academic/educator", "artist", "clerical/admin", "college/grad student"),
    *("customer service", "doctor/health care", "executive/managerial", "farmer", "homemaker"),
    *("K-12 student", "lawyer", "programmer", "retired", "sales/marketing", "scientist"),
    *("self-employed", "technician/engineer", "tradesman/craftsman", "unemployed", "writer"),
)


@register(ABOUT, FORMS["100k"].source)
def movielens(folder: str | Path | None = None, *, size: str = "100k") -> Dataset:
    """Load ratings of users x films, most of them missing, with the times of the ratings.

    The tensor is sparse `TensorData` with the modes `user` and `item`, whose labels are the numbers
    of MovieLens. The sensitive features are a data frame with one row per user: `gender`, `age` (in
    years in "100k", seven bands in "1m") and `occupation`. `Dataset.times` has the time of each
    rating in seconds, for `split_by_time`.

    Args:
        folder: A folder with `ml-100k/u.data` and `ml-100k/u.user`, or `ml-1m/ratings.dat` and
            `ml-1m/users.dat`, or the folder that holds these files itself; by default the
            environment variable PARAFAIR_DATA. It is never downloaded.
        size: "100k" or "1m".
    """
    form = FORMS[one_of("size", size, FORMS)]
    paths = _find(form.source, folder)
    table = _ratings(form, paths[0])
    people = _users(form, paths[1])
    absent = np.setdiff1d(table["user"], people.index)
    if len(absent):
        raise ValueError(
            f"{paths[0]} has ratings of user {absent[0]}, who is not in {paths[1]}; {_again(form)}"
        )
    return rated("movielens", ABOUT, table, people)


def _find(source: Source, folder: str | Path | None) -> list[Path]:
    """Return the paths of both files; they may lie in the folder itself."""
    home = data_folder(folder)
    own = [home / name for name in source.files] if home is not None else []
    if own and all(path.is_file() for path in own):
        return own
    return list(source.find(folder).values())


def _again(form: Form) -> str:
    return f"unpack {form.source.name}.zip again"


def _read(form: Form, path: Path, number: int, rows: int, columns: int, kind: Any) -> NDArray[Any]:
    """Read the first columns of a file, and check the number of its rows."""
    separator = form.separators[number]
    if not path.stat().st_size:
        raise ValueError(f"{path} must have {rows} rows, but it is empty; {_again(form)}")
    try:
        found = np.loadtxt(
            path,
            dtype=kind,
            delimiter=separator,
            usecols=[form.step * column for column in range(columns)],
            encoding="latin-1",
            comments=None,
            ndmin=2,
        )
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{path} must have {columns} fields or more in each row, separated by "
            f"{separator * form.step!r} ({error}); {_again(form)}"
        ) from error
    if len(found) != rows:
        raise ValueError(f"{path} must have {rows} rows, got {len(found)}; {_again(form)}")
    return found


def _ratings(form: Form, path: Path) -> pandas.DataFrame:
    """Return the ratings, checked."""
    found = _read(form, path, 0, form.ratings, 4, np.int64)
    value = found[:, 2]
    if not ((value >= 1) & (value <= 5)).all():
        raise ValueError(
            f"{path}: ratings must be from 1 to 5, got {value.min()} to {value.max()}; "
            f"{_again(form)}"
        )
    names = ("user", "item", "rating", "time")
    return frame_of(dict(zip(names, found.T, strict=True)), for_what="datasets.movielens")


def _users(form: Form, path: Path) -> pandas.DataFrame:
    """Return the features of the users, checked."""
    found = _read(form, path, 1, form.users, 4, np.str_)
    gender, age, occupation = (found[:, place] for place in form.order)
    if not np.isin(gender, ("F", "M")).all():
        strange = str(np.setdiff1d(gender, ("F", "M"))[0])
        raise ValueError(f"{path}: gender must be F or M, got {strange!r}; {_again(form)}")
    try:
        users = found[:, 0].astype(np.int64)
        if len(np.unique(users)) < len(users):
            raise ValueError("a user occurs more than once")
        if form.source.name == "ml-1m":
            age = np.array([AGES[code] for code in age.tolist()])
            occupation = np.array([OCCUPATIONS[int(code)] for code in occupation.tolist()])
        else:
            age = age.astype(np.int64)
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(
            f"{path} has users, ages or occupations that MovieLens does not have ({error}); "
            f"{_again(form)}"
        ) from error
    columns = {"user": users, "gender": gender, "age": age, "occupation": occupation}
    return frame_of(columns, for_what="datasets.movielens").set_index("user")
