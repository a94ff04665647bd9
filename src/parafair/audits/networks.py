"""Two networks as scikit-learn estimators: the paper's, and a tuned one.

Both are written by hand. The paper's must follow the paper: plain stochastic gradient descent
with a fixed step and 1500 hidden units, without early stopping. The tuned one is stronger than
scikit-learn's if there are few people: with 200, its accuracy on XOR is 0.85, while
`MLPClassifier(early_stopping=True)` reaches 0.69, and 0.71 with a grid of weight decays. The grid
takes longer, because its networks are not trained as one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import cos, pi
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import KFold
from torch import Tensor
from torch.nn import functional

from parafair.algebra.adam import Adam
from parafair.audits.paper_network import Networks
from parafair.audits.tuned_network import Members
from parafair.data.randomness import as_random

# Steps between two validations.
PAUSE = 10

# Models are trained together as long as the outputs of a hidden layer take at most this many
# bytes: enough to share the overhead of a step, and not much more than the cache of a core.
BATCH_BYTES = 2**21


class _Task(NamedTuple):
    """A model, its rows, shape (n, columns), its targets, shape (n,) or (n, 1), and its draws."""

    model: Any
    rows: Tensor
    targets: Tensor
    random: np.random.RandomState


class _NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """Shared by all networks: targets as tensors, outputs as probabilities or numbers."""

    random_state: int | None

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows of shape (n, columns) and one category or number per row."""
        self.fit_together([self], [(X, y)])
        return self

    def fit_together(self, models: Sequence[Self], sets: Sequence[tuple[Any, Any]]) -> None:
        """Train models with these settings, each on its own rows and targets.

        Every model makes its own draws, so apart from rounding it is as if trained alone.

        Args:
            models: Models that differ in their seeds alone.
            sets: The rows and the categories or numbers that each is trained on.
        """
        alike: dict[tuple[int, ...], list[_Task]] = defaultdict(list)
        for model, (X, y) in zip(models, sets, strict=True):
            rows = torch.from_numpy(np.array(X, dtype=np.float32))
            targets = model._targets(np.asarray(y))
            task = _Task(model, rows, targets, as_random(model.random_state))
            alike[(*rows.shape, model._width())].append(task)
        for (n, *_), tasks in alike.items():
            size = max(1, BATCH_BYTES // self._bytes(n))
            for first in range(0, len(tasks), size):
                self._train(tasks[first : first + size])

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

    def _bytes(self, n: int) -> int:
        """Return the size of the outputs of a hidden layer, of a model of n rows."""
        raise NotImplementedError

    def _train(self, tasks: list[_Task]) -> None:
        """Train models on equally many rows and classes, as one batch."""
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

    network_: Networks

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

    def _bytes(self, n: int) -> int:
        return 4 * self.hidden * min(self.batch_size, n)

    def _train(self, tasks: list[_Task]) -> None:
        networks = Networks.train(
            torch.stack([task.rows for task in tasks]),
            torch.stack([task.targets for task in tasks]),
            outputs=tasks[0].model._width(),
            hidden=self.hidden,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            randoms=[task.random for task in tasks],
        )
        for i, task in enumerate(tasks):
            task.model.network_ = networks.take(i)

    def _forward(self, rows: Tensor) -> Tensor:
        outputs = self.network_.scores(rows[None])[0]
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

    members_: Members

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

    def _bytes(self, n: int) -> int:
        rows = max(min(self.batch_size, n), n // self.inner_folds)
        return 4 * self.hidden * len(self.decays) * self.inner_folds * rows

    def _train(self, tasks: list[_Task]) -> None:
        n, columns = tasks[0].rows.shape
        folds = min(self.inner_folds, n)
        widths = (columns, self.hidden, self.hidden, tasks[0].model._width())
        # Places in the rows of all tasks, for each task and fold.
        training, held_out, generators, drawn = [], [], [], []
        for i, task in enumerate(tasks):
            inner = KFold(folds, shuffle=True, random_state=task.random)
            for train, test in inner.split(task.rows):
                training.append(torch.from_numpy(train + i * n))
                held_out.append(torch.from_numpy(test + i * n))
            generators.append(torch.Generator().manual_seed(int(task.random.randint(2**31))))
            drawn.append(Members.draw(len(self.decays) * folds, widths, generators[i]))
        # Task by task, within it decay by decay, then fold by fold.
        members = Members.join(drawn)
        rows = torch.cat([task.rows for task in tasks])
        targets = torch.cat([task.targets for task in tasks])
        best, kept = rows.new_full((len(members),), torch.inf), members.copy()
        for _ in self._descend(members, rows, targets, training, generators):
            losses = self._validate(members, rows, targets, held_out, folds)
            better = losses < best
            best[better] = losses[better]
            for old, new in zip(kept.layers, members.layers, strict=True):
                old[better] = new[better]
        choices = best.reshape(len(tasks), -1, folds).mean(2).argmin(1)
        for i, (task, choice) in enumerate(zip(tasks, choices.tolist(), strict=True)):
            first = (i * len(self.decays) + choice) * folds
            task.model.members_ = kept.take(slice(first, first + folds)).copy()

    def _descend(
        self,
        members: Members,
        rows: Tensor,
        targets: Tensor,
        folds: list[Tensor],
        generators: list[torch.Generator],
    ) -> Iterator[int]:
        """Take Adam's steps on all members; yield before each validation."""
        optimizer = Adam(members.layers, fused=True)
        inner = len(folds) // len(generators)
        decays = rows.new_tensor(self.decays).repeat_interleave(inner).repeat(len(generators))
        size = min(self.batch_size, *map(len, folds))
        space = members.space(size)
        for step in range(1, self.steps + 1):
            chosen = [
                fold
                if len(fold) == size
                else fold[_shuffle(len(fold), generators[i // inner])[:size]]
                for i, fold in enumerate(folds)
            ]
            batch = self._for_each_decay(torch.stack(chosen), inner)
            gradients = members.gradients(functional.embedding(batch, rows), targets[batch], space)
            rate = self.learning_rate * (1 + cos(pi * (step - 1) / self.steps)) / 2
            optimizer.step(gradients, rate)
            # Decoupled weight decay: Loshchilov and Hutter, 2019.
            shrink = 1 - rate * decays[:, None, None]
            for weights in members.layers[::2]:
                weights.mul_(shrink)
            if step % PAUSE == 0:
                yield step

    def _validate(
        self, members: Members, rows: Tensor, targets: Tensor, folds: list[Tensor], inner: int
    ) -> Tensor:
        """Return the mean loss of every member on its held-out fold, shape (members,)."""
        losses = rows.new_empty(len(members) // inner, inner)
        for i in range(inner):
            batch = self._for_each_decay(torch.stack(folds[i::inner]), 1)
            own = members.take(slice(i, None, inner))
            losses[:, i] = own.losses(functional.embedding(batch, rows), targets[batch])
        return losses.flatten()

    def _for_each_decay(self, places: Tensor, inner: int) -> Tensor:
        """Repeat places of each task and fold, shape (tasks * folds, n), for all members."""
        by_task = places.reshape(-1, 1, inner, places.shape[1])
        return by_task.expand(-1, len(self.decays), -1, -1).flatten(0, 2)

    def _forward(self, rows: Tensor) -> Tensor:
        outputs = self.members_.outputs(rows.expand(len(self.members_), -1, -1))
        if isinstance(self, ClassifierMixin):
            outputs = outputs.softmax(1)
        return outputs.mean(0).mT


class TunedNetworkClassifier(ClassifierMixin, _TunedNetwork):  # type: ignore[misc]
    """The tuned network for categories; see its base class."""


class TunedNetworkRegressor(RegressorMixin, _TunedNetwork):  # type: ignore[misc]
    """The tuned network for numbers; see its base class."""


def _shuffle(n: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(n, generator=generator, device="cpu")
