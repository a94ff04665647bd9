"""From 4 people and groups of 2 on, everything works, or says how many people are needed."""

import inspect
import re

import numpy as np
import pytest

import parafair
from parafair import (
    FairCP,
    FairTucker,
    TensorData,
    audit,
    audit_outputs,
    certify,
    certify_rows,
    compare_scores,
    evaluate_rankings,
    frontier,
    parity_limit,
    split_by_time,
    split_cells,
    split_people,
    tune,
)
from parafair.audits import Verdict
from parafair.encoders import Learned
from parafair.losses import LOSSES
from parafair.model.methods import METHODS

pytestmark = pytest.mark.filterwarnings("ignore::parafair.errors.ParafairWarning")

RANDOM = np.random.default_rng(0)
FEW = {"max_iter": 2, "tol": 0.0}
AUDITS = {"attackers": ["linear", "neighbors", "network"], "permutations": 2}

# A refusal that names a number of people or of members of a group.
NUMBERS = re.compile(r"(has|have|with|least|most|of) \d+")
# Refusals that have nothing to do with how few people there are.
OF_NUMERIC = "is numeric; make it categorical"


class People:
    """Data on a few people."""

    def __init__(self, n):
        self.groups = np.array(["a", "b"])[np.arange(n) % 2]
        self.ages = RANDOM.normal(size=n)
        self.tensor = RANDOM.random((n, 4, 3))
        self.data = TensorData.from_array(self.tensor)
        self.side = RANDOM.normal(size=(n, 2))

    def fit(self, *, features="groups", tensor=None, side=None, model=FairCP, **settings):
        """A model of these people; method "none" takes no features."""
        settings = {**({} if model is FairTucker else {"rank": 2}), **FEW, **settings}
        found = None if settings.get("method") == "none" else getattr(self, features)
        data = self.tensor if tensor is None else tensor
        return model(**settings).fit(data, sensitive_features=found, side=side)

    def counts(self, loss):
        """Data that a loss takes."""
        if loss in ("bernoulli", "bernoulli-poisson", "binomial"):
            return np.where(self.tensor > 0.5, 1.0, 0.0)
        return np.round(5 * self.tensor) + (loss == "gamma")


def works_or_says_how_many(call, *arguments, **settings):
    try:
        return call(*arguments, **settings)
    except ValueError as error:
        if OF_NUMERIC not in str(error) and not NUMBERS.search(str(error)):
            raise
        return None


def defined(model):
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.reconstruction_err_)


@pytest.fixture(params=[4, 5])
def people(request):
    return People(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["groups", "ages"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method(people, method, features):
    for tensor in (people.tensor, people.tensor[:, :, 0]):
        found = works_or_says_how_many(people.fit, method=method, features=features, tensor=tensor)
        assert features == "ages" or found is not None
        if found is not None:
            defined(found)


def test_usual_methods_of_four_people():
    for method in ("invariant", "khsic", "leace", "transport", "none"):
        defined(People(4).fit(method=method, max_iter=1))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["none", "invariant"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(people, loss, method):
    defined(people.fit(loss=loss, method=method, tensor=people.counts(loss)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"model": FairTucker, "ranks": (2, 2, 2)},
        {"encoder": Learned(hidden=0, steps=2)},
        {"encoder": Learned(hidden=2, steps=2)},
        {"strength": "auto"},
        {"strength": "auto", "guarantee": "release"},
        {"non_negative": True},
        {"noise": 0.5},
        {"n_init": 3},
        {"center": True},
        {"solver": "lbfgs"},
    ],
    ids=str,
)
def test_every_kind_of_model(people, settings):
    defined(people.fit(**settings))


@pytest.mark.slow
def test_side_information(people):
    defined(people.fit(side=people.side))


# Calls of all public functions that take people; the others are named with a reason below.
CALLS = {
    "audit": lambda p: audit(p.tensor[:, :, 0], sensitive_features=p.groups, permutations=2),
    "audit of new people": lambda p: audit(
        p.tensor[:, :, 0],
        sensitive_features=p.groups,
        new_embedding=p.tensor[:2, :, 0],
        new_sensitive_features=p.groups[:2],
        permutations=2,
    ),
    "audit_outputs": lambda p: audit_outputs(
        p.tensor[:, :, 0], sensitive_features=p.groups, k=2, permutations=2
    ),
    "compare_scores": lambda p: compare_scores(p.tensor, sensitive_features=p.ages),
    "certify": lambda p: certify(p.fit(noise=0.5), draws=100),
    "certify_rows": lambda p: certify_rows(p.tensor[:, :, 0], p.groups, noise=1.0, draws=100),
    "parity_limit": lambda p: parity_limit(p.tensor, sensitive_features=p.groups),
    "evaluate_rankings": lambda p: evaluate_rankings(
        p.tensor, p.data, sensitive_features=p.groups, k=2, bootstraps=5
    ),
    "split_cells": lambda p: split_cells(p.data),
    "split_people": lambda p: split_people(p.data, groups=p.groups),
    "split_by_time": lambda p: split_by_time(p.data, np.arange(p.data.observed)),
    "tune": lambda p: tune(
        FairCP(**FEW), p.tensor, grid={"rank": [1, 2]}, sensitive_features=p.groups
    ),
    "tune with folds": lambda p: tune(
        FairCP(**FEW), p.tensor, grid={"rank": [1, 2]}, sensitive_features=p.groups, cv=2
    ),
    "tune with a limit": lambda p: tune(
        FairCP(**FEW), p.tensor, grid={"rank": [1, 2]}, sensitive_features=p.groups,
        max_leakage=0.9,
    ),
    "frontier": lambda p: frontier(
        FairCP(1, **FEW), p.tensor, sensitive_features=p.groups, strengths=2, audits=AUDITS
    ),
    "frontier of noises": lambda p: frontier(
        FairCP(1, **FEW), p.tensor, sensitive_features=p.groups, strengths=[1], noises=[0.5],
        audits=AUDITS,
    ),
    "transform": lambda p: p.fit().transform(p.tensor[:1], sensitive_features=p.groups[:1]),
    "recommend": lambda p: p.fit().recommend(k=1, exclude=None),
    "score": lambda p: p.fit().score(p.tensor),
}  # fmt: skip

# Public functions that are not about people.
NOT_OF_PEOPLE = {"people_needed", "show_versions", "sort_parquet"}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_every_call(people, name):
    works_or_says_how_many(CALLS[name], people)


def test_every_public_function_is_called():
    public = {n for n in parafair.__all__ if inspect.isfunction(getattr(parafair, n))}
    assert public <= {name.split(" ")[0] for name in CALLS} | NOT_OF_PEOPLE


def test_too_few_people_are_told_how_many_are_needed():
    with pytest.raises(ValueError, match="embedding has 2 rows, but an audit needs at least 4"):
        CALLS["audit"](People(2))
    with pytest.raises(ValueError, match="each of 2 parts of 1, 3 people needs somebody of every"):
        CALLS["split_people"](People(4))


@pytest.mark.parametrize("n", [4, 5, 6])
def test_an_audit_of_few_people_never_passes(n):
    random = np.random.default_rng(n)
    groups = np.array(["a", "b"])[np.arange(n) % 2]
    for rows in (np.arange(n)[:, None] % 2 + 0.0, random.normal(size=(n, 2))):
        for features in (groups, random.normal(size=n)):
            found = audit(rows, sensitive_features=features, **AUDITS)
            assert found.verdict() is not Verdict.PASSES
            assert "exclude an attacker who is always right" in " ".join(found.notes)
