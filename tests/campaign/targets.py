"""What the campaign calls: public functions, classes and methods."""

from __future__ import annotations

from dataclasses import replace

from tests.campaign import namespace
from tests.campaign.arguments import (
    COLUMNS,
    OPTIONAL_LEVELS,
    PEOPLE_TABLES,
    SORTS,
    TABLES,
)
from tests.campaign.paths import AUDIT_FILES, OUT_FILES, OUTS, PAGES
from tests.campaign.target import Target, of, resolve
from tests.campaign.values import (
    EIGHT_FEATURES,
    EIGHT_ROWS,
    INDICES,
    NEW_FEATURES,
    NEW_PEOPLE,
    OWN_DATA,
    PAIRED,
    RELEVANT,
    ROWS,
    SIDES,
    WIDE_ROWS,
    choice,
)

few = {"max_iter": 1.0, "tol": 0.6, "sensitive_features": 0.85, "rank": 0.5}
quick = {
    "attackers": 1.0,
    "permutations": 0.95,
    "repeats": 0.92,
    "folds": 0.8,
    "target": 0.03,
    "new_embedding": 0.15,
    "new_sensitive_features": 0.15,
}
new_people = {"X": NEW_PEOPLE, "sensitive_features": NEW_FEATURES}

FITTED = choice(
    ("encoded", "model", "labeled", "tucker", "sided", "plain_model"), ("unfitted", "tensor")
)
# Of a figure that nothing keeps, other than those of pyplot.
AXES = choice(("__import__('matplotlib.figure').figure.Figure().subplots()",), ("1", "'ax'", "np"))
BYTES = choice(("None", "'1GB'", "10**8"), ("0", "'1kB'", "1", "'much'", "-1", "True", "1e300"))

# An audit of a search uses all attackers, which takes minutes.
AUDITED = choice(("None",), ("-1", "1.5", "'0.05'", "True", "np.nan"))

LEAKAGES = choice(("0.05", "0.2", "1"), ("0", "-0.1", "2", "1e-9", "'0.05'", "True"))

n = namespace


def fit(method: str, weight: float, kind: str = "FairCP") -> Target:
    """A call of a model that is made and fitted."""
    made = resolve(kind)
    return of(
        f"{kind}.{method}",
        made,
        getattr(made, method),
        template=f"{kind}({{}}).{method}({{}})",
        usual={**few, "ranks": 0.7},
        weight=weight,
    )


