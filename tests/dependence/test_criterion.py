import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kstest

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.chunks import CHUNK_PEOPLE
from parafair.dependence.criterion import Criterion, PermutationTest
from parafair.dependence.hsic import hsic
from parafair.dependence.kernels import Delta, Gaussian, Linear
from parafair.dependence.scales import ROW_GAMMAS, row_levels
from parafair.dependence.views import compare_rows, row_sums
from parafair.dependence.whitening import RowViews, Standardized
from parafair.testing import example_groups, example_rows
from tests.reference import criterion as reference
from tests.waits import Waits

N, RANK = 120, 4
GROUPS = example_groups(N, seed=1)
ROWS = example_rows(N, RANK, seed=0) + GROUPS * torch.tensor([1.0, 0.5, 0.0, 0.0]).double()
PROTOTYPE = torch.zeros(0, dtype=torch.float64)


def criterion(features=GROUPS, chunk_size=CHUNK_PEOPLE):
    return Criterion(SensitiveFeatures.of(features), PROTOTYPE, chunk_size)


def value(rows, features=GROUPS, chunk_size=CHUNK_PEOPLE):
    return float(criterion(features, chunk_size).value_and_gradient(rows)[0])


def test_statistics_are_those_of_the_formula():
    measure = criterion()
    _, deviations, _ = reference.shares_and_deviations(measure, RANK)
    found = measure.deviations(ROWS) * deviations
    expected = reference.statistics(ROWS, Delta()(GROUPS, GROUPS))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 3, RANK])
def test_shares_are_those_of_the_formula(rank):
    shares, _, _ = reference.shares_and_deviations(criterion(), rank)
    expected = [share for _, _, share in reference.views(ROWS[:, :rank])]
    torch.testing.assert_close(shares, torch.tensor(expected, dtype=torch.float64))
    assert float(shares.sum()) == pytest.approx(1)


def test_statistics_of_independent_rows_are_about_standard_normal():
    measure = criterion()
    found = torch.stack([measure.deviations(example_rows(N, RANK, seed=s)) for s in range(150)])
    # Twice seven kernels of rows come first; the finest are few people's, and count less.
    usual = torch.cat([found[:, :5], found[:, 7:12], found[:, 14:]], 1)
    assert float(usual.std(0).min()) > 0.6
    assert float(usual.std(0).max()) < 1.4
    assert float(found.std(0)[:14].max()) < 1.4
    assert float(found.mean(0).abs().max()) < 0.4  # four standard errors


def test_people_matched_across_groups_are_as_far_from_chance_as_people_near_their_own():
    random = example_rows(60, 3, seed=0).repeat_interleave(2, 0)
    twins = random + 0.01 * example_rows(120, 3, seed=1)
    matched = criterion(torch.tensor([0.0, 1.0]).repeat(60)[:, None])
    alike = criterion(torch.tensor([0.0, 0.0, 1.0, 1.0]).repeat(30)[:, None])
    finest = [float(measure.deviations(twins)[6]) for measure in (matched, alike)]
    assert finest[0] < -5
    assert finest[1] > 5
    usual = [float(matched.value_and_gradient(example_rows(120, 3, s))[0]) for s in range(2, 22)]
    assert float(matched.value_and_gradient(twins)[0]) > max(usual)


def test_matched_neighbors_cannot_offset_other_means():
    # Twins of both groups in 60 places, and one group shifted as a whole.
    rows = example_rows(60, 3, seed=0).repeat_interleave(2, 0) + 0.02 * example_rows(120, 3, seed=1)
    groups = torch.tensor([0.0, 1.0]).repeat(60)[:, None]
    found = criterion(groups).deviations(rows + groups * torch.tensor([1.0, 0, 0]).double())
    assert float(found[0]) > 4
    matched = criterion(groups).deviations(rows)
    assert float(matched[5]) < -4


def test_its_minimum_is_at_chance_not_below():
    # Descent from independent rows, with nothing else to fit: the statistics go to zero.
    measure, rows = criterion(), example_rows(N, RANK, seed=7)
    start = value(rows)
    for _ in range(200):
        found, gradient = measure.value_and_gradient(rows)
        if float(found) < 1e-3 * start:
            break
        rows = rows - 0.5 * found / gradient.square().sum() * gradient
    assert float(found) < 0.05 * start
    assert float(measure.deviations(rows).abs().max()) < 1


@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
def test_rescaling_and_shifting_columns_changes_nothing(chunk_size):
    scale, shift = torch.tensor([1e-9, 1e9, -3, 1]).double(), example_rows(1, RANK, seed=5)
    changed = ROWS * scale + 100 * scale * shift
    assert value(changed, chunk_size=chunk_size) == pytest.approx(
        value(ROWS, chunk_size=chunk_size), rel=1e-5
    )


