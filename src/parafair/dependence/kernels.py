"""Kernels: the similarity of two rows. One class each; gamma fixed or by the median rule."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from numbers import Real
from typing import Literal, Self, TypeAlias

import torch
from torch import Tensor

from parafair.arguments import real_number, whole_number
from parafair.errors import shown

Gamma: TypeAlias = float | Literal["median"]

# Rows used by the median rule: the median of half a million distances is precise enough.
MEDIAN_ROWS = 1000

# Lower bounds of exponents. Kernel values this small are practically zero, and denormal numbers
# would make every later operation ten times slower.
LEAST_EXPONENT = {torch.float32: -60.0, torch.float64: -600.0}


class Kernel(ABC):
    """A positive definite function of two rows."""

    @abstractmethod
    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the Gram matrix, shape (..., n, m), of rows (..., n, d) and (..., m, d)."""

    def resolve(self, sample: Tensor) -> Kernel:
        """Return this kernel with every data-dependent setting fixed from a sample."""
        return self

    def within(self, sample: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``sum_ij weights_ij k(x_i, x_j)`` and its gradient in the sample.

        A kernel may override this automatic derivative with a formula.

        Args:
            sample: Shape (..., n, d).
            weights: Symmetric, shape (..., n, n).
        """
        with torch.enable_grad():
            sample = sample.detach().requires_grad_()
            value = (weights * self(sample, sample)).sum((-2, -1))
            (gradient,) = torch.autograd.grad(value.sum(), (sample,))
        return value.detach(), gradient

    def between(
        self, first: Tensor, second: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``sum_ij weights_ij k(x_i, y_j)`` and its gradients in both samples.

        Args:
            first: Shape (..., n, d).
            second: Shape (..., m, d).
            weights: Shape (..., n, m).
        """
        with torch.enable_grad():
            first, second = first.detach().requires_grad_(), second.detach().requires_grad_()
            value = (weights * self(first, second)).sum((-2, -1))
            for_first, for_second = torch.autograd.grad(value.sum(), (first, second))
        return value.detach(), for_first, for_second


def check_kernel(name: str, kernel: object) -> None:
    """Raise unless it is a kernel."""
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"{name} must be a kernel such as parafair.dependence.kernels.Gaussian(1.0), got "
            f"{shown(kernel)}"
        )


# Gammas beyond these make all distances the same in double precision.
LEAST_GAMMA, LARGEST_GAMMA = 1e-150, 1e150


# Each scale is a fourth of the one before; more of them, or weights that fall faster, underflow.
MOST_SCALES, MOST_DECAY = 20, 10


def check_gamma(gamma: object) -> None:
    """Raise unless it is a multiplier of squared distances."""
    number = float(gamma) if isinstance(gamma, Real) and not isinstance(gamma, bool) else 0.0
    if not LEAST_GAMMA <= number <= LARGEST_GAMMA:
        raise ValueError(
            f"gamma must be a positive number or 'median', from {LEAST_GAMMA:g} to "
            f"{LARGEST_GAMMA:g}, got {shown(gamma)}; it multiplies the squared distance"
        )


