"""Two networks as scikit-learn estimators: the paper's, and a tuned one.

Both are written by hand. The paper's must follow the paper: plain stochastic gradient descent
with a fixed step and 1500 hidden units, without early stopping. The tuned one is stronger than
scikit-learn's if there are few people: with 200, its accuracy on XOR is 0.85, while
`MLPClassifier(early_stopping=True)` reaches 0.69, and 0.71 with a grid of weight decays. The grid
takes longer, because its networks are not trained as one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import KFold
from torch import Tensor
from torch.nn import functional

from parafair.audits.paper_network import Network
from parafair.data.randomness import as_random

# Steps between two validations.
PAUSE = 10


class _NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """Shared by all networks: targets as tensors, outputs as probabilities or numbers."""

    random_state: int | None

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows of shape (n, columns) and one category or number per row."""
        random = as_random(self.random_state)
        rows = torch.from_numpy(np.array(X, dtype=np.float32))
        self._train(rows, self._targets(np.asarray(y)), random)
        return self

    def _targets(self, values: NDArray[Any]) -> Tensor:
        """Return codes as integers, or standardized numbers as a column."""
        if isinstance(self, ClassifierMixin):
            self.classes_, codes = np.unique(values, return_inverse=True)
            return torch.from_numpy(codes.astype(np.int64))
        self.mean_, self.scale_ = float(values.mean()), float(values.std()) or 1.0
        numbers = (values - self.mean_) / self.scale_
        return torch.from_numpy(numbers.astype(np.float32))[:, None]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n, classes)."""
        return self._outputs(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a class or a number for each row, shape (n,)."""
        outputs = self._outputs(X)
        if isinstance(self, ClassifierMixin):
            return np.asarray(self.classes_[outputs.argmax(1)])
        return np.asarray(self.mean_ + self.scale_ * outputs[:, 0])

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        rows = torch.from_numpy(np.array(X, dtype=np.float32))
        with torch.no_grad():
            outputs = self._forward(rows)
        # After an overflow, predict equal probabilities or the mean.
        return np.asarray(np.nan_to_num(outputs.double().numpy(), posinf=0.0, neginf=0.0))

    def _width(self) -> int:
        return len(self.classes_) if isinstance(self, ClassifierMixin) else 1

    def _train(self, rows: Tensor, targets: Tensor, random: np.random.RandomState) -> None:
        raise NotImplementedError

    def _forward(self, rows: Tensor) -> Tensor:
        raise NotImplementedError


