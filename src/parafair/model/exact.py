"""What a certificate needs of a model: rows without noise, and the noise. The one place for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import binom
from torch import Tensor

from parafair.data.labels import preview
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.guarantees.groups import as_groups, check_features
from parafair.guarantees.releases import Release
from parafair.model.side import NewSide, observed_of

if TYPE_CHECKING:
    from parafair.model.fitted import FittedCP
    from parafair.model.training import Training

# Rows that differ by less than this many rounding errors belong to people with equal entries.
ROUNDING = 1e4
# If so many more new people than training people, as a share, have the entries of another training
# person, it cannot be a coincidence.
MOST_EQUAL = 0.05
# People of X_new are refused if so many marks, or more, have at most this probability.
BY_CHANCE = 1e-3


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
    data: TensorData,
    people: NDArray[np.intp],
    *,
    rows: Tensor,
    plain: Tensor,
    features: SensitiveFeatures,
    side: NewSide | None = None,
) -> Release:
    """Return what is certified about held-out people.

    Args:
        model: The model.
        data: Their entries.
        people: Those of them who are certified.
        rows: Their rows without noise, as `transform` makes them.
        plain: Their rows by least squares alone; those of the encoder if `rows` are.
        features: Their sensitive features, encoded as in training.
        side: Their side information; None without any.
    """
    training, trained = model.training_, _comparable(model)
    if trained is None:
        notes = [check_marks(training, data.take(training.mode, people))]
    else:
        notes = _check_entries(plain[people], trained)
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


def _comparable(model: FittedCP) -> Tensor | None:
    """Return rows of the training people that follow from their entries alone; None if unknown."""
    if model.training_.side is not None:
        return None
    if model.encoder_ is None:
        return model.fit_.plain
    return exact_rows(model) if model.has_exact_rows else None


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


def _check_entries(new: Tensor, trained: Tensor) -> list[str]:
    """Raise if people of X_new were in the training; return notes.

    Equal entries have equal rows by least squares, and equal rows of an encoder. Different people
    may have equal entries; how often is seen in the training people.

    Args:
        new: Rows of the new people that follow from their entries alone.
        trained: Those of the training people.
    """
    equal, usual = _count_equal(
        new.double().cpu().numpy(), trained.double().cpu().numpy(), new.dtype
    )
    if equal > (usual + MOST_EQUAL) * len(new):
        raise ValueError(
            f"{equal} of the {len(new)} people of X_new have the same entries as a person of the "
            "training, so they seem to be the same people, but a statement about a population "
            "needs others; pass held-out people, for example of split_people"
        )
    return [f"{equal} new people have the entries of a training person."] if equal else []


def check_marks(training: Training, data: TensorData) -> str:
    """Raise if more new people have marks of training people than coincidence explains."""
    marks = training.marks
    if marks is None:
        return (
            "The model has no exact rows and no marks of its people, so only labels were compared "
            "to tell whether new people were in the training."
        )
    found, people = marks.count(data, training.mode, zeros=training.absent == "zero")
    chance = marks.by_chance
    most = chance + (1 - chance) * min(1.0, marks.repeated + MOST_EQUAL)
    if binom.sf(found - 1, people, most) < BY_CHANCE:
        raise ValueError(
            f"{found} of {people} different people of X_new have the mark of a training person, "
            f"which {chance:.0%} of others have by chance, so people of the training seem to be "
            "among them, but a statement about a population needs others; pass held-out people, "
            "for example of split_people"
        )
    return (
        f"{found} of {people} different new people have the mark of a training person, which "
        f"{chance:.0%} of others have by chance; a few training people would not be noticed."
    )


def _count_equal(
    new: NDArray[np.float64], trained: NDArray[np.float64], dtype: torch.dtype
) -> tuple[int, float]:
    """Return how many new rows equal a training row, and the share of training rows that do."""
    scale = np.abs(trained).max(0)
    scale[scale == 0] = 1.0
    new, trained = new / scale, trained / scale
    near, tree = ROUNDING * torch.finfo(dtype).eps, cKDTree(trained)
    usual = float((tree.query(trained, k=2)[0][:, 1] <= near).mean())
    return int((tree.query(new)[0] <= near).sum()), usual
