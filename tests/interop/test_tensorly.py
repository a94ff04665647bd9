import numpy as np
import pytest
import torch

from parafair import FairCP
from parafair.interop import factors_to_xarray

tensorly = pytest.importorskip("tensorly", reason="tensorly is not installed")
from tensorly.cp_tensor import CPTensor, cp_normalize  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::parafair.ConvergenceWarning")
RANDOM = np.random.default_rng(0)
FACTORS = [RANDOM.random((size, 2)) for size in (10, 4, 3)]
TENSOR = tensorly.cp_to_tensor((None, FACTORS))


def start(weights, factors=FACTORS):
    model = FairCP(2, method="none", init=(weights, factors), n_init=1, max_iter=1, tol=0)
    return model.fit(TENSOR)


def test_a_fit_begins_at_the_tensor_of_tensorly():
    model = FairCP(2, method="none", init=CPTensor((None, FACTORS)), n_init=1).fit(TENSOR)
    assert model.fit_.history[0].residual < 1e-12
    normalized = cp_normalize(CPTensor((np.ones(2), FACTORS)))
    assert FairCP(2, method="none", init=normalized, n_init=1).fit(TENSOR).fit_.residual < 1e-12


def test_what_a_fit_gives_is_a_tensor_of_tensorly():
    model = FairCP(2, method="none", n_init=1, max_iter=30, tol=1e-3).fit(TENSOR)
    theirs = CPTensor(model.cp_.to_numpy())
    assert (theirs.rank, theirs.shape) == (2, (10, 4, 3))
    np.testing.assert_allclose(tensorly.cp_to_tensor(theirs), model.cp_.reconstruct())
    again = FairCP(2, method="none", init=theirs, n_init=1, max_iter=1, tol=0).fit(TENSOR)
    assert again.fit_.history[0].residual == pytest.approx(model.fit_.residual, rel=1e-12)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.array([np.nan, 1]), "must be finite and not 0, got nan for component 0"),
        (np.array([1, np.inf]), "must be finite and not 0, got inf for component 1"),
        (np.array([1.0, 0]), "must be finite and not 0, got 0 for component 1"),
        (np.ones(3), r"each of the 2 components, got shape \(3,\)"),
        (np.ones(1), r"each of the 2 components, got shape \(1,\)"),
        (torch.ones(1), r"each of the 2 components, got shape \(1,\)"),
        (np.ones((2, 1)), "init must be an array with rows of equal length"),
    ],
)
def test_weights_that_fit_no_component_are_refused(weights, match):
    with pytest.raises(ValueError, match=match):
        start(weights)


def test_factors_of_another_rank_or_with_nan_are_refused():
    with pytest.raises(ValueError, match="init must hold factors of shapes"):
        start(None, [factor[:, :1] for factor in FACTORS])
    with pytest.raises(ValueError, match="init must have finite entries"):
        start(None, [FACTORS[0] * np.nan, *FACTORS[1:]])


def test_negative_weights_are_a_sign_of_the_people():
    assert start(np.array([-1.0, 1]), [FACTORS[0] * [-1, 1], *FACTORS[1:]]).fit_.residual < 1e-12


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_tlviz_takes_labeled_factors():
    pytest.importorskip("xarray", reason="xarray is not installed")
    tlviz = pytest.importorskip("tlviz", reason="tensorly-viz is not installed")
    model = FairCP(2, method="none", max_iter=30, tol=1e-3).fit(TENSOR)
    found = factors_to_xarray(model)
    factors = [found[f"factor_mode_{mode}"].to_pandas() for mode in range(3)]
    theirs = tlviz.model_evaluation.fit((found.weights.values, factors), TENSOR)
    assert 1 - theirs == pytest.approx(model.fit_.residual**2, abs=1e-12)
