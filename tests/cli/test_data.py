import numpy as np
import pandas as pd
import pytest

from parafair import SensitiveFeatures, TensorData, datasets
from tests.cli.conftest import help_of, run


def test_datasets_are_listed_and_written(working):
    listed = run("datasets")
    assert all(name in listed for name in datasets.DATASETS)
    run("datasets", "synthetic", "--out", "data", "--shape", "10,4,3", "--rank", 2, "--seed", 1)
    expected = datasets.synthetic(1, shape=(10, 4, 3), rank=2)
    np.testing.assert_array_equal(np.load("data/tensor.npy"), expected.tensor)
    groups = pd.read_csv("data/sensitive.csv")["group"]
    assert groups.tolist() == expected.sensitive_features.tolist()


def test_the_help_lists_the_options_of_every_data_set(working):
    text = help_of("datasets")
    for name, entry in datasets.DATASETS.items():
        for option in entry.options:
            about = option.about.split(";")[0].rstrip(".").replace("`", "")  # typer renders it
            assert f"{name}: {about}" in text
    assert "[default: 200,100,100]" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("synthetik", "--out", "d"), "did you mean 'synthetic'?"),
        (("synthetic",), "--out is missing; give the folder to write the data set to"),
        (("oulad", "--out", "d", "--rank", 3), "takes no --rank; use its own options: --data"),
        (
            ("synthetic", "--out", "d", "--data", "."),
            "takes no --data; use its own options: --seed, --shape, --rank",
        ),
        (("oulad", "--out", "d", "--data", "."), "must hold oulad/assessments.csv"),
        (("adult", "--out", "d", "--subset", "tset"), "did you mean 'test'?"),
        (("synthetic", "--out", "d", "--shape", "3,x"), "--shape must be whole numbers separated"),
    ],
)
def test_wrong_options_are_refused(working, arguments, message):
    text = run("datasets", *arguments, code=2)
    assert text.startswith("Error:")
    assert message in text
    assert not (working / "d").exists()


def test_a_target_is_written(working, small_adult):
    run("datasets", "adult", "--out", "d", "--data", small_adult, "--subset", "test")
    expected = datasets.adult(small_adult, subset="test")
    np.testing.assert_array_equal(np.load("d/tensor.npy"), expected.tensor)
    people = SensitiveFeatures.from_table(
        "d/sensitive.csv", ["sex", "race"], key="person", labels=expected.labels[0]
    )
    assert len(people) == len(expected.target)
    target = pd.read_csv("d/target.csv", index_col="person")["income"]
    pd.testing.assert_series_equal(target, expected.target)


def test_real_data_is_listed_and_written(working, real_data):
    listed = run("datasets", "--data", real_data)
    assert all(name in listed for name in ("contraceptive", "oulad"))
    run("datasets", "contraceptive", "--out", "women", "--data", real_data)
    assert np.load("women/tensor.npy").shape == (1473, 9)
    assert pd.read_csv("women/sensitive.csv")["group"].value_counts()["not working"] == 1104
    run("datasets", "oulad", "--out", "scores", "--data", real_data)
    data = TensorData.from_table(
        "scores/entries.csv", modes=["student", "module", "assessment"], value="value"
    )
    people = SensitiveFeatures.from_table(
        "scores/sensitive.csv", ["gender"], key="student", labels=data.labels[0]
    )
    assert len(people) == len(data.labels[0])
