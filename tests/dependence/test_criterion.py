import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kstest

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Criterion, PermutationTest
from parafair.dependence.hsic import hsic
from parafair.dependence.kernels import Delta, Gaussian, Linear, MultiscaleGaussian
from parafair.dependence.pairwise import CHUNK_PEOPLE
from parafair.dependence.whitening import Standardized
from parafair.testing import example_groups, example_rows

N, RANK = 120, 4
GROUPS = example_groups(N, seed=1)
ROWS = example_rows(N, RANK, seed=0) + GROUPS * torch.tensor([1.0, 0.5, 0.0, 0.0]).double()
PROTOTYPE = torch.zeros(0, dtype=torch.float64)


def criterion(features=GROUPS, chunk_size=CHUNK_PEOPLE):
    return Criterion(SensitiveFeatures.of(features), PROTOTYPE, chunk_size)


def value(rows, features=GROUPS, chunk_size=CHUNK_PEOPLE):
    return float(criterion(features, chunk_size).value_and_gradient(rows)[0])


def slow_hsic(rows, rank):
    """HSIC as the documentation says, with n x n matrices and nothing shared."""
    centered = rows - rows.mean(0)
    columns = centered / centered.std(0, correction=0)
    values, vectors = torch.linalg.eigh(columns.mT @ columns / len(rows))
    whitened = columns @ (vectors / values.sqrt()) @ vectors.mT
    isotropic = MultiscaleGaussian(0.25 / (2 * rank), 5)
    total = 0.5 * hsic(whitened, GROUPS, kernels=(isotropic, Delta()))
    for column in (*columns.unbind(1), *whitened.unbind(1)):
        single = hsic(column, GROUPS, kernels=(MultiscaleGaussian(0.5, 3), Delta()))
        total = total + 0.25 / rows.shape[1] * single
    return total


def test_is_the_documented_formula():
    # Kernels of single columns have an error below 1e-3, and most of it cancels in the sums.
    measure = criterion()
    expected = slow_hsic(ROWS, RANK) / measure.reference(RANK)
    torch.testing.assert_close(measure.value_and_gradient(ROWS)[0], expected, rtol=1e-3, atol=0)
    # The reference is the same for the features themselves.
    centered = (GROUPS - GROUPS.mean()) / GROUPS.std(correction=0)
    own = 0.5 * hsic(centered, GROUPS, kernels=(MultiscaleGaussian(0.25 / (2 * RANK), 5), Delta()))
    own = own + 0.5 * hsic(centered, GROUPS, kernels=(MultiscaleGaussian(0.5, 3), Delta()))
    assert measure.reference(RANK) == pytest.approx(float(own), rel=1e-3)


@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
def test_rescaling_and_shifting_columns_changes_nothing(chunk_size):
    scale, shift = torch.tensor([1e-9, 1e9, -3, 1]).double(), example_rows(1, RANK, seed=5)
    changed = ROWS * scale + 100 * scale * shift
    assert value(changed, chunk_size=chunk_size) == pytest.approx(
        value(ROWS, chunk_size=chunk_size), rel=1e-5
    )


@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
def test_mixing_columns_changes_only_the_part_of_single_components(chunk_size):
    mixed = ROWS @ example_rows(RANK, RANK, seed=6)
    measure = criterion(chunk_size=chunk_size)
    kernel = MultiscaleGaussian(0.25 / (2 * RANK), 5)
    whole = [
        float(measure.row_sums.weighted(Standardized.of(rows).whitened, kernel)[0])
        for rows in (ROWS, mixed)
    ]
    assert whole[0] == pytest.approx(whole[1], rel=1e-8)
    assert value(mixed, chunk_size=chunk_size) != pytest.approx(
        value(ROWS, chunk_size=chunk_size), rel=1e-8
    )


def test_one_means_the_features_themselves():
    assert value(GROUPS) == pytest.approx(1, rel=1e-6)
    # Copies share their variance among the whitened columns, and look a little weaker.
    assert value(GROUPS.expand(N, RANK)) == pytest.approx(1, rel=0.1)
    numbers = example_rows(N, 1, seed=3)
    assert value(numbers, numbers.numpy()) == pytest.approx(1, rel=1e-6)
    three = np.repeat(["a", "b", "c"], N // 3)
    assert value(SensitiveFeatures.of(three).encode(), three) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("chunk_size", [N, 25], ids=["one chunk", "chunks"])
def test_gradient_matches_finite_differences(chunk_size):
    measure = criterion(chunk_size=chunk_size)
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
    ],
    ids=["zero", "constant", "zero columns", "copies", "one row", "two rows", "huge and tiny"],
)
def test_degenerate_rows_give_numbers(rows, chunk_size):
    measure = criterion(chunk_size=chunk_size)
    found, gradient = measure.value_and_gradient(rows)
    assert torch.isfinite(found)
    assert torch.isfinite(gradient).all()
    assert torch.isfinite(measure.null(rows)).all()
    assert -1e-9 < float(found) < 3


