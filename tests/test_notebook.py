"""Every object looks well in a notebook: escaped, without scripts and without requests."""

import inspect
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.utils import estimator_html_repr

from parafair import (
    CPTensor,
    FairCP,
    FairTucker,
    SensitiveFeatures,
    TensorData,
    audit,
    audit_outputs,
    certify,
    compare_scores,
    evaluate_rankings,
    frontier,
    parity_limit,
    tune,
)
from parafair.datasets import Dataset, ratings
from parafair.display import shortened
from parafair.model import shown
from parafair.model.trials import Selection, Trial
from parafair.penalties import HSIC

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>\'"& $x$ $\\nope'
NAMES = [
    "tensor", "features", "dataset", "model", "tucker", "fit", "cp", "tucker_tensor", "audit",
    "certificate", "frontier", "tuning", "selection", "recommendations", "outputs", "scores",
    "rankings", "limit",
]  # fmt: skip


@pytest.fixture(scope="module")
def objects():
    """One of each, with labels, modes, groups and features whose names are markup."""
    random = np.random.RandomState(0)
    people = [f"{HOSTILE}{k}" for k in range(24)]
    groups = pd.DataFrame({HOSTILE: [f"{HOSTILE}a", "b"] * 12, "age": random.rand(24)})
    array = random.rand(24, 4, 3)
    data = TensorData.from_array(array, modes=[HOSTILE, "b", "c"], labels=[people, None, None])
    features = SensitiveFeatures.of(groups)
    quick = {"strength": 1.0, "max_iter": 3, "tol": 0}
    model = FairCP(2, **quick).fit(data, sensitive_features=features)
    attack = {"attackers": ["linear"], "permutations": 1, "folds": 2}
    bare = FairCP(2, **quick)
    trial = Trial(1.0, 0.1, 0.5, 2.0, leakage=0.1, verdict=HOSTILE)
    return {
        "tensor": data,
        "features": features,
        "dataset": Dataset(HOSTILE, HOSTILE, array, groups),
        "model": model,
        "tucker": FairTucker((2, 2, 2), **quick).fit(data, sensitive_features=features),
        "fit": model.fit_,
        "cp": CPTensor.from_factors(model.cp_.factors),
        "tucker_tensor": FairTucker((2, 2, 2), method="none").fit(data).tucker_,
        "audit": audit(model.embedding_, sensitive_features=features, **attack),
        "certificate": certify(model, draws=100),
        "frontier": frontier(
            bare, data, sensitive_features=features, strengths=[1.0], name=None, audits=attack,
            limit=False,
        ),
        "tuning": tune(FairCP(method="none", max_iter=3, tol=0), data, grid={"rank": [1, 2]}),
        "selection": Selection(model.fit_, 1.0, 0.1, (trial,)),
        "recommendations": model.recommend(people[:3], 9, exclude=None),
        "outputs": audit_outputs(array, sensitive_features=features, k=2, **attack),
        "scores": compare_scores(array, sensitive_features=features),
        "rankings": evaluate_rankings(array, data, sensitive_features=features, bootstraps=5),
        "limit": parity_limit(array, sensitive_features=groups[[HOSTILE]]),
    }  # fmt: skip


