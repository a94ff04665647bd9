import gzip

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from parafair import TensorData
from parafair.data.long_table import cell_keys

pytest.importorskip("narwhals")
NAN = float("nan")
MODES = ["student", "module", "test"]
SCORES = pd.DataFrame(
    {
        "student": [20, 3, 3, 20, 7],
        "module": ["b", "a", "b", "a", "a"],
        "test": [1, 1, 2, 2, 1],
        "score": [50.0, 60, 70, 80, 90],
    }
)


def read(table=SCORES, **options):
    return TensorData.from_table(table, modes=MODES, value="score", **options)


def same(one, two):
    assert (one.shape, one.modes) == (two.shape, two.modes)
    for mine, other in zip(one.labels, two.labels, strict=True):
        np.testing.assert_array_equal(mine, other)
    torch.testing.assert_close(one.cells, two.cells)
    torch.testing.assert_close(one.entries, two.entries)


def test_a_table_becomes_a_list_of_entries():
    data = read()
    assert data.shape == (3, 2, 2)
    assert data.modes == ("student", "module", "test")
    assert [labels.tolist() for labels in data.labels] == [[3, 7, 20], ["a", "b"], [1, 2]]
    assert data.cells.T.tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 0], [2, 0, 1], [2, 1, 0]]
    assert data.entries.tolist() == [60, 70, 90, 80, 50]
    assert (data.observed, data.coverage) == (5, 5 / 12)
    assert data.observed_per("student").tolist() == [2, 1, 2]
    assert repr(data) == (
        "TensorData(3 student x 2 module x 2 test, 5 observed (41.7 %), sparse, float64)"
    )


def test_every_kind_of_table_gives_the_same(tmp_path):
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    SCORES.to_csv(tmp_path / "scores.csv", index=False)
    SCORES.to_parquet(tmp_path / "scores.parquet")
    for table in (
        polars.DataFrame(SCORES.to_dict("list")),
        arrow.Table.from_pandas(SCORES),
        SCORES.astype({"module": "category", "student": "Int64", "score": "Float64"}),
        tmp_path / "scores.csv",
        str(tmp_path / "scores.parquet"),
    ):
        same(read(table), read())


@given(st.permutations(range(len(SCORES))))
def test_the_order_of_rows_does_not_matter(order):
    same(read(SCORES.iloc[list(order)]), read())


def test_a_table_and_back():
    table = read().to_table("score")
    pd.testing.assert_frame_equal(table, SCORES.sort_values(MODES, ignore_index=True))
    same(read(table), read())


def test_a_row_without_a_value_makes_its_labels_known():
    table = pd.concat([SCORES, pd.DataFrame([[99, "a", 1, NAN]], columns=SCORES.columns)])
    data = read(table)
    assert data.shape == (4, 2, 2)
    assert data.observed_per(0).tolist() == [2, 1, 2, 0]


def test_labels_can_be_given():
    data = read(labels={"module": ["b", "c", "a"]})
    assert data.labels[1].tolist() == ["b", "c", "a"]
    assert data.observed_per("module").tolist() == [2, 0, 3]
    with pytest.raises(ValueError, match=r"mode 'module' has no label a \(1 unknown in all\)"):
        read(labels={"module": ["b", "c"]})
    with pytest.raises(ValueError, match="must be one of .*got 'modul'; did you mean 'module'"):
        read(labels={"modul": ["b"]})


@pytest.mark.parametrize(
    ("how", "expected"), [("mean", 3), ("sum", 9), ("max", 5), ("first", 3), ("last", 1)]
)
def test_duplicates_are_merged_as_stated(how, expected):
    table = pd.DataFrame({"a": [1, 2, 1, 1, 1], "b": 1, "x": [3.0, 8, 5, NAN, 1]})
    data = TensorData.from_table(table, modes=["a", "b"], value="x", duplicates=how)
    assert data.entries.tolist() == [expected, 8]


def test_duplicates_are_shown():
    twice = pd.concat([SCORES, SCORES.iloc[:2].assign(score=1)])
    message = (
        "2 entries are given more than once, such as student 3, module a, test 1: 60, 1; "
        "student 20, module b, test 1: 50, 1. Choose how to merge them"
    )
    with pytest.raises(ValueError, match=message):
        read(twice)
    with pytest.raises(ValueError, match="duplicates must be one of error, mean"):
        read(twice, duplicates="median")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": ["student", "modul"]}, "a mode must be one of .* got 'modul'; did you mean 'm"),
        ({"value": "scor"}, "value must be one of .* did you mean 'score'"),
        ({"modes": ["student"]}, "at least 2 columns"),
        ({"modes": ["student", "student"]}, "differ from each other"),
        ({"modes": ["student", "score"]}, "differ from each other and from value"),
        ({"value": "text"}, "column 'text' must hold numbers, got 'x' in row 0"),
        ({"value": "nothing"}, "column 'nothing' has no values: all 5 are missing"),
    ],
)  # fmt: skip
def test_bad_columns_are_refused(options, message):
    table = SCORES.assign(text="x", nothing=NAN)
    with pytest.raises(ValueError, match=message):
        TensorData.from_table(table, **{"modes": MODES, "value": "score", **options})


