"""Seeds and random number generators as a caller gives them: the one place that reads them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None

# The first seed that is too large for torch.
SEEDS = 2**63


def as_random(random_state: RandomState) -> np.random.RandomState:
    """Return the generator of a `random_state`; NumPy's global one is never used.

    Args:
        random_state: A seed, a generator of NumPy, which is advanced, or None for a new seed.
    """
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    if random_state is None:
        return np.random.RandomState()
    seed = _check_seed(random_state)
    # The seeds that NumPy's RandomState takes give the same numbers as there.
    if seed < 2**32:
        return np.random.RandomState(seed)
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


def as_seed(random_state: RandomState) -> int:
    """Return a seed as it is, or one that is drawn from a generator."""
    if random_state is None or isinstance(
        random_state, (np.random.RandomState, np.random.Generator)
    ):
        return int(as_random(random_state).randint(2**31))
    return _check_seed(random_state)


def _check_seed(seed: object) -> int:
    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < SEEDS:  # type: ignore[operator]
        raise ValueError(
            "random_state must be a whole number between 0 and 2**63 - 1, a RandomState or "
            f"Generator of NumPy, or None; got {seed!r}"
        )
    return int(seed)  # type: ignore[call-overload, no-any-return]