TARGETS = (
    fit("fit", 8),
    fit("fit_transform", 2),
    fit("fit", 2, "FairTucker"),
    replace(
        fit("fit", 3),
        name="FairCP.fit of files and side information",
        sorts={"X": OWN_DATA, "sensitive_features": EIGHT_FEATURES, "side": SIDES},
        usual={**few, "side": 0.4, "checkpoint": 0.2},
    ),
    *(
        of(f"{m}.transform", usual={"sensitive_features": 0.6}, **new_people)
        for m in ("model", "plain_model", "labeled", "tucker", "sided", "encoded", "mapped")
    ),
    of(
        "matrix_model.transform",
        X=ROWS,
        sensitive_features=NEW_FEATURES,
        usual={"sensitive_features": 0.6},
    ),
    *(of(f"{m}.score", X=NEW_PEOPLE) for m in ("model", "labeled", "unfitted", "tucker", "sided")),
    *(of(f"{m}.predict") for m in ("model", "labeled", "unfitted", "tucker", "sided")),
    of(
        "counted.predict",
        cells=choice(("np.zeros((2, 2), int)", "[[7, 3]]"), ("[[8, 0]]", "scores", "tensor")),
    ),
    *(
        of(
            f"{m}.recommend",
            people=choice(
                ("None", "0", "[0, 1]", "'p1'", "['p0', 'p2']"),
                ("[0, 0]", "[]", "['nobody']", "[None]", "1.5", "tensor", "{}", "-1"),
            ),
        )
        for m in ("model", "labeled", "unfitted", "tucker", "counted", "encoded")
    ),
    *(
        of(f"{m}.inverse_transform", X=EIGHT_ROWS)
        for m in ("model", "labeled", "tucker", "counted", "sided")
    ),
    *(of(f"{m}.predict_side") for m in ("model", "unfitted", "sided")),
    *(of(f"{m}.save", folder=OUTS) for m in ("model", "tucker", "sided", "encoded", "mapped")),
    of("FairCP.load"),
    of("model.set_output", template="FairCP().set_output({})", weight=0.3),
    of("audit", usual=quick, weight=4, max_people=SORTS["max_people"]),
    of(
        "audit_outputs",
        template="audit_outputs({}, attackers=['linear'], folds=2, permutations=2)",
        scores=WIDE_ROWS,
        usual={"k": 0.9},
        k=choice(("1", "2"), ("0", "3", "4", "-1", "1.5", "10**30")),
    ),
    of(
        "compare_scores",
        scores=WIDE_ROWS,
        bins=choice(
            ("2", "10", "[1.5, 2.5]", "np.arange(3)"),
            ("1", "0", "2.5", "'10'", "[]", "[np.nan]", "[[1]]", "10**9", "None", "['a']"),
        ),
    ),
    of("parity_limit", weight=2),
    of("limit.at"),
    of(
        "certify",
        model=choice(
            ("model", "labeled", "plain_model", "tucker", "sided", "encoded", "mapped"),
            ("unfitted", "matrix_model", "tensor", "counted"),
        ),
        X_new=NEW_PEOPLE,
        sensitive_features=NEW_FEATURES,
        usual={"draws": 0.9, "X_new": 0.4, "sensitive_features": 0.4},
        weight=2,
    ),
    of(
        "certify_rows",
        rows=ROWS,
        released=ROWS,
        noise=choice(
            ("1.0", "0.3", "10"),
            ("0", "-1", "1e-300", "1e300", "np.ones(2)", "np.eye(2)", "'much'", "None", "np.nan"),
        ),
        usual={"draws": 0.9},
        weight=3,
    ),
    of("people_needed", leakage=LEAKAGES),
    of("guarantees.noise_for", rows=ROWS, leakage=LEAKAGES, weight=0.5),
    of("model.exact_release", X=NEW_PEOPLE, sensitive_features=NEW_FEATURES, weight=0.5),
    of("certificate.leakage", kind=choice(("'release'", "'matrix'"), ("'population'", "1", "''"))),
    of("certificate.write", path=OUT_FILES),
    of(
        "Certificate.read",
        path=choice(
            ("FOLDER / 'certificate.json'",), ("FOLDER / 'audit.json'", "FOLDER", "'nothing'")
        ),
        weight=0.3,
    ),
    of(
        "tune",
        usual={"sensitive_features": 0.8, "max_leakage": 0.02},
        weight=0.5,
        max_leakage=AUDITED,
    ),
    of("frontier", usual={"audits": 1.0, "strengths": 0.9, "out": 0.2, "limit": 0.5}, weight=0.3),
    of("curve.best", max_leakage=OPTIONAL_LEVELS),
    of("curve.pick", max_leakage=OPTIONAL_LEVELS),
    of("curve.of", method=SORTS["method"]),
    of("curve.hypervolume"),
    of("curve.best_or_none"),
    of("frontiers.load", path=SORTS["folder"]),
    of("report.write_report", path=PAGES, weight=0.2),
    of("found.verdict"),
    of("solvers.Fit.load", weight=0.3),
    of("parafair.Rankings.from_list", records=choice(("ranked.to_list()",)), weight=0.3),
    of(
        "parafair.Measure.from_dict",
        record=choice(("found.to_dict()['rows'][0]", "found.to_dict()")),
        weight=0.3,
    ),
    *(
        of(f"{each}.plot", ax=AXES, usual={"ax": 1.0}, weight=0.1)
        for each in ("found", "model", "tucker", "certificate", "curve")
    ),
    of("curve.model", point=choice(("curve.points[0]", "curve.points[1]")), weight=0.3),
    of("parafair.Audit.from_dict"),
    of("parafair.Audit.load", path=AUDIT_FILES),
    of("found.save", path=OUT_FILES),
    of("found.draw", path=PAGES, weight=0.05),
    of("split_cells"),
    of("split_by_time"),
    of(
        "evaluate_rankings",
        scores=choice(
            ("rng(0).normal(size=(8, 4, 3))", "np.zeros((8, 4, 3))"),
            ("np.zeros((8, 4))", "np.full((8, 4, 3), np.nan)", "np.ones((8, 4, 3)) * 1e300", "1"),
        ),
        X_test=choice(("scores",), ("tensor", "TensorData.from_array(np.eye(3))", "None")),
        sensitive_features=EIGHT_FEATURES,
        usual={"sensitive_features": 0.5, "bootstraps": 1.0},
    ),
    of("split_people"),
    of("TensorData.from_array", weight=3, usual={"labels": 0.2, "modes": 0.2}),
    of(
        "TensorData.from_table",
        weight=2,
        table=TABLES,
        modes=COLUMNS,
        labels=choice(
            ("None", "{'who': ['p1', 'p2']}"),
            ("{'who': 1}", "{'nope': []}", "{'who': ['p0', 'p0']}", "[]"),
        ),
    ),
    of(
        "TensorData.from_tns",
        path=choice(
            ("FOLDER / 'entries.tns'",), ("FOLDER / 'damaged.tns'", "FOLDER", "FOLDER / 'nothing'")
        ),
    ),
    *(
        of(f"scores.{m}", weight=0.5)
        for m in ("observed_per", "find_mode", "take", "keep", "with_values")
    ),
    of(
        "scores.locate",
        labels=choice(("['p0']", "np.array(['p1'])"), ("['x']", "'p0'", "[0]", "[None]")),
    ),
    of("scores.to", weight=0.5),
    of("scores.to_table", weight=0.5, value=choice(("'x'",), ("'who'", "''", "1"))),
    of("scores.to_xarray", weight=0.3),
    of("interop.factors_to_xarray", model=FITTED, weight=0.5),
    of("interop.export_encoder", model=FITTED, path=OUT_FILES, weight=0.5),
    *(
        of(
            f"ranked.{m}",
            weight=0.3,
            measure=choice(("'MAP'", "'recall@2'"), ("'map'", "1", "None")),
        )
        for m in ("value", "interval", "gap", "largest")
    ),
    of(
        "sort_parquet",
        source=choice(
            ("FOLDER / 'scores.parquet'", "[FOLDER / 'scores.parquet'] * 2"),
            ("FOLDER / 'nothing'", "FOLDER", "FOLDER / 'scores.csv'", "[]", "FOLDER / 'empty'"),
        ),
        out=OUTS,
        modes=COLUMNS,
        value=choice(("'score'",), ("'who'", "'nope'", "1", "None")),
        memory=BYTES,
        usual={"duplicates": 0.5},
    ),
    of(
        "TensorData.from_parquet",
        folder=choice(
            ("FOLDER / 'sorted'", "str(FOLDER / 'sorted')"),
            ("FOLDER / 'model'", "FOLDER / 'nothing'", "FOLDER / 'scores.parquet'", "'\\x00'"),
        ),
        memory=BYTES,
    ),
    *(of(f"streamed.{m}", weight=0.3) for m in ("find_mode", "take", "keep", "to_table", "to")),
    of("SensitiveFeatures.of", weight=4, usual={"kinds": 0.2, "names": 0.1}),
    of(
        "SensitiveFeatures.from_table",
        weight=2,
        table=PEOPLE_TABLES,
        labels=choice(("None", "['p1', 'p0']", "scores.labels[0]"), ("['x']", "[1]", "'p0'")),
    ),
    of("SensitiveFeatures.from_list"),
    of("features.read", weight=0.5),
    of(
        "features.read_table",
        table=PEOPLE_TABLES,
        weight=0.5,
        labels=choice(("None", "['p1']"), ("['x']", "1")),
    ),
    of("features.take", weight=0.5),
    of("features.joint", weight=0.5),
    of("datasets.synthetic", usual={"shape": 1.0, "rank": 0.9}),
    of("datasets.counts", usual={"shape": 1.0, "rank": 0.9}, weight=0.5),
    of("datasets.events", usual={"shape": 1.0, "rank": 0.9}, weight=0.5),
    of("datasets.ratings", usual={"users": 1.0, "items": 1.0}),
    of("datasets.movielens", usual={"folder": 1.0}, weight=0.3),
    of("datasets.marks", usual={"students": 1.0}),
    of(
        "datasets.contraceptive",
        usual={"folder": 1.0},
        weight=0.3,
        values=choice(("'answers'", "'indicators'"), ("'binary'", "1", "None")),
    ),
    of("datasets.adult", usual={"folder": 1.0}, weight=0.3),
    of(
        "datasets.oulad",
        usual={"folder": 1.0},
        weight=0.3,
        values=choice(("'scores'", "'passed'"), ("'clicks'", "1", "None")),
    ),
    of(
        "evaluation.evaluate_predictions",
        X_test=choice(("scores",), ("tensor", "TensorData.from_array(tensor * 1e300)")),
        sensitive_features=EIGHT_FEATURES,
        usual={"sensitive_features": 0.5},
        weight=2,
    ),
    of("evaluation.ranking", people=INDICES, relevant=RELEVANT, predicted=PAIRED, weight=0.5),
    of("evaluation.mean_difference", first=PAIRED, second=PAIRED, weight=0.3),
    of("evaluation.ks_statistic", first=PAIRED, second=PAIRED, weight=0.3),
    of("measures.residual_fit"),
    of("measures.orthogonality"),
    of("measures.khsic"),
    of("measures.normalized_khsic"),
    of("measures.parity_bound"),
    of(
        "measures.unfairness",
        n.measures.predict_groups,
        usual={"hidden": 1, "epochs": 1},
        weight=0.3,
    ),
    of("dependence.hsic"),
    of("dependence.khsic"),
    of("dependence.centered_alignment"),
    of("kernels.Gaussian", weight=0.5),
    of("kernels.MultiscaleGaussian", weight=0.5),
    of("penalties.HSIC", weight=0.3),
    of("penalties.KHSIC", weight=0.3),
    of("penalties.Invariant", weight=0.3),
    of("penalties.Orthogonality", weight=0.3),
    of(
        "penalties.SlicedTransport",
        weight=0.3,
        rotations=SORTS["k"],
        knots=choice(("2", "20"), ("1", "0", "2.5", "10**9", "True")),
    ),
    of("encoders.Learned", weight=0.3),
    of("solvers.BlockDescent", weight=0.3),
    of("solvers.GradientBCD", weight=0.3),
    of("solvers.LBFGS", weight=0.3),
    of("Stop", weight=0.3),
    of("Problem", weight=0.5),
    of("CPTensor", weight=0.3),
    of("CPTensor.from_factors", weight=0.3),
    of("check_max_leakage", weight=0.2),
    of(
        "Attacker.from_estimator",
        weight=0.3,
        name=choice(("'a'",)),
        estimator=choice(("LogisticRegression()",), ("LogisticRegression", "FairCP()")),
    ),
)
