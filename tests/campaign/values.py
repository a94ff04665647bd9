"""Arguments as source text: plausible ones, odd ones, and ones of a wrong type.

Text can be printed as it is in a reproduction, and evaluated again for a second, equal object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

# What no argument, or nearly none, can be.
WRONG = (
    "None", "True", "False", "-1", "0", "1", "2", "10**30", "-2**63", "2**31", "0.5", "1.5", "-0.0",
    "1e-300", "float('nan')", "float('inf')", "-float('inf')", "1j", "Decimal('1.5')",
    "Fraction(1, 3)", "np.int8(2)", "np.float16(0.5)", "np.float64('nan')", "np.bool_(True)",
    "'abc'", "''", "'1'", "'\\x00'", "'\\u202e\\x1b[31m'", "'é' * 300", "b'x'", "[]", "{}", "()",
    "[None]", "['a', None]", "[[1, 2], [3]]", "[[[1.0]]]", "{'a': 1}", "{1: [1], 'b': None}",
    "set('ab')", "range(3)", "(x for x in [1.0, 2.0])", "lambda *a, **k: None", "object()", "int",
    "np", "print", "ValueError('x')", "Path('nowhere')", "pd.NA", "pd.NaT", "np.datetime64('NaT')",
    "np.datetime64('2020-01-01')", "np.array([])", "np.array(3.0)", "np.array('x')",
    "np.array([1, 'a', None], object)", "np.zeros((0, 3))", "np.zeros((3, 0))",
    "np.array([[1, 2], [3, 4]]) * 1j", "np.ma.masked", "np.ma.masked_all((3, 2))",
    "np.rec.array([(1, 'a')], dtype=[('x', int), ('y', 'U1')])", "memoryview(b'abc')",
    "torch.tensor(2.0)", "torch.zeros(3, 2, device='meta')", "torch.eye(3).to_sparse()",
    "torch.tensor([[1.0, 2.0]], requires_grad=True)", "sparse.eye(3)", "pd.Series(dtype=float)",
    "pd.DataFrame()", "pd.DataFrame({'a': [1]})", "pl.DataFrame()", "pa.table({})",
    "pd.Categorical(['a', 'b'])", "xr.Dataset()", "scores", "features", "model", "unfitted",
    "FairCP", "curve", "found", "streamed", "tucker",
)  # fmt: skip

LABELS = ("a", "b", "é", "\u202eevil", "\x1b[31m", "=HYPERLINK(1)", "a,b", 'q"', "", " ", "x" * 200)


@dataclass
class Draw:
    """A source of random choices for one call, with the sizes that its arguments share."""

    random: np.random.Generator

    def __post_init__(self) -> None:
        usual = self.chance(0.85)
        self.people = self.number(4, 13) if usual else self.one(0, 1, 2, 3, 25)
        count = self.one(1, 1, 2, 2, 2, 3)
        self.others = tuple(self.number(2, 5) if usual else self.number(0, 3) for _ in range(count))

    def chance(self, share: float) -> bool:
        """Whether something of this probability happens."""
        return bool(self.random.random() < share)

    def number(self, low: int, high: int) -> int:
        """A number from low to high - 1."""
        return int(self.random.integers(low, high))

    def one(self, *options):
        """One of the options."""
        return options[self.number(0, len(options))]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the data, people first."""
        return (self.people, *self.others)


Text: TypeAlias = Callable[[Draw], str]


@dataclass(frozen=True)
class Sort:
    """The values of one kind of argument.

    Attributes:
        plausible: Draws a value that a call may be expected to take.
        odd: Draws a value of the right kind at its limits, or beyond.
        wrong: Values of other kinds.
    """

    plausible: Text
    odd: Text
    wrong: tuple[str, ...] = WRONG

    def draw(self, draw: Draw, hostile: bool) -> str:
        """Draw a value; a hostile one is odd or of a wrong type."""
        if not hostile:
            return self.plausible(draw)
        return draw.one(*self.wrong) if self.wrong and draw.chance(0.4) else self.odd(draw)


def choice(plausible: tuple[str, ...], odd: tuple[str, ...] = WRONG) -> Sort:
    """A sort with two lists of values."""
    return Sort(lambda draw: draw.one(*plausible), lambda draw: draw.one(*odd))


