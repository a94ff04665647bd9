import pytest

from parafair.model.methods import METHODS, resolve_method
from parafair.penalties import (
    HSIC,
    KHSIC,
    Bhattacharyya,
    Invariant,
    MeanMatching,
    MutualInformation,
    Orthogonality,
    Transport,
)
from parafair.penalties.postprocessing import CorrelationRemoval, MomentMatching
from parafair.penalties.registry import PENALTIES, SCORE_PENALTIES

PENALIZED = [*PENALTIES, *SCORE_PENALTIES]


def test_names_are_shorthands():
    assert resolve_method("none") is None
    assert resolve_method("invariant", 2.0) == Invariant(2.0)
    assert resolve_method("khsic", 2.0) == KHSIC(2.0)
    assert resolve_method("hsic") == HSIC(1.0)
    assert resolve_method("fatr", 0.1) == Orthogonality(0.1, ridge=0.0)
    assert resolve_method("correlation-removal") == CorrelationRemoval()
    assert resolve_method("moment-matching") == MomentMatching()
    assert resolve_method("transport") == Transport()
    assert resolve_method("mean-matching", 2.0) == MeanMatching(2.0)
    assert resolve_method("bhattacharyya", 2.0) == Bhattacharyya(2.0)
    assert resolve_method("mutual-information") == MutualInformation()


def test_objects_have_their_own_strength():
    for method in (Orthogonality(0.1, ridge=1.0), MomentMatching()):
        assert resolve_method(method) is method
        with pytest.raises(ValueError, match="has its own settings; set it there"):
            resolve_method(method, 2.0)


@pytest.mark.parametrize("method", ["kshic", "khsci", "kernel-hsic"])
def test_unknown_names_get_the_nearest(method):
    with pytest.raises(ValueError, match="method must be one of invariant.*did you mean 'k?hsic'"):
        resolve_method(method)


def test_other_objects_are_refused():
    with pytest.raises(ValueError, match="method must be one of .*; got 3"):
        resolve_method(3)


@pytest.mark.parametrize("method", PENALIZED)
def test_a_bad_strength_is_refused_whatever_the_penalty(method):
    with pytest.raises(ValueError, match="strength must be a finite number of at least 0, got -1"):
        resolve_method(method, -1)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in PENALIZED])
def test_a_strength_without_a_penalty_is_refused(method):
    with pytest.raises(ValueError, match=f"strength=2.0 was given, but method='{method}' has no"):
        resolve_method(method, 2.0)
