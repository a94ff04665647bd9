"""The code on the pages runs; links lead somewhere. The gallery has tests of its own."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import parafair
from parafair import FairCP
from parafair.audits import ATTACKERS, STAGES, audit
from parafair.losses import LOSSES
from parafair.model.methods import METHODS
from parafair.paper.comparison_page import render_comparison
from parafair.paper.page import render_page
from parafair.solvers.init import INITS
from parafair.solvers.registry import SOLVERS
from parafair.testing import AttackerContract, PenaltyContract

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_page_about_recommenders_shows_what_happens(capsys):
    page = (ROOT / "docs" / "recommenders.md").read_text("utf-8")
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        if "my/folder" not in code:  # the reader's own data
            exec(compile(code, "recommenders.md", "exec"), names)
    printed = capsys.readouterr().out
    shown = re.findall(r"```text\n(.*?)```", page, re.S)
    assert len(shown) == 3
    # Other processors end in other local optima.
    for text in shown:
        assert text.splitlines()[0] in printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:transform embeds new people without regard to fairness")
def test_the_example_about_adult_runs(real_data, monkeypatch, capsys):
    pytest.importorskip("fairlearn")
    path = ROOT / "examples" / "09_adult.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--data", str(real_data), "--people", "120"])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search("model +sex +residual +leakage +within new +income AUC", printed)
    assert printed.count("unknown") == 8  # four models, in both tables


class TestPenaltyOfTheExample(PenaltyContract):
    """What docs/add-a-penalty.md tells a reader to do."""

    @pytest.fixture
    def penalty(self):
        example = runpy.run_path(str(ROOT / "examples" / "02_custom_penalty.py"))
        return example["EqualMeans"](strength=2.0)


class TestAttackerOfTheExample(AttackerContract):
    """What docs/add-an-attacker.md tells a reader to do."""

    @pytest.fixture
    def attacker(self):
        return runpy.run_path(str(ROOT / "examples" / "05_custom_attacker.py"))["BAYES"]


def test_the_page_about_attackers_lists_the_panels():
    page = (ROOT / "docs" / "add-an-attacker.md").read_text("utf-8")
    for stage in STAGES:
        own = ", ".join(name for name, attacker in ATTACKERS.items() if attacker.stage == stage)
        (row,) = re.findall(rf'^\| `"{stage}"` .*\| (.*) \|$', page, re.M)
        assert row == own


@pytest.mark.parametrize(
    ("registry", "names", "docstring"),
    [
        ("model.methods.METHODS", METHODS, FairCP.__doc__),
        ("solvers.registry.SOLVERS", SOLVERS, FairCP.__doc__),
        ("solvers.init.INITS", INITS, FairCP.__doc__),
        ("losses.registry.LOSSES", LOSSES, FairCP.__doc__),
        ("audits.attackers.ATTACKERS", ATTACKERS, audit.__doc__),
    ],
)
def test_registered_names_are_in_the_docstring_that_users_read(registry, names, docstring):
    missing = [name for name in names if f'"{name}"' not in docstring]
    assert not missing, f"{missing} of parafair.{registry} are not in the docstring; add them there"


@pytest.mark.parametrize(("name", "files"), [("add-a-penalty", 2), ("add-an-attacker", 1)])
def test_pages_include_real_files(name, files):
    page = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    included = re.findall(r"^```\{literalinclude\} (.*)$", page, re.M)
    assert len(included) == files
    for path in included:
        assert (ROOT / "docs" / path).is_file()


@pytest.mark.slow
def test_the_demo_draws_its_picture(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("rich")
    command = [sys.executable, ROOT / "examples" / "demo.py", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search("picked invariant-.*: passes", result.stdout)
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    assert (tmp_path / "report.html").stat().st_size > 100_000


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("README.md", marks=pytest.mark.slow),
        pytest.param("docs/quickstart.md", marks=pytest.mark.slow),
        pytest.param("docs/guarantees.md", marks=pytest.mark.slow),
        pytest.param("docs/unknown-groups.md", marks=pytest.mark.slow),
    ],
)
def test_python_code_on_the_page_runs(page, capsys):
    for code in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.S):
        exec(compile(code, page, "exec"), {})
    printed = capsys.readouterr().out
    assert "leakage" in printed
    # The page shows this output; other processors end in other local optima. The column after the
    # attacker, the input on which it gains most, begins at 15.
    shown = (ROOT / page).read_text("utf-8")
    for line in printed.splitlines()[1:20]:
        assert line[:15] in shown


@pytest.mark.slow
def test_the_page_about_tables_shows_what_happens(tmp_path, monkeypatch, capsys):
    pytest.importorskip("narwhals")
    page = (ROOT / "docs" / "tables.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"^`(\w+\.csv)`:\n\n```csv\n(.*?)```", page, re.M | re.S):
        (tmp_path / name).write_text(content)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(code, "tables.md", "exec"), names)
    printed = capsys.readouterr().out
    for shown in re.findall(r"```text\n(.*?)```", page, re.S):
        assert shown in printed
    assert "precision@1" in printed


@pytest.mark.slow
def test_commands_on_the_page_about_tables_run(tmp_path, monkeypatch):
    pytest.importorskip("typer")
    page = (ROOT / "docs" / "tables.md").read_text("utf-8")
    page = page[page.index("## In the shell") :]
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    exec(compile(code, "tables.md", "exec"), {})
    (cells,) = re.findall(r"`cells.csv`:\n\n```csv\n(.*?)```", page, re.S)
    (tmp_path / "cells.csv").write_text(cells)
    lines = "".join(re.findall(r"```sh\n(.*?)```", page, re.S)).replace("\\\n", " ").splitlines()
    commands = [line.split() for line in lines]
    assert [words[1] for words in commands] == [
        "fit", "audit", "predict", "transform", "audit", "frontier", "report",
    ]  # fmt: skip
    from tests.cli.conftest import run

    for words in commands:
        if words[1] in ("fit", "predict"):  # the others have tests of their own
            run(*words[1:])
    shown = re.findall(r"```csv\n(student,module,test,prediction\n.*?)```", page, re.S)[0]
    found = (tmp_path / "predictions.csv").read_text()
    assert [line.rpartition(",")[0] for line in found.splitlines()] == [
        line.rpartition(",")[0] for line in shown.splitlines()
    ]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md")),
    ],
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text("utf-8")):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_page_of_the_reproduction_is_that_of_its_tables():
    folder, page = ROOT / "docs" / "data" / "reproduction", ROOT / "docs" / "reproduction.md"
    assert page.read_text("utf-8") == render_page(folder, page)[0]


def test_the_page_about_readings_is_that_of_its_tables():
    folder, page = ROOT / "docs" / "data" / "readings", ROOT / "docs" / "readings.md"
    assert page.read_text("utf-8") == render_comparison(folder, page)


def shell_commands():
    """The shell commands of the README, word for word."""
    blocks = re.findall(
        r"```sh\n(parafair datasets.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S
    )
    lines = "".join(blocks).replace("\\\n", " ").strip().splitlines()
    return [line.split() for line in lines]


def run_commands(commands):
    for words in commands:
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)


@pytest.mark.slow
def test_shell_commands_of_the_readme_run(tmp_path, monkeypatch):
    pytest.importorskip("typer")
    monkeypatch.chdir(tmp_path)
    quick = ("datasets", "fit", "tune", "predict", "transform")
    run_commands(words for words in shell_commands() if words[1] in quick)
    assert (tmp_path / "predictions.csv").exists()
    assert (tmp_path / "later.csv").exists()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "certificate.json",
        "embedding.csv",
        "factor_mode_1.csv",
        "factor_mode_2.csv",
        "factors.safetensors",
        "fit.json",
        "inputs.json",
        "manifest.json",
        "model.json",
        "training.json",
    ]


@pytest.mark.slow
def test_all_shell_commands_of_the_readme_run(tmp_path, monkeypatch):
    pytest.importorskip("typer")
    monkeypatch.chdir(tmp_path)
    run_commands(shell_commands())
    assert (tmp_path / "curve" / "report.html").stat().st_size > 100_000


def code_after(page, text):
    """The first Python block of a page after some text, a list of its lines."""
    rest = (ROOT / "docs" / page).read_text("utf-8").partition(text)[2]
    return re.findall(r"```python\n(.*?)```", rest, re.S)[0].strip("\n").splitlines()


@pytest.mark.slow
def test_a_newcomer_adds_one_of_each_by_following_the_pages(tmp_path):
    source = tmp_path / "parafair"
    shutil.copytree(Path(parafair.__file__).parent, source)
    steps = [
        ("02_custom_penalty.py", "penalties/equal_means.py", "penalties/registry.py"),
        ("05_custom_attacker.py", "audits/bayes.py", "audits/attackers.py"),
        ("06_custom_data_set.py", "datasets/visits.py", "datasets/__init__.py"),
    ]
    pages = ("add-a-penalty.md", "add-an-attacker.md", "add-a-data-set.md")
    families = ("PENALTIES: dict[str, type[Penalty]] = {", "ATTACKERS: dict[str, Attacker] = {", "")
    for (example, new, registry), page, family in zip(steps, pages, families, strict=True):
        shutil.copy(ROOT / "examples" / example, source / new)
        lines = code_after(page, "ship it with" if "attacker" not in page else "use it everywhere")
        text = (source / registry).read_text("utf-8")
        imported = text.index("from parafair.", text.index("from __future__"))
        text = text[:imported] + lines[0] + "\n" + text[imported:]
        if family:
            assert family in text
            text = text.replace(family, f"{family}\n{lines[-1]}")
        (source / registry).write_text(text, "utf-8")
    check = (
        "import parafair\n"
        "from parafair.model.methods import METHODS\n"
        "data = parafair.datasets.visits(customers=20)\n"
        "model = parafair.FairCP(2, method='equal-means', max_iter=2, tol=0)\n"
        "model.fit(data.tensor, sensitive_features=data.sensitive_features)\n"
        "settings = {'attackers': parafair.audits.panel('quick'), 'permutations': 1}\n"
        "features = data.sensitive_features\n"
        "print(parafair.audit(model.embedding_, sensitive_features=features, **settings))\n"
        "print(METHODS, list(parafair.datasets.DATASETS))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr
    for name in ("bayes", "equal-means", "visits"):
        assert name in result.stdout
