"""Defects as they were found, by use and by attack; those that belong elsewhere are there."""

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, SensitiveFeatures, TensorData, audit, frontier
from parafair.records import rebuild

GROUPS = np.array(["a", "b"])[np.arange(12) % 2]
TENSOR = np.random.default_rng(0).random((12, 4, 3))


def labeled(prefix, modes=("who", "what", "when")):
    labels = [[f"{prefix}{i:02}" for i in range(12)], None, None]
    return TensorData.from_array(TENSOR, modes=modes, labels=labels)


@pytest.mark.parametrize("other", [labeled("q"), labeled("p", ("person", "what", "when"))])
def test_a_frontier_is_not_continued_with_other_people_or_modes(tmp_path, other):
    def run(data):
        model = FairCP(1, max_iter=1, tol=0.0)
        settings = {"strengths": [1.0], "audits": None, "limit": False, "out": tmp_path / "curve"}
        return frontier(model, data, sensitive_features=GROUPS, **settings)

    run(labeled("p"))
    with pytest.raises(ValueError, match="holds results with other settings"):
        run(other)


def test_masked_sensitive_features_are_missing():
    masked = np.ma.array(GROUPS, mask=np.arange(12) % 5 == 3)
    with pytest.raises(ValueError, match=r"has 2 missing values \(rows 3, 8\); fill them"):
        SensitiveFeatures.of(masked)


def test_rows_with_more_fields_than_the_header_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("who,what,x\na,b,1,9\nc,d,2,8\n")
    with pytest.raises(ValueError, match="line 2 has 4 fields, but the header has 3"):
        TensorData.from_table(tmp_path / "x.csv", modes=["who", "what"], value="x")


@pytest.mark.parametrize("name", ["dataclass", "lru_cache", "ABC", "eval"])
def test_a_record_calls_no_class_that_was_not_offered(name):
    with pytest.raises(ValueError, match=f"the record names the class '{name}', which is not"):
        rebuild({"name": name}, {"FairCP": FairCP})


def test_numbers_for_a_model_with_labels_are_not_taken_for_positions():
    table = pd.DataFrame({"who": [10, 10, 11], "what": [5, 6, 5], "x": [1.0, 2, 3]})
    data = TensorData.from_table(table, modes=["who", "what"], value="x")
    model = FairCP(1, method="none", max_iter=1, tol=0.0, ridge=1.0).fit(data)
    with pytest.raises(ValueError, match="its numbers could be labels or positions"):
        model.predict(np.array([[10, 5]]))
    assert model.predict(data).shape == (3,)


def test_the_support_vector_machine_leaves_the_random_state_alone():
    before = np.random.get_state()[1].tolist()
    audit(TENSOR[:, :, 0], sensitive_features=GROUPS, attackers=["svm"], permutations=1)
    assert np.random.get_state()[1].tolist() == before


def test_a_reversed_array_with_a_first_mode_of_one_is_read():
    assert TensorData.from_array(TENSOR[:1][::-1]).shape == (1, 4, 3)
