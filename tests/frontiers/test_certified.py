import json

import numpy as np
import pytest

from parafair import FairCP, ParafairWarning, certify, frontier
from parafair.frontiers import load, plan, run
from parafair.frontiers.certified import COLUMNS, MOST_PEOPLE, check_certificates
from parafair.frontiers.point import Member
from parafair.guarantees.statements import rounded_up
from tests.frontiers.conftest import GROUPS, MATRIX, QUICK, small

NOISES = (0.1, 0.5)
FAST = {"draws": 200}


def noisy(**settings):
    """A frontier with two noises; it is quick."""
    model = {"max_iter": 10, "tol": 0, "n_init": 1}
    options = {"strengths": (0.1, 10.0), "noises": NOISES, "audits": None, "certificates": FAST}
    return small(model=model, **(options | settings))


@pytest.fixture(scope="module")
def curve(tmp_path_factory):
    """A frontier with two noises, and its folder."""
    folder = tmp_path_factory.mktemp("curve")
    return noisy(out=folder, audits=QUICK), folder


def test_strength_and_noise_are_both_on_the_frontier(curve):
    found, folder = curve
    members = [point.member for point in found.points]
    assert members == [Member("invariant", s, 0, n) for s in (0.1, 10.0) for n in NOISES]
    assert list(found.to_frame()["noise"]) == [0.1, 0.5, 0.1, 0.5]
    assert members[1].id == "invariant-0.1-noise0.5-seed0"
    assert load(folder).to_frame().equals(found.to_frame())


def test_noises_of_one_strength_share_the_fit(curve):
    weak, strong = curve[0].points[:2]
    np.testing.assert_array_equal(weak.fit.noiseless, strong.fit.noiseless)
    assert weak.fit.before_noise == strong.fit.before_noise
    assert weak.fit.noise_cost < strong.fit.noise_cost


def test_further_noises_cost_no_further_fit(monkeypatch, tmp_path):
    solved = []
    solve = plan.decompose_from

    def counted(problem, *rest, **settings):
        found = solve(problem, *rest, **settings)
        solved.append(len(found))
        return found

    monkeypatch.setattr(plan, "decompose_from", counted)
    first = noisy(out=tmp_path, noises=(0.1, 0.5, 1.0))
    assert solved == [2]
    with pytest.warns(ParafairWarning, match="with noise=0, differences"):
        more = noisy(out=tmp_path, noises=(0.0, 0.2, 1.0))
    assert solved == [2]
    assert len(load(tmp_path)) == 10
    same = {point.member: point for point in first.points}
    for point in more.points:
        if point.member in same:
            assert point.row() == same[point.member].row()
        other = same[Member("invariant", point.member.strength, 0, 0.5)]
        assert point.fit.before_noise == other.fit.before_noise
        assert point.fit.n_iter == other.fit.n_iter
    assert more.points[0].certificate is None  # nothing can be certified without noise


def test_the_default_noise_is_that_of_the_model():
    plain = noisy(noises=None, certificates=None)
    assert {point.member.noise for point in plain.points} == {0.1}
    assert plain.model(plain.points[0]).noise is None
    named = noisy(noises=(0.1,), certificates=None)
    assert [p.member for p in named.points] == [p.member for p in plain.points]
    assert [p.residual for p in named.points] == [p.residual for p in plain.points]


def test_a_further_noise_in_a_folder_is_that_of_one_run(tmp_path):
    together = noisy(certificates=None)
    for noises in NOISES:
        noisy(out=tmp_path, noises=(noises,), certificates=None)
    for point, read in zip(together.points, load(tmp_path).points, strict=True):
        assert point.member == read.member
        np.testing.assert_allclose(point.fit.cp.factors[0], read.fit.cp.factors[0], rtol=1e-9)


def test_a_point_is_the_model_with_its_noise(curve):
    found, _ = curve
    model = found.model(found.points[1])
    assert (model.noise, model.record_.noise, model.strength) == (0.5, 0.5, 0.1)
    assert model.fit_.residual == found.points[1].residual


def test_a_notebook_shows_bounds_that_are_rounded_up(curve):
    found, _ = curve
    page = found._repr_html_()
    for point in found.efficient:
        assert f">{rounded_up(point.certified()):.4f}<" in page
        assert rounded_up(point.certified()) >= point.certified()


