import numpy as np
import pytest
import torch

from parafair.errors import Interrupted
from parafair.penalties import HSIC
from parafair.solvers import BlockDescent, GradientBCD, solve_batch
from parafair.solvers.result import Status, Stop
from tests.conftest import small_problem
from tests.solvers.conftest import starts_of


def test_members_leave_when_they_are_done():
    problem = small_problem()
    starts = starts_of(problem, 4)
    batch = solve_batch(problem, BlockDescent(), starts=starts, stop=Stop(300, 1e-6))
    assert len({fit.n_iter for fit in batch}) > 1  # so removal did take place
    for member, fit in enumerate(batch):
        (alone,) = solve_batch(
            problem,
            BlockDescent(),
            starts=tuple(factor[member : member + 1] for factor in starts),
            stop=Stop(300, 1e-6),
        )
        assert fit.status is alone.status is Status.CONVERGED
        assert fit.n_iter == alone.n_iter
        assert fit.objective == pytest.approx(alone.objective, rel=1e-9)


def test_a_diverging_member_does_not_disturb_the_others():
    problem = small_problem(HSIC(20.0))
    good = starts_of(problem)
    wild = tuple(1e3 * factor for factor in good)
    both = tuple(torch.cat(pair) for pair in zip(wild, good, strict=True))
    solver = GradientBCD((0.02, 0.02), inner_steps=20, cap=False)
    diverged, fine = solve_batch(problem, solver, starts=both, stop=Stop(5, 0))
    assert diverged.status is Status.DIVERGED
    (alone,) = solve_batch(problem, solver, starts=good, stop=Stop(5, 0))
    assert fine.status is Status.OUT_OF_ITERATIONS
    assert fine.objective == pytest.approx(alone.objective, rel=1e-12)


def test_history_has_one_entry_per_iteration_and_the_start():
    seen = []
    problem = small_problem(HSIC(1.0))
    (fit,) = solve_batch(
        problem,
        BlockDescent(),
        starts=starts_of(problem),
        stop=Stop(4, 0),
        on_iteration=lambda number, objective: seen.append((number, float(objective.value))),
    )
    assert [number for number, _ in seen] == [1, 2, 3, 4]
    assert [value for _, value in seen] == [entry.objective for entry in fit.history[1:]]
    for entry in fit.history:
        assert entry.objective == pytest.approx(entry.loss + entry.penalty)
    assert all(np.diff([entry.seconds for entry in fit.history]) >= 0)


def test_interruption_keeps_the_last_iteration():
    problem = small_problem()

    def interrupt(number, objective):
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted after 3 iterations") as caught:
        solve_batch(
            problem,
            BlockDescent(),
            starts=starts_of(problem),
            stop=Stop(9, 0),
            on_iteration=interrupt,
        )
    fit = caught.value.fit
    assert fit.status is Status.INTERRUPTED
    judged = problem.evaluate([factor[None] for factor in fit.cp.factors])
    assert float(judged.value) == pytest.approx(fit.objective)


def test_time_limit():
    problem = small_problem()
    (fit,) = solve_batch(
        problem,
        BlockDescent(),
        starts=starts_of(problem),
        stop=Stop(10_000, 0, max_seconds=0.05),
    )
    assert fit.status is Status.OUT_OF_TIME


def test_a_start_that_overflows_is_refused():
    problem = small_problem()
    huge = tuple(torch.full_like(factor, 1e200) for factor in starts_of(problem))
    with pytest.raises(ValueError, match="not finite at the start"):
        solve_batch(problem, GradientBCD(), starts=huge)
