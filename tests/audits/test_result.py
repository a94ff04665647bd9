import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from parafair import Audit, Measure, audit
from parafair.audits import Verdict
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(80, seed=1).numpy().ravel()
ROWS = example_rows(80, 3, seed=0).numpy()


@pytest.fixture(scope="module")
def result():
    features = np.column_stack([GROUPS, np.arange(80) % 3])
    return audit(
        ROWS,
        sensitive_features=features,
        attackers=["linear", "neighbors"],
        repeats=1,
        permutations=20,
    )


def attacker(value, low, high, measure="balanced accuracy", chance=0.5):
    rows = (
        Measure("s", "leakage", "leakage", value - chance, low=0, high=0.2, chance=0),
        Measure("s", "attackers", measure, value, "svm", "whitened", low, high, chance),
    )
    return Audit(rows, people=10, population=10)


@pytest.mark.parametrize(
    ("value", "low", "high", "max_leakage", "verdict"),
    [
        (0.52, 0.40, 0.64, 0.05, Verdict.PASSES),
        (0.60, 0.40, 0.80, 0.05, Verdict.LEAKS),  # too much, though not significant
        (0.60, 0.40, 0.80, 0.11, Verdict.PASSES),
        (0.54, 0.51, 0.57, 0.05, Verdict.LEAKS),  # little enough, but significant
        (0.60, 0.55, 0.65, 0.20, Verdict.LEAKS),
        (0.40, 0.30, 0.45, 0.05, Verdict.LEAKS),  # below chance: turned around, it is right
        (float("nan"), 0.40, 0.60, 0.05, Verdict.LEAKS),  # nothing is known
    ],
)
def test_the_verdict_follows_from_leakage_and_intervals(value, low, high, max_leakage, verdict):
    assert attacker(value, low, high).verdict(max_leakage) is verdict


def test_a_regression_below_chance_passes_but_a_negative_rank_correlation_does_not():
    found = attacker(-0.4, -0.6, -0.2, "R squared", 0.0)
    assert found.verdict() is Verdict.PASSES
    ranks = Measure("s", "attackers", "rank correlation", -0.5, "svm", "whitened", -0.7, -0.3, 0.0)
    below = Audit((*found.rows, ranks), 10, 10)
    assert below.below_chance
    assert below.verdict() is Verdict.LEAKS
    assert below.strongest is ranks
    assert "turns the answer around is right" in " ".join(below.notes)


def test_gains_are_in_the_unit_of_leakage():
    def gain(measure, value, chance):
        return Measure("s", "attackers", measure, value, chance=chance).gain

    assert gain("balanced accuracy", 0.6, 0.5) == pytest.approx(0.1)
    assert gain("balanced accuracy", 0.4, 0.5) == pytest.approx(0.1)
    assert gain("balanced accuracy", 0.0, 1 / 3) == pytest.approx(1 / 2 - 1 / 3)
    assert gain("rank correlation", -0.5, 0.0) == pytest.approx(0.25)
    assert gain("R squared", -0.5, 0.0) == -0.5


def test_the_smallest_advantage_that_can_be_shown_is_said():
    assert "with 10 people, an advantage below about 0.12 is not significant" in str(
        attacker(0.5, 0.38, 0.62)
    )


def test_the_repr_is_one_line(result):
    assert repr(result).startswith("Audit(")
    assert f"leakage {result.leakage:.3f}" in repr(result)
    assert "80 people)" in repr(result)
    assert len(repr(result)) < 100


@pytest.mark.parametrize("max_leakage", [-0.1, 1.5, float("nan"), "0.05", None, True])
def test_a_max_leakage_that_is_no_share_is_refused(max_leakage):
    with pytest.raises(ValueError, match="max_leakage must be a number from 0 to 1, got"):
        attacker(0.5, 0.4, 0.6).verdict(max_leakage)


def test_the_strongest_attacker_is_a_row(result):
    assert result.strongest in result.rows
    assert result.strongest.gain == max(row.gain for row in result.scores)


def test_results_are_frozen(result):
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'people'"):
        result.people = 3
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'value'"):
        result.rows[0].value = 3.0


