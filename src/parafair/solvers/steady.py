"""Fits of few people, whose result does not depend on the number of threads."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from parafair.solvers.problem import Problem
from parafair.threads import one_thread

# Up to this many entries, a second thread saves less than a tenth of a step, if people are in one
# chunk. While another process is busy, threads that share small operations wait for each other: a
# fit then took ten times as long.
MOST_ALONE = 4_000_000


def steadily(problem: Problem) -> AbstractContextManager[None]:
    """Return a context in which a fair fit takes one thread, if more would hardly be faster.

    Sums round differently with more threads, and the path of a fit amplifies that.
    """
    in_parts = problem.in_chunks or problem.count > MOST_ALONE
    return nullcontext() if in_parts else one_thread()
