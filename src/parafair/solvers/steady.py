"""Fits of few people, whose result does not depend on the number of threads."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from parafair.solvers.problem import Problem
from parafair.threads import one_thread

# Up to this many entries, and people, who are compared in one chunk then, a second thread saves
# less than a tenth of a step. While another process is busy, threads that share small operations
# wait for each other: a fit then took ten times as long.
MOST_ENTRIES, MOST_PEOPLE = 4_000_000, 1500


def steadily(problem: Problem) -> AbstractContextManager[None]:
    """Return a context in which a fair fit takes one thread, if more would hardly be faster.

    Sums round differently with more threads, and the path of a fit amplifies that.
    """
    few = problem.count <= MOST_ENTRIES and problem.shape[problem.mode] <= MOST_PEOPLE
    return one_thread() if few else nullcontext()