@pytest.mark.parametrize("kind", ["whitened", "robust"])
@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
def test_mixing_columns_changes_nothing_in_whole_rows(chunk_size, kind):
    mixed = ROWS @ example_rows(RANK, RANK, seed=6)
    measure = criterion(chunk_size=chunk_size)
    whole = [
        float(
            compare_rows(
                getattr(RowViews(rows[None]), kind), measure.scorers(RANK).rows, measure.places
            )[0]
        )
        for rows in (ROWS, mixed)
    ]
    assert whole[0] == pytest.approx(whole[1], rel=1e-8)
    assert value(mixed, chunk_size=chunk_size) != pytest.approx(
        value(ROWS, chunk_size=chunk_size), rel=1e-8
    )


def test_one_means_the_features_themselves():
    assert value(GROUPS) == pytest.approx(1, rel=1e-6)
    numbers = example_rows(N, 1, seed=3)
    assert value(numbers, numbers.numpy()) == pytest.approx(1, rel=1e-6)
    three = np.repeat(["a", "b", "c"], N // 3)
    assert value(SensitiveFeatures.of(three).encode(), three) == pytest.approx(1, rel=1e-6)


FEATURES = {
    "two groups": GROUPS,
    "three groups": np.arange(N) % 3,
    "numbers": example_rows(N, 1, seed=4).numpy(),
    "two columns": pd.DataFrame({"one": np.arange(N) % 2, "two": np.arange(N) % 5 < 2}).astype(str),
}


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_value_and_gradient_are_those_of_the_formula(features, rank):
    measure, rows = criterion(features), ROWS[:, :rank].clone().requires_grad_()
    expected = reference.value(measure, rows)
    (slope,) = torch.autograd.grad(expected, rows)
    found, gradient = measure.value_and_gradient(rows.detach())
    torch.testing.assert_close(found, expected.detach(), rtol=1e-8, atol=0)
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-7 * float(slope.abs().max()))


