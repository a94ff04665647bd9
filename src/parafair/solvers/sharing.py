"""A problem that several processes solve together, each with some of the people.

Every process has the entries, the sensitive features and the rows of its own people; the factors of
all other modes are the same in all processes. People who are compared with each other in chunks
are in one process: each has whole parts, and the parts do not depend on the number of processes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, Factors
from parafair.data.arrays import pieces
from parafair.data.checks import converted
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.penalties import Penalty, ScorePenalty
from parafair.penalties.bound import BoundShared
from parafair.solvers.penalized import SharedPeople, check_length, select_penalized
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit
from parafair.team import Share, Team


def share_problem(problem: Problem, team: Team) -> Problem:
    """Return the part of a problem that this process solves; itself if there is no other process.

    Args:
        problem: The whole problem, the same in all processes.
        team: All processes.

    Raises:
        ValueError: If the penalty cannot be shared, or there are too few people or parts.
    """
    if team.is_alone:
        return problem
    check_shareable(problem.data, problem.side)
    share = deal_people(
        team,
        problem.present[problem.mode].cpu(),
        problem.sensitive,
        problem.penalty,
        labels=problem.labels[problem.mode],
        like=problem.prototype,
    )
    sensitive = problem.sensitive
    return replace(
        problem,
        data=_of_people(problem, share.places),
        sensitive=None if sensitive is None else sensitive.take(share.places),
        share=share,
    )


def share_data(
    data: TensorData,
    mode: int,
    team: Team,
    sensitive: SensitiveFeatures | None,
    penalty: Penalty | ScorePenalty | None,
    like: Tensor,
) -> tuple[TensorData, SharedPeople]:
    """Return the entries of the people of this process, and who they are.

    Nothing of the size of the whole data is made on the way: it may be in a file that is mapped.

    Args:
        data: The data of all people, in memory or mapped.
        mode: The mode of the people.
        team: All processes.
        sensitive: The sensitive features of all people; None without any.
        penalty: The penalty of the fit; None without any.
        like: A tensor with the dtype and device of the fit, which the entries get.

    Raises:
        ValueError: If the penalty cannot be shared, or there are too few people or parts.
    """
    if sensitive is not None:
        check_length(sensitive, mode, data.shape[mode])
    present = _observed_people(data, mode, team)
    share = deal_people(team, present, sensitive, penalty, labels=data.labels[mode], like=like)
    with team.checking():
        own = converted(data.take(mode, share.places), like.device, like.dtype)
    return own, share


def _observed_people(data: TensorData, mode: int, team: Team) -> Tensor:
    """Tell who has observed entries, shape (n,); each process looks at some of a dense tensor."""
    if data.is_sparse:
        return torch.from_numpy(data.observed_per(mode) > 0)
    n = data.shape[mode]
    turn = slice(team.rank * n // team.size, (team.rank + 1) * n // team.size)
    rows = pieces(data.values.movedim(mode, 0)[turn])
    found = [(~piece.isnan()).flatten(1).any(1).byte().cpu() for piece in rows]
    own = torch.cat([torch.zeros(0, dtype=torch.uint8, device="cpu"), *found])
    return torch.cat(team.collect(own)).bool()


def deal_people(
    team: Team,
    present: Tensor,
    sensitive: SensitiveFeatures | None,
    penalty: Penalty | ScorePenalty | None,
    *,
    labels: NDArray[Any],
    like: Tensor,
) -> SharedPeople:
    """Return the people of this process: whole parts, about as many in each process.

    Args:
        team: All processes.
        present: Who of all people has observed entries, shape (n,).
        sensitive: Their sensitive features; None without any.
        penalty: The penalty of the fit; None without any.
        labels: Their labels.
        like: A tensor with the dtype and device of the fit.
    """
    everybody = None if bool(present.all()) else present.nonzero().flatten()
    features = None
    if sensitive is not None:
        everybody, features = select_penalized(present, sensitive)
    n, among_all = len(present), slice(None) if everybody is None else everybody.numpy()
    parts = _parts_of(n, penalty, features, among_all, like)
    count = int(parts.max()) + 1
    if count < team.size:
        raise ValueError(
            f"process_group has {team.size} processes, but the people form {count} "
            f"part{'s' * (count != 1)}, and every process needs one: a part has 8 chunks or more "
            f"of people who are compared with each other; use at most {count} process"
            f"{'es' * (count != 1)}, or in Python a smaller chunk_size of "
            "parafair.penalties.Invariant"
        )
    own = np.flatnonzero(parts * team.size // count == team.rank)
    penalized = np.zeros(n, bool)
    penalized[among_all] = True
    among = np.flatnonzero(penalized[own])
    return SharedPeople(
        team=team,
        people=n,
        places=own,
        sensitive=sensitive,
        features=features,
        penalized=None if len(among) == len(own) else torch.from_numpy(among).to(like.device),
        among=torch.from_numpy((np.cumsum(penalized) - 1)[own[among]]),
        everybody=None if everybody is None else everybody.numpy(),
        labels=labels,
    )


def _of_people(problem: Problem, places: NDArray[np.intp]) -> TensorData:
    """Return the data of some people; streamed if that of everybody is."""
    if isinstance(problem.data, StreamedData):
        return problem.data.only(places)
    return problem.data.take(problem.mode, places)


def check_shareable(data: TensorData, side: object) -> None:
    """Raise unless several processes can have some of the people each.

    Args:
        data: The data of all people.
        side: Their side information; None without any.
    """
    refused = {
        "side": side is not None,
        "absent='zero'": data.zeros_count,
    }
    for name, given in refused.items():
        if given:
            raise ValueError(
                f"process_group does not support {name}; leave process_group out, or {name}"
            )


def _parts_of(
    n: int,
    penalty: Penalty | ScorePenalty | None,
    features: SensitiveFeatures | None,
    penalized: slice | NDArray[np.intp],
    like: Tensor,
) -> NDArray[np.intp]:
    """Return the part of each person, shape (n,); any people may be apart from each other.

    People who are compared in chunks stay together. Without chunks, every person is a part.
    """
    if not isinstance(penalty, Penalty) or features is None:
        return np.arange(n)
    bound = penalty.bind(features, like.new_ones(1))
    if not isinstance(bound, BoundShared):
        raise ValueError(
            f"process_group is for penalties whose statistics are sums over people or chunks, got "
            f"{penalty!r}, which compares all pairs of people; use method='invariant', "
            "'hsic', 'fatr' or 'none', or leave process_group out"
        )
    if bound.parts is None:
        return np.arange(n)
    # Others are compared with nobody.
    found = np.arange(n) * (int(bound.parts.max()) + 1) // n
    found[penalized] = bound.parts.numpy()
    return found


def gather_people(problem: Problem, places: NDArray[np.intp]) -> TensorData:
    """Return the entries of some people of all processes, in each of them.

    Args:
        problem: The problem.
        places: Positions of the people among all, in ascending order.
    """
    return gather_entries(problem.data, problem.mode, problem.share, places)


def gather_entries(
    data: TensorData, mode: int, share: Share | None, places: NDArray[np.intp]
) -> TensorData:
    """Return the entries of some people of all processes, in each of them.

    Args:
        data: The data of the people of this process.
        mode: The mode of the people.
        share: Who they are; None for everybody.
        places: Positions of the people among all, in ascending order.
    """
    if share is None:
        return data.take(mode, places)
    here = np.flatnonzero(np.isin(share.places, places))
    # Somebody at least; who is not among the people counts for nothing below.
    own = data.take(mode, here if len(here) else [0])
    position = torch.from_numpy(np.searchsorted(places, share.places[here]))
    shape = [*own.shape]
    shape[mode] = len(places)
    if own.indices is None:
        values = own.values.movedim(mode, 0)[: len(here)]
        order = torch.cat(share.team.collect(position)).argsort().to(values.device)
        found = torch.cat(share.team.collect(values))[order]
        return TensorData(found.movedim(0, mode).contiguous(), None, tuple(shape), own.modes)
    kept = own.indices[mode] < len(here)
    indices = own.indices[:, kept]
    indices[mode] = position.to(indices.device)[indices[mode]]
    both = share.team.collect(indices.mT.contiguous()), share.team.collect(own.values[kept])
    return TensorData(torch.cat(both[1]), torch.cat(both[0]).mT, tuple(shape), own.modes)


def gather_problem(problem: Problem) -> Problem:
    """Return the whole problem, in each process; it must be small."""
    share = problem.share
    if share is None:
        return problem
    data = gather_people(problem, np.arange(share.people))
    sensitive = None if problem.sensitive is None else share.sensitive
    return replace(problem, data=data, sensitive=sensitive, share=None)


def own_rows(problem: Problem, factors: Factors) -> tuple[Tensor, ...]:
    """Return factors with the rows of the people of this process, of those of all."""
    found = list(factors)
    if problem.share is not None:
        found[problem.mode] = problem.share.own(found[problem.mode])
    return tuple(found)


def gather_fit(problem: Problem, fit: Fit) -> Fit:
    """Return a fit with the rows of the people of all processes, in each of them."""
    share = problem.share
    if share is None:
        return fit
    factors = list(fit.cp.factors)
    factors[problem.mode] = share.whole(factors[problem.mode])

    def whole(rows: Tensor | None) -> Tensor | None:
        return None if rows is None else share.whole(rows)

    return replace(
        fit,
        cp=CPTensor.from_factors(factors),
        shifts=whole(fit.shifts),
        plain=whole(fit.plain),
        noiseless=whole(fit.noiseless),
    )
