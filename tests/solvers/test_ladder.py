from dataclasses import replace

import pytest
import torch

from parafair.errors import Interrupted
from parafair.penalties import Invariant
from parafair.solvers import LBFGS, Status, Stop, decompose_from, decompose_plain, solve_batch
from parafair.solvers.checkpoints import checkpointing
from parafair.solvers.init import make_starts
from parafair.solvers.ladder import LEAST, STEP, Ladder
from parafair.solvers.loop import Counted
from parafair.solvers.race import ROUNDS
from parafair.team import ALONE
from tests.reference.kinds import equal_moments, mean_shift
from tests.solvers.test_fitting import STOP, plain_of, problem_of


def well_begun(problem):
    """The best of several plain decompositions, as `FairCP` begins."""
    starts = make_starts(problem, "uniform", count=5, seed=0)
    (plain,) = decompose_plain(problem, starts=starts, stop=Stop(), each=5)
    return plain


def ladder_of(problem):
    return Ladder(problem, LBFGS(), STOP, Counted(None))


def test_a_rung_begins_at_the_one_below():
    problem = problem_of(mean_shift)
    (plain,) = plain_of(problem)
    (found,) = ladder_of(problem).contenders([plain], [1024.0])
    factors, n_iter = plain.cp.factors, 0
    for strength in (64.0, 256.0):
        own, starts = replace(problem, penalty=Invariant(strength)), [f[None] for f in factors]
        (fit,) = solve_batch(own, LBFGS(), starts=tuple(starts), stop=ROUNDS[0].stop(STOP))
        factors, n_iter = fit.cp.factors, n_iter + fit.n_iter
    assert found.n_iter == n_iter
    for begun, expected in zip(found.factors, factors, strict=True):
        torch.testing.assert_close(begun, expected, rtol=1e-2, atol=1e-2)  # in single precision


def test_weak_penalties_begin_at_the_plain_decomposition():
    problem = problem_of(mean_shift)
    (plain,) = plain_of(problem)
    ladder = ladder_of(problem)
    (start,) = ladder.contenders([plain], [STEP * LEAST * 0.99])
    assert start.n_iter == 0
    assert all(map(torch.equal, start.factors, plain.cp.factors))
    assert not ladder.rungs


def test_fits_share_rungs():
    problem = problem_of(mean_shift)
    one, two = plain_of(problem, seeds=(0, 1))
    ladder = ladder_of(problem)
    starts = ladder.contenders([one, one, two, one], [4096.0, 1024.0, 1024.0, 64.0])
    rungs = sorted((plain is one, strength) for plain, strength in ladder.rungs)
    assert rungs == [(False, 64.0), (False, 256.0), (True, 64.0), (True, 256.0), (True, 1024.0)]
    assert starts[0].n_iter > starts[1].n_iter > starts[3].n_iter == 0
    before = dict(ladder.rungs)
    ladder.contenders([one], [1024.0])
    assert before == ladder.rungs  # nothing is computed twice


def test_a_plain_decomposition_that_diverged_has_no_rungs():
    problem = problem_of(mean_shift)
    (plain,) = plain_of(problem)
    (start,) = ladder_of(problem).contenders([replace(plain, status=Status.DIVERGED)], [300.0])
    assert start.n_iter == 0


def test_an_interruption_says_which_rung_it_was():
    problem = problem_of(mean_shift)
    (plain,) = plain_of(problem)

    def interrupt(number, objective):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="at strength 50") as caught:
        decompose_from(
            replace(problem, penalty=Invariant(200.0)),
            LBFGS(),
            plain=[plain],
            stop=STOP,
            on_iteration=interrupt,
        )
    assert caught.value.fit.status is Status.INTERRUPTED


def test_a_strong_penalty_ends_as_low_as_a_path_of_strengths():
    # Straight from the plain decomposition, or from its repair, the objective ends at 0.51 or 0.42.
    problem = problem_of(equal_moments, seed=2, strength=4096.0, n=150)
    plain = well_begun(problem)
    (fit,) = decompose_from(problem, LBFGS(), plain=[plain], stop=Stop())
    factors = plain.cp.factors
    for power in range(13):
        own = replace(problem, penalty=Invariant(2.0**power))
        starts = tuple(factor[None] for factor in factors)
        (last,) = solve_batch(own, LBFGS(), starts=starts, stop=Stop())
        factors = last.cp.factors
    assert fit.objective < 1.01 * last.objective


def test_shared_rungs_are_continued_after_an_interruption(tmp_path):
    problem = problem_of(mean_shift)
    (plain,) = plain_of(problem)

    def starts(on_iteration=None):
        """Where fits of two strengths on one ladder begin, with checkpoints."""
        ladder = Ladder(problem, LBFGS(), STOP, Counted(on_iteration))
        settings = {"seconds": 0.0, "team": ALONE, "settings": {}, "device": torch.device("cpu")}
        with checkpointing(tmp_path / "checkpoint", **settings):
            return [ladder.contenders([plain], [s])[0] for s in (256.0, 1024.0)]

    seen = []

    def interrupt(number, objective):
        seen.append(number)
        if len(seen) == first.n_iter + 3:  # inside the second rung
            raise KeyboardInterrupt

    first, second = starts()
    with pytest.raises(Interrupted, match="at strength 256"):
        starts(interrupt)
    resumed = starts()
    for found, expected in zip(resumed, (first, second), strict=True):
        assert found.n_iter == expected.n_iter
        assert all(map(torch.equal, found.factors, expected.factors))
