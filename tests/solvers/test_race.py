import pytest

from parafair.solvers import LBFGS, Status, Stop, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.race import REACH, ROUNDS, Race
from parafair.solvers.result import Iteration
from tests.reference.kinds import mean_shift
from tests.solvers.test_fitting import problem_of


def history(*objectives):
    return [Iteration(value, value, 0.0, 0.0, 0.0) for value in objectives]


def flat(value, count=30):
    return history(*[value] * count)


def falling(value, each, count=30):
    """An objective that ends at a value and fell by so much per iteration."""
    return history(*(value + each * left for left in range(count - 1, -1, -1)))


def beaten(*histories, fits=None):
    race = Race(fits or (0,) * len(histories), Stop())
    return race.beaten(dict(enumerate(histories)))


def test_starts_that_still_fall_fast_stay():
    assert beaten(falling(1.0, 0.1), falling(50.0, 2.0)) == set()


def test_a_settled_start_that_is_far_behind_leaves():
    close = ROUNDS[0].close
    rate = 0.5 * ROUNDS[0].tol  # slow enough for the first round, too fast for the last
    first, near, far = (falling(value, rate) for value in (1.0, 1 + close / 4, 1 + 2 * close))
    assert beaten(first, near, far) == {2}


def test_when_all_have_settled_the_lowest_is_left():
    assert beaten(flat(1.01), flat(1.0), flat(1.02)) == {0, 2}


def test_a_start_out_of_reach_of_a_settled_one_leaves_at_once():
    slow, fast = 0.5 / REACH, 2.0 / REACH
    assert beaten(flat(1.0), falling(2.0, slow)) == {1}
    assert beaten(flat(1.0), falling(2.0, fast)) == set()
    assert beaten(flat(1.0), falling(2.0, slow, count=5)) == set()  # too early to tell


def test_a_start_that_will_pass_a_settled_one_stays_and_wins():
    assert beaten(flat(1.0), falling(0.9, 0.01)) == {0}


def test_the_lowest_start_stays_although_all_objectives_rise():
    assert beaten(falling(1.0, -1e-4), falling(1.01, -1e-4)) == {1}
    assert beaten(falling(1.0, -1e-2), flat(1.1)) != {0, 1}


def test_starts_of_other_fits_are_no_rivals():
    assert beaten(flat(1.0), flat(2.0), fits=(0, 1)) == set()
    assert beaten(flat(1.0), flat(2.0), flat(3.0), fits=(0, 1, 0)) == {2}


def test_a_beaten_member_leaves_the_batch_and_does_not_change_the_winner():
    problem = problem_of_few()
    starts = make_starts(problem, "uniform", count=3, seed=0)
    race = Race((0, 0, 1), Stop())
    found = solve_batch(problem, LBFGS(), starts=starts, stop=Stop(), race=race)
    assert [fit.status is Status.BEATEN for fit in found].count(True) == 1
    assert found[2].status is Status.CONVERGED
    winner, other = race.winners(found)
    assert other == 2
    assert found[winner].status is Status.CONVERGED
    assert found[winner].objective < found[1 - winner].objective
    assert found[1 - winner].n_iter < found[winner].n_iter
    alone = tuple(factor[[winner]] for factor in starts)
    (fit,) = solve_batch(problem, LBFGS(), starts=alone, stop=Stop())
    # A batch rounds differently, and a quasi-Newton path amplifies it.
    assert found[winner].objective == pytest.approx(fit.objective, rel=0.01)


def test_without_a_tolerance_nobody_leaves():
    problem, stop = problem_of_few(), Stop(max_iter=12, tol=0)
    starts = make_starts(problem, "uniform", count=2, seed=0)
    found = solve_batch(problem, LBFGS(), starts=starts, stop=stop, race=Race((0, 0), stop))
    assert all(fit.status is Status.OUT_OF_ITERATIONS for fit in found)


def problem_of_few():
    return problem_of(mean_shift, strength=3.0, n=40)