def permutation_test(measure, rows, seed=0, *, permutations=99):
    values = measure.permuted(rows, permutations=permutations, random_state=seed)
    return PermutationTest.of(values)


def test_null_level_is_the_mean_over_permutations():
    measure = criterion()
    test = permutation_test(measure, ROWS, permutations=2000)
    assert test.statistic == pytest.approx(value(ROWS))
    assert float(measure.null(ROWS)) == pytest.approx(test.null_mean, rel=0.02)
    assert test.p_value < 0.002


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
    assert permutation_test(criterion(groups), rows).p_value == 0.02


def test_people_matched_across_groups_have_a_small_p_value():
    twins = example_rows(30, 3, seed=0).repeat_interleave(2, 0)
    found = permutation_test(criterion(torch.tensor([0.0, 1.0]).repeat(30)[:, None]), twins)
    assert found.statistic < found.null_mean
    assert found.p_value == 0.02


def test_squeezing_most_people_together_hides_nothing():
    # A few people far away carry all variance; a kernel of one width sees all others as one.
    groups = example_groups(200, seed=1)
    rows = 0.02 * example_rows(200, 2, seed=0) + 0.1 * groups
    rows[:10] = 5 * example_rows(10, 2, seed=3)
    whitened = Standardized.of(rows).whitened
    one = Gaussian(0.25)
    blind = hsic(whitened, groups, kernels=(one, Delta()))
    shuffled = hsic(whitened, groups.flip(0), kernels=(one, Delta()))
    measure = criterion(groups)
    seen = measure.value_and_gradient(rows)[0] / measure.null(rows)
    assert float(seen) > 10
    assert float(blind / shuffled) < float(seen) / 2


def test_several_columns_count_one_by_one_and_together():
    random = np.random.default_rng(0)
    one, two = random.integers(0, 2, (2, 400))
    table = pd.DataFrame({"one": one.astype(str), "two": two.astype(str)})
    noise = torch.from_numpy(random.standard_normal((400, 2)))
    measure = criterion(table)
    for leak in (one, two, one ^ two):
        rows = noise + 2 * torch.from_numpy(leak)[:, None]
        found = measure.value_and_gradient(rows)[0]
        assert float(found / measure.null(rows)) > 5
    assert float(measure.value_and_gradient(noise)[0] / measure.null(noise)) < 2


def test_chunks_see_what_all_pairs_see():
    rows, groups = example_rows(600, 5, seed=0), example_groups(600, seed=1)
    rows = rows + groups * example_rows(1, 5, seed=2)
    whole, chunks = criterion(groups, 600), criterion(groups, 100)
    above = [float(m.value_and_gradient(rows)[0] - m.null(rows)) for m in (whole, chunks)]
    assert above[1] == pytest.approx(above[0], rel=0.05)


def test_null_level_in_chunks_is_the_mean_over_people_in_other_places():
    # 41 and 42 people in chunks of unequal sizes, so that no chunk has quite the same shares.
    rows, random = example_rows(83, RANK, seed=0), np.random.default_rng(0)
    measure = criterion(np.repeat(["a", "b"], [41, 42]), 20)
    assert len(measure.row_sums.people) == 2
    values = []
    for _ in range(300):
        shuffled = torch.from_numpy(random.permutation(83))
        values.append(float(measure.value_and_gradient(rows[shuffled])[0]))
    assert float(measure.null(rows)) == pytest.approx(np.mean(values), rel=0.05)


def test_a_batch_in_chunks_is_its_members():
    batch = torch.stack([ROWS, ROWS.flip(0), 2 * ROWS + 1])
    measure = criterion(chunk_size=25)
    assert len(measure.row_sums.people) > 1
    value, gradient = measure.value_and_gradient(batch)
    for member, rows in enumerate(batch):
        one, slope = measure.value_and_gradient(rows)
        torch.testing.assert_close(value[member], one)
        torch.testing.assert_close(gradient[member], slope)
    torch.testing.assert_close(measure.null(batch)[1], measure.null(batch[1]))


def test_single_precision_is_close():
    rows = ROWS.float()
    single = Criterion(SensitiveFeatures.of(GROUPS), rows[:0]).value_and_gradient(rows)[0]
    assert float(single) == pytest.approx(value(ROWS), rel=1e-4)
