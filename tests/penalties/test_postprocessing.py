import numpy as np
import pandas as pd
import pytest
import torch

from parafair import FairCP, datasets, parity_limit
from parafair.audits.measures import residual_fit
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties.postprocessing import CorrelationRemoval, MomentMatching
from parafair.solvers.decomposition import Decomposition
from parafair.solvers.problem import Problem
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(60, seed=1)
FACTOR = example_rows(60, 4, seed=0) @ example_rows(4, 4, seed=5) * (1 + GROUPS) + 3 * GROUPS


def apply(method, factor, sensitive):
    """The factor after a method, as that of a matrix that is the factor."""
    problem = Problem(TensorData.from_array(factor), factor.shape[1], sensitive=sensitive)
    other = torch.eye(factor.shape[1]).double()
    return method.apply(Decomposition(problem, (factor[None], other[None]))).rows


def test_correlation_removal_is_the_residual_of_a_regression():
    age = example_rows(60, 1, seed=2)
    table = pd.DataFrame({"group": GROUPS[:, 0].numpy(), "age": age[:, 0].numpy()})
    sensitive = SensitiveFeatures.of(table)
    adjusted = apply(CorrelationRemoval(), FACTOR, sensitive)
    design = torch.cat([torch.ones(60, 1).double(), sensitive.encode()], 1)
    residuals = FACTOR - design @ torch.linalg.lstsq(design, FACTOR).solution
    torch.testing.assert_close(adjusted - adjusted.mean(0), residuals)
    torch.testing.assert_close(adjusted.mean(0), FACTOR.mean(0))


def test_moment_matching_gives_all_groups_the_same_moments():
    sensitive = SensitiveFeatures.of(GROUPS)
    adjusted = apply(MomentMatching(), FACTOR, sensitive)
    one, two = (adjusted[GROUPS[:, 0] == g] for g in (0, 1))
    torch.testing.assert_close(one.mean(0), two.mean(0))
    torch.testing.assert_close(torch.cov(one.mT, correction=0), torch.cov(two.mT, correction=0))
    # Equal moments stay as they are.
    torch.testing.assert_close(apply(MomentMatching(), adjusted, sensitive), adjusted)


def test_groups_smaller_than_the_rank_are_matched_as_far_as_they_go():
    few = SensitiveFeatures.of(["a"] * 57 + ["b"] * 3)
    adjusted = apply(MomentMatching(), FACTOR, few)
    assert torch.isfinite(adjusted).all()
    torch.testing.assert_close(adjusted[:57].mean(0), adjusted[57:].mean(0))


def test_moment_matching_refuses_numbers():
    with pytest.raises(ValueError, match="'sensitive' is numeric; make it categorical"):
        MomentMatching().check(SensitiveFeatures.of(np.linspace(0, 1, 60)))


def test_numbers_are_refused_before_the_fit():
    iterations = []
    model = FairCP(2, method="moment-matching")
    with pytest.raises(ValueError, match="'sensitive' is numeric; make it categorical"):
        model.fit(
            FACTOR.numpy(),
            sensitive_features=np.linspace(0, 1, 60),
            on_iteration=lambda *found: iterations.append(found),
        )
    assert not iterations


@pytest.mark.parametrize("method", ["correlation-removal", "moment-matching"])
def test_through_the_front(method):
    data = datasets.synthetic(0, shape=(40, 12, 10), rank=4)
    plain = FairCP(4, method="none", random_state=0).fit(data.tensor)
    model = FairCP(4, method=method, random_state=0)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    groups = data.sensitive_features == "uniform"
    gap = model.embedding_[groups].mean(0) - model.embedding_[~groups].mean(0)
    np.testing.assert_allclose(gap, 0, atol=1e-8)
    assert model.fit_.residual == pytest.approx(residual_fit(data.tensor, model.cp_))
    assert model.fit_.residual > plain.fit_.residual
    assert model.record_.params["method"] == method
    if method == "moment-matching":
        return
    # Equal means alone cost what the limit says at the least, up to its share of the shapes.
    assert (
        model.fit_.residual
        > 0.9 * parity_limit(data.tensor, sensitive_features=data.sensitive_features).residual
    )
