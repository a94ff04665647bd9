"""Nothing depends on global state, and nothing changes it: dtype, device, warnings, seeds."""

import ast
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import parafair
from parafair import FairCP, audit
from parafair.audits.measures import residual_fit, unfairness
from parafair.dependence.hsic import hsic

SOURCE = Path(parafair.__file__).parent

# Functions that use the default device, and those that use the default dtype too.
INTEGERS = {"arange", "randperm", "triu_indices", "tril_indices", "as_tensor"}
NUMBERS = {"empty", "zeros", "ones", "full", "rand", "randn", "eye", "linspace", "tensor"}


def calls_with_defaults(file):
    for node in ast.walk(ast.parse(file.read_text())):
        function = getattr(node, "func", None)
        if not isinstance(function, ast.Attribute) or getattr(function.value, "id", "") != "torch":
            continue
        given = {keyword.arg for keyword in node.keywords}
        needed = {"device"} if function.attr in INTEGERS else {"device", "dtype"}
        if function.attr in INTEGERS | NUMBERS and not needed <= given:
            yield f"{file.relative_to(SOURCE)}:{node.lineno}: torch.{function.attr}"
        if function.attr in {"get_default_dtype", "get_default_device"}:
            yield f"{file.relative_to(SOURCE)}:{node.lineno}: torch.{function.attr}"


def test_every_new_tensor_states_its_dtype_and_device():
    found = [call for file in SOURCE.rglob("*.py") for call in calls_with_defaults(file)]
    assert not found


def change_dtype():
    torch.set_default_dtype(torch.float64)


def change_device():
    torch.set_default_device("meta")  # tensors there have no values, so any use fails


@pytest.fixture
def restored():
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
    torch.set_default_device(None)


PEOPLE = 24
GROUPS = np.array(["a", "b", "c"])[np.arange(PEOPLE) % 3]
AGES = np.linspace(20, 60, PEOPLE) % 7
ROWS = np.random.default_rng(0).normal(size=(PEOPLE, 3)) + (GROUPS == "a")[:, None]


def audit_rows():
    features = np.array([*zip(GROUPS, AGES.tolist(), strict=True)], object)
    attackers = ("linear", "network", "paper-network")  # the others do not use torch
    result = audit(
        ROWS, sensitive_features=features, attackers=attackers, folds=2, repeats=1, permutations=9
    )
    return [row.value for row in result.rows]


def fit():
    data = np.random.default_rng(1).random((PEOPLE, 6, 5))
    data[0, 0, 0] = np.nan
    model = FairCP(3, center=True, max_iter=3, tol=0.0, strength=1.0)
    rows = model.fit(data, sensitive_features=GROUPS).embedding_
    new = model.transform(data, sensitive_features=GROUPS)
    return [*rows.ravel(), *new.ravel(), *model.predict(np.zeros((2, 3), int)), model.score(data)]


def measure():
    weights, factors = [1.0, 0.1], [[[1.0, 0.2], [2.0, 0.3]], [[1.0, 2.0], [3.0, 4.0]]]
    network = unfairness(ROWS, sensitive_features=GROUPS, hidden=20, epochs=2)
    lists = hsic(ROWS.tolist(), np.arange(PEOPLE))
    return [residual_fit(np.eye(2), (weights, factors)), network.accuracy, float(lists)]


@cache
def at_the_usual_defaults(compute):
    return compute()


@pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
@pytest.mark.parametrize("compute", [audit_rows, fit, measure])
@pytest.mark.parametrize("change", [change_dtype, change_device])
@pytest.mark.usefixtures("restored")
def test_results_do_not_depend_on_torch_defaults(compute, change):
    expected = at_the_usual_defaults(compute)
    change()
    np.testing.assert_array_equal(compute(), expected)


# The command line collects warnings; it runs in one thread.
MAY_CHANGE_FILTERS = {"cli/shell.py"}


def test_no_code_that_may_run_in_threads_changes_the_filters_of_warnings():
    words = ("catch_warnings(", "filterwarnings(", "simplefilter(")
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if any(word in file.read_text() for word in words)
    }
    assert found <= MAY_CHANGE_FILTERS


def test_audits_in_threads_leave_the_filters_of_warnings_as_they_were():
    before = list(warnings.filters)
    groups = np.array(["a"] * (PEOPLE - 2) + ["b"] * 2)  # fewer members than folds

    def run(seed):
        audit(
            1e12 * ROWS,  # the paper's network diverges
            sensitive_features=groups,
            attackers=["linear"],
            folds=3,
            repeats=1,
            permutations=2,
            random_state=seed,
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(8)))
    assert warnings.filters == before
