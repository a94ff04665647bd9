"""Generated marks of students, half of them missing, for examples with tables."""

from __future__ import annotations

import numpy as np

from parafair.arguments import whole_number
from parafair.data.frames import check_memory, frame_of
from parafair.data.tensor_data import TensorData
from parafair.datasets.base import Dataset, register

MODULES = ("algebra", "art", "biology", "history", "music", "physics")
TESTS = 3
BYTES_PER_STUDENT = 1000
ABOUT = (
    "Marks of students in modules and tests, about half of them observed; generated, of rank 2 "
    "with noise, and men are better in one of two abilities"
)


@register(ABOUT)
def marks(seed: int = 0, *, students: int = 200) -> Dataset:
    """Generate marks of students, with their gender.

    The modules and the tests are always the same. The seed draws the students, so another seed
    gives new people for the same model.

    Args:
        seed: Seed of the students.
        students: Number of students.

    >>> marks(0, students=20).tensor
    TensorData(20 student x 6 module x 3 test, 183 observed (50.8 %), sparse, float64)
    """
    students = whole_number("students", students, least=2)
    whole_number("seed", seed, least=0)
    check_memory(students * BYTES_PER_STUDENT, f"marks of {students} students", "choose fewer")
    needs = np.random.default_rng(0).standard_normal((len(MODULES), 2))
    random = np.random.default_rng((1, seed))
    gender = random.permutation(np.resize(["f", "m"], students))
    ability = random.standard_normal((students, 2)) + np.outer(gender == "m", [0, 1])
    mean = 60 + 10 * (ability @ needs.T)[:, :, None] + 5 * np.arange(TESTS)
    values = (mean + random.normal(scale=4, size=mean.shape)).round()
    values[random.random(values.shape) < 0.5] = np.nan
    names = np.array([f"s{seed}-{number:03}" for number in range(students)])
    tensor = TensorData.from_array(
        values,
        modes=("student", "module", "test"),
        labels=(names.tolist(), MODULES, range(1, TESTS + 1)),
    )
    people = frame_of({"student": names, "gender": gender}, for_what="datasets.marks")
    return Dataset("marks", ABOUT, tensor.to_sparse(), people.set_index("student"))