def test_modes_are_a_list():
    with pytest.raises(TypeError, match="modes must be a list of names of columns, got 'student"):
        TensorData.from_table(SCORES, modes="student,module", value="score")


DENSE = np.array([[1.0, NAN, 3.0], [0.0, 5.0, NAN]])


PLACES = np.argwhere(~np.isnan(DENSE)).T
VALUES = DENSE[tuple(PLACES)]


def torch_sparse():
    places, values = torch.from_numpy(PLACES), torch.from_numpy(VALUES)
    return torch.sparse_coo_tensor(places, values, (2, 3), check_invariants=True)


# The same data with missing entries as every kind of array.
ARRAYS = {
    "numpy": lambda: DENSE,
    "read-only": lambda: np.broadcast_to(DENSE, (2, 3)),
    "list": DENSE.tolist,
    "None": lambda: np.array([[1, None, 3], [0, 5, None]], object),
    "masked": lambda: np.ma.masked_invalid(DENSE),
    "torch": lambda: torch.from_numpy(DENSE),
    "torch sparse": torch_sparse,
    "torch sparse csr": lambda: torch_sparse().to_sparse_csr(),
    "scipy sparse": lambda: sparse.coo_array((VALUES, tuple(PLACES)), shape=(2, 3)),
    "scipy sparse csr": lambda: sparse.csr_matrix((VALUES, tuple(PLACES)), shape=(2, 3)),
    "pandas": lambda: pd.DataFrame(DENSE, columns=[0, 1, 2]),
    "pandas NA": lambda: pd.DataFrame(DENSE, columns=[0, 1, 2]).astype("Float64"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_every_kind_of_array_gives_the_same(name):
    data = TensorData.from_array(ARRAYS[name]())
    same(data, TensorData(torch.from_numpy(DENSE)))
    assert data.is_sparse == ("sparse" in name)
    torch.testing.assert_close(data.to_dense().values, torch.from_numpy(DENSE), equal_nan=True)


def test_a_stored_zero_is_observed_and_others_are_missing():
    data = TensorData.from_array(sparse.coo_array(([0.0, 2.0], ([0, 1], [0, 1])), shape=(2, 2)))
    assert data.entries.tolist() == [0, 2]
    assert data.observed == 2


def test_xarray_brings_names_and_labels():
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(
        DENSE, dims=("year", "city"), coords={"city": ["Ulm", "Köln", "Trier"]}
    )
    data = TensorData.from_array(array)
    assert data.modes == ("year", "city")
    assert data.labels[0].tolist() == [0, 1]
    assert data.labels[1].tolist() == ["Ulm", "Köln", "Trier"]
    with pytest.raises(TypeError, match="an xarray Dataset; pass one of its variables: rain"):
        TensorData.from_array(xarray.Dataset({"rain": array}))


def test_frames_as_matrices_bring_labels():
    table = pd.DataFrame(DENSE, index=pd.Index(["a", "b"], name="who"), columns=["x", "y", "z"])
    data = TensorData.from_array(table)
    assert data.modes == ("who", "mode_1")
    assert data.labels[1].tolist() == ["x", "y", "z"]
    assert TensorData.from_array(table, modes=("p", "q")).modes == ("p", "q")
    assert TensorData.from_array(table, labels=([5, 6], None)).labels[0].tolist() == [5, 6]
    with pytest.raises(ValueError, match="2 levels in its index; flatten them"):
        TensorData.from_array(pd.concat([table, table], keys=["k", "l"]))


def test_precision_is_kept_and_whole_numbers_are_doubles():
    assert TensorData.from_array(DENSE.astype(np.float32)).values.dtype == torch.float32
    assert TensorData.from_array([[1, 2], [3, 4]]).values.dtype == torch.float64
    assert TensorData.from_array(DENSE).to(dtype=torch.float32).values.dtype == torch.float32


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        ([["a", "b"]], TypeError, "array must hold numbers, got an array of <U1"),
        (np.array([[1, "2"]], object), TypeError, "array must hold numbers, got an array of obj"),
        ([[1j, 2]], TypeError, "array must hold numbers, got an array of complex"),
        (torch.ones(2, 2, dtype=torch.complex64), TypeError, "array must hold real numbers"),
        ([[NAN, NAN]], ValueError, "no observed entries: all are missing"),
        ([[float("inf"), 1]], ValueError, r"1 infinite entries, the first at index \(0, 0\)"),
        ([1.0, 2.0], ValueError, r"at least 2 modes and none empty, got shape \(2,\)"),
        (np.ones((2, 0)), ValueError, "at least 2 modes and none empty"),
    ],
)
def test_bad_arrays_are_refused(array, error, message):
    with pytest.raises(error, match=message):
        TensorData.from_array(array)


