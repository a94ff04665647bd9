import numpy as np
import pytest

from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures
from parafair.guarantees.groups import as_groups, check_features, joint_groups, without_empty


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "a", "b"], "has one person in the group 'b', at least 2 people are needed"),
        (["a", "b"], "has 2 groups for 2 people"),
    ],
)
def test_groups_of_one_person_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        check_features(SensitiveFeatures.of(values))


def test_a_group_without_people_is_refused():
    column = Column("group", "categorical", np.array([0, 0, 2, 2]), ("a", "b", "c"))
    with pytest.raises(ValueError, match="has nobody in the group 'b', at least 2 people"):
        check_features(SensitiveFeatures((column,)))


def test_one_group_alone_is_refused():
    column = Column("group", "categorical", np.zeros(4, int), ("a",))
    with pytest.raises(ValueError, match="has one group, 2 or more are needed; drop"):
        check_features(SensitiveFeatures((column,)))


def test_numbers_of_held_out_people_are_cut_at_those_of_the_training():
    training = SensitiveFeatures.of(np.arange(101.0), names=["age"])
    new = Column("age", "numeric", np.array([3.0, 30, 60, 99, 1000]))
    found = as_groups(new, training)
    assert found.categories == ("below 25", "25 to 50", "50 to 75", "from 75")
    assert found.values.tolist() == [0, 1, 2, 3, 3]
    assert found.name == "age in 4 parts"


def test_joint_groups_need_people_in_every_combination():
    random = np.random.default_rng(0)
    table = np.stack([random.choice(["f", "m"], 100), random.choice(["x", "y"], 100)], 1)
    joint, reason = joint_groups(SensitiveFeatures.of(table, names=["sex", "group"]))
    assert len(joint.categories) == 4
    assert joint.name == "sex and group"
    assert not reason
    table[:, 1] = "x"
    table[0, 1], table[1:3, 1] = "y", "z"
    joint, reason = joint_groups(SensitiveFeatures.of(table, names=["sex", "group"]))
    assert joint is None
    assert "no joint statement about sex and group" in reason
    assert joint_groups(SensitiveFeatures.of(["f", "m"] * 4)) == (None, "")


def test_groups_without_people_can_be_dropped():
    column = Column("group", "categorical", np.array([0, 0, 2, 2]), ("a", "b", "c"))
    numbers = Column("age", "numeric", np.arange(4.0))
    found = without_empty(SensitiveFeatures((column, numbers)))
    assert found.columns[0].categories == ("a", "c")
    assert found.columns[0].values.tolist() == [0, 0, 1, 1]
    assert found.columns[1] is numbers