def test_json_is_valid_and_complete(result):
    read = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert read["leakage"] == result.leakage
    assert read["leakage_interval"] == list(result.leakage_interval)
    assert [Measure(**row) for row in read["rows"]] == list(result.rows)


def test_saved_audits_are_read_again_and_damage_is_refused(result, tmp_path):
    file = tmp_path / "audit.json"
    result.save(file)
    assert Audit.load(file) == result
    with pytest.raises(FileExistsError, match="audit.json already exists"):
        result.save(file)
    file.write_text(file.read_text().replace("linear", "linaer"))
    with pytest.raises(ValueError, match="audit.json does not match its checksum"):
        Audit.load(file)


def changed(record, **changes):
    return {**record, **changes}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: {}, r"Audit.to_dict returned, got \{\} \(KeyError\('rows'\)\)"),
        (lambda record: np.ones(3), "record must be a Mapping, got array"),
        (lambda record: 1.5, "record must be what Audit.to_dict returned, got 1.5"),
        (lambda record: changed(record, people="a"), "people must be a whole number"),
        (lambda record: changed(record, remarks=[1]), "every name and remark must be a str"),
        (lambda record: changed(record, rows=[]), "no rows of leakage and of attackers"),
        (lambda record: changed(record, rows=[1]), "record must be what Audit.to_dict returned"),
        (
            lambda record: changed(record, rows=[changed(record["rows"][0], low="a")]),
            "low must be a finite number",
        ),
        (
            lambda record: changed(record, rows=[changed(record["rows"][0], section="x")]),
            "section must be one of leakage",
        ),
    ],
)
def test_what_is_no_record_of_an_audit_is_refused(result, change, message):
    with pytest.raises(ValueError, match=message):
        Audit.from_dict(change(result.to_dict()))


def test_paths_of_audits_are_checked(result):
    with pytest.raises(TypeError, match="path must be a path as text or a pathlib.Path"):
        result.save(1)
    with pytest.raises(TypeError, match="path must be a path as text or a pathlib.Path"):
        Audit.load(None)
    with pytest.raises(ValueError, match="overwrite must be True or False"):
        result.save("x.json", overwrite="no")


def test_what_is_undefined_is_null():
    undefined = Measure("s", "paper", "unfairness", float("nan"))
    record = Audit((*attacker(0.5, 0.4, 0.6).rows, undefined), 10, 10).to_dict()
    assert record["rows"][-1]["value"] is None
    assert np.isnan(Audit.from_dict(record).rows[-1].value)


def test_a_network_that_diverges_is_said_in_its_row():
    quick = {"attackers": ["linear"], "repeats": 1, "permutations": 20}
    huge = audit(1e12 * ROWS, sensitive_features=GROUPS, **quick)
    row = next(row for row in huge.rows if row.measure == "unfairness")
    assert np.isnan(row.value)
    assert "diverged" in row.about


def test_rows_become_a_table(result):
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert len(frame) == len(result.rows)
    assert {"feature", "measure", "model", "input", "value", "low", "high"} <= set(frame.columns)


def test_prints_one_line_per_attacker_in_80_columns(result):
    text = str(result)
    assert max(map(len, text.splitlines())) <= 80
    features = {row.feature for row in result.attackers}
    assert sum(line.startswith("neighbors") for line in text.splitlines()) == len(features)
    assert f"leakage {result.leakage:.3f}" in text
    assert text.index("neighbors") < text.index("independence p-value") < text.index("KHSIC")


def test_marks_show_what_is_off_chance():
    assert "0.600 * [0.550, 0.650]" in str(two_inputs(0.6, 0.55, 0.65))
    assert "0.400 ! [0.300, 0.450]" in str(two_inputs(0.4, 0.3, 0.45))
    assert "0.520   [0.400, 0.640]" in str(two_inputs(0.52, 0.4, 0.64))


def two_inputs(*interval):
    one = attacker(*interval)
    twin = Measure("s", "attackers", "balanced accuracy", 0.5, "svm", "standardized", 0.4, 0.6, 0.5)
    return Audit((*one.rows, twin), 10, 10)
