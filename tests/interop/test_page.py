import re
import sys
from pathlib import Path

import numpy as np
import pytest

from parafair import FairCP, TensorData, split_cells
from parafair.audits.evaluation import evaluate_predictions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "interop.md").read_text("utf-8")
needs_polars = pytest.importorskip("polars", reason="polars is not installed")


@pytest.mark.slow
def test_the_page_shows_what_happens(tmp_path, monkeypatch, capsys):
    for package in ("fairlearn", "pandas", "tensorly", "xarray"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    names = {}
    for code, shown in re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE, re.S):
        exec(compile(code, "interop.md", "exec"), names)
        assert capsys.readouterr().out == shown
    sys.modules.pop("apply_encoder", None)


def test_a_metric_frame_has_the_errors_of_our_evaluation():
    metrics = pytest.importorskip("fairlearn.metrics", reason="fairlearn is not installed")
    from sklearn.metrics import mean_squared_error

    rng = np.random.default_rng(0)
    groups = np.where(np.arange(40) % 3 == 0, "a", "b")
    split = split_cells(TensorData.from_array(rng.random((40, 5, 3))), test_size=0.3)
    predicted = rng.random(split.test.observed)
    frame = metrics.MetricFrame(
        metrics=mean_squared_error,
        y_true=split.test.entries.numpy(),
        y_pred=predicted,
        sensitive_features=groups[split.test.cells[0]],
    )
    ours = evaluate_predictions(split.test, predicted, sensitive_features=groups).to_frame()
    ours = ours[ours.measure == "rmse"].set_index("group").value
    for group in "ab":
        assert frame.by_group[group] ** 0.5 == pytest.approx(ours[group], rel=1e-12)


def test_polars_nulls_are_missing_entries_and_missing_groups_are_refused():
    polars = needs_polars
    entries = np.random.default_rng(0).random((30, 4))
    gaps = entries.copy()
    gaps[3, 1] = np.nan
    table = polars.DataFrame(gaps, schema=list("abcd")).fill_nan(None)
    groups = np.arange(30) % 2
    settings = {"method": "hsic", "ridge": 1, "max_iter": 500, "tol": 1e-3}
    model = FairCP(2, **settings).set_output(transform="polars")
    rows = model.fit_transform(table, sensitive_features=polars.Series("group", groups))
    expected = FairCP(2, **settings).fit(gaps, sensitive_features=groups).embedding_
    assert rows.columns == ["faircp0", "faircp1"]
    np.testing.assert_array_equal(rows.to_numpy(), expected)
    lacking = polars.DataFrame({"group": [None, *groups[1:].tolist()]})
    with pytest.raises(ValueError, match="'group' has 1 missing values"):
        model.fit(table, sensitive_features=lacking)
    with pytest.raises(ValueError, match="has 1 infinite entries"):
        model.fit(table.with_columns(a=polars.lit(1.0) / polars.col("a").rank().sub(1)))
