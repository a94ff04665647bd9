"""The values of each argument of the public functions, by the name of the argument."""

from __future__ import annotations

from tests.campaign.models import ENCODERS, INITS, METHODS, SOLVERS, STARTS
from tests.campaign.paths import FOLDERS, OUTS
from tests.campaign.values import (
    ATTACKER_LISTS,
    CALLBACKS,
    COUNTS,
    DATA,
    FEATURES,
    FLAGS,
    JOBS,
    LABEL_LISTS,
    MODES,
    NAMES,
    PAIRED,
    ROWS,
    SEEDS,
    SHARES,
    SIDES,
    SIZES,
    Sort,
    choice,
)

TABLES = choice(
    ("FOLDER / 'scores.csv'", "scores.to_table()", "str(FOLDER / 'scores.csv')",
     "pl.from_pandas(scores.to_table())", "pa.Table.from_pandas(scores.to_table())"),
    ("FOLDER / 'nothing.csv'", "FOLDER / 'people.csv'", "FOLDER", "'/'",
     "pd.DataFrame({'who': []})", "scores.to_table().astype(str)",
     "scores.to_table().astype('category')", "scores.to_table().convert_dtypes()",
     "pd.concat([scores.to_table()] * 2)", "scores.to_table().assign(value=np.inf)",
     "scores.to_table().assign(who=None)", "scores.to_table().assign(who=[1.5, 'a'] * 41)",
     "scores.to_table().assign(value=1j)", "scores.to_table().assign(value=np.nan)",
     "scores.to_table().assign(who=2.0**70)",
     "scores.to_table().assign(who=np.datetime64('2020-01-01'))",
     "scores.to_table().set_index('who')", "scores.to_table().rename(columns={'subject': 'who'})",
     "pl.from_pandas(scores.to_table()).lazy()", "scores.to_table().to_dict()",
     "scores.to_table().values", "scores.to_table().assign(who=[[1]] * 82)",
     "scores.to_table().iloc[:1]", "scores.to_table().assign(value='1,5')",
     "FOLDER / 'entries.tns'"),
)  # fmt: skip
COLUMNS = choice(
    ("['who', 'subject', 'date']", "('who', 'date')"),
    ("['who']", "['who', 'who']", "'who'", "['who', 'nope']", "[0, 1]", "{'who': 0, 'date': 1}",
     "['who', 'value']", "iter(['who', 'date'])", "['who', 'subject', 'date', 'value']"),
)  # fmt: skip
PEOPLE_TABLES = choice(
    ("FOLDER / 'people.csv'", "pd.read_csv(FOLDER / 'people.csv')"),
    ("pd.read_csv(FOLDER / 'people.csv').set_index('who')", "FOLDER / 'nothing.csv'",
     "pd.concat([pd.read_csv(FOLDER / 'people.csv')] * 2)", "FOLDER / 'scores.csv'",
     "pd.read_csv(FOLDER / 'people.csv').assign(age=None)", "pd.DataFrame({'who': ['p0']})",
     "pd.read_csv(FOLDER / 'people.csv').assign(who=None)", "pl.read_csv(FOLDER / 'people.csv')",
     "pd.read_csv(FOLDER / 'people.csv').assign(group=1.5)", "pa.table({'who': ['p0', 'p1']})"),
)  # fmt: skip
NUMBERS = Sort(
    lambda draw: f"rng({draw.number(0, 9)}).normal(size=82)",
    lambda draw: draw.one(
        "np.zeros(82)", "np.full(82, np.nan)", "np.ones(81)", "np.ones((82, 1))", "['a'] * 82",
        "rng(0).normal(size=82) * 1e200", "rng(0).normal(size=82) * 1j", "torch.ones(82)",
        "pd.Series(np.ones(82))", "np.ma.masked_all(82)", "scores.entries", "scores",
    ),
)  # fmt: skip
CELLS = choice(
    ("np.zeros((2, 3), int)", "scores", "scores.to_table()[['who', 'subject', 'date']]",
     "[[0, 1, 2], [7, 3, 2]]", "np.array([[7, 3, 2]])"),
    ("np.array([[8, 0, 0]])", "np.array([[-1, 0, 0]])", "np.zeros((2, 2), int)",
     "np.zeros((0, 3), int)", "np.zeros((2, 3))", "np.full((2, 3), 0.5)",
     "np.full((2, 3), np.nan)", "[0, 0, 0]", "tensor", "pd.DataFrame({'who': ['p0']})",
     "np.array([['p0', 'art', 1]])", "TensorData.from_array(tensor)",
     "pd.DataFrame({'who': ['x'], 'subject': ['art'], 'date': [1]})", "np.array([[2**40, 0, 0]])",
     "np.zeros((2, 3), bool)", "pd.DataFrame(np.zeros((2, 3), int))", "torch.zeros(2, 3)",
     "pd.DataFrame({'who': [None], 'subject': ['art'], 'date': [1]})",
     "pl.DataFrame({'who': ['p0']})"),
)  # fmt: skip
POSITIONS = choice(
    ("[0, 1]", "np.arange(3)", "[2, 0]", "np.arange(8) < 3"),
    ("[8]", "[-1]", "[0, 0]", "[0.5]", "[True]", "np.arange(8) < 0", "slice(2)", "np.arange(99)"),
)
CHOSEN = choice(
    ("[0, 1]", "np.arange(50)", "np.arange(82) % 2 == 0"),
    ("[82]", "[-1]", "[0, 0]", "np.ones(82)", "np.zeros(82, bool)", "scores.cells"),
)
TENSORS = choice(
    ("rng(0).normal(size=(6, 2))", "torch.eye(6)", "rng(0).normal(size=(6, 1))",
     "np.arange(6) % 2"),
    ("torch.eye(5)", "torch.zeros(6, 2)", "torch.eye(6) * 1e200", "np.full((6, 2), np.nan)",
     "torch.ones(6, 0)", "torch.zeros(0, 2)", "torch.ones(1, 1)", "torch.eye(6).long()",
     "torch.eye(6, requires_grad=True)", "groups(6)", "torch.eye(6)[None]", "torch.eye(6) * 1e-200",
     "torch.eye(6).to('meta')", "torch.eye(6).to_sparse()", "pd.DataFrame(np.eye(6))"),
)  # fmt: skip
KERNELS = choice(
    ("kernels.Gaussian(1.0)", "kernels.Linear()", "kernels.Delta()", "kernels.Gaussian('median')"),
    (
        "kernels.Gaussian",
        "'gaussian'",
        "kernels.MultiscaleGaussian(1e300)",
        "kernels.Gaussian(1e-300)",
    ),
)
KERNEL_PAIRS = choice(
    ("(kernels.Linear(), kernels.Gaussian(1.0))", "(kernels.Gaussian('median'), kernels.Delta())"),
    (
        "(kernels.Linear(),)",
        "kernels.Linear()",
        "(kernels.Linear, kernels.Linear)",
        "('linear', 1)",
    ),
)
AUDITS = choice(
    ("{'attackers': ['linear'], 'folds': 2, 'repeats': 1, 'permutations': 3}", "None"),
    (
        "{'folds': 99, 'attackers': ['linear']}",
        "{'nope': 1}",
        "{'attackers': 1}",
        "{'attackers': ['linear'], 'folds': 0}",
        "[1]",
    ),
)
GRIDS = choice(
    ("{'rank': [1, 2]}", "[{'rank': [1]}, {'ridge': [0.0, 1.0]}]",
     "{'rank': [1], 'strength': [0.5]}"),
    ("{'rank': 2}", "{'nope': [1]}", "{'rank': []}", "{'rank': [0, 1]}", "{'rank': ['a']}",
     "{1: [2]}", "{'random_state': [0, 1]}", "[{}]", "{'rank': [1], 'tol': [None]}",
     "{'mode': [0, 1]}"),
)  # fmt: skip
MODELS = choice(
    ("FairCP(1, max_iter=2, tol=0.0)", "FairCP(2, method='hsic', max_iter=2, tol=0.0)",
     "FairCP(1, method='none', max_iter=2, tol=0.0)",
     "FairCP(1, method='khsic', max_iter=2, tol=0.0)"),
    ("FairCP(0)", "FairCP('a')", "FairCP(1, method='x')", "FairCP(1, init=5, max_iter=1)", "FairCP",
     "FairCP(99, max_iter=1)", "FairCP(1, max_iter=1, strength=3.0)", "FairCP(1, mode=7)",
     "FairCP(1, max_iter=2, method='moment-matching')", "FairCP(1, max_iter=1, random_state=None)"),
)  # fmt: skip
STRENGTHS = choice(
    ("[0, 1]", "2", "(0.5,)", "np.array([0.0, 2.0])"),
    (
        "[]",
        "0",
        "[-1]",
        "[1, 1]",
        "['a']",
        "[np.nan]",
        "[1e300]",
        "1.5",
        "-1",
        "'auto'",
        "[None]",
        "{1: 2}",
    ),
)
SEED_LISTS = choice(
    ("1", "[0, 1]"), ("0", "[]", "[0, 0]", "[-1]", "1.5", "['a']", "[2**70]", "None", "rng(0)")
)
KINDS = choice(
    ("None", "'categorical'", "{'group': 'categorical'}", "['categorical']"),
    (
        "'numeric'",
        "{'nope': 'numeric'}",
        "['numeric', 'x']",
        "{'g': 'x'}",
        "{}",
        "[]",
        "'text'",
        "{1: 2}",
    ),
)
MISSING = choice(("'error'", "'exclude'"), ("'drop'", "None", "'Error'"))
TAUS = choice(
    ("[0.0, 0.5, 1.0]", "(0.1,)", "np.linspace(0, 1, 3)"),
    ("[]", "[-0.1]", "[1.1]", "['a']", "0.5", "[np.nan]", "[[0.1], [0.2, 0.3]]", "[True]",
     "range(2)"),
)  # fmt: skip
THRESHOLDS = choice(("None", "0.0", "2"), ("'a'", "np.inf", "np.nan", "[1]", "1e300"))
FACTORS = choice(
    ("[torch.eye(3), torch.ones(4, 3)]", "(torch.ones(2, 1), torch.ones(2, 1), torch.ones(3, 1))"),
    ("[torch.eye(3), torch.eye(2)]", "[]", "[torch.eye(3)]", "[np.eye(3), np.eye(3)]",
     "torch.eye(3)", "[torch.ones(3), torch.ones(3)]", "[torch.ones(2, 0), torch.ones(2, 0)]",
     "[[1.0], [2.0]]",
     "[torch.eye(2).long(), torch.eye(2)]"),
)  # fmt: skip
CP = Sort(
    lambda draw: f"([1.0, 0.5], [rng(1).random((n, 2)) for n in {draw.shape}])",
    lambda draw: draw.one(
        "model.cp_", "(None, [np.eye(2), np.eye(2)])", "([1.0], [np.eye(2), np.eye(2)])", "model",
        f"([1.0], [np.zeros((n, 1)) for n in {draw.shape}])", "([], [])", "[np.eye(2)]",
        "(1, 2, 3)", f"([np.nan], [np.ones((n, 1)) for n in {draw.shape}])", "'cp'",
        "(['a'], [np.eye(2)] * 2)", f"(torch.ones(1), [torch.ones(n, 1) for n in {draw.shape}])",
    ),
)  # fmt: skip
LEVELS = choice(("0.05", "0.5", "0"), ("-1", "1", "2", "'0.05'", "1e-300", "True"))
OPTIONAL_LEVELS = choice(("0.05", "0.5", "None"), ("-1", "0", "1.5", "'0.05'", "True"))


