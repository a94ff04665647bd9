"""The measures of the paper, and bounds that follow from them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite, isnan
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import items, real_number, whole_number
from parafair.audits.paper_network import Networks
from parafair.data.arrays import as_tensor
from parafair.data.checks import as_data
from parafair.data.column import Column
from parafair.data.randomness import RandomState, as_random
from parafair.data.raw_features import check_index
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import hsic
from parafair.dependence.gram import gram_product
from parafair.dependence.kernels import Gaussian
from parafair.errors import ParafairWarning, shown

# The squares of larger entries, and their sums, overflow.
LARGEST = 1e150


def residual_fit(X: Any, cp: CPTensor | Sequence[Any]) -> float:
    """Return ``||X - [[A, B, C]]|| / ||X||``: 0 is a perfect fit, 1 is no better than zero.

    Norms are over the observed entries; NaN is missing.

    Args:
        X: The data.
        cp: Weights and factors: a `CPTensor`, TensorLy's, or a pair.
    """
    data = as_data(X, dtype=torch.float64)
    entries = data.observations
    checked = _read_cp(cp, entries.values)
    if checked.shape != data.shape:
        raise ValueError(
            f"cp has shape {checked.shape} but X has shape {data.shape}; they must be equal"
        )
    first, *others = checked.factors
    matrices = [first * checked.weights, *others]
    norm = float(torch.linalg.vector_norm(entries.values))
    if not norm:
        raise ValueError("X is zero everywhere, so its residual is undefined; pass other data")
    residual = float(entries.residual_squared(matrices) ** 0.5 / norm)
    if not isfinite(residual) or not isfinite(norm):
        raise ValueError("X or cp has entries whose squares overflow; rescale them")
    return residual


def _read_cp(cp: Any, prototype: Tensor) -> CPTensor:
    """Return weights and factors of a caller in the precision and on the device of a tensor."""
    try:
        weights, factors = cp
    except Exception as error:  # anything can come
        raise TypeError(
            f"cp must be a CPTensor or a pair of weights and factors, got {shown(cp)}; pass "
            "model.cp_, or (None, factors)"
        ) from error
    matrices = [
        as_tensor(factor, name="every factor of cp", dtype=torch.float64).to(prototype)
        for factor in items("factors of cp", factors, "matrices, one per mode")
    ]
    if len(matrices) < 2 or any(matrix.ndim != 2 for matrix in matrices):
        raise ValueError(
            "factors of cp must be at least 2 matrices, one per mode, got shapes "
            f"{[tuple(matrix.shape) for matrix in matrices]}"
        )
    checked = CPTensor.from_factors(matrices)
    if weights is None:
        return checked
    given = as_tensor(weights, name="weights of cp", dtype=torch.float64).to(prototype)
    if given.shape != checked.weights.shape:
        raise ValueError(
            f"weights of cp must have shape {tuple(checked.weights.shape)}, one number per "
            f"component, got {tuple(given.shape)}"
        )
    return CPTensor(given, checked.factors)


def orthogonality(embedding: Any, *, sensitive_features: Any) -> float:
    """Return FATR's ``||A.T S||``, with ``S`` encoded and not centered."""
    rows, sensitive = _measured(embedding, sensitive_features)
    return float(torch.linalg.matrix_norm(rows.mT @ sensitive.encode(prototype=rows)))


def khsic(embedding: Any, *, sensitive_features: Any, gamma: float = 1.0) -> float:
    """Return the paper's ``rho = <HKH, HLH> / n**2`` with Gaussian kernels.

    Rescaling the embedding changes it; a small value is not a proof of independence.
    """
    rows, sensitive = _measured(embedding, sensitive_features)
    return float(hsic.khsic(rows, sensitive.encode(prototype=rows), gamma=gamma))


def normalized_khsic(embedding: Any, *, sensitive_features: Any, gamma: float = 1.0) -> float:
    """Return the cosine between the two centered Gram matrices, between 0 and 1."""
    rows, sensitive = _measured(embedding, sensitive_features)
    kernels = (Gaussian(gamma), Gaussian(gamma))
    encoded = sensitive.encode(prototype=rows)
    return float(hsic.centered_alignment(rows, encoded, kernels=kernels))


