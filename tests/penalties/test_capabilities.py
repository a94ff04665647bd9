"""What a penalty of one's own gets by offering it: nothing here knows the penalties of parafair."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from parafair import FairCP, frontier, frontiers
from parafair.dependence.criterion import Criterion
from parafair.dependence.whitening import Standardized
from parafair.model.preparation import Settings
from parafair.penalties import (
    BoundAutograd,
    CalibratedPenalty,
    NoisyPenalty,
    Penalty,
    ScaleFreePenalty,
)
from parafair.solvers import LBFGS, BlockDescent
from parafair.testing import PenaltyContract

GROUPS = np.repeat(["a", "b"], 30)

# Means of two independent groups of 30 differ by less with a probability of 95 %, in standard
# deviations of a column. The criterion has its minimum at chance, so differences do not vanish.
CHANCE = 2 * (2 / 30) ** 0.5

# One start, and as many iterations as the tests need.
ROUGH = {"n_init": 1, "tol": 1e-3}


@dataclass(frozen=True)
class BoundMine:
    """A multiple of the criterion, with the coordinates in which a solver takes steps."""

    criterion: Criterion
    multiple: float

    def value(self, factor):
        return self.value_and_gradient(factor)[0]

    def value_and_gradient(self, factor):
        return tuple(self.multiple * part for part in self.criterion.value_and_gradient(factor))

    def basis(self, factor):
        return Standardized.of(factor).basis.to(factor.dtype)


@dataclass(frozen=True)
class Mine:
    """A stranger's penalty: the criterion in units of the largest entry."""

    scale_free: ClassVar[bool] = True
    default_noise: ClassVar[float] = 0.05

    strength: float = 1.0
    share: float = 0.1

    def bind(self, sensitive, tensor):
        multiple = self.strength * self.share * float(tensor.abs().max()) ** 2
        return BoundMine(self.criterion(sensitive, tensor), multiple)

    def criterion(self, sensitive, prototype):
        return Criterion(sensitive, prototype.flatten()[:0])


@dataclass(frozen=True)
class Modest:
    """A stranger's penalty that offers nothing else."""

    strength: float = 1.0

    def bind(self, sensitive, tensor):
        groups = sensitive.encode(prototype=tensor)
        return BoundAutograd(lambda factor: (groups.mT @ factor).square().sum((-2, -1)))


class TestMine(PenaltyContract):
    @pytest.fixture
    def penalty(self):
        return Mine(strength=2.0)

    def test_offers_everything(self, penalty):
        offered = (Penalty, ScaleFreePenalty, CalibratedPenalty, NoisyPenalty)
        for capability in offered:
            assert isinstance(penalty, capability)
            assert isinstance(Modest(), capability) == (capability is Penalty)


@pytest.fixture(scope="module")
def tensor():
    """Sixty people whose group shows in one component."""
    random = np.random.default_rng(0)
    people = random.standard_normal((60, 2))
    people[:, 0] += 3 * (GROUPS == "b")
    return np.einsum("ir,jr,kr->ijk", people, *random.standard_normal((2, 8, 2)))


@pytest.fixture
def fast_search(monkeypatch):
    """One strength and one attacker, so that the search for a strength takes a moment."""
    monkeypatch.setattr("parafair.model.strength.FIRST_STRENGTH", 300.0)
    monkeypatch.setattr("parafair.model.strength.LAST_STRENGTH", 300.0)
    monkeypatch.setattr("parafair.model.strength.AUDITED", ((1.0, 1.0),))
    monkeypatch.setattr("parafair.audits.panel", lambda stage: ("linear",))


def gap(rows):
    """The largest difference between the means of the groups, in standard deviations."""
    return (np.abs(rows[GROUPS == "a"].mean(0) - rows[GROUPS == "b"].mean(0)) / rows.std(0)).max()


@pytest.fixture(scope="module")
def model(tensor):
    return FairCP(2, method=Mine(1000.0), **ROUGH).fit(tensor, sensitive_features=GROUPS)


def test_the_penalty_is_paid(tensor, model):
    plain = FairCP(2, method="none").fit(tensor)
    assert gap(plain.embedding_) > 1.5
    assert gap(model.embedding_) < CHANCE


def test_a_scale_free_penalty_begins_at_plain_decompositions(tensor, model):
    assert model.fit_.counts["plain iterations"] > 0
    assert model.fit_.counts["rough iterations"] > 0
    modest = FairCP(2, method=Modest(), **ROUGH).fit(tensor, sensitive_features=GROUPS)
    assert not {"plain iterations", "rough iterations"} & set(modest.fit_.counts)


def test_a_scale_free_penalty_has_the_defaults_of_the_criterion(tensor):
    settings = [Settings.of(FairCP(2, method=method)) for method in (Mine(), Modest())]
    assert [found.n_init for found in settings] == [5, 1]
    assert [type(found.solver) for found in settings] == [LBFGS, BlockDescent]


