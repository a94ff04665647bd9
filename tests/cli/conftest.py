"""Data in a working folder, and commands run in this process."""

import numpy as np
import pandas as pd
import pytest

from parafair import datasets

pytest.importorskip("typer")
from typer.testing import CliRunner

from parafair.cli import app

# With the fixture `arrays`.
FIT = ("fit", "tensor.npy", "--rank", 2, "--out", "run")
PEOPLE = ("--sensitive", "people.csv", "--key", "person")

# With the fixture `tables`.
STUDENTS, MODULES = [f"s{i:02}" for i in range(40)], ["algebra", "art", "biology", "music"]
MODES = ("--modes", "student,module,test", "--value", "score")
GENDER = ("--sensitive", "students.csv", "--sensitive-columns", "gender", "--key", "student")
SMALL = ("--center", "--max-iter", 20, "--tol", 1e-2)
SCORES = ("scores.csv", *MODES, *GENDER, *SMALL)
FIT_SCORES = ("fit", *SCORES, "--rank", 2, "--out", "run")


def run(*arguments, code=0):
    """Run a command; return everything it printed, on one line."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def help_of(*command):
    """The help of a command, on one line and without frames."""
    return " ".join(run(*command, "--help").replace("│", " ").split())


@pytest.fixture
def working(tmp_path, monkeypatch):
    """An empty working folder, and a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def arrays(working):
    """A tensor in a file of NumPy, and tables of its 40 people."""
    data = datasets.synthetic(0, shape=(40, 8, 6), rank=3)
    np.save("tensor.npy", data.tensor)
    names = [f"p{i}" for i in range(40)]
    people = pd.DataFrame({"person": names, "group": data.sensitive_features})
    people.to_csv("people.csv", index=False)
    people.assign(person=range(40)).to_csv("numbered.csv", index=False)
    return working


@pytest.fixture
def tables(working):
    """Scores of 40 students, about half of them observed, and a table of the students."""
    random = np.random.default_rng(0)
    gender = np.repeat(["f", "m"], 20)
    ability = random.normal(size=(40, 2)) + np.outer(gender == "m", [0, 1.5])
    taste = random.normal(size=(4, 2))
    scores = 60 + 10 * np.einsum("ir,jr->ij", ability, taste)[:, :, None] + 3 * np.arange(2)
    scores = scores + random.normal(scale=2, size=scores.shape)
    i, j, k = np.nonzero(random.random(scores.shape) < 0.6)
    table = pd.DataFrame(
        {
            "student": np.array(STUDENTS)[i],
            "module": np.array(MODULES)[j],
            "test": k + 1,
            "score": scores[i, j, k].round(1),
        }
    )
    table.to_csv("scores.csv", index=False)
    people = pd.DataFrame({"student": STUDENTS, "gender": gender, "age": np.arange(40) % 25 + 18})
    people.sample(frac=1, random_state=1).to_csv("students.csv", index=False)
    return working


def shuffle_people():
    """Put people in another order; "unnamed.csv" has them without the name of their mode."""
    people = pd.read_csv("students.csv").sort_values("student").sample(frac=1, random_state=5)
    people.to_csv("students.csv", index=False)
    people.rename(columns={"student": "who"}).to_csv("unnamed.csv", index=False)