class Tags(HTMLParser):
    """Collects the tags and attributes of a page, and checks that tags are closed."""

    def __init__(self):
        super().__init__()
        self.open, self.found = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in {"img", "br", "meta", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def own_html(found):
    """The HTML of an object; of a model, without scikit-learn's diagram."""
    html = found._repr_html_()
    if isinstance(found, (FairCP, FairTucker)):
        # The diagram is numbered, so it is compared by its length.
        html = html[len(str(estimator_html_repr(found))) - 4 :]
        return html[html.index("<style>") :]
    return html


@pytest.mark.parametrize("name", NAMES)
def test_html_has_no_script_no_request_and_no_label_as_markup(objects, name):
    html = own_html(objects[name])
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    kinds = {tag for tag, _ in tags.found}
    assert kinds <= {
        "style", "div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "span", "details",
        "summary", "ul", "li", "svg", "rect", "line", "circle", "polyline", "path", "text",
    }  # fmt: skip
    for _, attributes in tags.found:
        assert not {"src", "href", "onerror", "onclick", "style"} & set(attributes)
    assert not re.search(r"url\(|@import|https?:", html)
    assert HOSTILE not in html


@pytest.mark.parametrize("name", NAMES)
def test_a_repr_is_one_short_line(objects, name):
    text = repr(objects[name]).replace(HOSTILE, "name")
    assert text.startswith(type(objects[name]).__name__)
    assert len(text) < 220
    assert "\n" not in text or name in ("model", "tucker")  # scikit-learn wraps lines


def test_pictures_have_labels_for_readers_who_do_not_see_them(objects):
    for name in ("tensor", "audit", "certificate", "frontier", "fit"):
        tags = Tags()
        tags.feed(objects[name]._repr_html_())
        pictures = [attributes for tag, attributes in tags.found if tag == "svg"]
        assert pictures, name
        assert all(p["role"] == "img" and len(p["aria-label"]) > 5 for p in pictures)


def test_numbers_on_the_page_are_those_of_the_object(objects):
    found = objects["audit"]
    assert f"{found.leakage:.3f}" in found._repr_html_()
    (statement, *_) = objects["certificate"].sentences()
    assert re.sub(r"\W", "", statement)[:40] in re.sub(
        r"\W", "", objects["certificate"]._repr_html_()
    )
    assert f"{objects['fit'].residual:.4g}" in objects["fit"]._repr_html_()


def test_the_diagram_links_to_our_pages(objects, monkeypatch):
    monkeypatch.setattr(shown, "documentation_url", lambda: "https://example.org/docs")
    html = objects["model"]._repr_html_()
    assert "https://example.org/docs/api/parafair.FairCP.html" in html
    assert (
        "https://example.org/docs/api/parafair.FairTucker.html" in objects["tucker"]._repr_html_()
    )
    monkeypatch.setattr(shown, "documentation_url", lambda: "")
    assert "api/parafair" not in objects["model"]._repr_html_()


def test_a_data_set_whose_features_cannot_be_used_says_so():
    data = ratings(users=10, items=40)
    page = data._repr_html_()
    assert "it almost labels them; leave it out" in page
    assert page.count("10 people") >= 1


@pytest.mark.parametrize("features", [None, list("ab") * 10])
def test_a_fitted_model_without_noise_or_features_can_be_shown_and_inspected(features):
    # Both look at all attributes, so no attribute may fail or take long to compute.
    model = FairCP(2, method="none")
    model.fit(np.random.default_rng(0).normal(size=(20, 3)), sensitive_features=features)
    before = set(vars(model))
    assert "parafair-view" in model._repr_html_()
    assert "embedding_" in dict(inspect.getmembers(model))
    assert set(vars(model)) == before


@pytest.mark.parametrize(("method", "expected"), [("hsic", "hsic"), (HSIC(20.0), "HSIC")])
def test_a_fitted_model_shows_its_method(method, expected):
    model = FairCP(1, method=method)
    model.fit(np.random.default_rng(0).normal(size=(20, 3)), sensitive_features=["a", "b"] * 10)
    assert re.search(rf">method</t[dh]><td[^>]*>{expected}<", model._repr_html_())


def test_an_unfitted_model_shows_its_diagram_alone():
    model = FairCP(3)
    assert "parafair-view" not in model._repr_html_()
    assert set(model._repr_mimebundle_()) == {"text/plain", "text/html"}
    with sklearn.config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(model, "_repr_html_")


class TestPlot:
    @pytest.fixture(autouse=True)
    def pyplot(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        from matplotlib import pyplot

        yield pyplot
        pyplot.close("all")

    @pytest.mark.parametrize("name", ["model", "tucker", "audit", "certificate", "frontier"])
    def test_it_returns_axes_that_can_be_styled(self, objects, name, pyplot):
        axes = objects[name].plot()
        assert isinstance(axes, pyplot.Axes)
        axes.figure.canvas.draw()  # names with dollar signs are not formulas
        axes.set_title("a title")
        assert objects[name].plot(ax=axes) is axes

    def test_a_feature_is_chosen_by_its_name(self, objects):
        legend = objects["model"].plot().get_legend()
        assert legend.get_title().get_text() == shortened(HOSTILE)
        assert len(objects["model"].plot(feature="age").figure.axes) == 2  # with a color bar
        assert objects["audit"].plot(feature="age").get_title("left").startswith("age")
        for name in ("model", "audit"):
            with pytest.raises(ValueError, match="feature must be one of"):
                objects[name].plot(feature="nope")

    @pytest.mark.parametrize("name", ["model", "audit", "certificate", "frontier"])
    def test_what_is_not_one_axes_is_refused(self, objects, name, pyplot):
        with pytest.raises(TypeError, match="ax must be one Axes of matplotlib, got 3; pass what"):
            objects[name].plot(ax=3)
        _, several = pyplot.subplots(1, 2)
        with pytest.raises(TypeError, match="ax must be one Axes .*; pass one of them"):
            objects[name].plot(ax=several)

    def test_a_model_without_features_has_one_color(self):
        model = FairCP(2, method="none", max_iter=2, tol=0).fit(np.eye(6))
        assert model.plot().get_legend() is None
        with pytest.raises(ValueError, match="fitted without sensitive_features"):
            model.plot(feature="age")


@pytest.mark.slow
def test_the_page_about_notebooks_runs_as_a_notebook(tmp_path):
    client = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
    nbformat = pytest.importorskip("nbformat.v4")
    pytest.importorskip("ipykernel")
    page = (Path(__file__).parents[1] / "docs" / "notebooks.md").read_text("utf-8")
    cells = re.findall(r"```python\n(.*?)```", page, re.S)
    notebook = nbformat.new_notebook(cells=[nbformat.new_code_cell(cell) for cell in cells])
    client.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=tmp_path)
    shown = [[out.get("data", {}) for out in cell.outputs] for cell in notebook.cells]
    model, certificate, found, curve, pictures = shown
    for outputs, text in (
        (model, "FairCP, fitted"),
        (certificate, "Certificate"),
        (found, "Audit"),
    ):
        assert text in outputs[-1]["text/html"]
    assert "audit: 8 of 8" in found[0]["text/html"]  # the bar, at its end
    assert [out["text/html"].split(",")[0] for out in curve[:2]] == [
        "<div>fits: 4 of 4", "<div>audits: 4 of 4",
    ]  # fmt: skip
    assert sum("image/png" in out for out in (*curve, *pictures)) == 3
