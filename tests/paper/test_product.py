"""A product of readings has every combination once, and only the fits that are judged."""

from dataclasses import replace
from itertools import product

import pytest

from parafair.paper import EVERY, EXPLAINED, OPTIONS, PAPER_FIGURES, SOME, Readings, Setup
from parafair.paper.config import FATR, HSIC, KHSIC, PAPER_METHODS, SYNTHETIC
from parafair.paper.product import Product
from parafair.paper.work import Work, load_sources
from tests.paper.conftest import TINY

TWO = {"init": ("uniform", "normal"), "units": ("sum", "mean"), "ones": ("second", "first")}


@pytest.mark.parametrize("values", [EVERY, SOME])
def test_the_usual_products_have_known_readings_and_the_usual_values(values):
    assert set(values) <= set(EXPLAINED)
    for name, own in values.items():
        assert len(own) == len(set(own)) > 1
        assert getattr(Readings(), name) in own
        assert set(own) <= set(OPTIONS.get(name, own))


def test_the_full_product_has_some_hundreds_of_combinations():
    whole = Product(EVERY)
    assert 200 <= sum(len(whole.combinations(name)) for name in PAPER_FIGURES) < 1000


def test_a_figure_has_the_combinations_of_the_readings_it_depends_on():
    some = Product(TWO, TINY)
    assert some.concerning("fig1a") == ("init", "ones")
    assert some.concerning("fig1b") == ("init", "units")
    assert some.concerning("fig3a") == ("init",)
    found = [(own.init, own.units, own.ones) for own in some.combinations("fig2b")]
    assert found == list(product(*TWO.values()))


def test_items_are_the_fits_of_the_paper_at_strengths_that_all_runs_have():
    whole = Product(EVERY)
    runs = range(whole.scale.runs)
    found = whole.items("fig2a", Readings())
    assert {item.method for item in found} == {HSIC, KHSIC}
    for method in (HSIC, KHSIC):
        strengths = [item.strength for item in found if item.method == method]
        assert len(set(strengths)) == 5
        assert len(strengths) == 5 * len(runs)
    printed, longer = (
        {item.strength for item in whole.items("fig1b", Readings(largest=largest))}
        for largest in OPTIONS["largest"]
    )
    assert (printed, longer) == ({0, 0.04}, {0, 0.4})


def test_combinations_share_the_fits_that_do_not_depend_on_a_reading():
    some = Product(TWO, TINY)
    groups = {}
    for own in some.combinations("fig2b"):
        for item in some.items("fig2b", own):
            groups.setdefault((item.method, item.strength), set()).add(item)
    sizes = {key: len(items) // TINY.runs for key, items in groups.items()}
    assert sizes == {
        ("BCD", None): 2,
        (FATR, 0.1): 4,
        (HSIC, 0.01): 4,
        (KHSIC, 0.04): 4,
        (KHSIC, 0.4): 4,
    }
    ends = {i for own in some.combinations("fig1b") for i in some.items("fig1b", own)}
    assert len([item for item in ends if item.strength == 0]) == 2 * TINY.runs  # 0 has no unit


def test_the_keys_of_different_fits_differ():
    whole = Product({**EVERY, "rounds": (1, 2), "batch_size": (32,)}, TINY)
    items = {
        item
        for name in PAPER_FIGURES
        for own in whole.combinations(name)
        for item in whole.items(name, own)
    }
    assert len({whole.key(item) for item in items}) == len(items)


def test_one_reading_is_a_product_of_one():
    alone = Product({}, TINY)
    assert alone.combinations("fig2b") == [Readings()]
    figure = Setup(scale=TINY).figures["fig2b"]
    assert alone.items("fig2b", Readings()) == [
        item for item in figure.items if item.method in PAPER_METHODS
    ]
    assert alone.columns == ()


def test_settings_can_be_written_and_read():
    some = Product(TWO, TINY)
    again = Product.from_record(some.settings)
    assert (again.values, again.scale) == (TWO, TINY)


def test_classifiers_of_one_fit_and_units_share_a_batch():
    some = Product({"batch_size": (32, 8), "units": ("sum", "mean")}, TINY)
    items = [i for own in some.combinations("fig2b") for i in some.items("fig2b", own)]
    items = [item for item in items if item.method == KHSIC]
    work = Work(TINY, load_sources(items, TINY, None))
    (batch,) = work.missing(items, lambda item: False)
    assert len(batch.fits) == 2 * 2 * TINY.runs  # strengths and units
    assert len(batch.items) == 2 * len(batch.fits) == len(set(items))
    for first, second in batch.fits:
        assert replace(first, readings=Readings()) == replace(second, readings=Readings())
        assert {first.readings.batch_size, second.readings.batch_size} == {32, 8}
    assert not work.missing(items, lambda item: True)
    assert work.seconds([batch]) > 0


def test_a_batch_has_one_start_and_one_number_of_steps():
    values = {"init": ("uniform", "normal"), "inner_steps": (1, 2)}
    some = Product(values, TINY)
    items = [i for own in some.combinations("fig1b") for i in some.items("fig1b", own)]
    batches = Work(TINY, load_sources(items, TINY, None)).missing(items, lambda item: False)
    assert len(batches) == 4
    for batch in batches:
        assert len({(i.readings.init, i.readings.inner_steps) for i in batch.items}) == 1
        assert {item.data for item in batch.items} == {SYNTHETIC}
