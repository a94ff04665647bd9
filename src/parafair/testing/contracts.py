"""The contracts of penalties on a factor, kernels, solvers, attackers and data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score, r2_score
from torch import Tensor

from parafair.data.column import Kind
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.datasets import DATASETS, Dataset
from parafair.dependence.kernels import Kernel
from parafair.penalties import Penalty
from parafair.solvers import Solver, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop

if TYPE_CHECKING:
    from parafair.audits import Attacker


def example_rows(n: int, columns: int, seed: int) -> Tensor:
    """Return standard normal rows in double precision, shape (n, columns)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, columns, generator=generator, dtype=torch.float64, device="cpu")


def example_groups(n: int, seed: int) -> Tensor:
    """Return a 0/1 column with both values, shape (n, 1)."""
    groups = (example_rows(n, 1, seed) > 0).double()
    groups[0], groups[1] = 0, 1
    return groups


class PenaltyContract:
    """Contract of a penalty; provide the fixture `penalty`."""

    people, rank = 13, 3

    def bound(self, penalty: Penalty) -> tuple[Any, Tensor]:
        """Return the penalty bound to example groups, and an example factor."""
        people = SensitiveFeatures.of(example_groups(self.people, seed=1))
        bound = penalty.bind(people, torch.ones(1, dtype=torch.float64, device="cpu"))
        return bound, example_rows(self.people, self.rank, seed=2)

    def test_value_is_one_finite_number_of_at_least_zero(self, penalty: Penalty) -> None:
        """A single factor gives a scalar."""
        bound, factor = self.bound(penalty)
        value = bound.value(factor)
        assert value.shape == ()
        assert torch.isfinite(value)
        # Rounding can put the kernel sum of a constant factor just below zero.
        assert value > -1e-12

    def test_gradient_matches_finite_differences(self, penalty: Penalty) -> None:
        """Central differences along random directions match the gradient."""
        bound, factor = self.bound(penalty)
        value, gradient = bound.value_and_gradient(factor)
        torch.testing.assert_close(value, bound.value(factor))
        for seed in range(5):
            direction = example_rows(self.people, self.rank, seed=10 + seed)
            width = 1e-5
            ahead, behind = (bound.value(factor + sign * width * direction) for sign in (1, -1))
            slope = (ahead - behind) / (2 * width)
            torch.testing.assert_close((gradient * direction).sum(), slope, rtol=1e-6, atol=1e-9)

    def test_members_of_a_batch_do_not_mix(self, penalty: Penalty) -> None:
        """A batch gives the same values as its members alone."""
        bound, factor = self.bound(penalty)
        factors = torch.stack([factor, 2 * factor, factor.flip(0)])
        values, gradients = bound.value_and_gradient(factors)
        for member, alone in enumerate(factors):
            value, gradient = bound.value_and_gradient(alone)
            torch.testing.assert_close(values[member], value)
            torch.testing.assert_close(gradients[member], gradient)

    def test_order_of_people_and_components_does_not_matter(self, penalty: Penalty) -> None:
        """Permuting people with their features, or components, does not change the value."""
        bound, factor = self.bound(penalty)
        value = bound.value(factor)
        order = torch.from_numpy(np.random.default_rng(3).permutation(self.people))
        people = SensitiveFeatures.of(example_groups(self.people, seed=1)[order])
        shuffled = penalty.bind(people, torch.ones(1, dtype=torch.float64, device="cpu"))
        torch.testing.assert_close(shuffled.value(factor[order]), value)
        torch.testing.assert_close(bound.value(factor.flip(1)), value)

    def test_factor_is_left_alone(self, penalty: Penalty) -> None:
        """Evaluating does not change the argument."""
        bound, factor = self.bound(penalty)
        before = factor.clone()
        bound.value_and_gradient(factor)
        assert torch.equal(factor, before)


