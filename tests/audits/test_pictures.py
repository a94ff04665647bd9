import sys

import numpy as np
import pytest

from parafair import audit
from parafair.audits import draw
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(60, seed=1).numpy().ravel()
ROWS = example_rows(60, 3, seed=0).numpy()


@pytest.fixture(scope="module")
def result():
    features = np.column_stack([GROUPS, 3.0 * ROWS[:, 0]])
    return audit(
        ROWS,
        sensitive_features=features,
        attackers=["linear", "neighbors"],
        repeats=1,
        permutations=5,
    )


def test_the_picture_is_written(result, tmp_path):
    pytest.importorskip("matplotlib")
    figure = result.draw(tmp_path / "audit.png")
    assert (tmp_path / "audit.png").stat().st_size > 5000
    assert len(figure.axes) == 3  # two features, and both together
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["linear", "neighbors"]


def test_a_picture_replaces_a_file_only_if_asked(result, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "audit.svg"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="audit.svg already exists; choose another file"):
        result.draw(path)
    assert path.read_text() == "precious"
    result.draw(path, overwrite=True)
    assert "<svg" in path.read_text(encoding="utf-8")


def test_without_a_path_nothing_is_written(result, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    draw(result)
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_named(result, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'parafair\[plot\]'"):
        draw(result)


@pytest.mark.parametrize("path", ["/proc/x.html", "audit", "audit.gif"])
def test_other_formats_are_refused_before_anything_is_drawn(result, path):
    with pytest.raises(ValueError, match="path must end in .png, .pdf, .svg, got"):
        result.draw(path)


def test_files_that_cannot_be_written_are_refused(result, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="x.png does not exist; create it first"):
        result.draw(tmp_path / "file" / "x.png")
    with pytest.raises(TypeError, match="path must be a path as text or a pathlib.Path"):
        result.draw(1)


def test_attackers_with_some_inputs_only_are_drawn():
    pytest.importorskip("matplotlib")
    found = audit(ROWS, sensitive_features=GROUPS, attackers=["forest"], folds=2, permutations=1)
    assert len(draw(found).axes) == 1
