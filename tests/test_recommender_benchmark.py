"""The recommender benchmark: its attackers, its rows, its skips and its page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from parafair import datasets

pytest.importorskip("pandas")
from benchmarks import recommend as benchmark
from benchmarks.recommend_attackers import theirs

ROOT = Path(__file__).parents[1]
# The network of one publication stops after 200 epochs.
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")


@pytest.fixture
def groups():
    return np.arange(200) % 2


@pytest.mark.slow
def test_attackers_of_publications_find_what_rows_tell(groups):
    random = np.random.RandomState(0)
    rows = random.normal(size=(200, 3))
    telling = rows + 5 * groups[:, None]
    assert min(theirs(telling, groups).values()) > 0.95
    found = theirs(rows, groups)
    optimistic = found.pop("seven layers, best epoch")
    assert optimistic > 0.5  # the test users choose the epoch
    # Accuracies of 200 people have a standard deviation of 0.035; this is 3.4 of them.
    assert list(found.values()) == pytest.approx([0.5] * 3, abs=0.12)


@pytest.mark.slow
def test_generated_ratings_give_a_row_with_every_number(monkeypatch):
    small = datasets.ratings(0, users=120, items=400)
    contenders = {name: benchmark.CONTENDERS[name] for name in ("plain", "LEACE")}
    monkeypatch.setattr(benchmark, "DATA", {"generated": lambda: small})
    monkeypatch.setattr(benchmark, "CONTENDERS", contenders)
    plain, linear = benchmark.recommend()
    stored = json.loads((ROOT / "benchmarks/results/recommend.json").read_text("utf-8"))["rows"][0]
    assert list(plain) == list(linear) == list(stored)
    for row in (plain, linear):
        assert row["skipped"] is None
        for name in ("RMSE", "NDCG@10", "recall@10", "leakage"):
            value, low, high = map(float, re.findall(r"-?\d+\.\d+", row[name]))
            assert low <= value <= high, name
        # Among 100 others, relevant items rank higher than among all.
        assert row["NDCG@10, 100 negatives"] >= float(row["NDCG@10"].split()[0]) - 0.0005
        assert 0 < row["coverage@10"] <= 1


def test_movielens_is_skipped_with_a_reason_without_a_copy(monkeypatch):
    monkeypatch.delenv("PARAFAIR_DATA", raising=False)
    real = {name: load for name, load in benchmark.DATA.items() if "MovieLens" in name}
    monkeypatch.setattr(benchmark, "DATA", real)
    rows = list(benchmark.recommend())
    assert [row["data"] for row in rows] == ["MovieLens 100k", "MovieLens 1m"]
    assert all(row["skipped"].startswith("folder is missing") for row in rows)


def test_all_contenders_of_the_protocol_are_there():
    assert list(benchmark.CONTENDERS) == [
        "plain", "D2D", "adversarial filter", "LEACE", "correlation removal", "mean matching",
        "Bhattacharyya", "mutual information", "ours, measured", "ours, certified",
    ]  # fmt: skip


def test_the_tables_of_the_page_are_the_measured_ones():
    page = (ROOT / "docs" / "recommenders.md").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    measured = json.loads((ROOT / "benchmarks/results/recommend.json").read_text("utf-8"))["rows"]
    rows = [row for row in measured if row["skipped"] is None]
    assert [row["contender"] for row in rows] == list(benchmark.CONTENDERS)
    for row in rows:
        name, star = row["contender"], "" if row["within budget"] else " *"
        cells = [row[key] for key in ("setting", "RMSE", "NDCG@10", "leakage")]
        assert f"| {name}{star} | {' | '.join(cells)} |" in page
        cells = [row["RMSE gap"], row["NDCG@10 gap"], row["recall@10"].split()[0]]
        cells += [f"{row[key]:.3f}" for key in ("MAP", "coverage@10", "NDCG@10, 100 negatives")]
        assert f"| {name} | {' | '.join(cells)} |" in page
        keys = ("dropout linear", "seven layers, best epoch", "network 100", "boosted trees")
        cells = [f"{row[key]:.2f}" for key in keys]
        cells += ["" if row["certified"] is None else f"{row['certified']:.3f}"]
        assert f"| {name} | {' | '.join(cells)} |" in page
