"""The page about people whose group is not known shows what was measured, and says no more."""

import json
from pathlib import Path

import pytest
from benchmarks.parts import part

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "unknown-groups.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())


def stored(name):
    """The rows of a stored benchmark."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text("utf-8"))["rows"]


def line(*cells):
    """A line of a table; None is an empty cell."""
    text = ["" if cell is None else f" {cell}" for cell in cells]
    return "|" + " |".join(text) + " |"


def digits(value, count=3):
    return None if value is None else f"{value:.{count}f}"


def adult_lines(name="adult_methods"):
    for row in stored(name):
        leaks = [f"{row[each]:.3f}, {row[f'largest {each}']:.3f}" for each in MEASURES]
        if row["splits"] == 1:
            leaks = [digits(row[each]) for each in MEASURES]
        numbers = [digits(row[each]) for each in ("income AUC", "residual", "(P)", "slack")]
        seconds = digits(row["fit, CPU s"], 0 if (row["fit, CPU s"] or 0) >= 1 else 1)
        yield line(row["model"], *leaks, *numbers, seconds)


def limit_lines():
    for row in stored("adult_limit"):
        yield line(row["split"], row["inputs"], *(digits(row[each]) for each in list(row)[2:]))


def hole_lines():
    for row in stored("adult_holes"):
        numbers = [digits(row[each]) for each in (*MEASURES, "income AUC")]
        yield line(f"{row['missing']:.0%}".replace("%", " %"), *numbers)


def time_lines():
    for row in stored("adult_time"):
        seconds = [digits(row[each], 0) for each in ("fit, seconds", "CPU seconds")]
        memory = digits(row["peak MB"] / 1000, 1)
        yield line(row["model"], row["device"], f"{row['people']:,}", *seconds, memory)


def student_lines():
    for row in stored("oulad_blind"):
        leaks = [
            " / ".join(digits(row[f"{each}, {part}"]) for each in STUDENT_MEASURES)
            for part in ("1 to 3", "4 to 7", "8 to 100")
        ]
        ends = digits(row["RMSE"], 2), digits(row["fit, CPU s"], 0)
        yield line(row["feature"], row["model"], *leaks, *ends)


MEASURES = ("leakage", "within new")
KINDS = ("", "largest ")
ADULT = ("adult_methods", "adult_blind")
STUDENT_MEASURES = ("leakage", "same marks", "within new")
TABLES = {
    "adult_methods": adult_lines,
    "adult_blind": lambda: adult_lines("adult_blind"),
    "adult_noise": lambda: adult_lines("adult_noise"),
    "adult_limit": limit_lines,
    "adult_race": lambda: adult_lines("adult_race"),
    "adult_holes": hole_lines,
    "adult_time": time_lines,
    "oulad_blind": student_lines,
}


@pytest.mark.parametrize("name", TABLES)
def test_the_table_is_the_measured_one(name):
    lines = list(TABLES[name]())
    assert lines
    missing = [each for each in lines if each not in PAGE]
    assert not missing
    assert name in TEXT


def test_all_tables_of_numbers_are_measured():
    measured = {each for lines in TABLES.values() for each in lines()}
    shown = [each for each in PAGE.splitlines() if each.startswith("|") and "0." in each]
    assert len(shown) >= 12
    assert set(shown) <= measured


def test_the_text_about_sliced_transport_is_what_was_measured():
    rows = {row["model"]: row for row in stored("adult_methods")}
    row, auc = rows["sliced-transport"], rows["plain"]["income AUC"]
    values = [row["leakage"], row["within new"], row["largest within new"]]
    told = "brings them to {:.3f}, and to {:.3f} within new people, {:.3f} on the worse split"
    assert told.format(*values) in TEXT
    assert f"falls from {auc:.3f} to {row['income AUC']:.3f}" in TEXT
    others = [
        row["within new"]
        for name, row in rows.items()
        if name not in ("rows drawn at random", "plain", "sliced-transport")
    ]
    assert f"still reach {min(others):.2f} to {max(others):.2f}" in TEXT
    limits = [
        row["AUC of ranks within a sex"]
        for row in stored("adult_limit")
        if row["inputs"] == "plain rows"
    ]
    assert f"between {min(limits):.3f} and {max(limits):.3f}" in TEXT


def test_the_text_about_encoders_is_what_was_measured():
    (row,) = (row for row in stored("adult_blind") if row["model"] == "network encoder")
    told = (
        "reaches {:.3f}, and {:.3f} within new people, with a network, at an income AUC of {:.3f}"
    )
    assert told.format(row["leakage"], row["within new"], row["income AUC"]) in TEXT
    assert min(row["leakage"], row["within new"]) > 0.05


def test_the_text_says_what_misses_its_aim_and_by_how_much():
    rows = {row["model"]: row for name in ADULT for row in stored(name)}
    random, encoder, known = (
        rows[name] for name in ("rows drawn at random", "network encoder", "sliced-transport")
    )
    above = [round(encoder[f"{kind}{each}"] - 0.05, 3) for each in MEASURES for kind in KINDS]
    told = (
        "AUC of {:.3f}. Its strongest attackers are above 0.05 by {:.3f} ({:.3f} on the worse "
        "split), and by {:.3f} ({:.3f}) within new people. Rows drawn at random reach {:.3f}"
    )
    assert min(above) > 0
    assert told.format(encoder["income AUC"], *above, random["within new"]) in TEXT
    lacking, more = 0.84 - known["income AUC"], known["largest within new"] - 0.05
    assert known["largest leakage"] < 0.05
    assert (
        f'"sliced-transport" lacks {lacking:.3f} of the AUC, and is above 0.05 by {more:.3f} within'
    ) in TEXT


def test_the_text_about_noise_is_what_was_measured():
    known, encoder = stored("adult_noise")
    most = max(encoder[each] for each in MEASURES)
    assert most < 0.05
    assert f"With noise 0.6 it is below 0.05, at an AUC of {encoder['income AUC']:.3f}." in TEXT
    told = "With noise 0.1 the AUC is {:.3f}, and the leakage {:.3f}."
    assert told.format(known["income AUC"], known["within new"]) in TEXT


def test_the_text_about_students_is_what_was_measured():
    rows = {(row["feature"], row["model"]): row for row in stored("oulad_blind")}
    few, many = "1 to 3", "8 to 100"

    def most(row, *parts):
        return max(row[f"{each}, {part}"] for each in STUDENT_MEASURES for part in parts)

    people = [sum(part) for part in zip(*rows["gender", "plain"]["people"], strict=True)]
    assert f"{people[0]:,} new ones" in TEXT
    plain, blind = rows["gender", "plain"], rows["gender", "network encoder"]
    told = (
        "reach {:.3f} with few marks and {:.3f} with many, where a plain embedding reveals {:.3f} "
        "and {:.3f}"
    )
    values = [most(row, part) for row in (blind, plain) for part in (few, many)]
    assert told.format(*values) in TEXT
    assert f"the RMSE is {blind['RMSE']:.2f}." in TEXT
    plain, blind = rows["disability", "plain"], rows["disability", "network encoder"]
    assert most(blind, few, "4 to 7", many) < 0.05
    assert f"the RMSE is {blind['RMSE']:.2f} instead of {plain['RMSE']:.2f}" in TEXT


def test_the_time_is_what_was_measured():
    rows = {row["model"]: row for row in stored("adult_time") if row["device"] == "cpu"}
    times = (rows[name]["transform, seconds"] for name in ("sliced-transport", "network encoder"))
    told = 'again takes {:.1f} s with "sliced-transport" and {:.1f} s with the encoder'
    assert told.format(*times) in TEXT


def test_the_text_about_race_is_what_was_measured():
    rows = {row["model"]: row for row in stored("adult_race")}
    blind, plain = (
        [rows[name][each] for each in MEASURES] for name in ("network encoder", "plain")
    )
    told = "leaves {:.3f} and {:.3f}, where a plain embedding reveals {:.3f} and {:.3f}"
    assert told.format(*blind, *plain) in TEXT
    known = rows["sliced-transport"]
    assert known["leakage"] > plain[0]
    assert f"it reveals {known['leakage']:.3f}, more than a plain embedding" in TEXT


def test_the_text_about_holes_is_what_was_measured():
    rows = stored("adult_holes")
    within = [row["within new"] for row in rows]
    told = f"attackers reach {min(within):.3f} to {max(within):.3f} within new people. The AUC of"
    assert told in TEXT
    assert f"the income falls to {rows[-1]['income AUC']:.3f}." in TEXT


def test_a_part_is_measured_once(tmp_path, monkeypatch):
    calls = []

    def measure(name, share):
        calls.append(name)
        return [{"name": name, "share": share}]

    assert part(measure, "a", 0.5) == part(measure, "a", 0.5) == [{"name": "a", "share": 0.5}]
    monkeypatch.setenv("PARAFAIR_PARTS", str(tmp_path / "parts"))
    found = [part(measure, "b", 0.5), part(measure, "b", 0.5), part(measure, "b", 0.1)]
    assert [row["share"] for (row,) in found] == [0.5, 0.5, 0.1]
    assert calls == ["a", "a", "b", "b"]
