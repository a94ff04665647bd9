"""Frontiers whose fits are shared by several processes."""

import numpy as np
import pytest
from torch import distributed

from parafair import FairCP, TensorData, frontier, sort_parquet, split_cells
from parafair.errors import TeamError
from parafair.frontiers import load
from parafair.penalties import Invariant
from tests.frontiers.conftest import QUICK

from ..processes import together

PEOPLE = 90
RANDOM = np.random.default_rng(0)
GROUPS = np.array(["a", "b"])[np.arange(PEOPLE) % 2]
ROWS = RANDOM.standard_normal((PEOPLE, 2)) + np.outer(GROUPS == "b", [2.0, 0.0])
TENSOR = ROWS @ RANDOM.standard_normal((2, 6)) + 0.1 * RANDOM.standard_normal((PEOPLE, 6))
# Few iterations: later ones amplify rounding.
HSIC = FairCP(2, method="hsic", max_iter=8, tol=0.0, ridge=0.1)
INVARIANT = FairCP(2, method=Invariant(chunk_size=50), max_iter=3, tol=0.0, n_init=1)

pytestmark = [
    pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::parafair.errors.ParafairWarning"),
]


def curve(group, model=HSIC, **settings):
    given = {"strengths": (0.1, 10.0), "noises": (0.2, 0.5), "audits": QUICK, **settings}
    X, groups = given.pop("X", TENSOR), given.pop("groups", GROUPS)
    return frontier(model, X, sensitive_features=groups, process_group=group, **given)


def summary(found):
    """What can be compared of a frontier, as plain values."""
    return {
        "rows": [{k: v for k, v in p.row().items() if k != "seconds"} for p in found.points],
        "embeddings": [p.fit.cp.factors[0].numpy() for p in found.points],
        "shifts": [p.fit.shifts.numpy() for p in found.points],
        "coverage": found.coverage.to_dict(),
        "limit": found.limit,
        "people": len(found.sensitive),
    }


def same(found, expected, rtol=1e-9):
    assert not isinstance(found, BaseException), getattr(found, "__notes__", found)
    for name in ("embeddings", "shifts"):
        for one, other in zip(found[name], expected[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
    for one, other in zip(found["rows"], expected["rows"], strict=True):
        numbers = {name: v for name, v in other.items() if isinstance(v, float)}
        near = {name: pytest.approx(v, rel=10 * rtol, abs=10 * rtol) for name, v in numbers.items()}
        assert one == other | near
    for name in ("coverage", "people"):
        assert found[name] == expected[name]
    np.testing.assert_allclose(found["limit"], expected["limit"], rtol=1e-6)


def test_all_processes_return_the_frontier_of_one_process(tmp_path):
    expected = summary(curve(None))
    assert all(row["leakage"] and row["certified_release"] for row in expected["rows"])
    for found in together(tmp_path, 2, lambda group: summary(curve(group))):
        same(found, expected)


def test_a_folder_in_one_process_alone_is_refused(tmp_path):
    def work(group):
        return curve(group, out=None if distributed.get_rank(group) else tmp_path / "curve")

    for found in together(tmp_path, 2, work):
        assert "out" in str(found)
        assert isinstance(found, ValueError | TeamError)
    assert not (tmp_path / "curve").exists()


@pytest.mark.slow
def test_missing_entries_offsets_and_predictions_are_those_of_one_process(tmp_path):
    holes = TENSOR.copy()
    holes[np.random.default_rng(1).random(TENSOR.shape) < 0.2] = np.nan
    holes[5] = np.nan
    split = split_cells(TensorData.from_array(holes), random_state=0)
    model = HSIC.__class__(**{**HSIC.get_params(), "center": True})

    def work(group):
        found = curve(group, model, X=split.train, X_test=split.test)
        return summary(found) | {"baseline": found.baseline.to_list()}

    expected = work(None)
    for found in together(tmp_path, 2, work):
        same(found, expected)
        assert found["baseline"] == expected["baseline"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"method": "mean-matching"}, {"method": "bhattacharyya"}, {"non_negative": (0,)}],
    ids=str,
)
def test_scores_and_signs_are_those_of_one_process(tmp_path, settings):
    model = FairCP(2, **{"method": "hsic", "max_iter": 8, "tol": 0.0, "ridge": 0.1, **settings})
    expected = summary(curve(None, model))
    for found in together(tmp_path, 2, lambda group: summary(curve(group, model))):
        same(found, expected)