# The sort of an argument by its name, unless a target has another.
SORTS: dict[str, Sort] = {
    "X": DATA,
    "frontier": choice(("curve",)),
    "array": DATA,
    "sensitive_features": FEATURES,
    "features": FEATURES,
    "embedding": ROWS,
    "new_embedding": ROWS,
    "new_sensitive_features": FEATURES,
    "rank": COUNTS,
    "method": METHODS,
    "strength": SIZES,
    "max_leakage": LEVELS,
    "noise": choice(("None", "0", "0.1", "2.5"), ("-0.1", "11", "np.inf", "'auto'", "True")),
    "noises": choice(("None", "[0.1]", "(0.1, 1)"), ("[]", "0.1", "[-1]", "[0.1, 0.1]", "['a']")),
    "certificates": choice(
        ("None", "'auto'", "{'draws': 100}"), ("True", "'yes'", "{'draws': 1}", "{'draw': 1}", "1")
    ),
    "guarantee": choice(("None", "'release'", "'matrix'"), ("'population'", "1", "''", "True")),
    "max_certified": OPTIONAL_LEVELS,
    "mode": MODES,
    "loss": choice(
        ("'squared'", "'huber'"),
        ("'absolute'", "'Squared'", "'poisson'", "'bernoulli'", "'gamma'", "1", "None"),
    ),
    "non_negative": choice(("False", "True", "(0,)", "[1]", "()"), ("'all'", "(9,)", "1", "None")),
    "rotation_free": FLAGS,
    "structure": choice(("None",), ("None",)),
    "ranks": choice(
        ("(2, 2, 2)", "[2, 2, 1]", "(3, 3, 2)", "(2, 2)", "(2, 2, 2, 2)"),
        ("()", "2", "(2, 99, 2)", "(9, 2, 2)", "(0, 2, 2)", "'222'", "(2.0, 2, 2)", "None"),
    ),
    "ridge": SIZES,
    "side": SIDES,
    "side_weight": SIZES,
    "side_loss": choice(("'squared'", "'huber'"), ("'gamma'", "'cauchy'", "None")),
    "rows": ROWS,
    "center": FLAGS,
    "encoder": ENCODERS,
    "steps": COUNTS,
    "solver": SOLVERS,
    "init": INITS,
    "n_init": STARTS,
    "max_iter": COUNTS,
    "tol": choice(("0.0", "1e-4", "0.1"), ("-1e-3", "1", "'a'", "True")),
    "enough": choice(("0.0", "1e-8"), ("-1e-3", "nan", "'a'")),
    "noise_cost": choice(("0.0", "1e-2"), ("-1e-3", "nan", "'a'")),
    "random_state": SEEDS,
    "verbose": choice(("0", "1", "2"), ("3", "True", "-1", "'yes'")),
    "device": choice(
        ("None", "'cpu'", "torch.device('cpu')"), ("'meta'", "'gpu'", "'cuda:99'", "0")
    ),
    "dtype": choice(
        ("None", "'float32'", "'float64'", "torch.float32"),
        ("'float16'", "torch.int64", "np.float64", "float", "np.dtype('f4')"),
    ),
    "on_iteration": CALLBACKS,
    "on_audit": CALLBACKS,
    "on_trial": CALLBACKS,
    "on_progress": CALLBACKS,
    "on_candidate": CALLBACKS,
    "refine": FLAGS,
    "cells": CELLS,
    "unknown": choice(("'error'", "'offsets'"), ("'ignore'", "None", "1", "True")),
    "given": choice(("None", "{}"), ("{'date': 1}", "{'nope': 1}", "['date']", "{0: 1}", "1")),
    "exclude": choice(("None", "'training'", "scores"), ("'rated'", "1", "tensor", "[]", "True")),
    "rated": choice(("None", "scores"), ("tensor", "TensorData.from_array(np.eye(2))", "1")),
    "negatives": choice(("None", "1", "2"), ("0", "99", "-1", "1.5", "True")),
    "bootstraps": choice(("10", "20"), ("0", "-1", "1.5", "'a'")),
    "times": NUMBERS,
    "cv": choice(("None", "2"), ("0", "1", "99999", "2.5", "True", "'5'")),
    "validation": choice(("0.1", "0.3"), ("0.0", "1", "-1", "scores", "tensor", "True", "np.nan")),
    "users": choice(("10", "20"), ("0", "3", "-1", "2.5", "10**12", "True")),
    "items": choice(("40", "50"), ("0", "39", "2.5", "10**12", "'a'")),
    "size": choice(("'100k'", "'1m'"), ("'10m'", "100", "None")),
    "overwrite": FLAGS,
    "keep_exact": FLAGS,
    "target": FEATURES,
    "attackers": ATTACKER_LISTS,
    "folds": choice(("2", "3"), ("0", "1", "50", "2.5")),
    "repeats": COUNTS,
    "permutations": COUNTS,
    "max_people": choice(("5000", "6", "8"), ("0", "1", "2", "-5", "5.5", "4")),
    "n_jobs": JOBS,
    "taus": TAUS,
    "confidence": choice(("0.95", "0.5", "0.99"), ("0", "1", "1.5", "0.4", "'0.9'", "True")),
    "releases": COUNTS,
    # A large number is a long wait, which is what was asked for.
    "draws": choice(("100", "200", "np.int64(150)"), ("0", "99", "-1", "100.0", "'200'", "True")),
    "held_out": FLAGS,
    "plug_in": choice(("0.0", "0.01"), ("-0.1", "1", "0.05", "'0'")),
    "bins": choice(("2", "4"), ("0", "1", "99", "2.5")),
    "test_size": SHARES,
    "validation_size": choice(("0.0", "0.1"), ("0.9", "-0.1", "1", "'a'", "0.0001")),
    "groups": FEATURES,
    "labels": LABEL_LISTS,
    "modes": NAMES,
    "value": choice(("'value'", "'score'")),
    "duplicates": choice(("'error'", "'mean'", "'sum'", "'first'", "'max'", "'last'"), ("'min'",)),
    "absent": choice(("'missing'", "'zero'"), ("'nan'", "0", "None")),
    "kinds": KINDS,
    "names": choice(("['group']", "None"), ("['a', 'a']", "[1]", "['']", "'ab'", "[]")),
    "missing": MISSING,
    "columns": choice(
        ("None", "['group']", "['age', 'group']"),
        ("['nope']", "[]", "'group'", "['group', 'group']", "[0]"),
    ),
    "key": choice(("None", "'who'"), ("'nope'", "0", "'group'", "['who']")),
    "gamma": choice(("1.0", "0.5", "'median'"), ("0", "-1", "1e300", "1e-320", "'mean'")),
    "count": COUNTS,
    "decay": SHARES,
    "chunk_size": choice(("1000", "4"), ("0", "1", "-1", "2.5")),
    "kernel": KERNELS,
    "memory": COUNTS,
    "sensitive_kernel": KERNELS,
    "first": TENSORS,
    "second": TENSORS,
    "kernels": KERNEL_PAIRS,
    "estimator": choice(("'biased'", "'unbiased'"), ("'x'",)),
    "strengths": STRENGTHS,
    "seeds": SEED_LISTS,
    "name": choice(("None", "'a'"), ("''", "'a/b'", "'..'", "'x' * 400", "'none'")),
    "audits": AUDITS,
    "limit": FLAGS,
    "X_test": choice(("None", "scores"), ("tensor", "tensor * np.nan")),
    "out": OUTS,
    "grid": GRIDS,
    "model": MODELS,
    "predicted": NUMBERS,
    "threshold": THRESHOLDS,
    "k": COUNTS,
    "cp": CP,
    "classes": choice(("()", "[penalties.HSIC]"), ("[1]", "int", "['a']")),
    "folder": FOLDERS,
    "subset": choice(("'train'", "'test'"), ("'trian'", "None", "1", "['train']")),
    "path": FOLDERS,
    "shape": choice(
        ("(6, 4, 3)", "(4, 3)", "[5, 2, 2, 2]"),
        (
            "()",
            "(6,)",
            "(1, 2)",
            "(0, 3)",
            "(6, -1)",
            "(6, 2.5)",
            "'abc'",
            "(10**9, 10**9)",
            "6",
            "(6, 'a')",
        ),
    ),
    "seed": choice(("0", "1"), ("-1", "1.5", "2**64", "'a'", "None", "rng(0)")),
    "inflation": choice(("0", "0.5", "1"), ("-0.1", "1.5", "nan", "'a'", "None")),
    "students": choice(("2", "5"), ("0", "1", "2.5", "-1", "'5'", "10**12", "True")),
    "extrapolate": FLAGS,
    "inner_steps": COUNTS,
    "cap": FLAGS,
    "step_sizes": choice(
        ("(0.5, 1.0)", "[1, 1]"), ("(1,)", "0.5", "(0, 1)", "(-1, 1)", "('a', 1)", "(np.nan, 1)")
    ),
    "max_seconds": choice(("None", "1.0"), ("0", "-1", "'a'")),
    "window": COUNTS,
    "factors": FACTORS,
    "weights": TENSORS,
    "level": LEVELS,
    "positions": POSITIONS,
    "chosen": CHOSEN,
    "values": NUMBERS,
    "leakage": LEVELS,
    "measure": choice(("'rmse'", "'mae'"), ("'x'",)),
    "group": choice(("'all'",), ("'g9'",)),
    "feature": choice(("''",), ("'x'",)),
    "max_residual": OPTIONAL_LEVELS,
    "worst": choice(("None", "(1.0, 0.5)"), ("(0, 0)", "(1,)", "('a', 'b')", "(np.nan, 1)", "1.0")),
    "title": choice(("'a'",), ("''", "'<script>'", "'\\x00'")),
    "formats": choice(("()",), ("['gif']", "'png'", "[1]")),
    "hidden": choice(("3", "5"), ("0", "-1", "2.5")),
    "epochs": choice(("1", "2"), ("0", "-1", "1.5")),
    "learning_rate": SIZES,
    "batch_size": choice(("2", "32"), ("0", "-1", "2.5")),
    "other_sensitive": choice(
        ("{}",), ("{1: features}", "{0: 1}", "{'a': features}", "{7: features}")
    ),
    "penalty": choice(
        ("None", "penalties.HSIC(1.0)", "penalties.Invariant(1.0)"),
        ("'hsic'", "penalties.HSIC", "penalties.MomentMatching()"),
    ),
    "sensitive": choice(
        ("features", "SensitiveFeatures.of(groups(8))"),
        ("groups(8)", "None", "SensitiveFeatures.of(groups(7))"),
    ),
    "data": choice(
        ("scores", "TensorData.from_array(tensor)"),
        ("tensor", "TensorData.from_array(tensor * 0)", "8"),
    ),
    "offsets": choice(("None",), ("1", "[0.0]", "'a'", "scores")),
    "transform": choice(("'default'", "'pandas'", "None"), ("'numpy'", "'polars'")),
    "people": POSITIONS,
    "parts": COUNTS,
    "relevant": PAIRED,
    "records": choice(("features.to_list()", "found.to_dict()"), ("[{}]",)),
    "record": choice(("found.to_dict()",), ("{'rows': [], 'people': 'a'}", "features.to_list()")),
}