def test_an_infinite_entry_of_a_list_is_named_by_its_cell():
    cells = torch.tensor([[0, 1, 1], [2, 0, 2]])
    values = torch.tensor([1.0, 2.0, float("inf")])
    listed = torch.sparse_coo_tensor(cells, values, (2, 3), check_invariants=True)
    with pytest.raises(ValueError, match=r"1 infinite entries, the first at index \(1, 2\)"):
        TensorData.from_array(listed)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"indices": torch.tensor([[0, 2], [0, 0]])}, "must be 0 to 1 in mode 'mode_0', got 2"),
        ({"indices": torch.tensor([[0, 0], [1, 1]])}, "an entry more than once"),
        ({"indices": torch.zeros(3, 2, dtype=torch.int64)}, r"indices must have shape \(2, 2\)"),
        ({"labels": (["a", "a"], [0, 1, 2])}, "mode 'mode_0' has the label a more than once"),
        ({"labels": (["a", None], [0, 1, 2])}, "labels of mode 'mode_0' has a missing label"),
        (
            {"labels": (["a"], [0, 1, 2])},
            "labels.0. must have 2 labels, one per index of mode 'mode_0', got 1",
        ),
        ({"labels": (["a", "b"],)}, "labels must have 2 entries, one per mode, got 1"),
        ({"modes": ("a", "a")}, "modes must be 2 different names"),
    ],
)
def test_parts_must_agree(parts, message):
    full = {"indices": torch.tensor([[0, 1], [0, 0]]), "shape": (2, 3), **parts}
    with pytest.raises(ValueError, match=message):
        TensorData(torch.tensor([1.0, 2.0]), **full)


def test_entries_are_put_in_order():
    data = TensorData(torch.tensor([1.0, NAN, 2.0]), torch.tensor([[1, 1, 0], [0, 1, 2]]), (2, 3))
    assert data.indices.tolist() == [[0, 1], [2, 0]]
    assert data.values.tolist() == [2, 1]


@pytest.mark.parametrize("dense", [True, False])
class TestBothForms:
    @pytest.fixture
    def data(self, dense):
        return read().to_dense() if dense else read()

    def test_dense_and_sparse_hold_the_same(self, data, dense):
        assert data.is_sparse is not dense
        same(data.to_sparse(), read())
        same(data.to_dense(), read())
        assert data.observed_per("test").tolist() == [3, 2]

    def test_people_are_taken_in_the_order_given(self, data):
        few = data.take("student", [2, 0])
        assert few.labels[0].tolist() == [20, 3]
        expected = SCORES[SCORES.student != 7]
        rows = few.to_table("score").sort_values(MODES, ignore_index=True)
        pd.testing.assert_frame_equal(rows, expected.sort_values(MODES, ignore_index=True))
        same(data.take(0, [True, True, True]), data)

    def test_some_entries_are_kept(self, data):
        some = data.keep([4, 0])
        assert some.entries.tolist() == [60, 50]
        assert some.shape == data.shape
        mask = np.array([True, False, False, False, True])
        same(data.keep(mask), some)

    def test_values_are_replaced(self, data):
        twice = data.with_values(data.values * 2)
        assert twice.entries.tolist() == [120, 140, 180, 160, 100]
        with pytest.raises(ValueError, match="values must have shape"):
            data.with_values(torch.ones(1))

    def test_labels_are_located(self, data):
        assert data.locate("student", [20, 3]).tolist() == [2, 0]
        assert data.locate(1, ["b"]).tolist() == [1]
        with pytest.raises(ValueError, match=r"mode 'student' has no label 4, 5 \(2 unknown"):
            data.locate("student", [4, 5, 3])
        with pytest.raises(ValueError, match="did you mean 'student'"):
            data.locate("studnt", [4])
        with pytest.raises(ValueError, match="mode must be between 0 and 2 or one of student"):
            data.locate(3, [4])


