"""Contraceptive Method Choice: the real data of the paper, a matrix of women and answers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import one_of
from parafair.datasets.base import Dataset, register
from parafair.datasets.files import Source, fingerprint

SOURCE = Source(
    name="cmc",
    files=("cmc.data",),
    addresses=(
        "https://archive.ics.uci.edu/static/public/30/contraceptive+method+choice.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/cmc/cmc.data",
    ),
    size="about 50 kB",
)
ABOUT = (
    "1473 married women in Indonesia, 1987: nine answers each, and whether she works now (25 % do; "
    "the paper swaps the two labels). UCI Machine Learning Repository, data set 30, CC BY 4.0"
)


class Answer(NamedTuple):
    """A column of the file: its name, the range of its values and their meaning."""

    name: str
    low: int
    high: int
    meaning: str


ANSWERS = (
    Answer("wife_age", 16, 49, "years"),
    Answer("wife_education", 1, 4, "1 low to 4 high"),
    Answer("husband_education", 1, 4, "1 low to 4 high"),
    Answer("children", 0, 16, "number ever born"),
    Answer("wife_islam", 0, 1, "0 other religion, 1 Islam"),
    Answer("wife_working", 0, 1, "0 yes, 1 no"),
    Answer("husband_occupation", 1, 4, "four kinds; 1 high to 4 low"),
    Answer("living_standard", 1, 4, "1 low to 4 high"),
    Answer("media_exposure", 0, 1, "0 good, 1 not good"),
    Answer("contraception", 1, 3, "1 none, 2 long-term, 3 short-term"),
)
SENSITIVE = 5
WORKING = np.array(["working", "not working"])  # the code is 1 for those who do not work
WOMEN = 1473
VALUES = ("answers", "indicators")
# An answer above a threshold is an indicator; ages and children are cut at their quartiles.
THRESHOLDS = {
    "wife_age": (26, 32, 39),
    "wife_education": (1, 2, 3),
    "husband_education": (1, 2, 3),
    "children": (1, 3, 4),
    "wife_islam": (0,),
    "husband_occupation": (1, 2, 3),
    "living_standard": (1, 2, 3),
    "media_exposure": (0,),
    "contraception": (1,),
}
FINGERPRINT = "41dd7f6de4cb24e9e9b8fd5f8babc1d4bbfbc6b88eb339eb96e82436d80cb2d2"


@register(ABOUT, SOURCE)
def contraceptive(folder: str | Path | None = None, *, values: str = "answers") -> Dataset:
    """Load the contraceptive data of the paper, a matrix of 1473 women and nine answers.

    The sensitive feature is the answer to "now working?". The other nine columns, including the
    method of contraception, are the data: ages in years, codes as numbers.

    - `wife_age`: 16 to 49, years
    - `wife_education`, `husband_education`: 1 low to 4 high
    - `children`: 0 to 16, number ever born
    - `wife_islam`: 0 other religion, 1 Islam
    - `husband_occupation`: 1 high to 4 low
    - `living_standard`: 1 low to 4 high
    - `media_exposure`: 0 good, 1 not good
    - `contraception`: 1 none, 2 long-term, 3 short-term
    - sensitive: `wife_working`: "working" (code 0, 25.05 %), "not working" (code 1, 74.95 %)

    Kim and Gittens call code 1 "working". According to the description of the data it means "no".

    Args:
        folder: A folder with the file `cmc/cmc.data`; by default the environment variable
            PARAFAIR_DATA. Without both, the file is downloaded once.
        values: "answers" as in the file, or "indicators": 21 columns of 0 and 1, such as
            `wife_age>32` or `contraception>1` (whether she uses any). Ages and numbers of children
            are cut at their quartiles, and other answers between all their codes.
    """
    one_of("values", values, VALUES)
    table = _read(SOURCE.find(folder)["cmc.data"])
    others = [number for number in range(len(ANSWERS)) if number != SENSITIVE]
    names = [ANSWERS[number].name for number in others]
    answers = table[:, others]
    if values == "indicators":
        cuts = [(place, cut) for place, name in enumerate(names) for cut in THRESHOLDS[name]]
        answers = np.column_stack([answers[:, place] > cut for place, cut in cuts])
        names = [f"{names[place]}>{cut}" for place, cut in cuts]
    return Dataset(
        name="contraceptive",
        about=ABOUT,
        tensor=answers.astype(np.float64),
        sensitive_features=WORKING[table[:, SENSITIVE]],
        modes=("woman", "answer"),
        labels=(np.arange(WOMEN), np.array(names)),
    )


def _read(path: Path) -> NDArray[np.int64]:
    """Read the file and check its values; line endings do not matter."""
    again = f"get the file again from {SOURCE.addresses[0]} (delete it first if it is in a cache)"
    lines = path.read_text(encoding="latin-1").splitlines()
    rows = [line.split(",") for line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != len(ANSWERS):
            raise ValueError(
                f"{path}, line {number}: expected {len(ANSWERS)} values separated by commas, got "
                f"{len(row)}; {again}"
            )
    if len(rows) != WOMEN:
        raise ValueError(f"{path} must have {WOMEN} lines, got {len(rows)}; {again}")
    try:
        table = np.array(rows, dtype=np.int64)
    except ValueError as error:
        raise ValueError(f"{path} must hold whole numbers only ({error}); {again}") from error
    for number, answer in enumerate(ANSWERS):
        low, high = table[:, number].min(), table[:, number].max()
        if (low, high) != (answer.low, answer.high):
            raise ValueError(
                f"{path}, column {number} ({answer.name}): values must run from {answer.low} to "
                f"{answer.high}, got {low} to {high}; {again}"
            )
    columns = {answer.name: table[:, number] for number, answer in enumerate(ANSWERS)}
    if fingerprint(columns) != FINGERPRINT:
        raise ValueError(f"{path} has the expected form, but different values; {again}")
    return table
