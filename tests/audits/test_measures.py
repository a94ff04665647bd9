import numpy as np
import pytest
import torch

from parafair import ParafairWarning, SensitiveFeatures
from parafair.algebra.cp_tensor import CPTensor
from parafair.audits import measures
from parafair.dependence.hsic import centered_alignment
from parafair.dependence.kernels import Gaussian
from parafair.testing import example_groups, example_rows
from tests.reference import paper_bcd

GROUPS = example_groups(60, seed=1)
ROWS = example_rows(60, 3, seed=0)
REVEALING = torch.cat([GROUPS + 0.1 * ROWS[:, :1], ROWS[:, 1:]], 1)


class TestResidualFit:
    def test_is_the_relative_norm_of_the_difference(self):
        factors = [example_rows(n, 2, seed=n) for n in (6, 5, 4)]
        tensor = example_rows(6, 20, seed=9).reshape(6, 5, 4)
        weights = torch.tensor([2.0, 0.5], dtype=torch.float64)
        model = CPTensor(weights, tuple(factors))
        expected = (tensor - model.reconstruct()).norm() / tensor.norm()
        assert measures.residual_fit(tensor.numpy(), model) == pytest.approx(float(expected))

    def test_takes_tensorlys_result(self):
        tensorly = pytest.importorskip("tensorly")
        cp = CPTensor.from_factors([example_rows(n, 2, seed=n) for n in (6, 5)])
        theirs = tensorly.cp_tensor.CPTensor((None, [factor.numpy() for factor in cp.factors]))
        assert measures.residual_fit(cp.reconstruct(), theirs) < 1e-12

    def test_ranks_must_agree(self):
        with pytest.raises(ValueError, match="factors and weights must agree on the rank"):
            measures.residual_fit(np.ones((4, 3)), (None, [torch.ones(4, 2), torch.ones(3, 1)]))

    def test_shapes_must_agree(self):
        cp = CPTensor.from_factors([torch.ones(4, 2), torch.ones(3, 2)])
        with pytest.raises(ValueError, match=r"cp has shape \(4, 3\) but X has shape"):
            measures.residual_fit(np.ones((4, 5)), cp)


def test_papers_measures():
    assert measures.orthogonality(ROWS, sensitive_features=GROUPS) == pytest.approx(
        float((ROWS.mT @ GROUPS).norm())
    )
    expected = paper_bcd.khsic_penalty(ROWS, GROUPS, 1.0)
    assert measures.khsic(ROWS, sensitive_features=GROUPS) == pytest.approx(float(expected))
    kernels = (Gaussian(1.0), Gaussian(1.0))
    expected = centered_alignment(ROWS, GROUPS, kernels=kernels)
    assert measures.normalized_khsic(ROWS.numpy(), sensitive_features=GROUPS) == pytest.approx(
        float(expected)
    )


class TestUnfairness:
    def test_a_revealing_embedding_is_recognized(self):
        result = measures.unfairness(REVEALING, sensitive_features=GROUPS)
        assert result.value == pytest.approx(0.5)
        assert result.balanced_accuracy == pytest.approx(1)

    def test_an_independent_embedding_is_near_the_majority_level(self):
        values = [
            measures.unfairness(
                example_rows(400, 3, seed=s), sensitive_features=example_groups(400, seed=100 + s)
            )
            for s in range(5)
        ]
        assert np.mean([u.balanced_accuracy for u in values]) == pytest.approx(0.5, abs=0.06)

    def test_unbalanced_groups_converge_to_the_majority_share(self):
        groups = np.repeat(["many", "few"], [360, 40])
        result = measures.unfairness(example_rows(400, 2, seed=0), sensitive_features=groups)
        assert result.floor == pytest.approx(result.majority - 0.5)
        assert result.value == pytest.approx(result.floor, abs=0.03)
        assert result.balanced_accuracy == pytest.approx(0.5, abs=0.05)

    def test_more_than_two_groups(self):
        groups = np.repeat(["a", "b", "c"], 40)
        rows = torch.from_numpy(np.repeat(np.eye(3), 40, axis=0)) + 0.05 * example_rows(120, 3, 0)
        result = measures.unfairness(rows, sensitive_features=groups)
        assert result.groups == 3
        assert result.value == pytest.approx(2 / 3)

    def test_seed_is_honored(self):
        runs = [
            measures.unfairness(ROWS, sensitive_features=GROUPS, random_state=s, epochs=5)
            for s in (0, 0, 1, 2, 3)
        ]
        assert runs[0] == runs[1]
        assert len({run.accuracy for run in runs}) > 1

    def test_a_network_that_overflows_is_not_called_ignorant(self):
        with pytest.warns(ParafairWarning, match="network of unfairness diverged"):
            result = measures.unfairness(1e12 * REVEALING, sensitive_features=GROUPS)
        assert np.isnan(result.value)
        assert np.isnan(result.balanced_accuracy)

    def test_numeric_features_are_refused(self):
        with pytest.raises(
            ValueError, match="must be one categorical feature here, got 'sensitive'"
        ):
            measures.unfairness(ROWS, sensitive_features=ROWS[:, 0])


