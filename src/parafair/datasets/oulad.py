"""Open University Learning Analytics: scores of students in the assessments of modules."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parafair.arguments import one_of
from parafair.data.frames import read_table
from parafair.data.tensor_data import TensorData
from parafair.datasets.base import Dataset, register
from parafair.datasets.files import Source, fingerprint
from parafair.errors import ParafairWarning

if TYPE_CHECKING:
    import pandas

SOURCE = Source(
    name="oulad",
    files=("assessments.csv", "studentAssessment.csv", "studentInfo.csv"),
    addresses=(
        "https://archive.ics.uci.edu/static/public/349/open+university+learning+analytics+dataset.zip",
        "https://analyse.kmi.open.ac.uk/open_dataset/download",
    ),
    size="about 45 MB",
)
ABOUT = (
    "23369 students of the Open University, 2013 and 2014: scores from 0 to 100 in up to 14 "
    "assessments of 7 modules, 7 % of all combinations; gender, age, disability, deprivation, "
    "region. Kuzilek, Hlosta and Zdrahal 2017, CC BY 4.0"
)
COLUMNS = {
    "assessments.csv": ["code_module", "code_presentation", "id_assessment", "date"],
    "studentAssessment.csv": ["id_assessment", "id_student", "score"],
    "studentInfo.csv": [
        *("id_student", "code_module", "code_presentation"),
        *("gender", "age_band", "disability", "imd_band", "region"),
    ],
}
ROWS = {"assessments.csv": 206, "studentAssessment.csv": 173_912, "studentInfo.csv": 32_593}
BANDS = {
    "gender": ["F", "M"],
    "age_band": ["0-35", "35-55", "55<="],
    "disability": ["N", "Y"],
    "imd_band": [f"{start}-{start + 10}%" for start in range(0, 100, 10)],
}
# The largest score, and more days than a presentation has.
MOST = {"score": 100, "date": 1000}
# A spreadsheet read 10-20 as the 20th of October; the archive lacks the percent sign.
REPAIRED = {"20-Oct": "10-20%", "10-20": "10-20%"}
FEATURES = ["gender", "age_band", "disability", "imd_band", "region"]
FINGERPRINT = "ca6e8096470216f6d416b96948ec3628a365226cd66bd681cfd2881ba215affa"


VALUES = ("scores", "passed")
# According to the description of the data, a lower score is a fail.
PASS_MARK = 40


@register(ABOUT, SOURCE)
def oulad(folder: str | Path | None = None, *, values: str = "scores") -> Dataset:
    """Load the scores of students x modules x assessments, most of them missing.

    The tensor is sparse `TensorData` with the modes `student` (23369 numbers), `module` (AAA to
    GGG) and `assessment` (1 to 14): the number of an assessment within its presentation of the
    module, by date. Assessments without a date (final exams) come last. Presentations of a module
    may have different assessments, so the same number may mean another assessment in another year.
    18 students submitted something but have no score.

    Some students took a module more than once (743 of 25067 pairs of student and module). All their
    scores are from the last presentation in which they have a score.

    The sensitive features are a data frame with one row per student: `gender`, `age_band`,
    `disability`, `imd_band` (deprivation of the neighborhood, 0-10% the most deprived; None if it
    is missing) and `region`. If they differ between presentations (the age band of about 70
    students), the latest one counts. The band `10-20%` is repaired where a file has `20-Oct`.

    Args:
        folder: A folder with `oulad/assessments.csv`, `oulad/studentAssessment.csv` and
            `oulad/studentInfo.csv`; by default the environment variable PARAFAIR_DATA. Without
            both, the files are downloaded once.
        values: "scores", 0 to 100, or "passed", 1 for a score of at least 40 and 0 for a lower one
            (4 %). The large table of clicks is not read.
    """
    one_of("values", values, VALUES)
    tables = {name: _read(name, path) for name, path in SOURCE.find(folder).items()}
    scores = _last_attempts(
        tables["studentAssessment.csv"].merge(_places(tables["assessments.csv"]))
    )
    tensor = TensorData.from_table(scores, modes=["student", "module", "assessment"], value="score")
    people = _people(tables["studentInfo.csv"]).reindex(tensor.labels[0])
    _compare(tensor, people)
    if values == "passed":
        passed = (scores["score"] >= PASS_MARK).astype(float).where(scores["score"].notna())
        tensor = TensorData.from_table(
            scores.assign(passed=passed), modes=list(tensor.modes), value="passed"
        )
    return Dataset(name="oulad", about=ABOUT, tensor=tensor, sensitive_features=people)


def _read(name: str, path: Path) -> pandas.DataFrame:
    """Read a file and check its columns, its length and its values."""
    again = f"get it again from {SOURCE.addresses[0]} (delete it first if it is in a cache)"
    table = read_table(path).replace("?", None)
    missing = [column for column in COLUMNS[name] if column not in table.columns]
    if missing:
        raise ValueError(f"{path} lacks the columns {', '.join(missing)}; {again}")
    if len(table) != ROWS[name]:
        raise ValueError(f"{path} must have {ROWS[name]} rows, got {len(table)}; {again}")
    table = table[COLUMNS[name]]
    if name == "studentInfo.csv":
        table = table.assign(imd_band=table["imd_band"].replace(REPAIRED))
        for column, bands in BANDS.items():
            strange = set(table[column].dropna()) - set(bands)
            if strange:
                raise ValueError(
                    f"{path}, column {column}: values must be {', '.join(bands)}; got "
                    f"{min(map(str, strange))!r}; {again}"
                )
    for column, most in MOST.items():
        if column in table:
            table = table.assign(**{column: _numbers(table[column], most, path, again)})
    return table


def _numbers(column: pandas.Series[Any], most: int, path: Path, again: str) -> pandas.Series[Any]:
    """Return a column of numbers from 0 to `most`, some of them missing; raise for others."""
    import pandas

    found = pandas.to_numeric(column, errors="coerce").astype(float)
    strange = column[column.notna() & ~found.between(0, most)]
    if len(strange):
        raise ValueError(
            f"{path}, column {column.name}: values must be 0 to {most}; got "
            f"{str(strange.iloc[0])!r}; {again}"
        )
    return found


def _places(assessments: pandas.DataFrame) -> pandas.DataFrame:
    """Number the assessments of each presentation by date, those without a date last."""
    presentation = ["code_module", "code_presentation"]
    ordered = assessments.sort_values([*presentation, "date", "id_assessment"], na_position="last")
    return ordered.assign(assessment=ordered.groupby(presentation).cumcount() + 1)


def _last_attempts(scores: pandas.DataFrame) -> pandas.DataFrame:
    """Keep the last presentation of a module in which a student has a score.

    Students without any score keep all presentations. Names such as 2013B and 2013J sort by time.
    """
    pair = ["id_student", "code_module"]
    scored = scores["code_presentation"].where(scores["score"].notna(), "")
    last = scored.groupby([scores[name] for name in pair]).transform("max")
    kept = scores[(scores["code_presentation"] == last) | (last == "")]
    names = {"id_student": "student", "code_module": "module"}
    return kept.rename(columns=names)


def _people(info: pandas.DataFrame) -> pandas.DataFrame:
    """Return one row per student, from the latest presentation."""
    latest = info.sort_values(["code_presentation", "code_module"]).drop_duplicates(
        "id_student", keep="last"
    )
    people = latest.set_index("id_student")[FEATURES].rename_axis("student")
    return people.astype(object).where(people.notna(), None)


def _compare(tensor: TensorData, people: pandas.DataFrame) -> None:
    """Warn if the result differs from the one that this loader was checked with."""
    columns = {name: people[name].to_numpy() for name in FEATURES}
    columns |= dict(zip(tensor.modes, tensor.labels, strict=True))
    columns |= {f"cells_{mode}": cells.numpy() for mode, cells in enumerate(tensor.cells)}
    columns["score"] = tensor.entries.numpy().astype(int)
    if fingerprint(columns) != FINGERPRINT:
        warnings.warn(
            "oulad has the expected form, but its values differ from the copy used for the "
            "published results; if that is not intended, get the files again from "
            f"{SOURCE.addresses[0]}",
            ParafairWarning,
            stacklevel=3,
        )
