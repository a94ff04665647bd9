"""One call of every function that a public module of the package exports."""

import inspect

import torch

import parafair
from parafair import (
    FairCP,
    Stop,
    audits,
    datasets,
    frontier,
    frontiers,
    guarantees,
    interop,
    losses,
    report,
    solvers,
)
from tests.public_calls import DATA, GROUPS, MODEL, TENSOR, new

# Modules whose functions are not called here, and why.
NOT_CALLED = {
    "paper": "its experiments take minutes; tests/paper runs them",
    "testing": "for the tests of other packages",
}
STOP = Stop(max_iter=1)
ONES = torch.ones(3)


def starts():
    """Factors of one start."""
    random = torch.Generator().manual_seed(0)
    return tuple(torch.rand(1, n, 2, generator=random, dtype=torch.float64) for n in TENSOR.shape)


def plain():
    """A problem without a penalty."""
    return parafair.Problem(DATA, 2)


def stored(made):
    """A frontier that is written and read."""
    folder = new(made, "curve")
    frontier(MODEL, TENSOR, sensitive_features=GROUPS, strengths=[0.1], audits=None, out=folder)
    return frontiers.load(folder)


def export(made):
    """A linear encoder for NumPy."""
    model = FairCP(2, method="leace", tol=0.1).fit(TENSOR, sensitive_features=GROUPS)
    interop.export_encoder(model, f"{new(made, 'encoder')}.npz")


def content(made):
    """The values of a page."""
    return report.content(made["frontier"], title="A page")


MODULE_CALLS = {
    "audits.check_max_leakage": lambda m: audits.check_max_leakage(0.1),
    "audits.draw": lambda m: audits.draw(m["audit"]),
    "audits.panel": lambda m: audits.panel("quick"),
    "frontiers.load": stored,
    "guarantees.noise_for": lambda m: guarantees.noise_for(TENSOR[:, :, 0], GROUPS, leakage=0.5),
    "interop.export_encoder": export,
    "interop.factors_to_xarray": lambda m: interop.factors_to_xarray(m["model"]),
    "losses.deviances": lambda m: losses.deviances(losses.Poisson(), ONES, ONES),
    "losses.has_link": lambda m: losses.has_link(losses.Squared()),
    "losses.is_squared": lambda m: losses.is_squared(losses.Squared()),
    "losses.needs_non_negative": lambda m: losses.needs_non_negative(losses.Poisson()),
    "losses.null_deviance": lambda m: losses.null_deviance(losses.Poisson(), ONES),
    "losses.resolve_loss": lambda m: losses.resolve_loss("huber"),
    "report.content": content,
    "report.draw_embeddings": lambda m: report.draw_embeddings(
        content(m), f"{new(m, 'embeddings')}.svg"
    ),
    "report.draw_frontier": lambda m: report.draw_frontier(content(m), f"{new(m, 'curve')}.svg"),
    "report.render": lambda m: report.render(content(m)),
    "report.write_report": lambda m: report.write_report(
        m["frontier"], f"{new(m, 'page')}.html", formats=["png"]
    ),
    "solvers.decompose": lambda m: solvers.decompose(
        m["problem"], solvers.LBFGS(), starts=starts(), stop=STOP
    ),
    "solvers.decompose_from": lambda m: solvers.decompose_from(
        m["problem"],
        solvers.LBFGS(),
        plain=solvers.decompose_plain(plain(), starts=starts(), stop=STOP),
        stop=STOP,
    ),
    "solvers.decompose_plain": lambda m: solvers.decompose_plain(
        plain(), starts=starts(), stop=STOP
    ),
    "solvers.repair": lambda m: solvers.repair(m["problem"], [f[0] for f in m["factors"]]),
    "solvers.solve_batch": lambda m: solvers.solve_batch(
        plain(), solvers.LBFGS(), starts=starts(), stop=STOP
    ),
    "datasets.synthetic": lambda m: datasets.synthetic(0, shape=(9, 4, 3)),
    "datasets.counts": lambda m: datasets.counts(0, shape=(9, 4, 3)),
    "datasets.events": lambda m: datasets.events(0, shape=(9, 4, 3)),
    "datasets.marks": lambda m: datasets.marks(0, students=5),
    "datasets.ratings": lambda m: datasets.ratings(0, users=9, items=40),
}


def module_functions():
    """Names of the functions that public modules export and the package does not."""
    for name in parafair.__all__:
        module = getattr(parafair, name)
        if inspect.ismodule(module) and name not in NOT_CALLED:
            for each in set(getattr(module, "__all__", ())) - set(parafair.__all__):
                if inspect.isfunction(getattr(module, each)):
                    yield f"{name}.{each}"
