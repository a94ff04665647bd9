import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from parafair import FairCP, Status, datasets

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
DATA = datasets.synthetic(0, shape=(20, 6, 5), rank=2)


class Recorder:
    """Counts the tasks of a fit, and may end it."""

    max_propagation_depth = None

    def __init__(self, stop_after=None):
        self.events, self.models, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        self.models.append(fitted_estimator)
        return self.events.count("end iteration") == self.stop_after


def test_a_callback_is_told_of_the_fit_and_its_iterations():
    seen = Recorder()
    model = FairCP(2, method="none", max_iter=4, tol=0).set_callbacks(seen).fit(DATA.tensor)
    assert seen.events[:2] == ["setup", "begin fit"]
    assert seen.events[-2:] == ["end fit", "teardown"]
    assert seen.events.count("begin iteration") == seen.events.count("end iteration") >= 4
    *during, last = seen.models
    assert not any(during)
    np.testing.assert_array_equal(last.embedding_, model.embedding_)


def test_a_callback_can_end_a_fit_which_is_then_usable():
    settings = {"method": "none", "max_iter": 50, "tol": 0}
    model = FairCP(2, **settings).set_callbacks(Recorder(stop_after=3)).fit(DATA.tensor)
    assert model.fit_.status is Status.INTERRUPTED
    assert model.n_iter_ == 3
    assert model.transform(DATA.tensor).shape == (20, 2)


def test_callbacks_of_a_pipeline_reach_the_model():
    seen = Recorder()
    matrix, groups = DATA.tensor.reshape(20, -1), DATA.sensitive_features
    steps = make_pipeline(FairCP(2, method="none", max_iter=3, tol=0), LogisticRegression())
    steps.set_callbacks(seen).fit(matrix, groups)
    assert "end iteration" in seen.events
    assert seen.events.count("setup") == 1


def test_scores_are_monitored_at_the_end_of_a_fit():
    scores = callback.ScoringMonitor(scoring={"explained": lambda model, X, y: model.score(X)})
    model = FairCP(2, method="none", max_iter=5, tol=0).set_callbacks(scores)
    model.fit(DATA.tensor, DATA.sensitive_features)
    (row,) = scores.get_logs().data
    assert row["explained"] == pytest.approx(model.score(DATA.tensor))


def test_a_failed_fit_tears_callbacks_down():
    seen = Recorder(stop_after=1)
    model = FairCP(2, method="none").set_callbacks(seen)
    with pytest.raises(ValueError, match="rank must be a whole number of at least 1, got 0"):
        model.set_params(rank=0).fit(DATA.tensor)
    assert seen.events == []
    assert not hasattr(model, "_callback_fit_ctx")


@pytest.mark.parametrize("name", ["on_iteration", "on_trial", "on_audit"])
def test_what_cannot_be_called_is_refused_before_any_work(name):
    with pytest.raises(TypeError, match=f"{name} must be a function or None, got 1"):
        FairCP(2, strength="auto").fit(np.eye(3), **{name: 1})
