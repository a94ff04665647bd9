"""The map that moves groups to one distribution: against a slow form, and on people not seen."""

import numpy as np
import pytest
import torch

from parafair.dependence.quantile_map import QuantileMap


def people(count, seed=0):
    """Rows of two groups that differ in mean, spread and shape, and the groups."""
    random = np.random.default_rng(seed)
    groups = random.random(count) < 0.3
    rows = random.standard_normal((count, 3)) * np.where(groups, 0.6, 1.0)[:, None]
    rows[groups, 0] = np.abs(rows[groups, 0]) + 1
    return torch.from_numpy(rows), torch.from_numpy(groups.astype(int))


def learn(rows, groups, rotations=40, knots=50, basis=None):
    basis = torch.eye(3, dtype=torch.float64) if basis is None else basis
    return QuantileMap.of(rows, groups, basis, rotations=rotations, knots=knots, seed=1)


def move_slowly(found, row, group):
    """Move one person, one direction at a time."""
    point = (row - found.mean.numpy()) @ found.basis.numpy()
    for turn, quantiles in zip(found.turns.numpy(), found.quantiles.numpy(), strict=True):
        turned = point @ turn
        for direction in range(len(turned)):
            own = quantiles[group, direction]
            mean = found.shares.numpy() @ quantiles[:, direction]
            here, by = turned[direction], np.interp(turned[direction], own, mean - own)
            if here > own[-1]:  # inwards like the last knot, outwards up to where that goes
                by = min(by, max(mean[-1] - here, 0))
            elif here < own[0]:
                by = max(by, min(mean[0] - here, 0))
            turned[direction] = here + by
        point = turned @ turn.T
    return point @ np.linalg.inv(found.basis.numpy()) + found.mean.numpy()


def test_people_move_as_one_at_a_time():
    rows, groups = people(300)
    basis = torch.tensor([[2.0, 0, 0], [0.5, 1, 0], [0, 0, 3]], dtype=torch.float64)
    found = learn(rows, groups, rotations=3, basis=basis)
    moved = found.move(rows, groups)
    expected = [move_slowly(found, rows[i].numpy(), int(groups[i])) for i in range(20)]
    np.testing.assert_allclose(moved[:20], np.array(expected), rtol=1e-10, atol=1e-12)


def test_along_its_direction_a_group_has_the_mean_quantiles():
    rows, groups = people(4000)
    found = learn(rows[:, :1], groups, rotations=1, knots=1000, basis=torch.ones(1, 1).double())
    moved = found.move(rows[:, :1], groups)[:, 0]
    levels = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)
    before = [rows[groups == g, 0].quantile(levels) for g in (0, 1)]
    share = float((groups == 1).double().mean())
    for group in (0, 1):
        np.testing.assert_allclose(
            moved[groups == group].quantile(levels),
            (1 - share) * before[0] + share * before[1],
            atol=0.02,
        )


def test_people_who_were_not_seen_come_to_one_distribution():
    found = learn(*people(4000))
    rows, groups = people(3000, seed=1)
    moved = found.move(rows, groups)

    def apart(rows):
        """The largest difference of the groups' distribution functions in twenty directions."""
        directions = torch.from_numpy(np.random.default_rng(2).standard_normal((3, 20)))
        scores = rows @ directions
        cuts = scores.quantile(torch.linspace(0.05, 0.95, 19, dtype=torch.float64), dim=0)
        below = [(scores[groups == g][:, None] <= cuts).double().mean(0) for g in (0, 1)]
        return float((below[0] - below[1]).abs().max())

    assert apart(rows) > 0.4
    assert apart(moved) < 0.08  # two samples of one distribution: about 0.05
    # People of a group keep their order, or nearly.
    kept = np.corrcoef(rows[groups == 0, 1], moved[groups == 0, 1])[0, 1]
    assert kept > 0.95


def test_a_person_does_not_depend_on_others_and_permuting_permutes():
    found = learn(*people(500))
    rows, groups = people(40, seed=3)
    moved = found.move(rows, groups)
    order = torch.randperm(40)
    torch.testing.assert_close(found.move(rows[order], groups[order]), moved[order])
    torch.testing.assert_close(found.move(rows[:1], groups[:1]), moved[:1])


def test_one_group_stays_where_it_is():
    rows, groups = people(200)
    found = learn(rows, torch.zeros_like(groups))
    torch.testing.assert_close(found.move(rows, torch.zeros_like(groups)), rows)


def test_many_people_are_sampled(monkeypatch):
    monkeypatch.setattr("parafair.dependence.quantile_map.MOST_PEOPLE", 1000)
    rows, groups = people(4000)
    some = learn(rows, groups, rotations=5)
    monkeypatch.undo()
    everybody = learn(rows, groups, rotations=5)
    moved = [found.move(rows, groups) for found in (some, everybody)]
    assert float((moved[0] - moved[1]).square().mean()) < 0.02