# Arrays: what is done to a plain one, by how much of it is still plausible.
FINE_ARRAYS = (
    "{0}", "{0}", "{0}", "{0}.astype(np.float32)", "{0}.tolist()", "torch.from_numpy({0})",
    "np.asfortranarray({0})", "{0}[::-1]", "np.ma.array({0}, mask={0} > 1)", "with_holes({0}, 0.2)",
    "TensorData.from_array({0})", "TensorData.from_array(with_holes({0}, 0.2)).to_sparse()",
    "({0} * 4).round().astype(int)", "{0} * 1e6", "{0} + 100",
)  # fmt: skip
ODD_ARRAYS = (
    "{0} * 1e150", "{0} * 1e-150", "{0} * 1e300", "{0} * 1e-300", "{0} * 1e37", "{0} + 1e15",
    "({0} * 1e30).astype(np.float32)", "({0} * 1e-30).astype(np.float32)", "{0} * 0", "{0} * 0 + 1",
    "{0} * np.nan", "{0} / np.maximum({0}, 0)", "with_holes({0}, 0.1, np.inf)",
    "with_holes({0}, 0.9)", "with_holes({0}, 0.97)", "with_holes({0}, 0.1, 9.97e36)",
    "{0}.astype(np.float16)", "{0}.astype(np.longdouble)", "{0}.astype(complex)", "{0} > 0",
    "{0}.astype(object)", "with_holes({0}.astype(object), 0.2, None)", "{0}.astype(str)",
    "{0}.astype('M8[s]')", "{0}.astype('>f8')", "{0}.astype('S')", "({0} * 9).astype(np.int8)",
    "torch.from_numpy({0}).requires_grad_()", "torch.from_numpy({0}).half()",
    "torch.from_numpy({0}).bfloat16()", "torch.from_numpy({0}).to('meta')",
    "torch.from_numpy({0}).to_sparse()", "torch.from_numpy({0}).transpose(0, 1)",
    "torch.from_numpy({0}).long()", "torch.from_numpy({0}).to(torch.complex64)",
    "np.ma.masked_all({0}.shape)", "np.ma.masked_invalid(with_holes({0}))", "np.array(3.0)",
    "{0}[None]", "{0}[0]", "{0}[:0]", "{0}[:1]", "{0}[:2]", "{0}[..., 0]", "{0}[..., :0]",
    "{0}.ravel()", "np.broadcast_to({0}[:1], {0}.shape)",
    "np.broadcast_to({0}[..., :1], {0}.shape)", "np.repeat({0}, 2, 0)", "xr.DataArray({0})",
    "list({0})", "tuple({0}.tolist())", "iter({0})", "map(list, {0})", "{0}.tolist() + [[1.0]]",
    "memoryview({0})", "{0}.reshape((1,) * 9 + {0}.shape)", "TensorData.from_array({0} * 0)",
    "TensorData.from_array(with_holes({0}, 0.95))", "{0} * -1",
    "TensorData.from_array({0}).to_sparse()", "{0} * 10.0 ** np.arange({0}.shape[-1])",
    "np.where(np.arange({0}.shape[-1]) == 0, 1e20, {0})",
)  # fmt: skip
ODD_MATRICES = (
    "pd.DataFrame({0})", "pd.DataFrame({0}, index=list('abcdefghijklmnopqrstuvwxyz')[:len({0})])",
    "pd.DataFrame({0}, columns=['a'] * {0}.shape[1])", "pd.DataFrame({0}, index=[0] * len({0}))",
    "pd.DataFrame({0}).astype('Float64')", "pd.DataFrame({0}).astype('category')",
    "pd.DataFrame({0}).astype(str)", "pd.DataFrame({0}).mask(pd.DataFrame({0}) > 1)",
    "pd.DataFrame({0}).convert_dtypes()", "pl.DataFrame({0})", "pl.DataFrame({0}).lazy()",
    "pa.Table.from_pandas(pd.DataFrame({0}).rename(columns=str))", "sparse.csr_matrix({0})",
    "sparse.coo_array({0})", "np.matrix({0})", "pd.DataFrame({0}).T",
    "pd.DataFrame({0}, columns=pd.MultiIndex.from_arrays([range({0}.shape[1])] * 2))",
    "torch.from_numpy({0}).to_sparse_csr()", "xr.DataArray({0}, dims=('who', 'what'))",
)  # fmt: skip


def _array(shape: Callable[[Draw], tuple[int, ...]]) -> Sort:
    def plain(draw: Draw) -> str:
        return f"rng({draw.number(0, 9)}).normal(size={shape(draw)})"

    def odd(draw: Draw) -> str:
        matrix = len(shape(draw)) == 2
        forms = ODD_ARRAYS + ODD_MATRICES if matrix else ODD_ARRAYS
        return draw.one(*forms).format(plain(draw))

    return Sort(lambda draw: draw.one(*FINE_ARRAYS).format(plain(draw)), odd)


