"""The values of the arguments of a model that name one of several things."""

from __future__ import annotations

from tests.campaign.values import Sort, choice

METHODS = choice(
    ("'invariant'", "'invariant'", "'khsic'", "'hsic'", "'fatr'", "'none'", "'correlation-removal'",
     "'moment-matching'", "'transport'", "'sliced-transport'", "'fair-pca'", "'leace'",
     "'kernel-perez-suay'",
     "'mean-matching'", "'bhattacharyya'", "'mutual-information'", "penalties.MeanMatching(5.0)",
     "penalties.Invariant(2.0)", "encoders.PerezSuay(as_in_paper=True)",
     "penalties.Orthogonality(0.1, 1.0)", "penalties.SlicedTransport(2, 4)"),
    ("'Invariant'", "penalties.HSIC", "penalties.Invariant", "'auto'", "penalties.HSIC(0)",
     "penalties.KHSIC(1e6)", "kernels.Linear()", "penalties.MomentMatching()", "'svd'",
     "penalties.Bhattacharyya", "'mean_matching'"),
)  # fmt: skip
ENCODERS = choice(
    ("None", "None", "None", "None", "encoders.Learned(hidden=2, steps=2)",
     "encoders.Learned(hidden=0, steps=1, batch_size=50)"),
    ("'blind'", "'Linear'", "encoders.Learned", "1", "True", "encoders.LEACE()"),
)  # fmt: skip
SOLVERS = choice(
    ("'auto'", "'block'", "'lbfgs'", "'gradient'", "solvers.GradientBCD((3, 1), inner_steps=3)"),
    ("'Block'", "'Auto'", "solvers.LBFGS", "solvers.BlockDescent",
     "solvers.GradientBCD((1e9, 1e9), inner_steps=2)", "solvers.BlockDescent(inner_steps=1)",
     "solvers.GradientBCD(cap=False, inner_steps=2)"),
)  # fmt: skip
STARTS = choice(("1", "2", "'auto'", "np.int64(2)"), ("0", "-1", "2.0", "'2'", "'Auto'", "True"))
INITS = Sort(
    lambda draw: draw.one("'uniform'", "'normal'", "'svd'"),
    lambda draw: draw.one(
        "'zero'", "[]", "[None, None]", "CPTensor.from_factors([torch.eye(3), torch.eye(3)])",
        f"[rng(0).random((n, 2)) for n in {draw.shape}]",
        f"[np.ones((n, 2)) for n in {draw.shape}]",
        f"[np.full((n, 2), np.nan) for n in {draw.shape}]", "[[1.0, 2.0], [3.0]]",
        f"[np.zeros((n, 2)) for n in {draw.shape}]", f"[[['a'] * 2] * n for n in {draw.shape}]",
    ),
)  # fmt: skip
