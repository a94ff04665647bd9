"""What a certificate needs of a model: rows without noise, and the noise. The one place for it."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor

from parafair.data.labels import preview
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.guarantees.groups import as_groups, check_features
from parafair.guarantees.releases import Release
from parafair.model.draws import Words
from parafair.model.side import NewSide, observed_of

if TYPE_CHECKING:
    from parafair.model.fitted import FittedCP
    from parafair.model.training import Training

# People of X_new are refused if what is found has at most this probability by chance.
BY_CHANCE = 1e-3
# Where only marks are known: so many more new people than training people, as a share, may have the
# entries of another training person; and so many standard errors of that share, if that is more.
MOST_EQUAL, ERRORS = 0.05, 3.0


def exact_rows(model: FittedCP) -> Tensor:
    """Return the training people's rows without noise, shape (n, rank); raise if there are none."""
    if not model.has_exact_rows:
        raise ValueError(
            "the model was saved without exact rows, so nothing new can be certified about its "
            "training people; certify it before it is saved, or save it with keep_exact=True"
        )
    rows = model.fit_.noiseless
    return model.cp_.factors[model.training_.mode] if rows is None else rows


def _noise(model: FittedCP, rows: Tensor) -> Tensor:
    """Return the matrix of the noise of all people, trained and new; zero without noise."""
    matrix = model.fit_.noise.get(model.training_.mode)
    rank = rows.shape[1]
    return rows.new_zeros(rank, rank) if matrix is None else matrix.to(rows.device)


def training_release(model: FittedCP) -> Release:
    """Return what is certified about the training people in the criterion."""
    training, rows = model.training_, exact_rows(model)
    if training.features is None:
        raise ValueError(
            "the model was fitted without sensitive features, so it is not known what attackers "
            "look for; fit it with sensitive_features"
        )
    left_out = len(rows) - len(training.features)
    note = (
        f"{left_out} of {len(rows)} people had no sensitive features or no entries in the fit; "
        "nothing is certified about them."
    )
    return Release(
        training.penalized_rows(rows),
        _noise(model, rows),
        training.features,
        released=training.penalized_rows(model.cp_.factors[training.mode]),
        places=training.penalized,
        everybody=len(rows),
        notes=(note,) if left_out else (),
    )


def new_release(
    model: FittedCP,
    people: NDArray[np.intp],
    *,
    rows: Tensor,
    features: SensitiveFeatures,
    side: NewSide | None = None,
    note: str = "",
) -> Release:
    """Return what is certified about held-out people.

    Args:
        model: The model.
        people: Those of them who are certified.
        rows: Their rows without noise, as `transform` makes them.
        features: Their sensitive features, encoded as in training.
        side: Their side information; None without any.
        note: What `check_held_out` has found.
    """
    notes = [note] if note else []
    if side is not None:
        notes.append(
            "Rows of new people follow from their entries and their side information; nothing is "
            "certified about rows that follow from entries alone."
        )
    if len(people) < len(rows):
        notes.append(
            f"{len(rows) - len(people)} of {len(rows)} new people have no entries or no sensitive "
            "features; the statement is about a population of people with both."
        )
    return Release(
        rows[people],
        _noise(model, rows),
        features.take(people),
        held_out=True,
        training=model.training_.features,
        notes=tuple(notes),
    )


def people_to_certify(
    training: Training,
    data: TensorData,
    features: SensitiveFeatures,
    side: NewSide | None = None,
    *,
    unread: bool = False,
) -> NDArray[np.intp]:
    """Return the positions of new people with entries and features; raise if nothing is certified.

    They must not have labels of training people, and every group must have enough of them. This
    takes no work, so it comes before their rows are computed.

    Args:
        training: Metadata of the training data.
        data: Entries of the new people.
        features: Their sensitive features, encoded as in training.
        side: Their side information; None without any.
        unread: Whether side information will be read later, so everybody may have some.
    """
    labels, known = data.labels[training.mode], training.labels[training.mode]
    counted = [np.array_equal(own, np.arange(len(own))) for own in (labels, known)]
    if not any(counted):
        both = np.intersect1d(labels.astype(str), known.astype(str))
        if len(both):
            raise ValueError(
                f"{len(both)} of the {len(labels)} people of X_new were in the training "
                f"({preview(both)}), but a statement about a population needs people who were "
                "not; pass held-out people, for example of split_people"
            )
    present = np.asarray((observed_of(data, training.mode, side) > 0).cpu()) | unread
    if features.has_features is not None:
        present = present & features.has_features
    if not present.any():
        raise ValueError(
            "none of the people of X_new has both entries and sensitive features; check the data"
        )
    people = np.flatnonzero(present)
    columns = features.take(people).columns
    check_features(SensitiveFeatures(tuple(as_groups(c, training.features) for c in columns)))
    return people


