"""FairTucker, the scikit-learn estimator of Tucker decompositions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from parafair.algebra.tucker_tensor import TuckerTensor
from parafair.arguments import as_path, classes_of, items, whole_number
from parafair.data.randomness import RandomState
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import Reduction
from parafair.errors import shown
from parafair.losses import Loss
from parafair.model.estimator import FairCP
from parafair.model.fair_model import FairModel
from parafair.model.methods import Method
from parafair.model.record import Record
from parafair.model.ridge import Ridge
from parafair.model.training import Training
from parafair.model.unfolding import Unfolding
from parafair.penalties import Invariant, Penalty, ScorePenalty
from parafair.solvers import Fit, Solver

M = TypeVar("M")

TUCKER_INITS = ("svd", "uniform", "normal")


class FairTucker(FairModel):
    """Tucker decomposition whose embedding of people depends less on sensitive features.

    A tensor is a core multiplied by a factor in every mode. The rows of the people's factor are the
    embedding. Its columns can be mixed by any invertible matrix without a change to the model, so
    they have no meaning of their own, and "invariant" has a criterion that mixing does not change:
    whole whitened rows, and the directions in which groups differ most. Other modes may have
    sensitive features too; their factors are those of `tucker_`. Methods and attributes are those
    of `FairCP`.

    Args:
        ranks: Number of columns of each factor, one per mode; each at most the size of its mode,
            and at most the product of the others.
        method: "invariant", "none", "transport", "sliced-transport", "correlation-removal" or
            "moment-matching", or an object such as
            ``parafair.penalties.Invariant(chunk_size=1000)``.
        strength: As in `FairCP`.
        max_leakage: As in `FairCP`.
        guarantee: As in `FairCP`.
        noise: As in `FairCP`.
        mode: The mode of the people, by number, or by name for a `TensorData`.
        loss: As in `FairCP`, without those of non-negative factors.
        ridge: As in `FairCP`.
        center: Whether to subtract from each entry the mean of its cell over all people.
            Predictions add it again.
        side_weight: As in `FairCP`.
        side_loss: As in `FairCP`.
        solver: "auto", "block" or "lbfgs", as in `FairCP`; several sensitive modes need "lbfgs",
            the default.
        init: "svd" (singular vectors, then a few passes of HOOI; for dense data), "uniform" or
            "normal".
        n_init: As in `FairCP`; "svd" has one.
        max_iter: As in `FairCP`.
        tol: As in `FairCP`.
        random_state: As in `FairCP`.
        verbose: As in `FairCP`.
        device: As in `FairCP`.
        dtype: As in `FairCP`.

    Attributes:
        embedding_: One row per person, shape (n, rank of `mode`).
        tucker_: Core and factors; unpacks like TensorLy's. All factors but that of the people have
            orthonormal columns.
        cp_: The same as a decomposition of the unfolded data, people by cells of all other modes.
        n_iter_: Number of iterations of the best start.
        reconstruction_err_: Frobenius norm of the residual over the observed entries.
        ridge_: The ridge, given or selected.
        fit_: Status, history and counts of the best start.
        fits_: The same for every start.
        record_: Requested and resolved settings.
        training_: Metadata of the training data.
        side_factor_: With side information, the factor of its columns, shape (columns, rank); see
            `predict_side`. ``fit_.side_residual`` is its relative residual, or its deviance ratio.
        certificate_: What `certify` has found about the training people, if it was called.
        selection_: With ``strength="auto"``, the selected strength and all strengths tried.

    >>> from parafair import FairTucker, datasets
    >>> data = datasets.synthetic(0, shape=(20, 8, 6), rank=3)
    >>> model = FairTucker((3, 3, 2), method="none").fit(data.tensor)
    >>> model.embedding_.shape, model.tucker_.ranks
    ((20, 3), (3, 3, 2))
    """

    structured = True
    # What `FairCP` has as arguments.
    encoder = None
    non_negative = False
    tucker_: TuckerTensor

    def __init__(  # noqa: PLR0913  (scikit-learn: every setting is an argument)
        self,
        ranks: Sequence[int] = (2, 2, 2),
        *,
        method: str | Method = "invariant",
        strength: float | Literal["auto"] | None = None,
        max_leakage: float = 0.05,
        guarantee: str | Sequence[str] | None = None,
        noise: float | None = None,
        mode: int | str = 0,
        loss: str | Loss = "squared",
        ridge: Ridge = "auto",
        center: bool = False,
        side_weight: float = 1.0,
        side_loss: str | Loss = "squared",
        solver: str | Solver[Any] = "auto",
        init: Literal["svd", "uniform", "normal"] = "svd",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int = 2000,
        tol: float = 3e-5,
        random_state: RandomState = 0,
        verbose: int = 0,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> None:
        self.ranks = ranks
        self.method = method
        self.strength = strength
        self.max_leakage = max_leakage
        self.guarantee = guarantee
        self.noise = noise
        self.mode = mode
        self.loss = loss
        self.ridge = ridge
        self.center = center
        self.side_weight = side_weight
        self.side_loss = side_loss
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.dtype = dtype

    def check_rank(self) -> None:
        """Raise unless the ranks are positive whole numbers."""
        for rank in items("ranks", self.ranks, "whole numbers, one per mode"):
            whole_number("each of ranks", rank)
        if not isinstance(self.init, str) or self.init not in TUCKER_INITS:
            raise ValueError(
                f"init of a FairTucker must be one of {', '.join(TUCKER_INITS)}, got "
                f"{shown(self.init)}"
            )

    def adapted(self, method: M) -> M:
        """Return a method as this model uses it: its penalty must not depend on rotations."""
        if isinstance(method, Invariant):
            return replace(method, rotation_free=True)
        if isinstance(method, (Penalty, ScorePenalty, Reduction)):
            raise ValueError(
                f"method={self.method!r} is not available for FairTucker, whose embedding has no "
                "columns of its own; use 'invariant', 'transport', 'sliced-transport', "
                "'correlation-removal', 'moment-matching' or 'none', or use FairCP"
            )
        return method

    def unfolding_of(self, data: TensorData) -> Unfolding:
        """Return how data is unfolded; raise if it cannot have these ranks."""
        ranks, shape = tuple(int(rank) for rank in self.ranks), data.shape
        if len(ranks) != len(shape):
            raise ValueError(
                f"ranks must have one number for each of the {len(shape)} modes of X, got "
                f"{ranks} for shape {shape}"
            )
        for mode, (rank, size) in enumerate(zip(ranks, shape, strict=True)):
            if rank > size:
                raise ValueError(
                    f"ranks must be at most the sizes of the modes, {shape}, got {ranks}: mode "
                    f"{mode} has {size} indices and so at most rank {size}; lower it"
                )
            others = prod(ranks) // rank
            if rank > others:
                raise ValueError(
                    f"each of ranks must be at most the product of the others, got {ranks}: the "
                    f"factor of mode {mode} can use only {others} columns; lower it to {others}, "
                    "or raise the others"
                )
        return Unfolding(data.find_mode(self.mode), data.modes, data.labels, ranks)

    def _keep(self, fits: Sequence[Fit], record: Record, training: Training) -> None:
        """Set the attributes of a fitted model."""
        super()._keep(fits, record, training)
        assert training.unfolding is not None
        self.tucker_ = training.unfolding.tucker(self.cp_)


def load_model(folder: str | Path, *, classes: Iterable[type] = ()) -> FairCP | FairTucker:
    """Read a model of either class that `save` or the command line wrote; see `FairCP.load`."""
    own = classes_of("classes", classes)
    record = Record.read(as_path("folder", folder), classes=own)
    return kind_of(record.params).load(folder, classes=own)


def kind_of(params: Mapping[str, Any]) -> type[FairCP] | type[FairTucker]:
    """Return the class of a model with these arguments."""
    return FairTucker if "ranks" in params else FairCP