class _PaperNetwork(_NetworkEstimator):
    """The paper's network: one hidden layer, stochastic gradient descent, a fixed step.

    Args:
        hidden: Width of the hidden layer.
        epochs: Passes over the rows.
        learning_rate: Step of the descent.
        batch_size: Rows per step.
        random_state: Seed of the initial weights and of the order of the rows.
    """

    def __init__(
        self,
        *,
        hidden: int = 1500,
        epochs: int = 100,
        learning_rate: float = 0.003,
        batch_size: int = 32,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.random_state = random_state

    def _train(self, rows: Tensor, targets: Tensor, random: np.random.RandomState) -> None:
        self.network_ = Network.train(
            rows,
            targets,
            outputs=self._width(),
            hidden=self.hidden,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            random=random,
        )

    def _forward(self, rows: Tensor) -> Tensor:
        outputs = self.network_.scores(rows)
        return outputs.softmax(1) if isinstance(self, ClassifierMixin) else outputs


class PaperNetworkClassifier(ClassifierMixin, _PaperNetwork):  # type: ignore[misc]
    """The paper's network for categories; see its base class."""


class PaperNetworkRegressor(RegressorMixin, _PaperNetwork):  # type: ignore[misc]
    """The paper's network for numbers; see its base class."""


class _TunedNetwork(_NetworkEstimator):
    """Two hidden layers trained by Adam, with weight decay and length chosen by validation.

    For each weight decay, one network per inner fold is trained without that fold and stopped
    at its smallest loss on the fold. The decay with the smallest mean loss is selected, and the
    outputs of its networks are averaged. All networks are trained as one batch.

    Args:
        hidden: Width of both hidden layers.
        decays: Weight decays to choose from.
        inner_folds: Networks per weight decay.
        steps: Steps of Adam.
        learning_rate: Adam's step at the start; it falls to zero along a cosine.
        batch_size: Rows per step, at most.
        random_state: Seed of the initial weights, the inner folds and the batches.
    """

    def __init__(
        self,
        *,
        hidden: int = 48,
        decays: tuple[float, ...] = (0.1, 1.0, 3.0),
        inner_folds: int = 3,
        steps: int = 150,
        learning_rate: float = 0.02,
        batch_size: int = 128,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.decays = decays
        self.inner_folds = inner_folds
        self.steps = steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.random_state = random_state

    def _train(self, rows: Tensor, targets: Tensor, random: np.random.RandomState) -> None:
        folds = min(self.inner_folds, len(rows))
        splits = [
            tuple(map(torch.from_numpy, split))
            for split in KFold(folds, shuffle=True, random_state=random).split(rows)
        ]
        generator = torch.Generator().manual_seed(int(random.randint(2**31)))
        widths = (rows.shape[1], self.hidden, self.hidden, self._width())
        # Members of the batch: decay by decay, and within each fold by fold.
        layers = _draw_layers(len(self.decays) * folds, widths, generator)
        best, kept = rows.new_full((len(layers[0]),), torch.inf), [x.clone() for x in layers]
        for _ in self._descend(layers, rows, targets, [train for train, _ in splits], generator):
            held_out = self._validate(layers, rows, targets, [test for _, test in splits])
            better = held_out < best
            best[better] = held_out[better]
            for old, new in zip(kept, layers, strict=True):
                old.data[better] = new.data[better]
        choice = int(best.reshape(-1, folds).mean(1).argmin())
        self.layers_ = [x.detach()[choice * folds : (choice + 1) * folds] for x in kept]

    def _descend(
        self,
        layers: list[Tensor],
        rows: Tensor,
        targets: Tensor,
        folds: list[Tensor],
        generator: torch.Generator,
    ) -> Iterator[int]:
        """Take Adam's steps on all members; yield before each validation."""
        optimizer = torch.optim.Adam(layers, lr=self.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        decays = rows.new_tensor(self.decays).repeat_interleave(len(folds))[:, None, None]
        size = min(self.batch_size, *map(len, folds))
        for step in range(1, self.steps + 1):
            chosen = [
                fold
                if len(fold) == size
                else fold[torch.randperm(len(fold), generator=generator, device="cpu")[:size]]
                for fold in folds
            ]
            batch = torch.stack(chosen).repeat(len(self.decays), 1)
            loss = self._losses(_forward(layers, rows[batch]), targets[batch]).sum()
            for layer, gradient in zip(layers, torch.autograd.grad(loss, layers), strict=True):
                layer.grad = gradient
            optimizer.step()
            with torch.no_grad():  # decoupled weight decay: Loshchilov and Hutter, 2019
                for layer in layers[::2]:
                    layer.mul_(1 - schedule.get_last_lr()[0] * decays)
            schedule.step()
            if step % PAUSE == 0:
                yield step

    def _validate(
        self, layers: list[Tensor], rows: Tensor, targets: Tensor, folds: list[Tensor]
    ) -> Tensor:
        """Return the mean loss of every member on its held-out fold, shape (members,)."""
        losses = rows.new_empty(len(self.decays), len(folds))
        with torch.no_grad():
            for i, fold in enumerate(folds):
                own = [layer[i :: len(folds)] for layer in layers]
                outputs = _forward(own, rows[fold].expand(len(self.decays), -1, -1))
                truth = targets[fold].expand(len(self.decays), *targets[fold].shape)
                losses[:, i] = self._losses(outputs, truth)
        return losses.flatten()

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of each member, shape (members,)."""
        if isinstance(self, ClassifierMixin):
            return functional.cross_entropy(outputs.mT, targets, reduction="none").mean(1)
        return (outputs - targets).square().mean((1, 2))

    def _forward(self, rows: Tensor) -> Tensor:
        outputs = _forward(self.layers_, rows.expand(len(self.layers_[0]), -1, -1))
        if isinstance(self, ClassifierMixin):
            outputs = outputs.softmax(-1)
        return outputs.mean(0)


class TunedNetworkClassifier(ClassifierMixin, _TunedNetwork):  # type: ignore[misc]
    """The tuned network for categories; see its base class."""


class TunedNetworkRegressor(RegressorMixin, _TunedNetwork):  # type: ignore[misc]
    """The tuned network for numbers; see its base class."""


def _draw_layers(members: int, widths: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
    """Return weights and biases in turn: shapes (members, in, out) and (members, 1, out)."""
    layers = []
    for inputs, outputs in pairwise(widths):
        shape = (members, inputs, outputs)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
        weights = drawn * (2 / inputs) ** 0.5
        layers += [weights, weights.new_zeros(members, 1, outputs)]
    layers[-2] *= 0.1  # the first outputs are near zero
    return [layer.requires_grad_() for layer in layers]


def _forward(layers: list[Tensor], rows: Tensor) -> Tensor:
    """Return the outputs of every member, shape (members, n, outputs)."""
    for weights, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        rows = torch.baddbmm(bias, rows, weights).relu()
    return torch.baddbmm(layers[-1], rows, layers[-2])
