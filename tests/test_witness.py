import numpy as np
import pandas as pd
import pytest
import torch

from parafair.criterion import (
    COMPONENT,
    ISOTROPIC_SHARE,
    Criterion,
    column_samples,
    isotropic_kernel,
)
from parafair.newcomers import fair_rows, fit_rows
from parafair.sensitive import SensitiveFeatures
from parafair.testing import example_rows
from parafair.witness import Witness

RANDOM = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {"group": RANDOM.choice(["a", "b", "c"], 60), "age": RANDOM.standard_normal(60)}
)


@pytest.fixture(params=[["group"], ["age"], ["group", "age"]])
def features(request):
    return SensitiveFeatures.of(PEOPLE[request.param])


@pytest.fixture
def rows():
    return example_rows(60, 3, seed=0) + torch.tensor(PEOPLE["age"].to_numpy())[:, None]


def by_definition(witness, coordinates, whitened):
    """Sum over all trained people, one kernel matrix after the other."""
    trained, criterion = witness.trained, witness.criterion
    to_columns = torch.linalg.lstsq(trained.whitened, trained.columns).solution
    new = torch.cat([whitened @ to_columns, whitened], -1).mT.unsqueeze(-1)
    single = COMPONENT(new, column_samples(trained)).mean(0)
    gram = ISOTROPIC_SHARE * isotropic_kernel(3)(whitened, trained.whitened)
    gram = gram + (1 - ISOTROPIC_SHARE) * single
    weights = coordinates @ criterion.thin.mT
    return 2 * (weights * gram).sum(1) / criterion.reference(3)


def test_new_people_have_the_coordinates_they_would_have_had(features, rows):
    criterion = Criterion(features, rows.flatten()[:0])
    torch.testing.assert_close(
        criterion.coordinates(features), criterion.thin, rtol=1e-5, atol=1e-9
    )


@pytest.mark.parametrize("exact", [True, False])
def test_witness_is_a_sum_over_trained_people(features, rows, exact):
    witness = Witness(Criterion(features, rows.flatten()[:0], exact), rows)
    new = example_rows(7, 3, seed=5)
    bound = witness.bind(features.take(np.arange(7)))
    found = bound.value(new.unsqueeze(-2))
    expected = by_definition(witness, bound.coordinates, new)
    # Single columns go through a grid of frequencies, whole rows through random ones if many.
    tolerance = 1e-3 if exact else 0.3
    assert (found - expected).abs().max() < tolerance * expected.abs().max()


@pytest.mark.parametrize("exact", [True, False])
def test_gradient_matches_finite_differences(features, rows, exact):
    witness = Witness(Criterion(features, rows.flatten()[:0], exact), rows)
    bound = witness.bind(features.take(np.arange(7)))
    new = example_rows(7, 3, seed=5).unsqueeze(-2)
    _, gradient = bound.value_and_gradient(new)
    for column in range(3):
        step = torch.zeros_like(new)
        step[..., column] = 1e-5
        slope = (bound.value(new + step) - bound.value(new - step)) / 2e-5
        torch.testing.assert_close(gradient[:, 0, column], slope, rtol=1e-5, atol=1e-9)


def test_fair_rows_have_no_larger_objective_than_fitting_rows_and_trained_ones(rows):
    features = SensitiveFeatures.of(PEOPLE["group"])
    witness = Witness(Criterion(features, rows.flatten()[:0]), rows)
    target, others = example_rows(7, 3, seed=6), example_rows(20, 3, seed=7)
    gram, new = others.mT @ others, features.take(np.arange(7))

    def objective(found):
        loss = ((found @ gram - 2 * target) * found).sum(-1) / 40
        whitened = torch.linalg.solve(witness.trained.basis, found - rows.mean(0), left=False)
        return loss + 3.0 * witness.bind(new).value(whitened.unsqueeze(-2))

    found = fair_rows(target, gram, entries=40, witness=witness, scale=3.0, features=new)
    least = objective(found)
    assert (least <= objective(fit_rows(target, gram)) + 1e-9).all()
    for row in rows:
        assert (least <= objective(row.expand(7, -1)) + 1e-9).all()


def test_without_strength_new_people_are_fitted(rows):
    features = SensitiveFeatures.of(PEOPLE["group"])
    witness = Witness(Criterion(features, rows.flatten()[:0]), rows)
    target, others = example_rows(7, 3, seed=6), example_rows(20, 3, seed=7)
    gram, new = others.mT @ others, features.take(np.arange(7))
    found = fair_rows(target, gram, entries=40, witness=witness, scale=0.0, features=new)
    torch.testing.assert_close(found, fit_rows(target, gram))