DATA = _array(lambda draw: draw.shape)
ROWS = _array(lambda draw: (draw.people, draw.others[0] if draw.others else 2))
# Of the size of the prepared models.
NEW_PEOPLE = _array(lambda draw: (draw.people, 4, 3))
EIGHT_ROWS = _array(lambda draw: (8, 2))
WIDE_ROWS = _array(lambda draw: (draw.people, *(n + 2 for n in draw.others)))
PAIRED = _array(lambda draw: (draw.people,))
# Of the size of data on people with a file or a table of their own.
OWN_DATA = choice(
    ("streamed", "scores", "tensor", "TensorData.from_parquet(FOLDER / 'sorted', memory='1GB')"),
    ("TensorData.from_parquet(FOLDER / 'sorted', memory='1kB')", "tensor[:7]", "tensor * np.nan",
     "TensorData.from_array(np.round(np.abs(tensor))).to_sparse()", "scores.to_dense()"),
)  # fmt: skip
# Of ranked entries: who, and whether it is relevant.
INDICES = Sort(lambda draw: f"np.arange({draw.people}) // 2", PAIRED.odd)
RELEVANT = Sort(lambda draw: f"np.arange({draw.people}) % 3 == 0", PAIRED.odd)

FINE_FEATURES = (
    "groups({n})", "groups({n})", "groups({n}, 3)", "groups({n}).tolist()",
    "rng(1).normal(size={n})", "pd.Series(groups({n}))",
    "pd.DataFrame({{'g': groups({n}), 'age': rng(2).normal(size={n})}})", "np.arange({n}) % 2",
    "SensitiveFeatures.of(groups({n}))", "np.arange({n}) % 2 == 0", "pd.Categorical(groups({n}))",
    "np.stack([groups({n}), groups({n}, 3)], 1)", "pl.DataFrame({{'g': groups({n})}})",
    "pa.table({{'g': groups({n})}})",
    "SensitiveFeatures.of(rng(1).normal(size={n}), kinds='numeric')",
)  # fmt: skip
ODD_FEATURES = (
    "groups({n}, 1)", "groups({n}, 7)", "groups({n}, {n} or 1)", "groups({n} + 1)",
    "groups({n} - 1)", "np.r_[['a'], groups({n})[1:]]", "np.r_[['a', 'a'], groups({n})[2:]]",
    "with_holes(groups({n}).astype(object), 0.3, None)", "with_holes(rng(1).normal(size={n}))",
    "pd.Series(with_holes(groups({n}).astype(object), 0.3, pd.NA))",
    "rng(1).normal(size={n}) * 1e154", "rng(1).normal(size={n}) * 1e-170",
    "rng(1).normal(size={n}) * 1e308", "np.full({n}, np.nan)", "np.full({n}, 3.0)",
    "np.arange({n})", "np.arange({n}) + 2**62", "np.arange({n}).astype('M8[D]')",
    "rng(1).normal(size={n}) * 1j", "rng(1).normal(size=({n}, 2, 2))",
    "rng(1).normal(size=({n}, 0))", "np.ma.array(groups({n}), mask=np.arange({n}) % 3 == 0)",
    "torch.arange({n}) % 2", "torch.rand({n}, generator=torch.Generator().manual_seed(0))",
    "groups({n}).astype('S')", "[{{'a': 1}}] * {n}", "[[1], [2, 3]] * {n}", "[1, 'a', None] * {n}",
    "[''] * {n}", "['\\x00', '\\u202e', '=1+1', '\\x1b[0m'] * ({n} // 4)",
    "pd.Series([1, 2] * {n})[:{n}]", "pd.Series(np.arange({n}) % 2, dtype='Int64')",
    "pd.Series(groups({n}), index=range({n}, 0, -1))",
    "pd.DataFrame({{'g': groups({n})}}, index=[0] * {n})",
    "pd.Series(groups({n}), dtype='string')",
    "pd.DataFrame(np.stack([groups({n})] * 2, 1), columns=['g', 'g'])",
    "groups({n})[:, None, None]",
    "pd.Series(pd.Categorical(groups({n}), categories=['g0', 'g1', 'unused']))",
    "pd.DataFrame({{'a': groups({n}), 'b': groups({n}), 'c': np.arange({n})}})",
    "SensitiveFeatures.of(with_holes(groups({n}).astype(object), 0.3, None), missing='exclude')",
    "{{0: groups({n})}}", "{{0: groups({n}), 1: groups({m})}}", "{{'who': groups({n})}}",
    "{{'g': groups({n})}}", "{{7: groups({n})}}", "zip(groups({n}))", "iter(groups({n}))",
    "sparse.csr_matrix(np.eye({n}))", "np.array([(i % 2, 'a') for i in range({n})], 'i4,U1')",
    "np.linspace(0, 1e-300, {n})", "rng(1).normal(size={n}) > 9",
    "np.arange({n}) % 2 * 1.0 + 1e17", "with_holes(rng(1).normal(size={n}), 0.2, np.inf)",
    "pl.Series(groups({n}))", "pa.array(groups({n}))", "pa.chunked_array([groups({n})])",
    "xr.DataArray(groups({n}))",
)  # fmt: skip