@dataclass(frozen=True)
class Unfairness:
    """How well the paper's network predicts the groups of held-out people.

    Attributes:
        accuracy: Share of correct predictions.
        balanced_accuracy: Mean over the groups of the share of correct predictions.
        majority: Share of the largest group among the held-out people: the accuracy of always
            predicting it, to which a network without information converges.
        groups: Number of groups.
    """

    accuracy: float
    balanced_accuracy: float
    majority: float
    groups: int

    @property
    def value(self) -> float:
        """The paper's figure: accuracy minus ``1 / groups`` (0.5 for two groups)."""
        return self.accuracy - 1 / self.groups

    @property
    def floor(self) -> float:
        """The limit of the paper's figure for an embedding without information."""
        return self.majority - 1 / self.groups


def unfairness(embedding: Any, *, sensitive_features: Any, **settings: Any) -> Unfairness:
    """Return the result of `predict_groups`, and warn if its network diverged.

    Args:
        embedding: One row per person.
        sensitive_features: A single categorical feature.
        settings: Further arguments of `predict_groups`.
    """
    found = predict_groups(embedding, sensitive_features=sensitive_features, **settings)
    if isnan(found.accuracy):
        warnings.warn(
            "the network of unfairness diverged, so its figures are undefined (nan): the columns "
            "are too large for learning_rate; rescale the embedding or lower learning_rate",
            ParafairWarning,
            stacklevel=2,
        )
    return found


def predict_groups(
    embedding: Any,
    *,
    sensitive_features: Any,
    test_size: float = 0.25,
    hidden: int = 1500,
    epochs: int = 100,
    learning_rate: float = 0.003,
    batch_size: int = 32,
    random_state: RandomState = 0,
) -> Unfairness:
    """Train the paper's two-layer network to predict the groups, and test it.

    ``softmax(relu(A W1 + b) W2)`` on a random split, by stochastic gradient descent on the
    cross entropy. The paper trains on 75 % of the rows (90 % for the contraceptive data) for
    100 epochs. It does not state the batch size or the initialization; here they are 32 and
    PyTorch's default for linear layers. The columns are not standardized, so the figure depends
    on their scale; the attackers of an audit do not.

    Args:
        embedding: One row per person, shape (n, rank).
        sensitive_features: One categorical feature.
        test_size: Share of held-out people.
        hidden: Width of the hidden layer.
        epochs: Passes over the training rows.
        learning_rate: Step of the descent.
        batch_size: Rows per step.
        random_state: Seed of the split, the initial weights and the order of the rows.
    """
    hidden, epochs = whole_number("hidden", hidden), whole_number("epochs", epochs)
    batch_size = whole_number("batch_size", batch_size)
    learning_rate = real_number("learning_rate", learning_rate, least=0)
    rows, sensitive = pair(embedding, sensitive_features, least=2)
    column = _single_category(sensitive)
    random = as_random(random_state)
    train, test = _split(len(rows), test_size, random)
    labels = torch.from_numpy(column.values.astype(np.int64))
    rows, groups = rows.float(), len(column.categories)
    network = Networks.train(
        rows[None, train],
        labels[None, train],
        outputs=groups,
        hidden=hidden,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        randoms=[random],
    )
    scores, truth = network.scores(rows[None, test])[0], labels[test]
    hits = (scores.argmax(1) == truth).double()
    if not torch.isfinite(scores).all():
        # Undefined: predictions after an overflow would look as if there were no information.
        hits = torch.full_like(hits, torch.nan)
    present = [group for group in range(groups) if (truth == group).any()]
    recalls = [float(hits[truth == group].mean()) for group in present]
    return Unfairness(
        accuracy=float(hits.mean()),
        balanced_accuracy=float(np.mean(recalls)),
        majority=float(truth.bincount().max() / len(truth)),
        groups=groups,
    )


def _split(count: int, test_size: float, random: np.random.RandomState) -> Any:
    """Return the places of the people to train on, and of those to test on."""
    share = real_number("test_size", test_size, above=0, most=1)
    if ceil(share * count) >= count:
        raise ValueError(
            f"test_size must leave at least one of {count} people to train on, got {share:g}; "
            "pass a smaller share"
        )
    return train_test_split(np.arange(count), test_size=share, random_state=random)


