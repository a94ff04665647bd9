"""A problem that several processes solve together, each with some of the people.

Every process has the entries, the sensitive features and the rows of its own people; the factors of
all other modes are the same in all processes. People who are compared with each other in chunks
are in one process: each has whole parts, and the parts do not depend on the number of processes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, Factors
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.penalties import Penalty
from parafair.penalties.bound import BoundShared
from parafair.solvers.binding import reference_of
from parafair.solvers.penalized import SharedPeople
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
    parts = parts_of(problem)
    count = int(parts.max()) + 1
    if count < team.size:
        raise ValueError(
            f"process_group has {team.size} processes, but the people form {count} "
            f"part{'s' * (count != 1)}, and every process needs one: a part has 8 chunks or more "
            "of people who are compared with each other; use fewer processes, or a smaller "
            "chunk_size of parafair.penalties.Invariant"
        )
    owners = parts * team.size // count
    own = np.flatnonzero(owners == team.rank)
    everybody = None if problem.penalized is None else problem.penalized.cpu().numpy()
    penalized = np.full(problem.shape[problem.mode], everybody is None)
    if everybody is not None:
        penalized[everybody] = True
    among = np.flatnonzero(penalized[own])
    device = problem.prototype.device
    share = SharedPeople(
        team=team,
        people=problem.shape[problem.mode],
        places=own,
        sensitive=problem.sensitive,
        features=None if problem.sensitive is None else problem.penalized_features,
        penalized=None if len(among) == len(own) else torch.from_numpy(among).to(device),
        among=torch.from_numpy((np.cumsum(penalized) - 1)[own[among]]),
        everybody=everybody,
        null=0.0 if problem.is_squared else problem.total,
    )
    sensitive = problem.sensitive
    return replace(
        problem,
        data=_of_people(problem, own),
        sensitive=None if sensitive is None else sensitive.take(own),
        share=share,
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


def parts_of(problem: Problem) -> NDArray[np.intp]:
    """Return the part of each person, shape (n,); any people may be apart from each other.

    People who are compared in chunks stay together. Without chunks, every person is a part.
    """
    n = problem.shape[problem.mode]
    if not isinstance(problem.penalty, Penalty):
        return np.arange(n)
    bound = problem.penalty.bind(problem.penalized_features, reference_of(problem))
    if not isinstance(bound, BoundShared):
        raise ValueError(
            f"process_group is for penalties whose statistics are sums over people or chunks, got "
            f"{problem.penalty!r}, which compares all pairs of people; use method='invariant', "
            "'hsic', 'fatr' or 'none', or leave process_group out"
        )
    if bound.parts is None:
        return np.arange(n)
    penalized = problem.penalized
    # Others are compared with nobody.
    found = np.arange(n) * (int(bound.parts.max()) + 1) // n
    found[slice(None) if penalized is None else penalized.cpu().numpy()] = bound.parts.numpy()
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