def _features(people: Callable[[Draw], int]) -> Sort:
    def fill(forms: tuple[str, ...]) -> Text:
        return lambda draw: draw.one(*forms).format(
            n=people(draw), m=draw.others[0] if draw.others else 1
        )

    return Sort(fill(FINE_FEATURES), fill(ODD_FEATURES))


FEATURES = _features(lambda draw: draw.people)
EIGHT_FEATURES = _features(lambda draw: 8)
# New people of the prepared models have the groups of training.
NEW_FEATURES = Sort(
    lambda draw: draw.one("groups({n})", "pd.Series(groups({n}))").format(n=draw.people),
    FEATURES.odd,
)

SEEDS = choice(
    ("0", "1", "None", "rng(0)", "np.random.RandomState(0)", "2**62"),
    ("-1", "2**63", "0.0", "'0'", "[1]", "np.int64(3)", "np.uint8(3)", "True", "rng", "np.random"),
)
COUNTS = choice(("1", "2", "3", "np.int64(2)"), ("0", "-1", "4", "7", "2.0", "1.5", "'2'", "True"))
SHARES = choice(("0.2", "0.3", "0.5"), ("0", "1", "0.001", "0.999", "-0.5", "2", "'0.2'", "True"))
SIZES = choice(
    ("0.0", "0.5", "1.0", "3", "np.float32(2)"),
    ("-1.0", "1e-320", "1e8", "1e30", "1e300", "'1'", "'auto '", "True", "[1.0]"),
)
MODES = choice(("0", "0", "0", "1"), ("2", "-1", "'who'", "'mode_0'", "5", "1.0", "True", "'0'"))
FLAGS = choice(("True", "False"), ("'no'", "0", "1", "None", "np.bool_(True)", "'True'"))
# What can be called raises errors of its own.
CALLBACKS = Sort(
    lambda draw: "lambda *a, **k: None",
    lambda draw: draw.one("1", "'print'", "None", "[]", "np", "found", "pd.NA", "object()"),
    wrong=(),
)
ATTACKER_LISTS = choice(
    ("['linear']", "['linear']", "('linear',)", "{'mine': LogisticRegression()}"),
    ("[]", "{}", "['lineer']", "'linear'", "['linear', 'linear']", "{'x': 1}", "{1: None}", "[1]",
     "{'': LogisticRegression}", "iter(['linear'])", "['neighbors']", "['paper-network']",
     "['svm']"),
)  # fmt: skip
JOBS = choice(("None", "1"), ("0", "1.5", "'2'", "True", "-10**9"))
LABEL_LISTS = Sort(
    lambda draw: repr([[f"{mode}{i}" for i in range(n)] for mode, n in enumerate(draw.shape)]),
    lambda draw: repr(
        [[draw.one(*LABELS) if draw.chance(0.5) else i for i in range(n)] for n in draw.shape]
    ),
)
NAMES = Sort(
    lambda draw: repr([f"m{i}" for i in range(len(draw.shape))]),
    lambda draw: repr([draw.one(*LABELS) for _ in range(draw.number(0, 5))]),
)
# Many other arguments do not go with a table.
SIDES = choice(
    ("None", "None", "rng(0).normal(size=(8, 3))"),
    ("np.full((8, 2), np.nan)", "np.ones((8, 2))", "rng(0).normal(size=(7, 2))", "'side'",
     "pd.DataFrame({'a': ['x'] * 8})", "np.full((8, 2), np.inf)", "rng(0).normal(size=8)",
     "rng(0).normal(size=(8, 3, 2))", "pd.DataFrame({'a': range(8)}, index=list('abcdefgh'))"),
)  # fmt: skip
