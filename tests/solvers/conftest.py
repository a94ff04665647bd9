from parafair.penalties import HSIC, KHSIC, Orthogonality
from parafair.solvers.init import make_starts

PENALTIES = {
    "none": None,
    "fatr": Orthogonality(0.05, ridge=0.1),
    "hsic": HSIC(20.0),
    "khsic": KHSIC(50.0),
}
SHAPES = {2: (24, 9), 3: (24, 9, 7), 4: (24, 5, 4, 3)}


def starts_of(problem, count=1, seed=0):
    return make_starts(problem, "uniform", count=count, seed=seed)
