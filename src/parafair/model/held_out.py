"""Held-out people of a fit with guarantee="population": checked before it, certified in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from parafair.data.raw_features import check_index
from parafair.data.tensor_data import TensorData
from parafair.model.checks import POPULATION
from parafair.model.exact import check_held_out, people_to_certify
from parafair.model.notices import read_new_features
from parafair.model.training import Training

if TYPE_CHECKING:
    from parafair.model.fitted import FittedCP


def check_people(
    training: Training, held_out: Sequence[Any], read: Callable[[Any], TensorData]
) -> None:
    """Raise if nothing could be certified about these people, before anything is fitted.

    Args:
        training: Metadata of the training data.
        held_out: Entries and sensitive features of the people, and side information or not.
        read: Returns entries as the model sees them.
    """
    with _in_words_of_fit():
        check_index(held_out[1], held_out[0])
        data = read(held_out[0])
        features = read_new_features(training, data, held_out[1])
        people = people_to_certify(training, data, features, unread=len(held_out) == 3)
        check_held_out(training, data.take(training.mode, people))


def certified_leakage(model: FittedCP, held_out: Sequence[Any], confidence: float) -> float:
    """Return the certified leakage of held-out people."""
    from parafair.guarantees import certify  # here, because few fits need it

    side = held_out[2] if len(held_out) == 3 else None
    with _in_words_of_fit():
        found = certify(model, *held_out[:2], side=side, confidence=confidence)
    return found.leakage(POPULATION)


@contextmanager
def _in_words_of_fit() -> Iterator[None]:
    """Change errors about new people to the words of `fit`, which has no X_new."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"held_out: {str(error).replace('X_new', 'held_out')}") from error
