import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData, frontier, split_cells
from parafair.audits import Verdict
from parafair.frontiers.choice import Wanted
from parafair.report import content, render, write_report
from parafair.report.content import _drawing
from parafair.report.summary import _choice, lead_with, summarize
from tests.frontiers.conftest import GROUPS, MATRIX, QUICK, small


@pytest.fixture(scope="module")
def curve():
    return small(strengths=(0.01, 3.0, 30.0)) + small(model={"method": "none"})


def test_settings_of_all_methods_are_shown_once(curve):
    shown = content(curve, title="A title")["settings"]
    assert shown["model (none)"] == "method=none"
    assert "rank=" in shown["model (all methods)"]
    assert "method=" not in shown["model (all methods)"]
    one = content(curve.of(curve.methods[0]), title="A title")["settings"]
    assert "rank=" in one["model"]
    assert "method=" in one["model"]


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
    assert f"{passing} of {len(curve)} audited fits pass" in " ".join(shown["summary"].values())


def judged(verdict):
    """A summary of one audited fit with this verdict."""
    point = SimpleNamespace(residual=0.61, leakage=0.03, verdict=lambda max_leakage: verdict)
    point.member = SimpleNamespace(method="invariant", strength=16.0, noise=0.1)
    fits = SimpleNamespace(
        points=[point], audited=[point], methods=("invariant",), limit=(), training={}
    )
    wanted = Wanted.of(0.05, None, None)
    return " ".join(_choice(fits, None if verdict is Verdict.LEAKS else point, wanted))


def test_the_summary_says_why_a_fit_does_not_pass():
    assert "leaves 37 % of the sum of squares unexplained" in judged(Verdict.LEAKS)
    assert "1 of 1 audited fits pass" in judged(Verdict.PASSES)
    assert "leakage 0.030. It passes." in judged(Verdict.PASSES)
    assert "all of them leak. The least leakage is 0.030" in judged(Verdict.LEAKS)


def test_the_summary_says_what_attackers_cannot_show(curve):
    words = " ".join(content(curve, title="")["summary"].values())
    assert "No attacker can show that it reveals nothing" in words


def test_a_leakage_that_is_no_share_is_refused(curve):
    with pytest.raises(ValueError, match="max_leakage must be a number from 0 to 1, got -1"):
        content(curve, title="", max_leakage=-1.0)


def test_before_is_the_plain_fit(curve):
    shown = content(curve, title="")
    assert shown["before"]["title"] == "plain decomposition"
    assert len(shown["before"]["x"]) == 60
    alone = content(curve.of("invariant"), title="")
    assert alone["before"]["title"] == "smallest residual, invariant at strength 0.01 and noise 0.1"


def test_certified_values_are_beside_measured_ones(curve):
    shown = content(curve, title="")
    for point, fit in zip(shown["points"], curve.points, strict=True):
        if fit.certificate is None:  # the plain fit has no noise
            assert (point["noise"], point["certificate"]) == (0, None)
            assert point["certified_release"] is point["vote"] is None
            continue
        assert point["noise"] == 0.1
        assert point["certified_release"] == fit.certificate.leakage("release")
        statements = point["certificate"]["statements"]
        assert [s["letter"] for s in statements] == ["F", "C"]
        assert [s["sentence"] for s in statements] == list(fit.certificate.sentences())
        threats = [e["threat"] for e in point["certificate"]["exposures"]]
        assert sorted(threats) == ["a", "b"]
        assert all(sum(e["counts"]) == 60 for e in point["certificate"]["exposures"])


def test_the_summary_never_has_a_bound_alone(curve):
    shown = content(curve, title="")
    assert re.search(
        r"0\.\d{4} over chance; attackers who learn from other people were tried, not bounded, and "
        r"gain -?0\.",
        shown["lead"],
    )
    words = shown["summary"]["Certificate"]
    assert "who learn from people whose group is known is measured, not certified" in words
    assert re.search(r"A vote of all others has a measured advantage of -?0\.\d{3}\.", words)


def test_a_page_has_no_numbers_of_single_people(curve):
    shown = content(curve, title="")["points"][0]["certificate"]
    assert all("values" not in exposure for exposure in shown["exposures"])


def test_the_picked_fit_may_have_to_be_certified(curve):
    limits = {"max_leakage": 0.5, "guarantee": "release"}
    shown = content(curve, title="", **limits)
    best = curve.best_or_none(**limits)
    assert [p["id"] for p in shown["points"] if p["picked"]] == [best.member.id]
    assert "a certified leakage (release) of at most 0.5" in " ".join(shown["summary"].values())
    none = content(curve, title="", **limits, max_certified=0.0)
    assert not any(p["picked"] for p in none["points"])
    assert "no passing fit is certified at this level" in " ".join(none["summary"].values())


def test_fits_without_audits_have_a_page(tmp_path):
    found = small(audits=None)
    shown = content(found, title="")
    assert "not audited" in shown["lead"]
    assert list(shown["summary"]) == ["About these numbers"]
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
    assert people["largest"] == []
    assert (things["size"], things["labels"]) == (400, [])
    factor = table.points[0].fit.cp.factors[1].numpy()
    for component, largest in enumerate(things["largest"]):
        order = np.argsort(-np.abs(factor[:, component]))[:5]
        assert [label for label, _ in largest] == [f"thing {i}" for i in order]
        np.testing.assert_allclose([v for _, v in largest], factor[order, component], rtol=1e-3)


