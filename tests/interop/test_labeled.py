import numpy as np
import pytest

from parafair import FairCP, FairTucker, TensorData
from parafair.interop import factors_to_xarray

xarray = pytest.importorskip("xarray", reason="xarray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::parafair.ConvergenceWarning")


@pytest.fixture
def array():
    values = np.random.default_rng(0).random((12, 4, 3))
    coords = {"who": [f"p{i}" for i in range(12)], "item": list("abcd"), "year": [2019, 2020, 2021]}
    return xarray.DataArray(values, dims=tuple(coords), coords=coords)


def test_data_comes_back_with_its_labels(array):
    assert TensorData.from_array(array).to_xarray().identical(array)
    partial = array.where(array > 0.3)
    sparse = TensorData.from_array(partial).to_sparse()
    assert sparse.to_xarray().identical(partial)
    single = TensorData.from_array(array.astype("float32")).to_xarray()
    assert single.identical(array.astype("float32"))


def test_factors_have_the_labels_of_the_data(array):
    model = FairCP(2, method="none", mode="who", max_iter=20, tol=1e-2).fit(array)
    found = factors_to_xarray(model)
    for mode, factor in zip(array.dims, model.cp_.factors, strict=True):
        own = found[f"factor_{mode}"]
        assert own.dims == (mode, "component")
        np.testing.assert_array_equal(own.values, factor.numpy())
        np.testing.assert_array_equal(own[mode].values, array[mode].values)
    np.testing.assert_array_equal(found.factor_who.values, model.embedding_)
    parts = [found.weights, *(found[f"factor_{mode}"] for mode in array.dims)]
    product = xarray.dot(*parts, dim="component")
    np.testing.assert_allclose(product, model.inverse_transform(model.embedding_))


def test_a_tucker_model_has_its_core(array):
    model = FairTucker((2, 3, 2), method="none", mode="item", max_iter=20, tol=1e-2).fit(array)
    found = factors_to_xarray(model)
    assert found.core.dims == ("component_who", "component_item", "component_year")
    parts = [found.core, *(found[f"factor_{mode}"] for mode in array.dims)]
    product = xarray.dot(*parts, dim=found.core.dims).transpose(*array.dims)
    np.testing.assert_allclose(product, model.tucker_.reconstruct())
    assert found.item.values.tolist() == list("abcd")


def test_data_without_labels_has_positions(array):
    model = FairCP(2, method="none", max_iter=5, tol=1e-1).fit(array.values)
    assert factors_to_xarray(model).mode_1.values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda a: a.assign_coords(item=list("aabc")), "'item' has the label a more than once"),
        (lambda a: a.assign_coords(year=[1.0, np.nan, 3.0]), "has a missing label"),
        (lambda a: a.stack(cell=("item", "year")), "must hold labels such as text or numbers"),
        (lambda a: a.to_dataset(name="rain"), "an xarray Dataset; pass one of its variables"),
        (lambda a: a.where(a > 2), "X has no observed entries"),
        (lambda a: a.astype(str), "must hold numbers"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(array, change, match):
    with pytest.raises((TypeError, ValueError), match=match):
        FairCP(2, method="none", mode="who").fit(change(array))


def test_new_people_must_have_known_labels(array):
    model = FairCP(2, method="none", mode="who", max_iter=5, tol=1e-1).fit(array)
    shuffled = array[:3].isel(item=[2, 0, 3, 1])
    np.testing.assert_allclose(model.transform(shuffled), model.transform(array[:3]))
    with pytest.raises(ValueError, match="mode 'item' has no label e"):
        model.transform(array[:3].assign_coords(item=list("abce")))


def test_a_mode_called_component_is_refused(array):
    model = FairCP(2, method="none", max_iter=5, tol=1e-1).fit(array.rename(item="component"))
    with pytest.raises(ValueError, match="must not have the names of its components"):
        factors_to_xarray(model)


def test_what_is_no_model_is_refused(array):
    with pytest.raises(TypeError, match="model must be a FittedCP"):
        factors_to_xarray(array)