def check_held_out(training: Training, data: TensorData) -> str:
    """Raise if training people seem to be among people of X_new; return what was found.

    Args:
        training: Metadata of the training data.
        data: Entries of the people of X_new, as the model sees them.
    """
    marks = training.marks
    if marks is None:
        return (
            "The model has no exact rows and no marks of its people, so only labels were compared "
            "to tell whether new people were in the training."
        )
    words = marks.words_of(data, training.mode, zeros=training.absent == "zero")
    if marks.words is not None:
        return _check_entries(words, marks.words)
    found, people, chance = marks.count(words), len(words), marks.by_chance
    # Coincidences of training people say how often others have the entries of one of them.
    error = sqrt(marks.repeated * (2 - marks.repeated) / marks.people)
    equal = min(1.0, marks.repeated + max(MOST_EQUAL, ERRORS * error))
    if binom.sf(found - 1, people, chance + (1 - chance) * equal) < BY_CHANCE:
        raise ValueError(
            f"{found} of the {people} people of X_new have the mark of a training person, which "
            f"{chance:.0%} of others have by chance, so people of the training seem to be among "
            "them, but a statement about a population needs others; pass held-out people, for "
            "example of split_people"
        )
    return (
        f"{found} of {people} new people have the mark of a training person, which {chance:.0%} of "
        "others have by chance; a few training people would not be noticed."
    )


def _check_entries(new: Words, trained: Words) -> str:
    """Raise if more new people have the entries of training people than chance explains.

    Different people may have equal entries. If the new people are others, it is chance who of all
    people with the same entries is among them.

    Args:
        new: Hashes of the new people's entries.
        trained: Those of the training people.
    """
    _, at, sizes = np.unique(np.append(trained, new), return_inverse=True, return_counts=True)
    before = np.bincount(at[: len(trained)], minlength=len(sizes))
    # Nobody was in the training twice.
    equal = int(np.minimum(before, sizes - before).sum())
    share, shared = len(trained) / len(at), sizes[sizes > 1]
    if equal and _probability(equal, shared, share) < BY_CHANCE:
        raise ValueError(
            f"{equal} of the {len(new)} people of X_new have the same entries as a person of the "
            "training, so they seem to be the same people, but a statement about a population "
            "needs others; pass held-out people, for example of split_people"
        )
    have = "has" if equal == 1 else "have"
    told = f"{equal} of {len(new)} new people {have} the entries of a training person."
    return told if equal else ""


def _probability(equal: int, shared: NDArray[np.intp], share: float) -> float:
    """Return how likely so many people, or more, have counterparts on the other side by chance.

    Of a number of people with the same entries, as many have counterparts as there are on the side
    with fewer of them. The sum over all entries has the product of their Fourier transforms.

    Args:
        equal: Number of people with counterparts.
        shared: How many people have each of the entries that several people have.
        share: The share of all people on the first side.
    """
    length = int((shared // 2).sum()) + 1
    transform = np.ones(length // 2 + 1, complex)
    for size, times in zip(*np.unique(shared, return_counts=True), strict=True):
        first = np.arange(size + 1)
        one = np.bincount(np.minimum(first, size - first), binom.pmf(first, size, share))
        transform *= np.fft.rfft(one, length) ** times
    return float(np.fft.irfft(transform, length)[equal:].sum())