@dataclass(frozen=True)
class Gaussian(Kernel):
    """The radial basis kernel ``exp(-gamma * ||x - y||**2)``, the paper's choice.

    Attributes:
        gamma: Multiplier of the squared distance, or "median" to choose it from a sample.
    """

    gamma: Gamma = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.gamma, str) and self.gamma == "median":
            return
        check_gamma(self.gamma)

    def resolve(self, sample: Tensor) -> Self:
        """Replace ``gamma="median"`` by ``0.5 / median`` of squared distances of distinct rows."""
        if self.gamma != "median":
            return self
        if sample.ndim > 2:
            raise ValueError(
                f"gamma='median' needs one sample, got a batch of shape {tuple(sample.shape)}; "
                "resolve the kernel for one member first, or give gamma as a number"
            )
        rows = sample.detach()
        if len(rows) > MEDIAN_ROWS:
            # A fixed random draw: every k-th row could match a pattern in the data.
            generator = torch.Generator().manual_seed(0)
            order = torch.randperm(len(rows), generator=generator, device="cpu")
            rows = rows[order[:MEDIAN_ROWS]]
        n = len(rows)
        above = torch.triu_indices(n, n, 1, device=rows.device)
        distances = torch.cdist(rows, rows).square()[*above]
        distances = distances[distances > 0]
        if not len(distances):
            raise ValueError(
                "kernels with gamma='median' need at least two distinct rows, but all rows are "
                "equal; give gamma as a number"
            )
        return replace(self, gamma=0.5 / float(distances.median()))

    @property
    def scale(self) -> float:
        """Gamma as a number."""
        if isinstance(self.gamma, str):
            raise ValueError(
                "gamma='median' must be resolved from a sample first: "
                "call kernel.resolve(sample), or give gamma as a number"
            )
        return float(self.gamma)

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the Gram matrix, shape (..., n, m)."""
        center = second.mean(-2, keepdim=True)
        return self._of_extended(_extend(first, center), _extend(second, center))

    def within(self, sample: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """With ``E = weights * K`` the gradient is ``4 gamma (E @ x - E.sum(1) * x)``."""
        sample = sample.detach()
        memory = _Workspace.of(sample)
        torch.sub(sample, sample.mean(-2, keepdim=True), out=memory.points)
        torch.linalg.vecdot(memory.points, memory.points, out=memory.squares)
        exponent_map = _exponent_map(sample.shape[-1] + 2, self.scale, sample.dtype, sample.device)
        torch.matmul(memory.rows, exponent_map, out=memory.image)
        gram = torch.matmul(memory.rows, memory.columns, out=memory.gram)
        gram.clamp_(LEAST_EXPONENT[sample.dtype], 0).exp_().mul_(weights)
        torch.matmul(gram, memory.rows, out=memory.pulled)
        drift = torch.addcmul(memory.pulled_points, memory.points, memory.mass, value=-1)
        return memory.mass.sum((-2, -1)), drift.mul_(4 * self.scale)

    def between(
        self, first: Tensor, second: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `within`, with ``2 gamma`` for each side."""
        center = second.mean(-2, keepdim=True)
        rows, columns = _extend(first, center), _extend(second, center)
        mass = self._of_extended(rows, columns).mul_(weights)
        on_rows, on_columns = mass @ columns, mass.mT @ rows
        for_first = _drift(rows, on_rows).mul_(2 * self.scale)
        for_second = _drift(columns, on_columns).mul_(2 * self.scale)
        return on_rows[..., -1].sum(-1), for_first, for_second

    def _of_extended(self, rows: Tensor, columns: Tensor) -> Tensor:
        exponent_map = _exponent_map(rows.shape[-1], self.scale, rows.dtype, rows.device)
        exponent = rows @ (columns @ exponent_map).mT
        return exponent.clamp_(LEAST_EXPONENT[rows.dtype], 0).exp_()


