"""`certify`: statements about every attacker on a release with known noise.

* Training people: (F) and (C), and the exposure of each person.
* Held-out people: (P), for the population they are drawn from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.devices import by_device
from parafair.arguments import flag
from parafair.data.arrays import as_tensor
from parafair.data.column import Column
from parafair.data.randomness import RandomState
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import shown
from parafair.guarantees.advantage import (
    Sampled,
    advantage_without_noise,
    best_advantage,
    best_explained,
    explained_without_noise,
)
from parafair.guarantees.bounds import (
    FOR_PEOPLE,
    people_needed,
    population_slack,
)
from parafair.guarantees.certificate import Certificate
from parafair.guarantees.coupling import coupling_bound
from parafair.guarantees.exposure import (
    MOST_ASKED,
    Exposure,
    draws_each,
    exposure_to_holder,
    leave_one_out_vote,
)
from parafair.guarantees.groups import (
    as_groups,
    check_features,
    codes_of,
    joint_groups,
    without_empty,
)
from parafair.guarantees.noise_search import USUAL_LEAKAGE, least_noise
from parafair.guarantees.releases import Release, as_noise, read_people
from parafair.guarantees.sampled import sampled_advantage
from parafair.guarantees.settings import CertificateSettings
from parafair.guarantees.statements import MATRIX, POPULATION, RELEASE, Statement


@runtime_checkable
class HasExactRelease(Protocol):
    """A fitted model that can give what is certified, such as `FairCP`."""

    def exact_release(
        self, X: Any = None, sensitive_features: Any = None, side: Any = None
    ) -> Release:
        """Return exact rows and noise of the training people, or of new people."""

    def keep_certificate(self, certificate: Certificate) -> None:
        """Keep what was certified about the training people."""


def certify(
    model: HasExactRelease,
    X_new: Any = None,  # noqa: N803  (scikit-learn's name for data)
    sensitive_features: Any = None,
    *,
    side: Any = None,
    confidence: float = 0.95,
    releases: int = 1,
    draws: int = 20_000,
    device: str | torch.device | None = None,
    random_state: RandomState = 0,
    max_people: int | None = None,
) -> Certificate:
    """Bound what every possible attacker learns from the embedding of a model with noise.

    Without new people, the statements are about the training people whose features are in the
    criterion: (F), the exact advantage of the best attacker who sees one released row, by random
    draws; (C), a bound in closed form; and the exposure of each person. The model keeps this
    certificate as `certificate_`. It needs the rows without noise, which a saved model does not
    have by default. With new people, the statement (P) is about the population that they are a
    sample of; a saved model has all that it needs. They must not have been used for the fit or for
    any choice after it.

    Args:
        model: A fitted `FairCP` with noise.
        X_new: Entries of held-out people, as `FairCP.transform` takes them.
        sensitive_features: Features of the held-out people; with X_new only.
        side: Their side information, if the model was fitted with some.
        confidence: Probability with which all statements of the certificate hold together.
        releases: How many times the same rows are released with new noise.
        draws: Random draws for each statement; more of them give tighter bounds.
        device: Where to compute, such as "cuda"; None for where the rows are.
        random_state: Seed of the draws.
        max_people: If there are more training people, (F) is bounded by samples of this many, with
            the error of the sample, and the rest is left out. None for everybody, in a time that
            grows with their number.

    >>> from parafair import FairCP, certify, datasets
    >>> data = datasets.synthetic(0, shape=(40, 8, 6), rank=3)
    >>> model = FairCP(2, method="transport", noise=1.0)
    >>> model = model.fit(data.tensor, sensitive_features=data.sensitive_features)
    >>> certify(model).leakage("release") < 0.05
    True
    """
    settings = CertificateSettings.of(confidence, releases, draws, device, random_state, max_people)
    if isinstance(model, type) or not isinstance(model, HasExactRelease):
        raise TypeError(
            f"model must be a fitted FairCP, got {shown(model)}; for rows of your own use "
            "certify_rows"
        )
    found = _certify(model.exact_release(X_new, sensitive_features, side), settings)
    if X_new is None:
        model.keep_certificate(found)
    return found


def certify_rows(
    rows: Any,
    sensitive_features: Any,
    *,
    noise: Any,
    released: Any = None,
    held_out: bool = False,
    confidence: float = 0.95,
    releases: int = 1,
    draws: int = 20_000,
    device: str | torch.device | None = None,
    random_state: RandomState = 0,
) -> Certificate:
    """Bound what every possible attacker learns from an embedding of any origin with noise.

    The release must be ``rows + normal @ noise`` with ``normal`` standard normal.

    Args:
        rows: Rows without noise, shape (n, columns).
        sensitive_features: One row per person, as `SensitiveFeatures.of` takes them.
        noise: The standard deviation of the noise in every column, one for each column, or a matrix
            (columns, columns).
        released: The rows with noise, for the exposure to the vote of other people.
        held_out: Whether these people are a sample of the population that the statement is about;
            then the map from their data to `rows` and the noise must have been fixed before.
        confidence: Probability with which all statements of the certificate hold together.
        releases: How many times the same rows are released with new noise.
        draws: Random draws for each statement.
        device: Where to compute; None for where the rows are.
        random_state: Seed of the draws.

    >>> rows = np.repeat([[0.0], [2.0]], 50, axis=0)  # two points: erf(1 / sqrt 2) / 2 = 0.341
    >>> certificate = certify_rows(rows, np.repeat(["f", "m"], 50), noise=1.0)
    >>> round(certificate.leakage("matrix"), 3)
    0.341
    """
    settings = CertificateSettings.of(confidence, releases, draws, device, random_state)
    exact, features = read_people(rows, sensitive_features)
    if flag("held_out", held_out) and any(c.kind == "numeric" for c in features.columns):
        (name, *_) = (c.name for c in features.columns if c.kind == "numeric")
        raise ValueError(
            f"sensitive feature {name!r} is numeric, but held_out=True needs groups that were "
            "fixed before; cut it into groups at values that do not depend on these people"
        )
    seen = None if released is None else as_tensor(released, name="released")
    if seen is not None and (seen.shape != exact.shape or not bool(seen.isfinite().all())):
        raise ValueError(
            f"released must be finite rows of shape {tuple(exact.shape)}, as rows; got "
            f"{shown(released)}"
        )
    release = Release(exact, as_noise(noise, exact), features, released=seen, held_out=held_out)
    return _certify(release, settings)


def _certify(release: Release, settings: CertificateSettings) -> Certificate:
    """Return the certificate of a release."""
    if not release.held_out:
        release = replace(release, features=without_empty(release.features))
    check_features(release.features)
    if not bool((release.noise != 0).any()):
        raise _no_noise(release)
    z = release.in_units_of_noise(settings.releases)
    if settings.device is not None:
        z = z.to(settings.device)
    generator = torch.Generator(device="cpu").manual_seed(settings.seed)
    everybody = settings.max_people is None or len(z) <= settings.max_people
    find = _population if release.held_out else _release if everybody else _sample
    statements, notes = find(release, z, settings, generator)
    exposures: tuple[Exposure, ...] = ()
    if not release.held_out and everybody:
        exposures = tuple(_exposures(release, z, settings, generator))
        notes.append(
            "Exposure to the holder of the exact rows is a mean over "
            f"{draws_each(settings.draws, len(z))} draws of each person's noise; fewer draws make "
            "the largest too high. It is estimated, not certified."
        )
        most = by_device(MOST_ASKED, z)
        if release.released is not None and len(z) > most:
            notes.append(f"The others were asked about {most:,} of {len(z):,} people.")
    return Certificate(
        statements=tuple(statements),
        exposures=exposures,
        confidence=settings.confidence,
        releases=settings.releases,
        draws=settings.draws,
        people=len(z),
        notes=(*release.notes, *notes),
    )


def _no_noise(release: Release) -> ValueError:
    """Return the error for a release without noise, with the noise that would do."""
    level = least_noise(release.rows, release.features, USUAL_LEAKAGE)
    remedy = (
        f"use noise: about {level:.2g} of the spread, as in FairCP(noise={level:.2g}), would bring "
        f"the best attacker's advantage down to {USUAL_LEAKAGE:g}"
        if level < inf
        else "use noise, and reduce the dependence first, for example with method='transport'"
    )
    return ValueError(
        "noise is 0, so whoever holds the exact rows recognizes everybody and nothing can be "
        f"certified; {remedy}"
    )


def _release(
    release: Release, z: Tensor, settings: CertificateSettings, generator: torch.Generator
) -> tuple[list[Statement], list[str]]:
    """Return the statements (F) and (C) about each feature and about all together."""
    joint, reason = joint_groups(release.features)
    columns = [*release.features.columns, *([] if joint is None else [joint])]
    sampling = {
        "draws": settings.draws,
        "delta": (1 - settings.confidence) / len(columns),
        "generator": generator,
    }
    points = z.cpu().numpy()
    found, coupled = [], []
    for column in columns:
        groups = as_groups(column)
        bound = coupling_bound(points, groups.values)
        coupled.append(_statement(MATRIX, groups, Sampled(bound, bound), z, settings))
        # Closed bounds on the same values are tighter where groups are nearly equal or share rows.
        if column.kind == "numeric":
            values = column.encode()[:, 0]
            sampled = best_explained(z, values, **sampling)  # type: ignore[arg-type]
            closed = explained_without_noise(release.rows, values)
        else:
            codes = codes_of(column, z)
            sampled = best_advantage(z, codes, **sampling)  # type: ignore[arg-type]
            closed = min(
                bound, advantage_without_noise(release.rows, codes.to(release.rows.device))
            )
        sampled = Sampled(*(min(value, closed) for value in sampled))
        found.append(_statement(RELEASE, column, sampled, z, settings))
    found += coupled
    return found, [reason] if reason else []


def _sample(
    release: Release, z: Tensor, settings: CertificateSettings, generator: torch.Generator
) -> tuple[list[Statement], list[str]]:
    """Return the statement (F) about each feature and about all together, from samples."""
    assert settings.max_people is not None
    joint, reason = joint_groups(release.features)
    columns = [*map(as_groups, release.features.columns), *([] if joint is None else [joint])]
    found = []
    for column in columns:
        sampled, slack = sampled_advantage(
            z,
            column,
            people=settings.max_people,
            draws=settings.draws,
            delta=(1 - settings.confidence) / len(columns),
            generator=generator,
        )
        found.append(_statement(RELEASE, column, sampled, z, settings, slack=slack))
    note = (
        f"(F) is bounded by samples of {settings.max_people:,} of {len(z):,} people, the same "
        f"number of every group; the error of a sample, up to {max(s.slack for s in found):.4f}, "
        "is part of the bound. (C) and exposures were left out."
    )
    return found, [note, *([reason] if reason else [])]


def _population(
    release: Release, z: Tensor, settings: CertificateSettings, generator: torch.Generator
) -> tuple[list[Statement], list[str]]:
    """Return the statements (P), and how many people would be needed."""
    joint, reason = joint_groups(release.features, release.training)
    columns = [as_groups(column, release.training) for column in release.features.columns]
    check_features(SensitiveFeatures(tuple(columns)))
    columns += [] if joint is None else [joint]
    delta = (1 - settings.confidence) / len(columns)
    found, notes = [], [reason] if reason else []
    for column in columns:
        sampled = best_advantage(
            z,
            codes_of(column, z),
            draws=settings.draws,
            delta=(1 - FOR_PEOPLE) * delta,
            generator=generator,
        )
        sizes = np.bincount(column.values)
        slack = population_slack(sizes.tolist(), FOR_PEOPLE * delta)
        found.append(_statement(POPULATION, column, sampled, z, settings, slack=slack))
        if sampled.estimate < USUAL_LEAKAGE < found[-1].upper:
            needed = people_needed(
                USUAL_LEAKAGE, groups=len(sizes), confidence=1 - delta, plug_in=sampled.estimate
            )
            notes.append(
                f"To certify a leakage of {USUAL_LEAKAGE:g} about {column.name} at this estimate, "
                f"each group needs at least {needed:,} held-out people; the smallest has "
                f"{sizes.min():,}."
            )
    return found, notes


def _statement(
    kind: str,
    column: Column,
    sampled: Sampled,
    z: Tensor,
    settings: CertificateSettings,
    *,
    slack: float = 0.0,
) -> Statement:
    """Return a statement about one feature."""
    numeric = column.kind == "numeric"
    groups = 1 if numeric else len(column.categories)
    chance = 0.0 if numeric else 1 / groups
    return Statement(
        kind=kind,
        column=column.name,
        measure="share of variance" if numeric else "balanced accuracy",
        chance=chance,
        estimate=sampled.estimate,
        upper=min(1 - chance, sampled.upper + slack),
        confidence=1.0 if kind == MATRIX else settings.confidence,
        groups=groups,
        people=len(z),
        releases=settings.releases,
        slack=slack,
    )


def _exposures(
    release: Release, z: Tensor, settings: CertificateSettings, generator: torch.Generator
) -> Iterator[Exposure]:
    """Yield how sure both attackers are about each person, for each feature."""
    for column in map(as_groups, release.features.columns):
        codes, chance = codes_of(column, z), 1 / len(column.categories)
        values = exposure_to_holder(z, codes, draws=settings.draws, generator=generator)
        yield Exposure.of(column.name, "b", chance, _scatter(values, release))
        if release.released is not None:
            vote = leave_one_out_vote(release.released.to(z), codes, generator)
            yield Exposure.of(
                column.name,
                "a",
                chance,
                _scatter(vote.values, release),
                advantage=vote.advantage,
                by_chance=vote.by_chance,
            )


def _scatter(values: NDArray[np.float64], release: Release) -> NDArray[np.float64]:
    """Return one value for everybody, NaN for people who are not certified."""
    if release.places is None or release.everybody is None:
        return values
    found = np.full(release.everybody, np.nan)
    found[release.places] = values
    return found
