"""The loader of MovieLens, with small files of the same form: the data may not be redistributed."""

from importlib import import_module

import numpy as np
import pytest

from parafair import datasets
from parafair.datasets.files import VARIABLE

pytest.importorskip("pandas")
module = import_module("parafair.datasets.movielens")  # the function has the same name

USERS = {
    "100k": ["1|24|M|technician|85711", "2|53|F|other|94043", "3|23|M|writer|32067-1234"],
    "1m": ["1::F::1::10::48067", "2::M::56::16::70072", "3::M::25::15::55117"],
}
RATINGS = [(1, 242, 3, 881250949), (3, 302, 3, 891717742), (2, 242, 1, 878887116),
           (1, 51, 5, 880606923)]  # fmt: skip
NAMES = {"100k": ("ml-100k", "u.data", "u.user"), "1m": ("ml-1m", "ratings.dat", "users.dat")}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    forms = {name: form._replace(ratings=4, users=3) for name, form in module.FORMS.items()}
    monkeypatch.setattr(module, "FORMS", forms)


@pytest.fixture(params=["100k", "1m"])
def size(request):
    return request.param


@pytest.fixture
def home(tmp_path, size):
    folder, ratings, users = NAMES[size]
    (tmp_path / folder).mkdir()
    between = "\t" if size == "100k" else "::"
    rows = "\n".join(between.join(map(str, row)) for row in RATINGS)
    (tmp_path / folder / ratings).write_text(rows + "\n")
    (tmp_path / folder / users).write_text("\n".join(USERS[size]) + "\n", encoding="latin-1")
    return tmp_path


def test_both_sizes_are_read(home, size, monkeypatch):
    data = datasets.movielens(home, size=size)
    assert data.tensor.shape == (3, 3)
    assert [labels.tolist() for labels in data.labels] == [[1, 2, 3], [51, 242, 302]]
    assert data.tensor.entries.tolist() == [5, 3, 1, 3]
    assert data.times.tolist() == [880606923, 881250949, 878887116, 891717742]
    people = data.sensitive_features
    first = {"100k": ["M", 24, "technician"], "1m": ["F", "under 18", "K-12 student"]}
    assert people.loc[1].tolist() == first[size]
    # The folder of the files itself, and the environment variable, do as well.
    own = datasets.movielens(home / NAMES[size][0], size=size)
    monkeypatch.setenv(VARIABLE, str(home))
    for other in (own, datasets.movielens(size=size)):
        np.testing.assert_array_equal(other.times, data.times)


def test_it_is_never_downloaded(monkeypatch):
    pooch = pytest.importorskip("pooch")
    monkeypatch.setattr(pooch, "retrieve", lambda *_, **__: pytest.fail("downloads"))
    message = r"folder is missing.*must hold ml-1m/ratings.dat.*license forbids redistribution"
    with pytest.raises(FileNotFoundError, match=message):
        datasets.movielens(size="1m")
    assert datasets.DATASETS["movielens"].source.where() == "your own copy"


def test_missing_files_are_named(home, size):
    folder, _, users = NAMES[size]
    (home / folder / users).unlink()
    message = rf"has no file .*{users}; .*must hold .* \(its license forbids redistribution"
    with pytest.raises(FileNotFoundError, match=message):
        datasets.movielens(home, size=size)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (1, "", "must have 4 rows, but it is empty"),
        (1, "1\t2\t3\t4\n", "must have 4 rows, got 1|must have 4 fields"),
        (1, "<html>\n", "must have 4 fields or more in each row, separated by"),
        (2, "1|24|X|technician|85711\n" * 3, "gender must be F or M, got 'X'|must have 4 fields"),
        (2, "1|24|M|artist|85711\n" * 3, "a user occurs more than once|must have 4 fields"),
        (2, "1|x|M|artist|85711\n" * 3, "users, ages or occupations|must have 4 fields"),
        (2, "1::M::2::10::48067\n" * 3, "users, ages or occupations|must have 4 fields"),
        (2, "1::X::1::10::48067\n" * 3, "gender must be F or M, got 'X'|must have 4 fields"),
    ],
)
def test_corrupt_files_are_refused(home, size, file, text, message):
    (home / NAMES[size][0] / NAMES[size][file]).write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        datasets.movielens(home, size=size)
    assert NAMES[size][file] in str(raised.value)
    assert str(raised.value).endswith(f"unpack {NAMES[size][0]}.zip again")


def test_ratings_of_nobody_and_beyond_the_scale_are_refused(home, size):
    folder, ratings, _ = NAMES[size]
    path, between = home / folder / ratings, "\t" if size == "100k" else "::"
    text = path.read_text()
    path.write_text(text.replace(f"{between}5{between}", f"{between}7{between}"))
    with pytest.raises(ValueError, match="ratings must be from 1 to 5, got 1 to 7"):
        datasets.movielens(home, size=size)
    path.write_text(text.replace(f"2{between}242{between}1", f"9{between}242{between}1"))
    with pytest.raises(ValueError, match="has ratings of user 9, who is not in"):
        datasets.movielens(home, size=size)


def test_other_sizes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="size must be one of 100k, 1m; got '10m'"):
        datasets.movielens(tmp_path, size="10m")


@pytest.mark.parametrize("size_", ["100k", "1m"])
def test_real_files_have_the_published_sizes(real_data, size_, monkeypatch):
    if not (real_data / NAMES[size_][0]).is_dir():
        pytest.skip("MovieLens may not be redistributed; copy it into the folder of real data")
    monkeypatch.undo()
    data = datasets.movielens(real_data, size=size_)
    assert data.tensor.observed == {"100k": 100_000, "1m": 1_000_209}[size_]