class KernelContract:
    """Contract of a kernel; provide the fixture `kernel`."""

    def test_gram_is_symmetric_and_positive(self, kernel: Kernel) -> None:
        """Gram matrices have no negative eigenvalues."""
        rows = example_rows(12, 3, seed=0)
        gram = kernel(rows, rows)
        torch.testing.assert_close(gram, gram.mT)
        assert torch.linalg.eigvalsh(gram).min() > -1e-10

    def test_leading_dimensions_are_a_batch(self, kernel: Kernel) -> None:
        """A batch gives the same values as its members alone."""
        first, second = example_rows(5, 3, seed=0), example_rows(4, 3, seed=1)
        batch = kernel(torch.stack([first, -first]), torch.stack([second, second]))
        torch.testing.assert_close(batch[0], kernel(first, second))
        torch.testing.assert_close(batch[1], kernel(-first, second))

    def test_sums_and_gradients_match_automatic_ones(self, kernel: Kernel) -> None:
        """`within` and `between` match autograd through the kernel."""
        first, second = example_rows(6, 3, seed=0), example_rows(5, 3, seed=1)
        weights, symmetric = example_rows(6, 5, seed=2), example_rows(6, 6, seed=3)
        symmetric = symmetric + symmetric.mT
        x, y = first.clone().requires_grad_(), second.clone().requires_grad_()
        cross, own = (weights * kernel(x, y)).sum(), (symmetric * kernel(x, x)).sum()
        both = (cross, *torch.autograd.grad(cross, (x, y)))
        for mine, theirs in zip(kernel.between(first, second, weights), both, strict=True):
            torch.testing.assert_close(mine, theirs.detach())
        single = (own, *torch.autograd.grad(own, x))
        for mine, theirs in zip(kernel.within(first, symmetric), single, strict=True):
            torch.testing.assert_close(mine, theirs.detach())


class SolverContract:
    """Contract of a solver; provide the fixtures `solver` and `problem`."""

    iterations = 5

    def test_reported_objective_is_the_judges(self, solver: Solver[Any], problem: Problem) -> None:
        """The last objective in the history equals `Problem.evaluate`."""
        starts = make_starts(problem, "uniform", count=2, seed=0)
        for fit in solve_batch(problem, solver, starts=starts, stop=Stop(self.iterations, 0)):
            judged = problem.evaluate([factor[None] for factor in fit.cp.factors])
            torch.testing.assert_close(float(judged.value), fit.objective, rtol=1e-7, atol=1e-12)

    def test_objective_falls(self, solver: Solver[Any], problem: Problem) -> None:
        """The last objective is smaller than the first."""
        starts = make_starts(problem, "uniform", count=1, seed=0)
        (fit,) = solve_batch(problem, solver, starts=starts, stop=Stop(self.iterations, 0))
        assert fit.objective < fit.history[0].objective

    def test_a_batch_of_one_equals_a_member_of_many(
        self, solver: Solver[Any], problem: Problem
    ) -> None:
        """Members of a batch do not affect each other."""
        starts = make_starts(problem, "uniform", count=3, seed=0)
        together = solve_batch(problem, solver, starts=starts, stop=Stop(self.iterations, 0))
        for member, fit in enumerate(together):
            alone = tuple(factor[member : member + 1] for factor in starts)
            (expected,) = solve_batch(problem, solver, starts=alone, stop=Stop(self.iterations, 0))
            torch.testing.assert_close(fit.objective, expected.objective, rtol=1e-9, atol=1e-12)
            for mine, theirs in zip(fit.cp.factors, expected.cp.factors, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)

    def test_start_is_left_alone(self, solver: Solver[Any], problem: Problem) -> None:
        """A solver does not write into the caller's factors."""
        starts = make_starts(problem, "uniform", count=1, seed=0)
        before = [factor.clone() for factor in starts]
        solve_batch(problem, solver, starts=starts, stop=Stop(1, 0))
        assert all(map(torch.equal, starts, before))


class DatasetContract:
    """Contract of a data set; provide the fixture `load`, a function without arguments."""

    def test_shapes_names_and_labels_agree(self, load: Callable[[], Dataset]) -> None:
        """Names of modes are unique, and so are the labels within a mode."""
        data = load()
        assert len(data.modes) == len(data.labels) == len(data.tensor.shape) >= 2
        assert len(set(data.modes)) == len(data.modes)
        for size, labels in zip(data.tensor.shape, data.labels, strict=True):
            assert len(np.unique(labels)) == size

    def test_every_person_has_one_row_of_features(self, load: Callable[[], Dataset]) -> None:
        """There is one row per person, and `SensitiveFeatures` accepts the rows."""
        data = load()
        features = SensitiveFeatures.of(data.sensitive_features, missing="exclude")
        assert len(features) == data.tensor.shape[data.mode]

    def test_every_person_has_one_target_if_there_is_one(self, load: Callable[[], Dataset]) -> None:
        """The target has one value per person and none is missing."""
        data = load()
        if data.target is not None:
            values = np.asarray(data.target)
            assert values.shape == (data.tensor.shape[data.mode],)
            assert all(value is not None and value == value for value in values.tolist())

    def test_same_arguments_give_the_same_data(self, load: Callable[[], Dataset]) -> None:
        """Loading twice gives equal values and equal features."""
        first, second = load(), load()
        for mine, other in zip(_contents(first), _contents(second), strict=True):
            np.testing.assert_array_equal(mine, other)

    def test_about_is_a_sentence(self, load: Callable[[], Dataset]) -> None:
        """One line of several words that starts with a capital letter or a number."""
        about = load().about
        assert len(about.split()) >= 4
        assert about == about.strip()
        assert "\n" not in about
        assert about[0].isupper() or about[0].isdigit()

    def test_it_is_registered_with_a_description_of_every_option(
        self, load: Callable[[], Dataset]
    ) -> None:
        """`DATASETS` has an entry, which the command line uses for its list and options."""
        data = load()
        assert data.name in DATASETS
        entry = DATASETS[data.name]
        assert entry.about == data.about
        assert all(option.about for option in entry.options)


