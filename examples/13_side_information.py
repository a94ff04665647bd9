"""A table of people beside a tensor: it completes few entries, and the embedding hides what it has.

150 people have few entries in a tensor of 8 subjects and 6 days, and five numbers each in a table
that follows from the same rows. One more column of the table reveals the group. Run it with

    python examples/13_side_information.py

It takes half a minute on one core.
"""

import warnings

import numpy as np

from parafair import FairCP, audit

ATTACKERS = ("linear", "forest")
PEOPLE, OBSERVED = 150, 0.07


def people():
    """Return a tensor, a table and groups that share rows of three numbers."""
    random = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], PEOPLE // 2)
    rows = random.normal(size=(PEOPLE, 3))
    rows[:, 0] += 1.5 * (groups == "a")
    tensor = np.einsum("ir,jr,kr->ijk", rows, *(random.normal(size=(n, 3)) for n in (8, 6)))
    table = rows @ random.normal(size=(3, 5))
    tensor += 0.1 * tensor.std() * random.normal(size=tensor.shape)
    return tensor, table + 0.1 * table.std() * random.normal(size=table.shape), groups


def complete(tensor, table):
    """Print the error of the missing entries without and with the table."""
    observed = np.random.default_rng(1).random(tensor.shape) < OBSERVED
    observed[0] = False  # nothing is known of the first person but the table
    holes = np.where(observed, tensor, np.nan)
    print(f"{'side_weight':>11} {'ridge':>6} {'error':>7} {'of the first person':>20}")
    for weight in (0, 0.1, 1, 10):
        model = FairCP(3, method="none", n_init=5, side_weight=weight).fit(holes, side=table)
        found = model.inverse_transform(model.embedding_)
        errors = [
            np.linalg.norm((found - tensor)[cells]) / np.linalg.norm(tensor[cells])
            for cells in (~observed, np.s_[:1])
        ]
        print(f"{weight:11g} {model.ridge_:6g} {errors[0]:7.3f} {errors[1]:20.3f}")


def hide(tensor, table, groups):
    """Print what an attacker finds in embeddings of complete entries and the table."""
    leak = (groups == "a") + 0.3 * np.random.default_rng(2).normal(size=PEOPLE)
    print(f"{'columns':>16} {'method':>10} {'residual':>9} {'of the table':>13} {'leakage':>8}")
    for name, side in (("five", table), ("five and a leak", np.column_stack([table, leak]))):
        for method in ("none", "invariant"):
            model = FairCP(3, method=method).fit(tensor, sensitive_features=groups, side=side)
            found = audit(
                model.embedding_, sensitive_features=groups, attackers=ATTACKERS, permutations=20
            )
            print(
                f"{name:>16} {method:>10} {model.fit_.residual:9.3f} "
                f"{model.fit_.side_residual:13.3f} {found.leakage:8.3f}"
            )


def main():
    """Complete entries, then hide groups."""
    warnings.simplefilter("ignore")
    tensor, table, groups = people()
    complete(tensor, table)
    print()
    hide(tensor, table, groups)


if __name__ == "__main__":
    main()