def test_a_noisy_penalty_has_its_noise(tensor, model):
    assert model.record_.noise == 0.05
    assert model.fit_.noiseless is not None
    modest = FairCP(2, method=Modest(), **ROUGH).fit(tensor, sensitive_features=GROUPS)
    assert (modest.record_.noise, modest.fit_.noise_cost) == (0, 0)


def test_a_scale_free_penalty_takes_several_modes(tensor):
    items = np.array(["x", "y"] * 4)
    features = {0: GROUPS, 1: items}
    settings = {"method": Mine(10.0), "max_iter": 5, "tol": 0, "n_init": 1}
    model = FairCP(2, **settings).fit(tensor, sensitive_features=features)
    alone = FairCP(2, **settings).fit(tensor, sensitive_features=GROUPS)
    assert not np.allclose(model.cp_.factors[1], alone.cp_.factors[1])
    with pytest.raises(ValueError, match="several modes need a scale-free penalty"):
        FairCP(2, method=Modest()).fit(tensor, sensitive_features=features)


def test_a_scale_free_penalty_refines_new_people(tensor, model):
    new = tensor + 0.01
    shifted = model.transform(new, sensitive_features=GROUPS)
    refined = model.transform(new, sensitive_features=GROUPS, refine=True)
    assert not np.allclose(refined, shifted)
    assert gap(refined) < CHANCE
    modest = FairCP(2, method=Modest(), **ROUGH).fit(tensor, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="refine=True needs a scale-free penalty"):
        modest.transform(new, sensitive_features=GROUPS, refine=True)


@pytest.mark.usefixtures("fast_search")
@pytest.mark.slow
def test_a_calibrated_penalty_finds_its_strength(tensor):
    model = FairCP(2, method=Mine(share=0.2), strength="auto", max_leakage=0.5, **ROUGH)
    model.fit(tensor, sensitive_features=GROUPS)
    assert model.selection_.passed
    assert model.record_.strength == model.selection_.strength == 300.0
    assert [trial.strength for trial in model.selection_.trials] == [0.0, 300.0]
    with pytest.raises(ValueError, match="strength='auto' needs a penalty with a `criterion`"):
        FairCP(2, method=Modest(), strength="auto").fit(tensor, sensitive_features=GROUPS)


@pytest.mark.usefixtures("fast_search")
@pytest.mark.parametrize("strength", [None, "auto"])
@pytest.mark.slow
def test_a_model_is_saved_and_loaded_if_the_class_is_given(tensor, tmp_path, strength):
    model = FairCP(2, method=Mine(20.0, share=0.2), strength=strength, max_leakage=0.5, **ROUGH)
    model.fit(tensor, sensitive_features=GROUPS).save(tmp_path / "run")
    loaded = FairCP.load(tmp_path / "run", classes=[Mine])
    assert loaded.get_params() == model.get_params()
    assert loaded.method == Mine(20.0, share=0.2)
    assert loaded.record_ == model.record_
    for options in ({}, {"refine": True}):
        rows = [m.transform(tensor, sensitive_features=GROUPS, **options) for m in (model, loaded)]
        np.testing.assert_allclose(rows[1], rows[0])


def test_without_the_class_loading_names_it_and_the_remedy(model, tmp_path):
    model.save(tmp_path / "run")
    for others in ((), [Modest]):
        with pytest.raises(ValueError, match=r"names the class 'Mine'.*classes=\[MyPenalty\]"):
            FairCP.load(tmp_path / "run", classes=others)


@pytest.mark.slow
def test_a_model_is_picked_from_a_frontier_on_disk(tensor, tmp_path):
    settings = {"attackers": ["linear"], "repeats": 1, "permutations": 1}
    model = FairCP(2, method=Mine(share=0.2), **ROUGH)
    found = frontier(
        model,
        tensor,
        sensitive_features=GROUPS,
        strengths=[1.0, 100.0],
        audits=settings,
        limit=False,
        out=tmp_path,
    )
    assert found.methods == ("mine",)
    loaded = frontiers.load(tmp_path, classes=[Mine])
    picked = [source.pick(max_leakage=0.5) for source in (found, loaded)]
    strength = found.best(max_leakage=0.5).member.strength
    assert picked[0].method == picked[1].method == Mine(strength, share=0.2)
    assert picked[0].record_.strength == strength
    assert torch.equal(picked[0].cp_.factors[0], picked[1].cp_.factors[0])
    strong = loaded.model(loaded.points[-1])
    assert strong.method == Mine(100.0, share=0.2)
    # The picked model is a whole one.
    strong.save(tmp_path / "picked")
    again = FairCP.load(tmp_path / "picked", classes=[Mine])
    np.testing.assert_array_equal(again.embedding_, strong.embedding_)
    with pytest.raises(ValueError, match=r"names the class 'Mine'.*classes=\[MyPenalty\]"):
        frontiers.load(tmp_path).pick(max_leakage=0.5)