@dataclass(frozen=True)
class ParityBound:
    """The paper's bound on statistical parity, and bounds that hold.

    Attributes:
        paper: The paper's ``rho / min_g P(g)``, published as a bound on
            ``|P(C = 1 | g) - P(C = 1)|`` for every classifier. It is not a bound: if A = S is
            balanced and binary, it is 0.2 while the difference is 0.5.
        mean_gap: The largest ``|E[f | g] - E[f]|`` over groups and over functions ``f`` in the
            unit ball of the kernel's space: the maximum mean discrepancy between a group and
            all people. It holds for these functions, not for classifiers with a sharp threshold.
        group_gap: The largest ``|E[f | g] - E[f | h]|`` over pairs of groups, same functions.
        covariance: ``sqrt(HSIC)``, which bounds ``|cov(f(a), g(s))|`` for ``f`` and ``g`` in the
            unit balls of the two kernels' spaces.
    """

    paper: float
    mean_gap: float
    group_gap: float
    covariance: float


def parity_bound(embedding: Any, *, sensitive_features: Any, gamma: float = 1.0) -> ParityBound:
    """Return the paper's bound on the violation of parity, and three bounds that hold.

    Args:
        embedding: One row per person, shape (n, rank).
        sensitive_features: One categorical feature.
        gamma: Bandwidth of both Gaussian kernels.
    """
    rows, sensitive = _measured(embedding, sensitive_features)
    column = _single_category(sensitive)
    members = torch.from_numpy(np.eye(len(column.categories))[column.values]).to(rows)
    shares = members.mean(0)
    # E[f | g] - E[f] = <f, sum_i w_i k(a_i, .)> with w the difference of the two averages.
    weights = members / members.sum(0) - 1 / len(rows)
    inner = weights.mT @ gram_product(rows, Gaussian(gamma), weights)
    own = inner.diagonal()
    between = own.unsqueeze(0) + own.unsqueeze(1) - 2 * inner
    rho = khsic(rows, sensitive_features=sensitive, gamma=gamma)
    return ParityBound(
        paper=rho / float(shares.min()),
        mean_gap=float(own.max().clamp_min(0).sqrt()),
        group_gap=float(between.max().clamp_min(0).sqrt()),
        covariance=max(rho, 0.0) ** 0.5,
    )


def pair(
    embedding: Any, sensitive_features: Any, *, name: str = "embedding", least: int = 0
) -> tuple[Tensor, SensitiveFeatures]:
    """Return a checked embedding in double precision and its features.

    People without sensitive features are dropped.

    Args:
        embedding: One row per person.
        sensitive_features: The features of the people.
        name: What messages call the embedding.
        least: The smallest number of people with features.
    """
    if hasattr(type(embedding), "fit"):
        got = type(embedding).__name__
        raise TypeError(f"{name} must hold the rows of people, got a {got}; pass model.embedding_")
    check_index(sensitive_features, embedding)
    rows = as_tensor(embedding, name=name, dtype=torch.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(
            f"{name} must have one row per person and at least one column, shape (n, rank); got "
            f"{tuple(rows.shape)}"
        )
    sensitive = SensitiveFeatures.of(sensitive_features)
    if len(sensitive) != len(rows):
        raise ValueError(
            f"sensitive_features has {len(sensitive)} rows but the {name} has {len(rows)}; "
            "pass one row per person, in the same order"
        )
    if sensitive.has_features is not None:
        rows = rows[torch.from_numpy(sensitive.has_features).to(rows.device)]
    if len(rows) < least:
        raise ValueError(
            f"{name} has rows of {len(rows)} people with sensitive features, but at least {least} "
            "are needed; pass more people"
        )
    return rows, sensitive.with_features()


def _measured(embedding: Any, sensitive_features: Any) -> tuple[Tensor, SensitiveFeatures]:
    """Return at least two people's rows and features; the squares of the rows are finite."""
    rows, sensitive = pair(embedding, sensitive_features, least=2)
    largest = float(rows.abs().max())
    if largest > LARGEST:
        raise ValueError(
            f"embedding has entries whose squares overflow, up to {largest:.2g}; rescale it"
        )
    return rows, sensitive


def _single_category(sensitive: SensitiveFeatures) -> Column:
    """Return the only column if it is categorical."""
    column, *more = sensitive.columns
    if more or column.kind != "categorical":
        described = ", ".join(f"{c.name!r} ({c.kind})" for c in sensitive.columns)
        raise ValueError(
            f"sensitive_features must be one categorical feature here, got {described}; pass one "
            "column at a time, and state kinds='categorical' if its numbers are codes"
        )
    return column
