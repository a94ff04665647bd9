"""The layout: imports point one way, tests mirror the package, modules stay short."""

import ast
from pathlib import Path
from statistics import median

import pytest

import parafair

SOURCE = Path(parafair.__file__).parent
TESTS = Path(__file__).parent

# Lowest first. A module imports only from layers before its own, and those on the same line do not
# import each other.
LAYERS = [
    {
        "disk",
        "display",
        "errors",
        "interrupts",
        "lazy",
        "records",
        "temporaries",
        "threads",
        "tiles",
        "torchrun",
        "version",
    },
    {"environment", "failures"},
    {"arguments", "team"},
    {"progress"},
    {"storage"},
    {"pictures", "stored"},
    {"algebra", "losses"},
    {"data"},
    {"datasets", "dependence"},
    {"penalties"},
    {"solvers"},
    {"encoders"},
    {"audits", "guarantees"},
    {"model", "testing"},
    {"frontiers", "interop"},
    {"report"},
    {"paper"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Test files that are about more than one module, and what they are about.
ABOUT_SEVERAL_MODULES = {
    "test_architecture.py": "the layout",
    "frontiers/test_shared.py": "frontiers whose fits are shared by several processes",
    "losses/test_fits.py": "every loss with missing entries, several modes, files and reports",
    "model/test_linked_noise.py": "noise and the ridge, with a link",
    "test_core_only.py": "an environment without the extras",
    "test_recommender_benchmark.py": "the recommender benchmark",
    "test_encoder_benchmarks.py": "benchmarks of encoders and their page",
    "encoders/test_new_people.py": "new people, with every kind of encoder",
    "test_release.py": "the version, the workflows and the wheel",
    "interop/test_page.py": "the page about other libraries",
    "interop/test_tensorly.py": "TensorLy and tlviz",
    "test_campaign.py": "random calls and commands",
    "test_campaign_blinding.py": "embeddings distorted to blind an audit",
    "test_campaign_damage.py": "files that are damaged, and work that is killed",
    "test_campaign_findings.py": "calls that the campaign found",
    "test_defaults.py": "global state, which nothing uses or changes",
    "test_defects.py": "defects as they were found",
    "test_documentation.py": "the pages, and the code on them",
    "test_documented_paths.py": "the names on the pages",
    "test_error_matches.py": "the tests",
    "test_few_people.py": "every method and call with four people",
    "test_gpu.py": "everything on another device",
    "test_gpu_processes.py": "process groups on GPUs",
    "test_main.py": "__main__",
    "test_guarantee_tables.py": "tables of guarantees and stored results",
    "test_measured_tables.py": "tables of pages and stored results",
    "test_notebook.py": "all objects in a notebook",
    "test_verdicts.py": "the one rule for what passes, everywhere",
    "test_process_state.py": "global state, which no public call changes",
    "test_public_names.py": "the public names",
    "test_site.py": "the gallery, the home page and the links",
    "test_source_distribution.py": "the files of the source distribution",
    "dependence/test_what_khsic_guarantees.py": "the page of this name",
    "frontiers/test_cluster.py": "a frontier on a cluster",
    "guarantees/test_models_above_the_limit.py": "the limit against models",
    "guarantees/test_theorem.py": "the page of this name",
    "losses/test_losses.py": "all losses",
    "model/test_shared_failures.py": "what goes wrong in one of several processes",
    "model/test_shared_memory.py": "what each of several processes holds",
    "model/test_shared_methods.py": "penalties on scores, signs and losses in several processes",
    "model/test_shared_streaming.py": "several processes that stream",
    "model/test_zero_slices.py": "items and days with zeros alone, for every loss and model",
    "model/test_zeros.py": "data whose absent entries are zeros",
    "model/test_chance.py": "the default method ends at chance",
    "model/test_scikit_learn.py": "the conventions of scikit-learn",
    "penalties/test_capabilities.py": "what a penalty of one's own gets",
    "penalties/test_penalties.py": "all penalties",
    "report/test_browser.py": "the page in a browser",
    "report/test_browser_guarantees.py": "certificates in a browser",
    "report/test_browser_paper.py": "the page on paper in a browser",
    "solvers/test_solvers.py": "all solvers",
}

LONGEST_MODULE, LONGEST_MEDIAN = 400, 200
# To be split.


def family(path):
    """The module or sub-package of parafair that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """The parts of parafair that a file imports, except for type checking."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root, *rest = alias.name.split(".")
                if root == "parafair":
                    yield rest[0] if rest else "__init__"
        if id(node) in skipped or not isinstance(node, ast.ImportFrom):
            continue
        assert not node.level, f"{path} has a relative import; name the module from parafair on"
        root, _, rest = (node.module or "").partition(".")
        if root != "parafair":
            continue
        if rest:
            yield rest.split(".")[0]
        else:
            names = {alias.name for alias in node.names}
            yield from (name if name in LEVEL else "__init__" for name in names)


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    own = family(path)
    assert own in LEVEL, f"{own} is in no layer; add it to LAYERS in {__file__}"
    for other in imported(path):
        if other != own:
            assert LEVEL[other] < LEVEL[own], (
                f"{path.relative_to(SOURCE)} imports parafair.{other}, which is not below "
                f"{own} in LAYERS; move the code down, or hand the object in as an argument"
            )


def test_the_check_sees_imports():
    assert "penalties" in set(imported(SOURCE / "solvers" / "problem.py"))
    assert "solvers" not in set(imported(SOURCE / "errors.py"))  # for type checking only


def test_test_folders_are_packages_of_the_source():
    folders = {path.name for path in TESTS.iterdir() if (path / "__init__.py").is_file()}
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    foreign = folders - packages - {"reference", "campaign"}
    assert not foreign, f"tests/ has folders that src/parafair does not have: {sorted(foreign)}"
    missing = packages - folders
    assert not missing, f"packages without a folder in tests/: {sorted(missing)}"


def test_test_files_are_named_after_modules():
    unknown = []
    for path in TESTS.rglob("test_*.py"):
        name = path.relative_to(TESTS)
        module = SOURCE / name.parent / name.stem.removeprefix("test_")
        if not (module.with_suffix(".py").is_file() or module.is_dir()):
            unknown.append(name.as_posix())
    new = sorted(set(unknown) - set(ABOUT_SEVERAL_MODULES))
    assert not new, f"{new} are named after no module; rename them, or say what they are about here"
    gone = sorted(set(ABOUT_SEVERAL_MODULES) - set(unknown))
    assert not gone, f"{gone} are listed in ABOUT_SEVERAL_MODULES without need; remove them"


def test_modules_are_short():
    lengths = {
        path.relative_to(TESTS.parent).as_posix(): len(path.read_text("utf-8").splitlines())
        for folder in (TESTS, TESTS.parent / "src")
        for path in folder.rglob("*.py")
    }
    long = {name: n for name, n in lengths.items() if n > LONGEST_MODULE}
    assert not long, f"longer than {LONGEST_MODULE} lines: {long}; look for the second idea in them"
    middle = median(n for name, n in lengths.items() if name.startswith("src/"))
    assert middle <= LONGEST_MEDIAN, f"the median module of src has {middle} lines"


def test_no_module_is_called_utils_and_none_unpickles():
    assert not [path for path in FILES if "util" in path.stem]
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text
        assert "torch.load" not in text
        assert "allow_pickle=True" not in text