def test_every_point_with_noise_has_the_certificate_of_its_model(curve):
    found, folder = curve
    for point, read in zip(found.points, load(folder).points, strict=True):
        expected = certify(found.model(point), **FAST)
        assert str(point.certificate) == str(expected) == str(read.certificate)
        row = point.row()
        assert row["certified_release"] == point.certified()
        largest = {t: max(e.largest for e in expected.exposures if e.threat == t) for t in "ab"}
        numbers = {
            "certified_release": expected.leakage("release"),
            "certified_matrix": expected.leakage("matrix"),
            "exposure_b": largest["b"],
            "exposure_a": largest["a"],
        }
        # Rows without noise may be known up to rounding only.
        assert {name: row[name] for name in numbers} == pytest.approx(numbers, rel=1e-9)
        assert 0 <= row["vote"] <= 0.5
    # More noise of the same rows hides more.
    certified = found.to_frame().pivot(index="strength", columns="noise", values=COLUMNS[1])
    assert (certified[0.5] < certified[0.1]).all()


def test_stored_certificates_have_no_numbers_of_single_people(curve):
    _, folder = curve
    files = sorted(folder.glob("invariant/*/certificate.json"))
    assert len(files) == 4
    for file in files:
        for exposure in json.loads(file.read_text())["exposures"]:
            assert "values" not in exposure
            assert sum(exposure["counts"]) == len(GROUPS)
            assert len(exposure["counts"]) < len(GROUPS)


def test_certificates_are_not_computed_again(monkeypatch, tmp_path, curve):
    found = noisy(out=tmp_path)

    def refuse(*_, **__):
        raise AssertionError("certificate computed again")

    monkeypatch.setattr(run, "certify", refuse)
    again = noisy(out=tmp_path)
    assert [p.row() for p in again.points] == [p.row() for p in found.points]
    (tmp_path / "invariant" / found.points[0].member.id / "certificate.json").unlink()
    with pytest.raises(AssertionError, match="certificate computed again"):
        noisy(out=tmp_path)


def test_a_fit_that_is_replaced_loses_its_certificate(tmp_path):
    from parafair.frontiers.folder import Folder

    found = noisy(out=tmp_path)
    folder, point = Folder(tmp_path / "invariant"), found.points[0]
    folder.replace(point.member, point.fit)
    assert folder.read(point.member).certificate is None


def test_a_method_without_strength_has_noises_too():
    found = _transport()
    assert [point.member for point in found.points] == [
        Member("transport", None, 0, noise) for noise in NOISES
    ]
    assert all(point.certified() < 0.01 for point in found.points)


def _transport(**settings):
    model = FairCP(3, method="transport", max_iter=10, tol=0, n_init=1)
    options = {"noises": NOISES, "audits": None, "limit": False, "certificates": FAST}
    return frontier(model, MATRIX, sensitive_features=GROUPS, **(options | settings))


def test_a_repaired_embedding_is_not_shown_by_its_bound_alone():
    """(F) is 0 after a transport repair, while a vote of the others is nearly always wrong."""
    row = _transport(noises=(0.01,)).points[0].row()
    assert row["certified_release"] < 0.01
    assert row["vote"] > 0.4
    assert row["vote"] > row["vote_by_chance"]


def test_features_that_cannot_be_certified_leave_the_fits():
    groups = np.array(["a"] * 59 + ["b"])
    settings = {"strengths": (1.0,), "audits": None, "limit": False}
    model = FairCP(2, max_iter=3, tol=0, n_init=1)
    with (
        pytest.warns(ParafairWarning, match="groups of one or two people"),
        pytest.warns(ParafairWarning, match="1 of 1 fits have no certificate .*one person"),
    ):
        found = frontier(model, MATRIX, sensitive_features=groups, **settings)
    assert found.points[0].certificate is None
    assert np.isnan(found.points[0].certified())
    assert set(COLUMNS) <= set(found.points[0].row())


def test_many_people_are_certified_only_if_asked_for():
    assert check_certificates("auto", MOST_PEOPLE)["draws"] == 20_000
    assert check_certificates("auto", MOST_PEOPLE + 1) is None
    assert check_certificates({}, MOST_PEOPLE + 1) == check_certificates("auto", 10)
    assert check_certificates(None, 10) is None


def test_other_certificates_are_refused_in_a_folder(tmp_path):
    noisy(out=tmp_path)
    with pytest.raises(ValueError, match="other settings .*certificates draws: 200 there, 300 now"):
        noisy(out=tmp_path, certificates={"draws": 300})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noises": ()}, "noises must be one or more distinct numbers"),
        ({"noises": (0.1, 0.1)}, "noises must be one or more distinct numbers"),
        ({"noises": (-0.1,)}, "each of noises must be a finite number of at least 0"),
        ({"noises": (20.0,)}, "each of noises must be .* of at most 10, got 20.0"),
        ({"noises": 0.1}, "noises must be a list of noises"),
        ({"certificates": "yes"}, "certificates must be one of auto; got 'yes'"),
        ({"certificates": True}, "certificates must be a Mapping"),
        ({"certificates": {"draw": 1}}, "a key of certificates must be one of confidence, .*draws"),
        ({"certificates": {"draws": 1}}, "draws must be a whole number from 100"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        noisy(**settings)
