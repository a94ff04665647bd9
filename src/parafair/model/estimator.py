"""FairCP, the scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import whole_number
from parafair.data.randomness import RandomState
from parafair.encoders.learned import Learned
from parafair.losses import Loss
from parafair.model.fair_model import FairModel
from parafair.model.methods import Method
from parafair.model.ridge import Ridge
from parafair.solvers import Solver
from parafair.solvers.init import InitName


class FairCP(FairModel):
    """CP (PARAFAC) decomposition whose embedding of people depends less on sensitive features.

    Args:
        rank: Number of components.
        method: "invariant" (the library's own criterion), "khsic" (the paper), "hsic", "fatr",
            "none"; "mean-matching", "bhattacharyya" or "mutual-information" (Kamishima), which make
            predicted scores comparable, not embeddings; "correlation-removal", "moment-matching",
            "transport" or "sliced-transport", which change a plain decomposition ("transport" gives
            all groups the same distribution of rows, such that the fit loses least;
            "sliced-transport" nearly, by a map that new people of known groups follow); "fair-pca",
            "fair-pca-covariance", "leace", "perez-suay" or "kernel-perez-suay", whose rows are
            those of an encoder that needs no group, stop linear attackers and little more, and need
            complete entries; or an object such as
            ``parafair.penalties.Orthogonality(strength=0.1, ridge=1.0)``.
        strength: Multiplier of the penalty of a method given by name; None for its default. For
            "invariant" it weights a dependence between 0 and 1 against the squared relative
            residual, on any data; "auto" follows a path of strengths to the first that passes the
            audit. For others it is in the units of the paper's formula; for predicted scores it is
            2 eta / N, with Kamishima's eta and N observed entries.
        max_leakage: With ``strength="auto"``, the largest allowed leakage: the strongest
            attacker's advantage over chance.
        guarantee: With ``strength="auto"``, what must be at most `max_leakage`, one or several of:
            "audit", what the attackers of an audit learn (None is the same); "release", what every
            attacker learns who sees one released row, even one who holds all exact rows with
            everybody's features; "population", what every attacker learns from rows of new people
            (needs `held_out` people; with numbers or at a high rank, much noise). See `certify`.
            With "release", people of all groups share places, as with ``Transport(leakage=...)``.
        noise: Standard deviation of the Gaussian noise added to the rows of every mode with
            sensitive features, as a share of that of the rows in every whitened direction. None is
            the default of the method: for "invariant" with a strength above 0 it is 0.1, the
            resolution of the criterion, which smaller differences escape; for
            "sliced-transport" 0.2; for others 0. With
            ``strength="auto"`` it is the smallest noise that is tried; if nothing passes, there are
            trials with two and four times as much, and with more for a guarantee. For people who
            share places it costs equally much in every direction, and at most as much as noise of
            this share in all of them.
        encoder: "linear" or "network" learns, with method "invariant", a map from entries to rows
            that needs no group: the rows of all people, trained and new, are those of this map,
            and `transform` needs no sensitive features. "network" has a hidden layer; see
            ``parafair.encoders.Learned``. The default noise is then 0.3; `init`, `n_init`,
            `max_iter` and `tol` are those of the plain decomposition where learning begins, and
            `solver` has no effect. None gives every training person a row of their own.
        mode: The mode of the people, by number, or by name for a `TensorData`.
        loss: "squared", "huber" (few wild entries), "bernoulli" (0 and 1), "binomial", "poisson" or
            "negative-binomial" (counts), "gamma" (positive numbers), or an object such as
            ``parafair.losses.Huber(delta=2.0)``. "poisson-identity" (counts) and
            "bernoulli-poisson" (0 and 1) have non-negative factors whose components add up; they
            suit sparse data. `predict` gives probabilities, rates or means.
        non_negative: True if the factors of all modes are non-negative, exactly, which the entries
            of X must then be too; or the modes whose factors are, by number or name, such as
            ``("people",)``. Noise may make released rows negative.
        ridge: Shrinkage equal to this many extra zero entries per person. "auto" means 0 if no
            entry is missing, or 0.1 with a loss that has a link; otherwise plain decompositions of
            80 to 90 % of the entries select the ridge that predicts the others best.
        center: Whether to subtract the mean, and the average deviation of each index of the other
            modes, before the fit. Predictions add them again. Other losses have intercepts instead.
        side_weight: How much side information, as `fit` takes it, counts: at 1, a share of its sum
            of squares counts as much as the same share of that of X; at 0 it has no effect on the
            embedding. Both are relative, so the weight has no units.
        side_loss: The loss of side information, as `loss`; not those of non-negative factors. The
            squared error and Huber's are those of standardized columns; others have an intercept
            for each column.
        solver: "block" (one factor at a time, extrapolated), "lbfgs" (all factors at once, for
            penalties that do not depend on the scale), "gradient" (Algorithm 1 of the paper) or a
            solver object such as ``parafair.solvers.GradientBCD((3, 1))``. "auto" is "lbfgs" for
            "invariant" and for predicted scores, and "block" for all others.
        init: "uniform" as in the paper, "normal", "svd", or initial factors.
        n_init: Number of random starts, run as one batch; the best is kept. A fit with "invariant"
            or for predicted scores continues from the best plain decomposition of all starts.
            "auto" is 5 for them and 1 for all others. It is 5 without a penalty too, where the fit
            continues from the best of as many rough fits.
        max_iter: Maximum number of iterations of each stage of a fit. With "invariant" there are
            three: plain decompositions, rough fits and the final fit. Without a penalty there are
            two, and others have one.
        tol: Stop when the objective decreases by less than this share per iteration.
        random_state: Seed of the initial factors and of the noise; None draws a new seed for each
            fit.
        verbose: 1 prints every tenth iteration, the ridge, the cost of the noise and, with
            ``strength="auto"``, trials and starts of audits; 2 every iteration and attacker.
        device: Device of the fit, such as "cuda"; None for the device of the data.
        dtype: "float32" or "float64"; None for the dtype of the data.

    Attributes:
        embedding_: One row per person, shape (n, rank): the factor of `mode`.
        cp_: Weights and factors; unpacks like TensorLy's CPTensor.
        n_iter_: Number of iterations of the best start.
        reconstruction_err_: Frobenius norm of the residual, or the square root of the deviance.
        ridge_: The ridge, given or selected.
        encoder_: The map from entries to rows without the group; None if the method has none.
        fit_: Status, history and counts of the best start; ``fit_.residual`` is the relative
            residual, or a deviance ratio; ``fit_.noise_cost`` is the noise's part of it.
        fits_: The same for every start.
        record_: Requested and resolved settings.
        training_: Metadata of the training data.
        side_factor_: With side information, the factor of its columns, shape (columns, rank); see
            `predict_side`. ``fit_.side_residual`` is its relative residual, or its deviance ratio.
        certificate_: What `certify` has found about the training people, if it was called.
        selection_: With ``strength="auto"``, the selected strength and all strengths tried.

    >>> from parafair import FairCP, datasets
    >>> data = datasets.synthetic(0, shape=(20, 8, 6), rank=3)
    >>> model = FairCP(rank=2, method="hsic", strength=1.0)
    >>> model.fit_transform(data.tensor, sensitive_features=data.sensitive_features).shape
    (20, 2)
    """

    def __init__(  # noqa: PLR0913  (scikit-learn: every setting is an argument)
        self,
        rank: int = 2,
        *,
        method: str | Method = "invariant",
        strength: float | Literal["auto"] | None = None,
        max_leakage: float = 0.05,
        guarantee: str | Sequence[str] | None = None,
        noise: float | None = None,
        encoder: str | Learned | None = None,
        mode: int | str = 0,
        loss: str | Loss = "squared",
        non_negative: bool | Sequence[int | str] = False,
        ridge: Ridge = "auto",
        center: bool = False,
        side_weight: float = 1.0,
        side_loss: str | Loss = "squared",
        solver: str | Solver[Any] = "auto",
        init: InitName | CPTensor | Sequence[Any] = "uniform",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int = 2000,
        tol: float = 3e-5,
        random_state: RandomState = 0,
        verbose: int = 0,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> None:
        self.rank = rank
        self.method = method
        self.strength = strength
        self.max_leakage = max_leakage
        self.guarantee = guarantee
        self.noise = noise
        self.encoder = encoder
        self.mode = mode
        self.loss = loss
        self.non_negative = non_negative
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
        """Raise unless the rank is a positive whole number."""
        whole_number("rank", self.rank)
