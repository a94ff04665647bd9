import numpy as np

TAUS = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)


def people(*sizes, columns=3, seed=0):
    """Rows and labels of groups that differ in mean and spread, in mixed order."""
    random = np.random.default_rng(seed)
    rows = [
        (1 + 0.5 * g) * random.standard_normal((size, columns)) + 0.7 * g
        for g, size in enumerate(sizes)
    ]
    labels = np.repeat([f"g{g}" for g in range(len(sizes))], sizes)
    order = random.permutation(len(labels))
    return np.concatenate(rows)[order], labels[order]


def split(rows, labels):
    return [rows[labels == label] for label in np.unique(labels)]


def relative(loss_per_person, rows):
    """The relative residual of a loss."""
    return (loss_per_person * len(rows) / (rows**2).sum()) ** 0.5