class TestParityBound:
    def test_theorem_2_does_not_hold_as_printed(self):
        # A = S, balanced and binary: P(A = 1, S = 1) - P(A = 1) P(S = 1) = 0.25.
        groups = torch.tensor([[0.0], [1.0]]).double().repeat(50, 1)
        rho = measures.khsic(groups, sensitive_features=groups)
        assert rho == pytest.approx(0.0999, abs=1e-4)
        joint = float((groups * groups).mean() - groups.mean() ** 2)
        assert joint == 0.25 > rho
        bound = measures.parity_bound(groups, sensitive_features=groups)
        assert bound.paper == pytest.approx(2 * rho)
        # The classifier "a > 1/2" has P(C = 1 | s = 1) - P(C = 1) = 1/2, above the printed bound.
        assert bound.paper < 0.5

    def test_mean_gap_is_reached_by_its_witness_and_by_no_other_function(self):
        bound = measures.parity_bound(REVEALING, sensitive_features=GROUPS)
        gram = Gaussian(1.0)(REVEALING, REVEALING)
        group = GROUPS[:, 0] == 1
        gaps = []
        for seed in range(50):
            coefficients = example_rows(60, 1, seed=seed)[:, 0]
            coefficients = coefficients / (coefficients @ gram @ coefficients).sqrt()
            values = gram @ coefficients  # a function of norm one, at the rows
            gaps += [abs(float(values[g].mean() - values.mean())) for g in (group, ~group)]
        assert max(gaps) <= bound.mean_gap + 1e-12
        share = group.double()
        weights = share / share.sum() - 1 / 60
        witness = gram @ weights / (weights @ gram @ weights).sqrt()
        gap = abs(float(witness[group].mean() - witness.mean()))
        other = (1 - share) / (1 - share).sum() - 1 / 60
        other_gap = float((other @ gram @ other).sqrt())
        assert max(gap, other_gap) == pytest.approx(bound.mean_gap)
        # For two groups the gap between them is the sum of their gaps to everybody.
        assert bound.group_gap == pytest.approx(gap + other_gap)

    def test_covariances_stay_below_the_root_of_hsic(self):
        bound = measures.parity_bound(REVEALING, sensitive_features=GROUPS)
        grams = Gaussian(1.0)(REVEALING, REVEALING), Gaussian(1.0)(GROUPS, GROUPS)
        for seed in range(50):
            values = []
            for side, gram in enumerate(grams):
                weights = example_rows(60, 1, seed=seed + 100 * side)[:, 0]
                values.append(gram @ weights / (weights @ gram @ weights).sqrt())
            covariance = (values[0] * values[1]).mean() - values[0].mean() * values[1].mean()
            assert abs(float(covariance)) <= bound.covariance + 1e-12


@pytest.mark.parametrize("measure", [measures.khsic, measures.orthogonality, measures.unfairness])
def test_rows_must_match(measure):
    with pytest.raises(ValueError, match="has 60 rows but the embedding has 59"):
        measure(ROWS[:59], sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="one row per person and at least one column"):
        measure(ROWS.reshape(60, 3, 1), sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="embedding must have one row per person and at least"):
        measure(ROWS[:, :0], sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="embedding has rows of 1 people .* at least 2 are needed"):
        measure(ROWS[:1], sensitive_features=SensitiveFeatures.of(GROUPS).take([0]))


MEASURES = [
    measures.khsic,
    measures.normalized_khsic,
    measures.orthogonality,
    measures.parity_bound,
]


@pytest.mark.parametrize("measure", MEASURES)
def test_entries_whose_squares_overflow_are_refused(measure):
    with pytest.raises(ValueError, match="embedding has entries whose squares overflow"):
        measure(ROWS * 1e200, sensitive_features=GROUPS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": -1}, "hidden must be a whole number of at least 1, got -1"),
        ({"hidden": "1"}, "hidden must be a whole number"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"learning_rate": "a"}, "learning_rate must be a finite number"),
        ({"test_size": 0}, "test_size must be a finite number"),
        ({"test_size": 1}, "test_size must leave at least one of 60 people to train on"),
    ],
)
def test_settings_of_the_network_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        measures.unfairness(ROWS, sensitive_features=GROUPS, **settings)


ONES = [np.ones((2, 1)), np.ones((2, 1))]


@pytest.mark.parametrize(
    ("cp", "error", "message"),
    [
        (1.0, TypeError, "cp must be a CPTensor or a pair of weights and factors, got 1.0"),
        (("a", None), TypeError, "factors of cp must be a list of matrices"),
        ((None, ONES[:1]), ValueError, "factors of cp must be at least 2 matrices"),
        (([float("nan")], ONES), ValueError, "weights of cp has 1 NaN or infinite entries"),
        (([1.0, 2.0], ONES), ValueError, r"weights of cp must have shape \(1,\)"),
        ((["a"], ONES), TypeError, "weights of cp must hold numbers"),
    ],
)
def test_what_is_no_decomposition_has_no_residual(cp, error, message):
    with pytest.raises(error, match=message):
        measures.residual_fit(np.ones((2, 2)), cp)


def test_the_residual_of_zeros_is_undefined():
    with pytest.raises(ValueError, match="X is zero everywhere, so its residual is undefined"):
        measures.residual_fit(np.zeros((2, 2)), (None, [np.ones((2, 1)), np.ones((2, 1))]))


@pytest.mark.parametrize(("size", "scale"), [(1e300, 1.0), (1.0, 1e200)])
def test_a_residual_that_overflows_is_refused(size, scale):
    factors = [scale * matrix for matrix in ONES]
    with pytest.raises(ValueError, match="X or cp has entries whose squares overflow"):
        measures.residual_fit(np.full((2, 2), size), (None, factors))
