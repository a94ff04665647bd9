import json

import numpy as np
import pandas as pd
import pytest

from parafair import parity_limit
from tests.cli.conftest import PEOPLE, run

pytest.importorskip("ot")

LIMIT = ("parity-limit", "tensor.npy", *PEOPLE)


def test_the_limit_is_that_of_python(arrays):
    groups = pd.read_csv("people.csv")["group"]
    expected = parity_limit(np.load("tensor.npy"), sensitive_features=groups, random_state=1)
    printed = run(*LIMIT, "--random-state", 1, "--json", "limit.json")
    assert printed == " ".join(str(expected).split())
    assert json.loads((arrays / "limit.json").read_text()) == json.loads(
        json.dumps(expected.to_dict())
    )
    text = run(*LIMIT, "--json", "limit.json", code=2)
    assert "limit.json already exists; choose another file" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("parity-limit", "tensor.npy"), "--sensitive is missing; give the table of people"),
        ((*LIMIT, "--max-people", 1), "--max-people must be"),
        ((*LIMIT, "--mode", 5), "mode must be between 0 and 2 or one of"),
    ],
)
def test_wrong_limits_are_refused(arrays, arguments, message):
    text = run(*arguments, code=2)
    assert text.startswith("Error:")
    assert message in text
