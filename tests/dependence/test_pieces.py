import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import criterion as criteria
from parafair.dependence import pieces
from parafair.dependence.criterion import Criterion
from parafair.dependence.pieces import pieces_of
from parafair.testing import example_rows
from tests.reference import criterion as reference


def criterion(features, chunk_size=1000, dtype=torch.float64):
    prototype = torch.zeros(0, dtype=dtype)
    return Criterion(SensitiveFeatures.of(features), prototype, chunk_size)


def without_runs(measure):
    measure.__dict__["runs"] = None
    return measure


def groups_of(*sizes):
    return np.random.default_rng(3).permutation(np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize("alike", [(500, 500), (501, 499), (20, 980), (1, 2, 3), (7,), (40,) * 16])
def test_pieces_hold_every_place_once(alike):
    found = pieces_of(alike)
    places = found.places.flatten()[found.back]
    assert places.tolist() == list(range(sum(alike)))
    groups = torch.repeat_interleave(torch.tensor(alike))
    assert (groups[found.places] == groups[found.runs][:, None]).all()
    blocks = len(found.places) * (len(found.places) + 1) // 2
    assert len({*zip(found.first.tolist(), found.second.tolist(), strict=True)}) == blocks
    assert (found.first <= found.second).all()


@pytest.mark.parametrize("sizes", [(200, 103), (203, 60, 40), (263, 40)])
def test_chunks_in_pieces_are_those_of_all_pairs(sizes):
    groups = groups_of(*sizes)
    rows = example_rows(303, 3, seed=0).repeat(2, 1, 1) * torch.tensor([1.0, 2.0])[:, None, None]
    rows[1, :, 0] += torch.from_numpy(groups)
    found = criterion(groups, 150)
    assert found.runs is not None
    expected = without_runs(criterion(groups, 150)).value_and_gradient(rows)
    for part, own in zip(found.value_and_gradient(rows), expected, strict=True):
        torch.testing.assert_close(part, own)


def test_a_chunk_with_a_place_to_fill_up_is_that_of_all_pairs():
    groups = groups_of(90, 61)
    rows = example_rows(151, 2, seed=1)
    found = criterion(groups, 75)
    assert found.chunks.shape == (2, 76)
    expected = without_runs(criterion(groups, 75)).value_and_gradient(rows)
    for part, own in zip(found.value_and_gradient(rows), expected, strict=True):
        torch.testing.assert_close(part, own)


def test_a_single_chunk_of_many_people_is_that_of_the_formula(monkeypatch):
    monkeypatch.setattr(criteria, "LEAST_SORTED", 100)
    groups = groups_of(80, 40)
    rows = example_rows(120, 3, seed=2)
    found = criterion(groups)
    assert found.runs is not None
    assert not torch.equal(found.chunks[0], torch.arange(120))
    value, _ = found.value_and_gradient(rows)
    torch.testing.assert_close(value, reference.value(found, rows), rtol=1e-8, atol=0)
    permuted = found.permuted(rows, permutations=3, random_state=0)
    monkeypatch.setattr(criteria, "LEAST_SORTED", 1000)
    expected = criterion(groups).permuted(rows, permutations=3, random_state=0)
    torch.testing.assert_close(permuted, expected)


def test_single_precision_is_as_exact_as_one_product_per_kernel():
    groups = groups_of(500, 500)
    rows = example_rows(1000, 8, seed=4)
    exact = criterion(groups).value_and_gradient(rows)[1]
    single = criterion(groups, dtype=torch.float32).value_and_gradient(rows)[1]
    plain = without_runs(criterion(groups, dtype=torch.float32)).value_and_gradient(rows)[1]
    assert (single - exact).norm() < 2 * (plain - exact).norm()


def test_rows_that_are_not_finite_give_no_number():
    groups = groups_of(60, 60)
    rows = example_rows(120, 2, seed=5).repeat(2, 1, 1)
    rows[1] *= torch.inf
    value, gradient = criterion(groups, 50).value_and_gradient(rows)
    assert value.isfinite().tolist() == [True, False]
    assert gradient[0].isfinite().all()


def test_places_without_a_person_count_for_nothing(monkeypatch):
    monkeypatch.setattr(pieces, "NOBODY", 1e8)
    groups = groups_of(61, 59)
    rows = example_rows(120, 2, seed=6)
    far = criterion(groups, 60).value_and_gradient(rows)
    monkeypatch.undo()
    for part, own in zip(criterion(groups, 60).value_and_gradient(rows), far, strict=True):
        torch.testing.assert_close(part, own, rtol=1e-12, atol=0)
