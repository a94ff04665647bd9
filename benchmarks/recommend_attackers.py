"""Attackers of publications on fair recommenders, scored as there.

Rows of users are standardized first, because the scale of a factor is arbitrary. Chance is 0.5 for
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample
from torch import Tensor, nn


def theirs(rows: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    """Return the scores of all attackers; groups are 0 and 1."""
    return {
        "dropout linear": dropout_linear(rows, groups),
        "seven layers, best epoch": seven_layers(rows, groups),
        "network 100": _balanced(
            rows,
            groups,
            make_pipeline(StandardScaler(), MLPClassifier((100,), alpha=1.0, random_state=0)),
        ),
        "boosted trees": _balanced(
            rows, groups, HistGradientBoostingClassifier(max_depth=4, max_iter=50, random_state=0)
        ),
    }


def dropout_linear(rows: np.ndarray, groups: np.ndarray) -> float:
    """One linear layer after 50 % input dropout, balanced accuracy of 5 folds (Adv-MultVAE)."""
    scores = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(rows, groups):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Dropout(0.5), nn.Linear(rows.shape[1], 2)).double()
        inputs = _standardized(rows, train)
        for _ in _epochs(network, inputs[train], groups[train], 50):
            pass
        scores.append(balanced_accuracy_score(groups[test], _answers(network, inputs[test])))
    return float(np.mean(scores))


def seven_layers(rows: np.ndarray, groups: np.ndarray) -> float:
    """Seven layers, AUC of hard labels at the best epoch on the test users (PFRec).

    It is optimistic: the test users choose the epoch, so it is above chance if nothing leaks.
    """
    train, test = train_test_split(
        np.arange(len(rows)), test_size=0.2, stratify=groups, random_state=0
    )
    torch.manual_seed(0)
    sizes = [rows.shape[1], 64, 64, 32, 32, 16, 16]
    layers: list[nn.Module] = []
    for one, two in pairwise(sizes):
        layers += [nn.Linear(one, two), nn.LeakyReLU(), nn.Dropout(0.2)]
    network = nn.Sequential(*layers, nn.Linear(sizes[-1], 2)).double()
    inputs = _standardized(rows, train)
    # The AUC of hard labels is the balanced accuracy.
    return max(
        float(balanced_accuracy_score(groups[test], _answers(network, inputs[test])))
        for _ in _epochs(network, inputs[train], groups[train], 40)
    )


def _balanced(rows: np.ndarray, groups: np.ndarray, model: object) -> float:
    """Balanced accuracy of 5 folds x 3, on as many of each group (attribute unlearning)."""
    fewest = int(np.bincount(groups).min())
    chosen = np.concatenate(
        [
            resample(np.flatnonzero(groups == g), replace=False, n_samples=fewest, random_state=0)
            for g in (0, 1)
        ]
    )
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0)
    scores = [
        balanced_accuracy_score(
            groups[chosen[test]],
            model.fit(rows[chosen[train]], groups[chosen[train]]).predict(rows[chosen[test]]),
        )
        for train, test in folds.split(chosen, groups[chosen])
    ]
    return float(np.mean(scores))


def _standardized(rows: np.ndarray, train: np.ndarray) -> Tensor:
    spread = rows[train].std(0)
    return torch.from_numpy((rows - rows[train].mean(0)) / np.where(spread > 0, spread, 1))


def _epochs(network: nn.Module, inputs: Tensor, groups: np.ndarray, epochs: int) -> Iterator[None]:
    """Train in batches of 128, with equal weights of the groups; yield after each epoch."""
    labels = torch.from_numpy(groups)
    weights = 1 / torch.bincount(labels).double()
    loss = nn.CrossEntropyLoss(weights)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        network.train()
        for batch in torch.randperm(len(inputs), generator=generator).split(128):
            optimizer.zero_grad()
            loss(network(inputs[batch]), labels[batch]).backward()
            optimizer.step()
        yield


def _answers(network: nn.Module, inputs: Tensor) -> np.ndarray:
    network.eval()
    with torch.no_grad():
        return network(inputs).argmax(1).numpy()
