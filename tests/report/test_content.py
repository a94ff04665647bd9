from types import SimpleNamespace

import numpy as np
import pytest

from parafair import FairCP, SensitiveFeatures, TensorData, frontier, split_cells
from parafair.audits import Verdict
from parafair.report import content, write_report
from parafair.report.summary import _choice
from tests.frontiers.conftest import GROUPS, MATRIX, QUICK, small


@pytest.fixture(scope="module")
def curve():
    return small(strengths=(0.01, 3.0, 30.0)) + small(model={"method": "none"})


def test_numbers_are_those_of_the_table(curve):
    shown = content(curve, title="A title")
    table = curve.to_frame()
    assert len(shown["points"]) == len(table)
    for point, (_, row) in zip(shown["points"], table.iterrows(), strict=True):
        for name in ("residual", "leakage", "low", "high", "p_value", "criterion", "seconds"):
            assert point[name] == row[name]
        attackers = {a["model"]: a["value"] for a in point["attackers"]}
        assert attackers


@pytest.mark.parametrize("max_leakage", [0.0, 0.2, 1.0])
def test_the_picked_fit_is_that_of_the_frontier(curve, max_leakage):
    shown = content(curve, title="", max_leakage=max_leakage)
    assert shown["max_leakage"] == max_leakage
    picked = [p["id"] for p in shown["points"] if p["picked"]]
    best = curve.best_or_none(max_leakage)
    assert picked == ([] if best is None else [best.member.id])


@pytest.mark.parametrize("max_leakage", [0.0, 0.2, 1.0])
def test_verdicts_are_those_of_the_audits(curve, max_leakage):
    shown = content(curve, title="", max_leakage=max_leakage)
    verdicts = [point["verdict"] for point in shown["points"]]
    assert verdicts == [p.audit.verdict(max_leakage).value for p in curve.points]
    passing = verdicts.count("passes")
    assert f"{passing} of {len(curve)} audited fits pass" in " ".join(shown["summary"])


def judged(verdict):
    """A summary of one audited fit with this verdict."""
    point = SimpleNamespace(residual=0.61, leakage=0.03, verdict=lambda max_leakage: verdict)
    point.member = SimpleNamespace(method="invariant", strength=16.0)
    fits = SimpleNamespace(points=[point], audited=[point], methods=("invariant",), limit=())
    return " ".join(_choice(fits, None if verdict is Verdict.LEAKS else point, 0.05))


def test_the_summary_says_why_a_fit_does_not_pass():
    assert "leaves 37 % of the sum of squares unexplained" in judged(Verdict.PASSES)
    assert "1 of 1 audited fits pass" in judged(Verdict.PASSES)
    assert "leakage 0.030. It passes." in judged(Verdict.PASSES)
    assert "all of them leak. The least leakage is 0.030" in judged(Verdict.LEAKS)


def test_the_summary_says_what_attackers_cannot_show(curve):
    words = " ".join(content(curve, title="")["summary"])
    assert "No attacker can show that it reveals nothing" in words


def test_a_leakage_that_is_no_share_is_refused(curve):
    with pytest.raises(ValueError, match="max_leakage must be a number from 0 to 1, got -1"):
        content(curve, title="", max_leakage=-1.0)


def test_before_is_the_plain_fit(curve):
    shown = content(curve, title="")
    assert shown["before"]["title"] == "plain decomposition"
    assert len(shown["before"]["x"]) == 60
    alone = content(curve.of("invariant"), title="")
    assert alone["before"]["title"] == "smallest residual, invariant at strength 0.01"


def test_fits_without_audits_have_a_page(tmp_path):
    found = small(audits=None)
    shown = content(found, title="")
    assert any("not audited" in words for words in shown["summary"])
    assert write_report(found, tmp_path / "page.html")[0].read_text()


def test_the_files_are_written(tmp_path, curve):
    written = write_report(curve, tmp_path / "page.html", formats=("png", "svg"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in written)
    assert [path.name for path in written] == [
        "page.html", "frontier.png", "embeddings.png", "frontier.svg", "embeddings.svg",
    ]  # fmt: skip
    with pytest.raises(FileNotFoundError, match="the folder of .* does not exist"):
        write_report(curve, tmp_path / "no" / "page.html")


@pytest.fixture(scope="module")
def table():
    """A frontier of labelled data with missing and held-out entries; one person has no features."""
    things = [f"thing {i}" for i in range(400)]
    values = MATRIX @ np.random.default_rng(3).standard_normal((8, 400))
    values[np.random.default_rng(2).random(values.shape) < 0.5] = np.nan
    people = [f"p{i}" for i in range(60)]
    data = TensorData.from_array(values, modes=("person", "thing"), labels=(people, things))
    groups = np.where(np.arange(60) != 7, GROUPS, None)
    features = SensitiveFeatures.of(groups, names=["team"], missing="exclude")
    split = split_cells(data, test_size=0.1)
    return frontier(
        FairCP(2, method="none", max_iter=20),
        split.train,
        sensitive_features=features,
        X_test=split.test,
        audits=QUICK,
        limit=False,
    )


def test_components_have_labels_and_name_the_largest(table):
    people, things = content(table, title="")["points"][0]["components"]
    assert people["mode"] == "person (people)"
    assert people["labels"][:2] == ["p0", "p1"]
    assert people["largest"] == []
    assert (things["size"], len(things["labels"])) == (400, 300)
    factor = table.points[0].fit.cp.factors[1].numpy()
    for component, largest in enumerate(things["largest"]):
        order = np.argsort(-np.abs(factor[:, component]))[:5]
        assert [label for label, _ in largest] == [f"thing {i}" for i in order]
        np.testing.assert_allclose([v for _, v in largest], factor[order, component], rtol=1e-3)


def test_coverage_and_held_out_errors_are_told(table):
    shown = content(table, title="")
    told = shown["coverage"]
    assert told["shape"] == "60 person x 400 thing"
    assert told["fitted entries"].startswith(f"{table.coverage.observed:,} of 24,000 (")
    assert told["without sensitive features (not penalized, not audited)"] == "1 of 60 person"
    errors = shown["points"][0]["errors"]
    assert [row["group"] for row in errors] == ["all", "a", "b"]
    evaluation = table.points[0].evaluation
    assert errors[2]["rmse"] == evaluation.value("rmse", "b", feature="team")
    assert errors[0]["baseline"] == table.baseline.value("rmse")
    words = " ".join(shown["summary"])
    assert "on held-out entries: of the fit with the smallest residual" in words
    assert "None is picked, because all of them leak." in words


def test_people_without_features_are_in_no_group(table):
    codes = content(table, title="")["points"][0]["embedding"]["group"]
    assert sorted(map(str, set(codes))) == ["0", "1", "None"]
    assert codes.count(None) == 1


def test_a_frontier_of_plain_arrays_numbers_its_modes(curve):
    people, things = content(curve, title="")["points"][0]["components"]
    assert (people["mode"], things["mode"]) == ("mode_0 (people)", "mode_1")
    assert things["labels"] == list(map(str, range(8)))