def _contents(data: Dataset) -> tuple[Any, ...]:
    """Return all arrays of a data set."""
    tensor = data.tensor
    values = tensor.entries.numpy() if isinstance(tensor, TensorData) else tensor
    places = tensor.cells.numpy() if isinstance(tensor, TensorData) else ()
    features, target = (np.asarray(each) for each in (data.sensitive_features, data.target))
    return values, places, features.astype(str), target.astype(str), *data.labels


class AttackerContract:
    """Contract of an attacker; provide the fixture `attacker`."""

    people = 120

    def kinds(self, attacker: Attacker) -> list[Kind]:
        """Return the kinds of features that the attacker predicts."""
        kinds: tuple[Kind, ...] = ("categorical", "numeric")
        return [kind for kind in kinds if attacker.predicts(kind)]

    def examples(self, kind: Kind, seed: int = 0) -> tuple[Any, Any]:
        """Return rows whose first column is the feature plus a little noise, and the feature."""
        rows = example_rows(self.people, 3, seed).numpy()
        feature = rows[:, 0] > 0.3 if kind == "categorical" else 100 + 20 * rows[:, 0]
        rows[:, 0] = (feature - feature.mean()) / feature.std() + 0.1 * rows[:, 1]
        return rows, feature.astype(int) if kind == "categorical" else feature

    def score(self, attacker: Attacker, kind: Kind, train: Any, test: Any) -> float:
        """Return the advantage over chance on `test`, by balanced accuracy or R squared."""
        rows, feature = test
        predicted = attacker.make(kind, 0).fit(*train).predict(rows)
        if kind == "numeric":
            return float(r2_score(feature, predicted))
        return float(balanced_accuracy_score(feature, predicted)) - 0.5

    def test_finds_a_feature_that_is_written_in_a_column(self, attacker: Attacker) -> None:
        """The attacker reaches most of the possible advantage."""
        assert self.kinds(attacker)
        for kind in self.kinds(attacker):
            train, test = self.examples(kind, seed=0), self.examples(kind, seed=1)
            assert self.score(attacker, kind, train, test) > (0.4 if kind == "categorical" else 0.6)

    def test_is_at_chance_on_noise(self, attacker: Attacker) -> None:
        """Without information the mean advantage over several data sets is near zero."""
        for kind in self.kinds(attacker):
            scores = []
            for seed in range(3):
                _, feature = self.examples(kind, seed=10 + seed)
                train, test = (
                    (example_rows(self.people, 3, seed=20 + 2 * seed + part).numpy(), feature)
                    for part in (0, 1)
                )
                scores.append(self.score(attacker, kind, train, test))
            # Four standard errors for 3 x 120 people; R squared may be far below 0.
            assert np.mean(scores) < 0.12
            if kind == "categorical":
                assert np.mean(scores) > -0.12

    def test_same_seed_gives_the_same_predictions(self, attacker: Attacker) -> None:
        """Predictions depend only on the data and the seed."""
        for kind in self.kinds(attacker):
            rows, feature = self.examples(kind)
            first, second = (
                attacker.make(kind, 5).fit(rows, feature).predict(rows) for _ in range(2)
            )
            np.testing.assert_array_equal(first, second)

    def test_inputs_are_left_alone(self, attacker: Attacker) -> None:
        """Training and predicting do not write into the caller's arrays."""
        for kind in self.kinds(attacker):
            rows, feature = self.examples(kind)
            before = rows.copy(), feature.copy()
            attacker.make(kind, 0).fit(rows, feature).predict(rows)
            np.testing.assert_array_equal(rows, before[0])
            np.testing.assert_array_equal(feature, before[1])

    def test_a_constant_column_and_few_people_are_no_problem(self, attacker: Attacker) -> None:
        """Predictions are observed classes, or finite numbers."""
        for kind in self.kinds(attacker):
            rows, feature = self.examples(kind)
            rows[:, 2] = 0.0
            for people in (9, 19, self.people):
                model = attacker.make(kind, 0).fit(rows[:people], feature[:people])
                predicted = model.predict(rows)
                assert predicted.shape == (self.people,)
                if kind == "categorical":
                    assert set(predicted) <= set(feature)
                else:
                    assert np.isfinite(predicted).all()
