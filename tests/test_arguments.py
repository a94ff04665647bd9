from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from parafair.arguments import (
    as_path,
    callback,
    classes_of,
    flag,
    instance_of,
    items,
    jobs,
    one_of,
    real_number,
    to_numpy,
    whole_number,
)

NO_NUMBERS = ["1", None, float("nan"), True, [1], np.array([1, 2]), 1j, 10**400, pd.NA, object()]


def test_whole_numbers_of_python_and_numpy_are_taken():
    assert whole_number("rank", 3) == whole_number("rank", np.int8(3)) == 3
    assert type(whole_number("rank", np.int64(3))) is int


@pytest.mark.parametrize("value", [*NO_NUMBERS[:-3], 1.0, 0, -1])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ValueError, match="rank must be a whole number of at least 1, got"):
        whole_number("rank", value)


def test_the_limits_of_whole_numbers_are_named():
    with pytest.raises(ValueError, match="verbose must be a whole number from 0 to 2, got 3"):
        whole_number("verbose", 3, least=0, most=2)


@pytest.mark.parametrize("value", [*NO_NUMBERS, float("inf"), -0.5])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="ridge must be a finite number of at least 0, got"):
        real_number("ridge", value, least=0)


def test_the_limits_of_numbers_are_named():
    assert real_number("share", np.float32(0.5), above=0, most=1) == 0.5
    with pytest.raises(ValueError, match="share must be a finite number above 0 and of at most 1"):
        real_number("share", 0, above=0, most=1)
    with pytest.raises(ValueError, match="level must be a finite number, got inf"):
        real_number("level", float("inf"))


def test_words_are_no_flags():
    assert flag("center", np.bool_(True)) is True
    for value in ("no", 0, None):
        with pytest.raises(ValueError, match="center must be True or False, got"):
            flag("center", value)


@pytest.mark.parametrize("value", ["skwared", None, np.array(["squared"]), pd.DataFrame()])
def test_unknown_words_are_refused_with_the_known_ones(value):
    with pytest.raises(ValueError, match="loss must be one of squared, absolute; got"):
        one_of("loss", value, ("squared", "absolute"))


def test_objects_of_other_classes_are_refused():
    with pytest.raises(TypeError, match="data must be a Path, got 'x'; use pathlib"):
        instance_of("data", "x", Path, "use pathlib")


def test_what_cannot_be_called_is_no_callback():
    callback("on_trial", None)
    callback("on_trial", print)
    with pytest.raises(TypeError, match="on_trial must be a function or None, got 1"):
        callback("on_trial", 1)


@pytest.mark.parametrize("value", ["ab", b"ab", 1, None, torch.tensor(1.0)])
def test_text_is_no_list(value):
    with pytest.raises(TypeError, match="modes must be a list of names, got"):
        items("modes", value, "names")


def test_items_of_any_iterable_are_taken():
    assert items("modes", ("a", "b"), "names") == items("modes", iter("ab"), "names") == ["a", "b"]


@pytest.mark.parametrize("value", [1, None, b"x", ["a"]])
def test_what_is_no_path_is_refused(value):
    with pytest.raises(TypeError, match="folder must be a path as text or a pathlib.Path, got"):
        as_path("folder", value)


@pytest.mark.parametrize("value", ["~", "~/rows.npy", Path("~") / "rows.npy"])
def test_a_home_that_no_shell_has_expanded_is_no_folder_here(value):
    with pytest.raises(
        ValueError, match="folder must be a path without ~, .* got '~.*; write the home folder"
    ):
        as_path("folder", value)
    assert as_path("folder", "~rows.npy") == Path("~rows.npy")


@pytest.mark.parametrize("value", ["a\0b", "x" * 5000])
def test_paths_that_no_system_has_are_refused(value):
    with pytest.raises(ValueError, match="folder must be a path that can be looked up, got"):
        as_path("folder", value)


@pytest.mark.parametrize("value", [10**30, 0, 1.5, "2", True])
def test_numbers_of_processes_are_checked(value):
    jobs("n_jobs", -1)
    with pytest.raises(ValueError, match="n_jobs must be a whole number other than 0, or None"):
        jobs("n_jobs", value)


def test_names_of_classes_are_no_classes():
    assert classes_of("classes", [int]) == (int,)
    with pytest.raises(TypeError, match="each of classes must be a type, got 'int'"):
        classes_of("classes", ["int"])


@pytest.mark.parametrize("value", [[[1, 2], [3]], torch.eye(2).to_sparse()])
def test_what_is_no_array_is_refused(value):
    with pytest.raises(ValueError, match="X must be an array with rows of equal length, got"):
        to_numpy(value, "X")
