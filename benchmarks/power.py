"""How many people an audit needs: rows that leak a known amount, audited again and again.

Run with ``python -m benchmarks.run power``. Two normal groups of equal size are so far apart that
the best possible attacker gains a given advantage over chance. That attacker is linear, so a linear
one is tried; an audit with more attackers has wider intervals, because they hold for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm

from parafair import Audit, audit

Row = dict[str, object]

PEOPLE = (50, 100, 200, 500, 1000)
ADVANTAGES = (0.05, 0.1, 0.2)
SEEDS = range(10)


def power() -> Iterable[Row]:
    """Share of 10 audits in which the attacker is significantly off chance."""
    cases = [(people, true, seed) for people in PEOPLE for true in ADVANTAGES for seed in SEEDS]
    audits = Parallel(n_jobs=-1)(delayed(_audit)(*case) for case in cases)
    found = dict(zip(cases, audits, strict=True))
    for people in PEOPLE:
        own = {case: result for case, result in found.items() if case[0] == people}
        row: Row = {"people": people}
        for true in ADVANTAGES:
            results = [own[people, true, seed] for seed in SEEDS]
            share = np.mean([r.above_chance or r.below_chance for r in results])
            row[f"true {true:g}"] = float(share)
        widths = [np.subtract(*result.leakage_interval[::-1]) for result in own.values()]
        yield row | {"half interval": float(np.median(widths)) / 2}


def _audit(people: int, advantage: float, seed: int) -> Audit:
    random = np.random.default_rng((seed, people))
    groups = np.resize(["a", "b"], people)
    shift = 2 * norm.ppf(0.5 + advantage)
    rows = random.normal(size=(people, 2)) + np.outer(groups == "b", [shift, 0])
    settings = {"attackers": ["linear"], "permutations": 1, "random_state": seed}
    return audit(rows, sensitive_features=groups, **settings)