def test_one_person_of_a_rare_group_does_not_change_how_the_others_move():
    rows, groups = people(2000)
    alone = learn(rows, groups)
    rare = learn(torch.cat([rows, rows[:1]]), torch.cat([groups, torch.tensor([2])]))
    assert rare.quantiles.shape[-1] == alone.quantiles.shape[-1] == 50
    moved = [found.move(rows, groups) for found in (alone, rare)]
    assert float((moved[0] - moved[1]).square().mean()) < 1e-3
    # Who is a group alone comes to the middle of all: to the mean of the medians.
    person = rare.move(rows[:1], torch.tensor([2]))
    assert float((person - rows.mean(0)).abs().max()) < 0.3


def test_people_of_a_small_group_come_to_the_quantiles_of_their_ranks():
    rows = torch.tensor([[0.0], [1.0], [5.0]] + [[100.0 + place] for place in range(60)]).double()
    groups = torch.tensor([0] * 3 + [1] * 60)
    found = QuantileMap.of(rows, groups, torch.eye(1).double(), rotations=1, knots=60)
    moved = found.move(rows, groups)[:3, 0] - 60 / 63 * 100
    # Levels 1/12, 1/2 and 11/12, which are in the middle of what each person stands for.
    expected = [place * 60 / 63 + own * 3 / 63 for place, own in ((4.5, 0), (29.5, 1), (54.5, 5))]
    np.testing.assert_allclose(moved, expected, atol=60 / 63)
    assert (moved.diff() > 0).all()


def changed(name, change):
    """Arrays of a map of which one is forged."""
    arrays = dict(learn(*people(100), rotations=2, knots=5).arrays)
    arrays[f"moves_{name}"] = change(arrays[f"moves_{name}"])
    return arrays


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("turns", lambda turns: turns[:0], "turns has the shape"),
        ("turns", lambda turns: turns[0, 0, 0], "turns has the shape"),
        ("turns", lambda turns: 3 * turns, "turns are no rotations"),
        ("shares", lambda shares: shares[0], "quantiles has the shape"),
        ("shares", lambda shares: 2 * shares, "shares are not those of groups"),
        ("shares", lambda shares: shares * torch.tensor([3.0, -1.0]).double(), "shares are not"),
        ("basis", lambda basis: 0 * basis, "basis has no inverse"),
        ("mean", lambda mean: mean.float(), "mean is not in double precision"),
        ("mean", lambda mean: mean.to(torch.complex128), "mean is not in double precision"),
        ("quantiles", lambda found: found[0, 0, 0, 0], "quantiles has the shape"),
        ("quantiles", lambda found: found[..., :1], "quantiles has the shape"),
        ("quantiles", lambda found: found.flip(-1), "quantiles decrease"),
        ("more", None, "its map has the arrays moves_basis, moves_mean, moves_more"),
    ],
)
def test_a_forged_map_is_refused(name, change, message):
    if change is None:
        arrays = {**learn(*people(100), rotations=2).arrays, f"moves_{name}": torch.ones(1)}
    else:
        arrays = changed(name, change)
    with pytest.raises(ValueError, match=message):
        QuantileMap.pop(arrays, rank=3)


def test_arrays_of_another_model_are_refused():
    found = learn(*people(100), rotations=2)
    again = QuantileMap.pop({**found.arrays, "other": torch.ones(1)}, rank=3)
    rows, groups = people(10)
    torch.testing.assert_close(again.move(rows, groups), found.move(rows, groups))
    assert QuantileMap.pop({"other": torch.ones(1)}, rank=3) is None
    with pytest.raises(ValueError, match=r"its moves_mean has the shape \(3,\), not \(4,\)"):
        QuantileMap.pop(found.arrays, rank=4)
    with pytest.raises(ValueError, match="its moves_quantiles has the shape"):
        QuantileMap.pop({**found.arrays, "moves_quantiles": torch.ones(2, 1)}, rank=3)
    flat = {**found.arrays, "moves_basis": torch.zeros(3, 3, dtype=torch.float64)}
    with pytest.raises(ValueError, match="its moves_basis has no inverse"):
        QuantileMap.pop(flat, rank=3)


def test_people_of_a_rare_group_stay_among_the_others():
    random = np.random.default_rng(0)
    rows = torch.as_tensor(random.standard_normal((6000, 6)))
    groups = torch.as_tensor((np.arange(6000) >= 5950).astype(int))
    rows[groups == 1] = 0.5 * rows[groups == 1] + 1
    found = QuantileMap.of(rows, groups, torch.eye(6, dtype=torch.float64))
    assert len(found.turns) == 150
    more = 0.5 * torch.as_tensor(random.standard_normal((500, 6))) + 1
    new = found.move(more, torch.ones(500, dtype=torch.long))
    for moved in (found.move(rows, groups)[groups == 1], new):
        assert moved.abs().max() < rows.abs().max()
        assert 0.7 < moved.std() < 1.3


def test_rounding_does_not_tear_apart_people_with_equal_rows():
    random = np.random.default_rng(1)
    types = torch.as_tensor(random.standard_normal((8, 3)))
    which = torch.as_tensor(random.integers(8, size=900))
    rows = types[which]
    groups = torch.as_tensor(random.integers(2, size=900))
    found = QuantileMap.of(rows, groups, torch.eye(3, dtype=torch.float64), rotations=4)
    noise = 1e-13 * torch.as_tensor(random.standard_normal(rows.shape))
    near, exact = found.move(rows + noise, groups), found.move(rows, groups)
    assert (near - exact).abs().max() < 1e-6