@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_gradient_matches_finite_differences(features, chunk_size):
    measure = criterion(features, chunk_size)
    gradient = measure.value_and_gradient(ROWS)[1]
    for seed in range(3):
        direction = example_rows(N, RANK, seed=10 + seed)
        ahead, behind = (
            measure.value_and_gradient(ROWS + sign * 1e-5 * direction)[0] for sign in (1, -1)
        )
        slope = (ahead - behind) / 2e-5
        torch.testing.assert_close((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
@pytest.mark.parametrize(
    "rows",
    [
        torch.zeros(N, RANK).double(),
        torch.ones(N, RANK).double() * 7,
        torch.cat([ROWS[:, :2], torch.zeros(N, 2).double()], 1),
        torch.cat([ROWS[:, :2], ROWS[:, :2]], 1),
        ROWS[:1].expand(N, RANK),
        ROWS[[0, 1] * (N // 2)],
        torch.cat([1e150 * ROWS[:, :2], 1e-150 * ROWS[:, 2:]], 1),
        ROWS[:, :1],
    ],
    ids=["zero", "constant", "zero columns", "copies", "one row", "two rows", "huge", "one column"],
)
def test_degenerate_rows_give_numbers(rows, chunk_size):
    measure = criterion(chunk_size=chunk_size)
    found, gradient = measure.value_and_gradient(rows)
    assert torch.isfinite(found)
    assert torch.isfinite(gradient).all()
    assert torch.isfinite(measure.deviations(rows)).all()
    assert 0 <= float(found) < 3


@pytest.mark.parametrize("people", [2, 3, 4, 5])
def test_a_handful_of_people_give_numbers(people):
    measure = criterion((torch.arange(people) % 2).double()[:, None])
    for part in measure.value_and_gradient(example_rows(people, 2, seed=0)):
        assert torch.isfinite(part).all()


def permutation_test(measure, rows, seed=0, *, permutations=99):
    values = measure.permuted(rows, permutations=permutations, random_state=seed)
    return PermutationTest.of(values)


def test_permutations_give_the_criterion_of_permuted_rows():
    measure = criterion()
    found = measure.permuted(ROWS, permutations=25, random_state=0)
    random = np.random.RandomState(0)
    for permuted in found[1:]:
        order = torch.from_numpy(np.argsort(random.permutation(N)))
        expected = measure.value_and_gradient(ROWS[order])[0]
        assert float(permuted) == pytest.approx(float(expected), rel=1e-8)
    assert float(found[0]) == pytest.approx(value(ROWS))


def test_with_several_chunks_permutations_are_of_all_pairs():
    found = criterion(chunk_size=25).permuted(ROWS, permutations=5, random_state=0)
    torch.testing.assert_close(found, criterion().permuted(ROWS, permutations=5, random_state=0))


@pytest.mark.slow
def test_p_values_of_independent_data_are_uniform():
    p_values = [
        permutation_test(
            criterion(example_groups(40, seed=1000 + seed)), example_rows(40, 3, seed=seed), seed
        ).p_value
        for seed in range(120)
    ]
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_the_seed_decides_the_permutations():
    tests = [permutation_test(criterion(), ROWS, seed, permutations=20) for seed in (0, 0, 1)]
    assert tests[0].null_mean == tests[1].null_mean != tests[2].null_mean
    with pytest.raises(
        ValueError, match="permutations must be a whole number of at least 1, got 0"
    ):
        criterion().permuted(ROWS, permutations=0, random_state=0)


def test_sees_what_correlation_does_not():
    # The groups differ in spread alone; and along one of four columns.
    rows = example_rows(200, RANK, seed=0)
    groups = example_groups(200, seed=1)
    rows[:, 0] *= 1 + 2 * groups[:, 0]
    rows = rows - groups * rows[groups[:, 0] == 1].mean(0)
    rows = rows - (1 - groups) * rows[groups[:, 0] == 0].mean(0)
    linear = hsic(rows, groups, kernels=(Linear(), Linear()))
    assert float(linear) == pytest.approx(0, abs=1e-15)
    assert permutation_test(criterion(groups), rows).p_value == 0.01


def test_sees_pairs_of_columns_whose_columns_reveal_nothing():
    # The group is whether the signs of two of four columns agree.
    rows = example_rows(200, RANK, seed=0)
    rows = rows + 0.5 * rows.sign()
    groups = (rows[:, 0] * rows[:, 1] > 0).double()[:, None]
    found = criterion(groups).deviations(rows)
    single, pairs = found[14 : 14 + 4 * RANK], found[-3 * 6 :]
    assert float(single.abs().max()) < 4
    assert float(pairs.max()) > 15


def test_people_matched_across_groups_have_a_small_p_value():
    twins = example_rows(30, 3, seed=0).repeat_interleave(2, 0)
    found = permutation_test(criterion(torch.tensor([0.0, 1.0]).repeat(30)[:, None]), twins)
    assert found.statistic > found.null_mean
    assert found.p_value == 0.01


def test_squeezing_most_people_together_hides_nothing():
    # A few people far away carry all variance; a kernel of one width sees all others as one.
    groups = example_groups(200, seed=1)
    rows = 0.02 * example_rows(200, 2, seed=0) + 0.1 * groups
    rows[:10] = 5 * example_rows(10, 2, seed=3)
    whitened = Standardized.of(rows).whitened
    one = Gaussian(0.25)
    blind = hsic(whitened, groups, kernels=(one, Delta()))
    shuffled = hsic(whitened, groups.flip(0), kernels=(one, Delta()))
    seen = permutation_test(criterion(groups), rows)
    assert seen.statistic > 10 * seen.null_mean
    assert float(blind / shuffled) < seen.statistic / seen.null_mean / 2


def test_several_columns_count_one_by_one_and_together():
    random = np.random.default_rng(0)
    one, two = random.integers(0, 2, (2, 400))
    table = pd.DataFrame({"one": one.astype(str), "two": two.astype(str)})
    noise = torch.from_numpy(random.standard_normal((400, 2)))
    measure = criterion(table)
    level = float(measure.value_and_gradient(noise)[0])
    for leak in (one, two, one ^ two):
        rows = noise + 2 * torch.from_numpy(leak)[:, None]
        assert float(measure.value_and_gradient(rows)[0]) > 20 * level
    assert float(measure.deviations(noise).abs().max()) < 4.5


def test_one_column_cannot_make_up_for_another():
    # Near people of their own first group, matched with people of the other second group.
    places = example_rows(50, 2, seed=0).repeat_interleave(2, 0)
    table = pd.DataFrame({"one": np.arange(100) // 2 % 2, "two": np.arange(100) % 2}).astype(str)
    found = criterion(table).deviations(places)
    assert float(found.min()) < -4
    assert float(found.max()) > 4


def test_chunks_see_what_all_pairs_see():
    rows, groups = example_rows(600, 5, seed=0), example_groups(600, seed=1)
    rows = rows + groups * example_rows(1, 5, seed=2)
    # The finest kernels have fewer neighbors in a chunk, and count a little less.
    assert value(rows, groups, 200) == pytest.approx(value(rows, groups, 600), rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_chunks_at_chance_hide_nothing_from_one_another(seed):
    # HSIC of all people is at most the mean over chunks of (statistic + its mean over
    # permutations): the squared length of a mean is at most the mean of the squared lengths. So
    # chunks whose statistics are zero leave what a single chunk leaves by chance.
    groups = np.arange(203) % 3
    rows = example_rows(203, 3, seed=seed) + 0.4 * torch.from_numpy(groups)[:, None]
    measure = criterion(groups, 50)
    assert len(measure.places) == 3
    whitened = Standardized.of(rows).whitened
    gram = torch.exp(-1 / 6 * torch.cdist(whitened, whitened).square())
    same = torch.from_numpy(groups[:, None] == groups).double()
    everybody = (reference.centered(same) * gram).sum() / 203**2
    weights = measure.row_weights
    sums = row_sums(whitened[None], weights.columns, measure.places)
    statistics = weights.statistic(sums)[0, :, ROW_GAMMAS.index(1.0), 0]
    bounds = []
    for people, found in zip(measure.places, statistics, strict=True):
        own = torch.unique(people)
        part, size = reference.centered(same)[own][:, own], len(own)
        off = ~torch.eye(size, dtype=torch.bool)
        # The weights of the library are scaled to squares that add up to 1.
        statistic = found * (part - part[off].mean())[off].square().sum().sqrt()
        null = part.diagonal().sum() + part[off].mean() * gram[own][:, own][off].sum()
        bounds.append(float(statistic + null) / size**2 * size / 203)
        exact = (part * gram[own][:, own]).sum()
        torch.testing.assert_close(statistic + null, exact)
    assert float(everybody) <= sum(bounds) * (1 + 1e-9)


def test_statistics_of_chunks_do_not_cancel():
    # One chunk is near its own group, another is matched across groups; their mean is at chance.
    groups = np.arange(100) % 2
    measure = criterion(groups, 50)
    first, second = measure.places
    rows = example_rows(100, 2, seed=0)
    sorted_first = first[np.argsort(groups[first], kind="stable")]
    places = example_rows(25, 2, seed=1)
    rows[sorted_first] = places.repeat_interleave(2, 0)
    ones, zeros = second[groups[second] == 1], second[groups[second] == 0]
    rows[ones], rows[zeros] = places[: len(ones)], places[: len(zeros)]
    finest = measure.deviations(rows)[:14].reshape(2, 7)[:, 5]  # of both chunks
    assert float(finest[0]) > 3
    assert float(finest[1]) < -3
    assert float(measure.value_and_gradient(rows)[0]) > 4 * value(
        example_rows(100, 2, seed=3), groups, 50
    )


def test_a_batch_in_chunks_is_its_members():
    batch = torch.stack([ROWS, ROWS.flip(0), 2 * ROWS + 1])
    measure = criterion(chunk_size=25)
    assert len(measure.places) > 1
    value, gradient = measure.value_and_gradient(batch)
    for member, rows in enumerate(batch):
        one, slope = measure.value_and_gradient(rows)
        torch.testing.assert_close(value[member], one)
        torch.testing.assert_close(gradient[member], slope)


def test_people_in_parts_are_the_same(monkeypatch):
    measure = criterion(chunk_size=25)
    whole = measure.value_and_gradient(ROWS)
    monkeypatch.setattr("parafair.dependence.waves.WAVE_BYTES", {"cpu": 10_000})
    monkeypatch.setattr("parafair.dependence.views.GRAM_BYTES", {"cpu": 1})
    for part, expected in zip(measure.value_and_gradient(ROWS), whole, strict=True):
        torch.testing.assert_close(part, expected)


def test_single_precision_is_close():
    rows = ROWS.float()
    single = Criterion(SensitiveFeatures.of(GROUPS), rows[:0])
    found, gradient = single.value_and_gradient(rows)
    assert float(found) == pytest.approx(value(ROWS), rel=1e-4)
    exact = criterion().value_and_gradient(ROWS)[1]
    assert float((gradient - exact).norm() / exact.norm()) < 1e-3


def test_levels_depend_on_the_rank_alone():
    assert row_levels(5) is row_levels(5)


@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_an_evaluation_waits_for_no_number(features, chunk_size):
    """A GPU works on while Python prepares the next operations."""
    measure = criterion(features, chunk_size)
    expected = measure.value_and_gradient(ROWS)
    with Waits() as waits:
        found = measure.value_and_gradient(ROWS)
    assert not waits.found
    assert torch.equal(found[1], expected[1])
