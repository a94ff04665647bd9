import runpy
from pathlib import Path

import pytest

from parafair import datasets
from parafair.datasets import base
from parafair.testing import DatasetContract

EXAMPLE = Path(__file__).parents[2] / "examples" / "06_custom_data_set.py"
GENERATED = [name for name, entry in datasets.DATASETS.items() if entry.source is None]


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry, so that a test can add to it."""
    copy = dict(datasets.DATASETS)
    monkeypatch.setattr("parafair.datasets.base.DATASETS", copy)
    monkeypatch.setattr("parafair.testing.contracts.DATASETS", copy)
    return copy


class TestDataSetOfTheExample(DatasetContract):
    """What docs/add-a-data-set.md tells a reader to do."""

    @pytest.fixture
    def load(self, registry):
        return runpy.run_path(str(EXAMPLE))["visits"]


class TestGeneratedDataSets(DatasetContract):
    @pytest.fixture(params=GENERATED)
    def load(self, request):
        if request.param in ("marks", "ratings"):
            pytest.importorskip("pandas")
        return datasets.DATASETS[request.param].load


class TestContraceptive(DatasetContract):
    @pytest.fixture
    def load(self, real_data):
        return lambda: datasets.contraceptive(real_data)


class TestAdult(DatasetContract):
    @pytest.fixture
    def load(self, small_adult):
        pytest.importorskip("pandas")
        return lambda: datasets.adult(small_adult, subset="all")


@pytest.mark.slow
class TestOulad(DatasetContract):
    @pytest.fixture
    def load(self, real_data):
        pytest.importorskip("pandas")
        return lambda: datasets.oulad(real_data)


@pytest.mark.slow
def test_the_example_runs(registry, capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "leakage" in capsys.readouterr().out


def test_every_data_set_is_found_by_the_name_of_its_function():
    for name, entry in datasets.DATASETS.items():
        assert getattr(datasets, name) is entry.load


def test_options_come_from_the_signature():
    options = {option.name: option for option in datasets.DATASETS["synthetic"].options}
    assert list(options) == ["seed", "shape", "rank"]
    assert options["shape"].default == (200, 100, 100)
    assert options["shape"].about == "Sizes of the modes; the first is the sensitive one."


def test_a_description_of_several_lines_is_joined():
    folder, _ = datasets.DATASETS["contraceptive"].options
    assert folder.about.startswith("A folder with the file `cmc/cmc.data`; by default")
    assert folder.about.endswith("downloaded once.")


def test_a_name_is_registered_once(registry):
    def synthetic():
        raise NotImplementedError

    with pytest.raises(ValueError, match="a data set named 'synthetic' is already registered"):
        base.register("The same name again")(synthetic)