def test_frostt_files(tmp_path):
    text = "# a comment\n1 2 1 0.5\n3 1 2 -2e1\n\n1 1 1 0\n"
    (tmp_path / "x.tns").write_text(text)
    data = TensorData.from_tns(tmp_path / "x.tns")
    assert data.shape == (3, 2, 2)
    assert data.labels[0].tolist() == [1, 2, 3]
    assert data.cells.T.tolist() == [[0, 0, 0], [0, 1, 0], [2, 0, 1]]
    assert data.entries.tolist() == [0, 0.5, -20]
    (tmp_path / "x.tns.gz").write_bytes(gzip.compress(text.encode()))
    same(TensorData.from_tns(tmp_path / "x.tns.gz"), data)


@pytest.mark.filterwarnings("ignore:loadtxt:UserWarning")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least two indices and a value, got 0 lines"),
        ("1 2\n", "got 1 lines of 2 numbers"),
        ("1 1 1 2\n1 1 2\n", "could not be read .the number of columns changed"),
        ("1 0 5\n", "has the index 0 in entry 0; indices must be whole numbers from 1 to 2"),
        ("1 1.5 5\n", "has the index 1.5 in entry 0; indices must be whole"),
        ("1 inf 5\n", "has the index inf in entry 0; indices must be whole"),
        ("1 nan 5\n", "has the index nan in entry 0; indices must be whole"),
        ("1 1 5\n1 1e30 5\n", "has the index 1e.30 in entry 1; indices must be whole"),
        ("1 1 inf\n", "X has 1 infinite entries"),
        ("1 x 5\n", "could not be read .could not convert string 'x'"),
        ("1 1 5\n1 1 6\n", "given more than once, such as mode_0 1, mode_1 1: 5, 6"),
        ("1 1 nan\n", "has no values: all 1 are missing"),
    ],
)
def test_bad_frostt_files_are_refused(tmp_path, text, message):
    (tmp_path / "x.tns").write_text(text)
    with pytest.raises(ValueError, match=message):
        TensorData.from_tns(tmp_path / "x.tns")


def test_a_frostt_file_whose_sizes_exceed_memory_is_refused(tmp_path):
    (tmp_path / "x.tns").write_text(f"{2**50} 1 1 2\n")
    with pytest.raises(MemoryError, match="the largest indices of .*x.tns, needs about"):
        TensorData.from_tns(tmp_path / "x.tns")


@pytest.mark.parametrize("keep", [0.5, 0.9, 1.0])
def test_a_damaged_packed_frostt_file_is_refused(tmp_path, keep):
    packed = bytearray(gzip.compress("".join(f"{i} {i} {i}\n" for i in range(1, 999)).encode()))
    if keep == 1:
        packed[len(packed) // 2] ^= 255
    (tmp_path / "x.tns.gz").write_bytes(packed[: int(keep * len(packed))])
    with pytest.raises(ValueError, match="x.tns.gz could not be read"):
        TensorData.from_tns(tmp_path / "x.tns.gz")


def test_a_text_named_as_a_packed_frostt_file_is_refused(tmp_path):
    (tmp_path / "x.tns.gz").write_text("1 1 1 2\n")
    with pytest.raises(ValueError, match="seems damaged or truncated"):
        TensorData.from_tns(tmp_path / "x.tns.gz")


def test_a_sparse_tensor_too_large_for_memory_stays_sparse():
    size = 2**31
    data = TensorData(
        torch.tensor([1.0, 2.0]), torch.tensor([[5, 0], [0, 7], [2, 2], [1, 1]]), (8, 9, 10, 11)
    )
    assert data.to_dense().observed == 2
    # Only sizes matter here, and labels of this number would not fit either.
    object.__setattr__(data, "shape", (size, size, 10, 11))
    with pytest.raises(MemoryError, match="GB of memory, .* keep it sparse"):
        data.to_dense()


@pytest.mark.parametrize("shape", [(7, 5, 3), (2**40, 2**40, 3)])
def test_keys_are_in_the_order_of_indices(shape):
    random = np.random.default_rng(0)
    indices = np.stack([random.integers(0, min(size, 5), 200) for size in shape])
    keys = cell_keys(torch.from_numpy(indices), shape).numpy()
    order = np.lexsort(indices[::-1])
    assert (np.diff(keys[order]) >= 0).all()
    assert len(np.unique(keys)) == len(np.unique(indices, axis=1).T)


def test_new_values_may_be_read_only_but_not_complex():
    data, values = TensorData.from_array(np.eye(2)), np.ones((2, 2))
    values.flags.writeable = False
    assert data.with_values(values).entries.tolist() == [1.0] * 4
    with pytest.raises(TypeError, match="values must hold numbers, got an array of complex"):
        data.with_values(values + 1j)
