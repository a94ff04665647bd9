"""How many people an audit needs: rows that leak a known amount, audited again and again.

Run with ``python -m benchmarks.run power``. Two normal groups of equal size are so far apart that
the best possible attacker gains a given advantage over chance. That attacker is linear, so a linear
one is tried; an audit with more attackers has wider intervals, because they hold for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.stats import norm

from parafair import Audit, audit

Row = dict[str, object]

PEOPLE = (50, 100, 200, 500, 1000, 2000)
ADVANTAGES = (0.0, 0.05, 0.1, 0.2)
SEEDS = range(20)


def power() -> Iterable[Row]:
    """Share of 20 audits in which the attacker is significantly off chance."""
    for people in PEOPLE:
        found = dict.fromkeys(ADVANTAGES, 0)
        halves = []
        for advantage in ADVANTAGES:
            for seed in SEEDS:
                result = _audit(people, advantage, seed)
                found[advantage] += result.above_chance or result.below_chance
                low, high = result.leakage_interval
                halves.append((high - low) / 2)
        shares = {f"true {advantage:g}": found[advantage] / len(SEEDS) for advantage in ADVANTAGES}
        yield {"people": people, **shares, "half interval": float(np.median(halves))}


def _audit(people: int, advantage: float, seed: int) -> Audit:
    random = np.random.default_rng((seed, people))
    groups = np.resize(["a", "b"], people)
    shift = 2 * norm.ppf(0.5 + advantage)
    rows = random.normal(size=(people, 2)) + np.outer(groups == "b", [shift, 0])
    settings = {"attackers": ["linear"], "permutations": 1, "random_state": seed}
    return audit(rows, sensitive_features=groups, **settings)