@dataclass(frozen=True)
class MultiscaleGaussian(Kernel):
    """A weighted mean of Gaussian kernels whose gammas grow fourfold from one to the next.

    One exponential is enough for all of them: ``exp(-4 g d) = exp(-g d)**4``. With weights that
    decrease like ``gamma ** (-decay / 2)`` the mean approximates a generalized energy distance
    ``-|d| ** decay`` between the smallest and the largest scale. There it has no scale of its own,
    so differences cannot hide at any scale.

    Attributes:
        gamma: The smallest gamma.
        count: Number of kernels.
        decay: How fast the weights decrease; 0 gives equal weights.
    """

    gamma: float = 1.0
    count: int = 3
    decay: float = 0.5

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        whole_number("count", self.count, most=MOST_SCALES)
        real_number("decay", self.decay, least=0, most=MOST_DECAY)

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the Gram matrix, shape (..., n, m)."""
        center = second.mean(-2, keepdim=True)
        gram = Gaussian(self.gamma)._of_extended(*_extend_both(first, second, center))
        mixed = gram * self.parts[0][1]
        for _, weight in self.parts[1:]:
            gram = gram.square().square()
            mixed = mixed + weight * gram
        return mixed

    @property
    def parts(self) -> tuple[tuple[float, float], ...]:
        """Gamma and weight of every kernel; the weights add up to 1."""
        weights = [4 ** (-self.decay / 2 * scale) for scale in range(self.count)]
        total = sum(weights)
        return tuple((self.gamma * 4**b, weight / total) for b, weight in enumerate(weights))

    def within(self, sample: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """As `Gaussian.within`, with ``E = weights * sum_b w_b gamma_b K_b``."""
        rows = _extend(sample.detach(), sample.detach().mean(-2, keepdim=True))
        mixed, slope = self._mix(Gaussian(self.gamma)._of_extended(rows, rows))
        value = _weighted_sum(mixed, weights)
        return value, _drift(rows, slope.mul_(weights) @ rows).mul_(4)

    def between(
        self, first: Tensor, second: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `within`, half of the gradient for each side."""
        center = second.detach().mean(-2, keepdim=True)
        rows, columns = _extend_both(first.detach(), second.detach(), center)
        mixed, slope = self._mix(Gaussian(self.gamma)._of_extended(rows, columns))
        value = _weighted_sum(mixed, weights)
        slope.mul_(weights)
        for_first, for_second = _drift(rows, slope @ columns), _drift(columns, slope.mT @ rows)
        return value, for_first.mul_(2), for_second.mul_(2)

    def _mix(self, gram: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``sum_b w_b K_b`` and ``sum_b w_b gamma_b K_b``.

        Args:
            gram: The Gram matrix of the widest kernel; it is overwritten.
        """
        (gamma, weight), *finer = self.parts
        mixed, slope = gram * weight, gram * (weight * gamma)
        # Denormal numbers would be slow, here and when multiplied by weights.
        smallest = torch.finfo(gram.dtype).tiny ** (0.75 / 4)
        for gamma, weight in finer:
            gram.clamp_(min=smallest).square_().square_()
            mixed.add_(gram, alpha=weight)
            slope.add_(gram, alpha=weight * gamma)
        return mixed, slope


def _weighted_sum(gram: Tensor, weights: Tensor) -> Tensor:
    """Return the sum over all entries of ``gram * weights``, shape (...)."""
    if weights.ndim == 2:
        # A product with a vector; with a matrix of one column it takes ten times as long.
        return gram.flatten(-2) @ weights.flatten()
    return (gram.flatten(-2) * weights.flatten(-2)).sum(-1)


def _extend_both(first: Tensor, second: Tensor, center: Tensor) -> tuple[Tensor, Tensor]:
    return _extend(first, center), _extend(second, center)


class _Workspace:
    """Memory for `Gaussian.within`, reused while the shape stays the same.

    A descent computes the same small Gram matrix thousands of times, and would spend a third of
    the time on allocating and slicing. Each thread has its own memory; results are never in it.
    """

    _kept = threading.local()

    def __init__(self, sample: Tensor) -> None:
        *batch, n, d = sample.shape
        self.rows = sample.new_ones(*batch, n, d + 2)  # [x, |x|^2, 1], as in _extend
        self.points, self.squares = self.rows[..., :-2], self.rows[..., -2]
        self.image = torch.empty_like(self.rows)
        self.columns = self.image.mT
        self.gram = sample.new_empty(*batch, n, n)
        self.pulled = torch.empty_like(self.rows)
        self.pulled_points, self.mass = self.pulled[..., :-2], self.pulled[..., -1:]

    @classmethod
    def of(cls, sample: Tensor) -> _Workspace:
        """Return memory for a sample of this shape, precision and device."""
        if sample.is_cuda:
            return cls(sample)  # torch caches freed memory there
        key = (sample.shape, sample.dtype, sample.device)
        if getattr(cls._kept, "key", None) != key:
            with torch.inference_mode(False):  # calls outside inference mode use it too
                cls._kept.key, cls._kept.workspace = key, cls(sample)
        workspace: _Workspace = cls._kept.workspace
        return workspace


def _drift(rows: Tensor, pulled: Tensor) -> Tensor:
    """Return ``E @ y - E.sum(1) * x`` from ``pulled = E @ [y, |y|^2, 1]``."""
    return torch.addcmul(pulled[..., :-2], rows[..., :-2], pulled[..., -1:], value=-1)


def _extend(rows: Tensor, center: Tensor) -> Tensor:
    """Return ``[x, |x|^2, 1]`` for each row minus `center`, shape (..., n, d + 2).

    Centering does not change distances, and avoids a loss of digits if means are large.
    """
    rows = rows - center
    squares = torch.linalg.vecdot(rows, rows).unsqueeze(-1)
    return torch.cat([rows, squares, torch.ones_like(squares)], -1)


@lru_cache
def _exponent_map(size: int, gamma: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``C`` with ``[x, |x|^2, 1] C.T [y, |y|^2, 1].T = -gamma ||x - y||^2``.

    One matrix product then gives all exponents, which is faster than separate sums.
    """
    with torch.inference_mode(False):  # calls outside inference mode use the cache too
        matrix = torch.eye(size, dtype=dtype, device=device) * (2 * gamma)
        matrix[-2:, -2:] = matrix.new_tensor([[0.0, -gamma], [-gamma, 0.0]])
        return matrix


@dataclass(frozen=True)
class Linear(Kernel):
    """The kernel ``x . y``: HSIC with it measures correlation only."""

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the Gram matrix, shape (..., n, m)."""
        return first @ second.mT


@dataclass(frozen=True)
class Delta(Kernel):
    """1 for equal rows and 0 for different ones: the kernel of categories."""

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the Gram matrix, shape (..., n, m)."""
        dtype = first.dtype if first.is_floating_point() else torch.float64
        # One column after the other, so that (n, m, d) values never exist at once.
        columns = zip(first.unbind(-1), second.unbind(-1), strict=True)
        matches = (x.unsqueeze(-1) == y.unsqueeze(-2) for x, y in columns)
        return reduce(torch.logical_and, matches).to(dtype)

    def within(self, sample: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The kernel is piecewise constant: its gradient is zero."""
        return (weights * self(sample, sample)).sum((-2, -1)), torch.zeros_like(sample)

    def between(
        self, first: Tensor, second: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `within`."""
        value = (weights * self(first, second)).sum((-2, -1))
        return value, torch.zeros_like(first), torch.zeros_like(second)


# Kernels that a stored model may name.
KERNELS = (Gaussian, MultiscaleGaussian, Linear, Delta)