def test_many_labels_in_no_order_are_drawn_by_the_largest(table):
    _, things = content(table, title="")["points"][0]["components"]
    assert things["drawn"] == "largest"
    factor = table.points[0].fit.cp.factors[1].numpy()
    for column, ends in zip(factor.T, things["values"], strict=True):
        np.testing.assert_allclose(ends, [column.min(), column.max()], 1e-3)


def test_the_summary_is_the_certificate_then_the_cost_then_the_evidence(curve):
    wanted = Wanted.of(0.05, None, None)
    picked = next(point for point in curve.audited if point.certificate is not None)
    shown = summarize(curve, picked, wanted)
    assert list(shown) == ["Certificate", "Cost", "Evidence", "About these numbers"]
    assert shown["Certificate"].startswith("No attacker who sees a released row of these")
    assert "not covered:" in shown["Certificate"]
    assert shown["Cost"].startswith("The picked fit has residual 0.")
    assert "audited fits pass" in shown["Evidence"]


def test_the_lead_is_one_sentence_about_both_kinds_of_attackers(curve):
    picked = next(point for point in curve.audited if point.certificate is not None)
    measured = rf"attackers who learn .* gain {picked.leakage:.3f}"
    for limit, words in ((0.0, "is not certified at 0"), (1.0, "is certified at 1")):
        for most in (0.0, 1.0):
            passes = picked.verdict(most) is Verdict.PASSES
            lead = lead_with(curve, picked, Wanted.of(most, "release", limit))
            assert re.fullmatch(
                rf"The picked fit {words} against someone who holds all exact rows and sees a "
                rf"released one, who gains at most \d\.\d{{4}} over chance; {measured}"
                rf"{'' if passes else ', which does not pass'}\.",
                lead,
            )


def test_a_summary_without_certificates_says_so(curve):
    bare = replace(curve, points=tuple(replace(p, certificate=None) for p in curve.points))
    assert content(bare, title="")["lead"].startswith("No fit has a certificate")
    assert "Certificate" not in content(bare, title="")["summary"]


def test_many_labels_in_an_order_are_drawn_by_label():
    days = np.linspace(0, 6, 90)
    waves = torch.from_numpy(np.column_stack([np.sin(days), np.cos(days)]))
    names = [f"day {i}" for i in range(90)]
    drawn = _drawing(waves, names, people=False)
    assert (drawn["drawn"], drawn["labels"]) == ("line", names)
    shuffled = waves[torch.randperm(90, generator=torch.Generator().manual_seed(0))]
    assert _drawing(shuffled, names, people=False)["drawn"] == "largest"
    assert _drawing(shuffled[:40], names[:40], people=False)["drawn"] == "bars"


def test_a_report_does_not_name_people(table, tmp_path):
    people = content(table, title="")["points"][0]["components"][0]
    assert (people["drawn"], people["labels"], people["largest"]) == ("sorted", [], [])
    (page,) = write_report(table, tmp_path / "page.html")
    assert "thing 7" in page.read_text()
    assert not re.search(r"\bp\d+\b", page.read_text().partition('id="data"')[2])


def test_attackers_have_their_auc_and_their_side_of_chance(curve):
    for point, shown in zip(curve.points, content(curve, title="")["points"], strict=True):
        rows = {(r.model, r.input, r.measure): r for r in point.audit.rows}
        for entry in shown["attackers"]:
            key = entry["model"], entry["input"]
            score, auc = rows[*key, "balanced accuracy"], rows[*key, "AUC"]
            assert entry["ranking"]["value"] == auc.value
            assert (entry["side"] == "above") == score.above_chance
            assert (entry["side"] == "below") == score.below_chance
        above = [r.advantage for r in point.audit.attackers if r.above_chance]
        below = [-r.advantage for r in point.audit.attackers if r.below_chance]
        assert (shown["above"], shown["below"]) == (
            max(above, default=None),
            max(below, default=None),
        )


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
    words = " ".join(shown["summary"].values())
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


@pytest.mark.parametrize(
    "n", [30_000, *(pytest.param(n, marks=pytest.mark.slow) for n in (100_000, 1_000_000))]
)
def test_the_page_does_not_grow_with_the_number_of_people(curve, n):
    random = np.random.default_rng(0)

    def grown(point):
        rank = point.fit.cp.rank
        people = torch.from_numpy(random.standard_normal((n, rank)))
        cp = replace(point.fit.cp, factors=(people, *point.fit.cp.factors[1:]))
        return replace(point, fit=replace(point.fit, cp=cp))

    def size(fits):
        return len(render(content(fits, title="")))

    many = replace(
        curve,
        points=tuple(map(grown, curve.points)),
        sensitive=SensitiveFeatures.of(random.integers(0, 2, n)),
        training={},
    )
    assert all(point.fit.cp.shape[0] == n for point in many.points)
    # A thousand people are drawn and three hundred rows of a factor, whatever n is.
    assert size(many) < size(curve) + len(many) * 60_000
    assert size(many) < 5 * 10**6
