"""FairCP keeps the conventions of scikit-learn, and works with its tools."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.exceptions import ComplexWarning
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from parafair import FairCP, TensorData
from parafair.penalties import Orthogonality
from parafair.solvers import GradientBCD

ONE_PERSON = {"check_fit2d_1sample": "one person cannot differ in a sensitive feature"}
# People who are embedded again are new people.
TWO_DRAWS = dict.fromkeys(
    ("check_transformer_general", "check_transformer_data_not_an_array"),
    "the noise of transform is not that of fit_transform",
)
EXCUSED = {
    ("none", None): {},
    ("invariant", 0): ONE_PERSON,
    ("invariant", None): ONE_PERSON | TWO_DRAWS,
}


class Checked(FairCP):
    """FairCP as scikit-learn's checks can use it.

    The checks pass no sensitive features, so this derives a group from each row. They call
    `predict` with X, but ours takes cells, so it is hidden.
    """

    def fit(self, X, y=None):
        return super().fit(X, y, sensitive_features=self.features(X))

    def fit_transform(self, X, y=None):
        return self.fit(X, y).embedding_

    def transform(self, X):
        return super().transform(X, sensitive_features=self.features(X))

    def features(self, X):
        if self.method == "none":
            return None
        rows = np.asarray(getattr(X, "values", X))
        try:
            first = rows.astype(float)[:, 0]
        except (TypeError, ValueError, IndexError, ComplexWarning):
            return [0, 1]  # X itself is refused first
        return np.where(np.floor(first * 49.7) % 2 == 0, "even", "odd")

    @property
    def predict(self):
        raise AttributeError("predict takes cells")


@parametrize_with_checks(
    [
        Checked(rank=1, method="none"),
        Checked(rank=1, method="invariant", n_init=1, tol=0.1),
        Checked(rank=1, method="invariant", noise=0, n_init=1, tol=0.1),
    ],
    expected_failed_checks=lambda estimator: EXCUSED[estimator.method, estimator.noise],
)
@pytest.mark.filterwarnings("ignore:with noise=0")
@pytest.mark.filterwarnings("ignore:.*no step decreased the objective")  # of a few random rows
def test_scikit_learn_conventions(estimator, check):
    if estimator.noise == 0 and check.func.__name__ not in TWO_DRAWS:
        pytest.skip("the same with and without noise")
    check(estimator)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_clone_keeps_every_setting():
    model = FairCP(3, method=Orthogonality(0.1, ridge=1.0), solver=GradientBCD((3, 1)), n_init=4)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy is not model


def test_a_clone_of_a_fitted_model_is_not_fitted(matrix):
    values, groups = matrix
    model = FairCP(2, method="hsic").fit(values, sensitive_features=groups)
    copy = clone(model)
    assert not hasattr(copy, "embedding_")
    np.testing.assert_array_equal(
        copy.fit(values, sensitive_features=groups).embedding_, model.embedding_
    )


def test_pandas_output(matrix):
    values, groups = matrix
    table = pd.DataFrame(values, columns=[f"item {i}" for i in range(8)], index=range(100, 160))
    model = FairCP(2, method="hsic").set_output(transform="pandas")
    embedded = model.fit_transform(table, sensitive_features=groups)
    assert list(embedded.columns) == ["faircp0", "faircp1"]
    assert list(embedded.index) == list(table.index)
    new = model.transform(table[:5], sensitive_features=groups[:5])
    assert list(new.columns) == list(model.get_feature_names_out()) == ["faircp0", "faircp1"]
    assert list(new.index) == list(table.index[:5])


def test_a_pipeline_passes_sensitive_features_by_the_name_of_the_step(matrix):
    values, groups = matrix
    table = pd.DataFrame(values, columns=[f"item {i}" for i in range(8)])
    pipeline = make_pipeline(StandardScaler(), FairCP(2, method="hsic", random_state=0))
    pipeline.set_output(transform="pandas")
    embedded = pipeline.fit_transform(table, faircp__sensitive_features=groups)
    assert list(embedded.columns) == ["faircp0", "faircp1"]
    assert list(pipeline[-1].feature_names_in_) == list(table.columns)


@pytest.mark.usefixtures("routing")
def test_a_pipeline_routes_sensitive_features_to_fit_and_transform(matrix):
    values, groups = matrix
    step = FairCP(2, method="hsic", random_state=0)
    step.set_fit_request(sensitive_features=True).set_transform_request(sensitive_features=True)
    pipeline = make_pipeline(StandardScaler(), step, LogisticRegression())
    pipeline.fit(values, groups, sensitive_features=groups)
    assert pipeline.predict(values, sensitive_features=groups).shape == (60,)
    scaled = StandardScaler().fit_transform(values)
    alone = clone(step).fit(scaled, sensitive_features=groups)
    np.testing.assert_allclose(pipeline[1].embedding_, alone.embedding_)


@pytest.mark.usefixtures("routing")
def test_a_grid_search_finds_the_rank_of_a_tensor(data):
    model = FairCP(method="hsic", tol=1e-3).set_fit_request(sensitive_features=True)
    search = GridSearchCV(model, {"rank": [1, 4]}, cv=3)
    search.fit(data.tensor, sensitive_features=data.sensitive_features)
    # The synthetic data has four components; every fold was embedded and scored.
    assert search.best_params_ == {"rank": 4}
    assert search.cv_results_["mean_test_score"][1] > search.cv_results_["mean_test_score"][0]
    assert search.best_estimator_.training_.features is not None
    assert search.best_estimator_.embedding_.shape == (40, 4)


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="before 1.8, scikit-learn does not pass sensitive features on to score",
)
@pytest.mark.usefixtures("routing")
def test_a_grid_search_over_a_pipeline_gives_each_fold_its_own_features(matrix, monkeypatch):
    seen = []
    fit = FairCP.fit

    def watched(self, X, y=None, *, sensitive_features=None, **options):
        seen.append(sensitive_features.tolist())
        return fit(self, X, y, sensitive_features=sensitive_features, **options)

    monkeypatch.setattr(FairCP, "fit", watched)
    values, groups = matrix
    order = np.random.default_rng(0).permutation(60)
    values, groups = values[order], groups[order]
    outcome = values[:, 0] > np.median(values[:, 0])
    step = FairCP(method="hsic", tol=1e-3)
    step.set_fit_request(sensitive_features=True).set_transform_request(sensitive_features=True)
    pipeline = make_pipeline(StandardScaler(), step, LogisticRegression())
    search = GridSearchCV(pipeline, {"faircp__rank": [1, 3]}, cv=KFold(2))
    search.fit(values, outcome, sensitive_features=groups)
    assert search.best_params_ == {"faircp__rank": 3}
    halves = [groups[30:].tolist(), groups[:30].tolist()]
    assert seen == [*halves, *halves, groups.tolist()]


def test_without_a_request_routing_refuses_sensitive_features(matrix, routing):
    values, groups = matrix
    with pytest.raises(ValueError, match=r"sensitive_features.* but are not explicitly set"):
        make_pipeline(FairCP(2, method="hsic")).fit(values, sensitive_features=groups)


def test_pandas_output_of_labeled_data_has_the_labels_of_the_people(matrix):
    values, _ = matrix
    people, items = [f"p{i}" for i in range(60)], [f"item {i}" for i in range(8)]
    for mode, modes in enumerate([("who", "item"), ("item", "who")]):
        labels = [people, items] if mode == 0 else [items, people]
        data = TensorData.from_array(values if mode == 0 else values.T, modes=modes, labels=labels)
        model = FairCP(2, method="none", mode="who", tol=1e-2).set_output(transform="pandas")
        embedded = model.fit_transform(data)
        assert list(embedded.index) == people
        assert embedded.index.name == "who"
        assert list(embedded.columns) == ["faircp0", "faircp1"]
        new = model.transform(data.take("who", [3, 1]))
        assert list(new.index) == ["p3", "p1"]
    with config_context(transform_output="pandas"):
        assert list(FairCP(2, method="none", mode="who").fit_transform(data).index) == people
    assert isinstance(FairCP(2, method="none", mode="who").fit_transform(data), np.ndarray)