@pytest.mark.slow
def test_fits_of_chunks_are_shared_and_exchanged(tmp_path):
    # Ten times as many people are 18 chunks, in two parts.
    rows = np.tile(ROWS, (10, 1)) + 0.3 * np.random.default_rng(2).standard_normal((10 * PEOPLE, 2))
    many = {"X": rows @ np.random.default_rng(3).standard_normal((2, 6)), "certificates": None}
    many |= {"groups": np.tile(GROUPS, 10), "noises": (0.2,), "limit": False}
    expected = summary(curve(None, INVARIANT, **many))
    for found in together(tmp_path, 2, lambda group: summary(curve(group, INVARIANT, **many))):
        # Three steps in single precision.
        same(found, expected, rtol=1e-3)


def test_a_folder_of_two_processes_is_continued_by_one(tmp_path):
    meeting = tmp_path / "meeting"
    meeting.mkdir()

    def work(group):
        # Each process has its own folder: only that of process 0 is used.
        out = tmp_path / f"of-{distributed.get_rank(group)}"
        return summary(curve(group, strengths=(0.1,), out=out))

    first, second = together(meeting, 2, work)
    same(first, second)
    assert not (tmp_path / "of-1").exists()
    assert len(load(tmp_path / "of-0")) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parafair.frontiers.run._fit_batch", refuse)
        same(summary(curve(None, strengths=(0.1,), out=tmp_path / "of-0")), first)


def refuse(*_):
    raise AssertionError("these fits are in the folder")


@pytest.mark.slow
def test_a_folder_of_one_process_is_continued_by_two(tmp_path):
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    curve(None, strengths=(0.1,), noises=(0.2,), out=tmp_path / "curve")
    expected = summary(curve(None))
    work = lambda group: summary(curve(group, out=tmp_path / "curve"))  # noqa: E731
    for found in together(meeting, 2, work):
        same(found, expected)
    assert len(load(tmp_path / "curve")) == 4


@pytest.fixture
def streamed(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    cells = np.argwhere(np.random.default_rng(1).random(TENSOR.shape) < 0.8)
    table = pandas.DataFrame({"who": cells[:, 0], "what": cells[:, 1], "x": TENSOR[tuple(cells.T)]})
    table.to_parquet(tmp_path / "raw.parquet", index=False)
    sort_parquet(tmp_path / "raw.parquet", tmp_path / "s", modes=["who", "what"], value="x")
    return tmp_path / "s"


def test_a_frontier_of_streamed_fits_is_shared_too(tmp_path, streamed):
    (tmp_path / "meeting").mkdir()

    def work(group):
        data = TensorData.from_parquet(streamed)
        found = curve(group, X=data, noises=(0.2,), limit=False, certificates=None)
        return summary(found)

    expected = work(None)
    model = FairCP(**{**HSIC.get_params(), "strength": 10.0, "noise": 0.2})
    fitted = model.fit(TensorData.from_parquet(streamed), sensitive_features=GROUPS)
    np.testing.assert_allclose(expected["embeddings"][1], fitted.embedding_, rtol=1e-6, atol=1e-6)
    for found in together(tmp_path / "meeting", 2, work):
        same(found, expected, rtol=1e-8)


def messages(group, **settings):
    try:
        curve(group, **settings)
    except (ValueError, TeamError) as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def test_an_error_of_process_0_ends_all_processes(tmp_path):
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    (tmp_path / "file").write_text("")

    def work(group):
        try:
            curve(group, out=tmp_path / "file")
        except (FileExistsError, NotADirectoryError) as error:
            return str(error)
        return "done"

    first, second = together(meeting, 2, work)
    assert first == second != "done"


def test_processes_with_other_strengths_are_refused(tmp_path):
    def work(group):
        return messages(group, strengths=(0.1, 1.0 + distributed.get_rank(group)))

    for found in together(tmp_path, 2, work):
        assert found.startswith("TeamError: processes 0 and 1 differ (strengths")


def test_what_cannot_be_shared_is_refused_before_any_work(tmp_path):
    model = FairCP(2, method="khsic")
    for found in together(tmp_path, 2, lambda group: messages(group, model=model)):
        assert "process_group is for penalties whose statistics are sums over people" in found
