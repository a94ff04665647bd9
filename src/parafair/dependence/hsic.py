"""Dependence between two samples: HSIC, the paper's KHSIC and centered alignment."""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch import Tensor

from parafair.arguments import items, one_of
from parafair.data.arrays import to_tensor
from parafair.dependence.gram import CenteredGram, Estimator, gram_diagonal, kernel_sum
from parafair.dependence.kernels import Gaussian, Kernel, check_kernel


class _HSIC(torch.autograd.Function):
    """HSIC with gradients by formula, so that no graph over n x n entries is stored."""

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, kernels: tuple[Kernel, Kernel], estimator: Any
    ) -> Tensor:
        weights = CenteredGram.of(second, kernels[1], estimator)
        value, for_first = kernel_sum(first, kernels[0], weights)
        for_second = None
        if ctx.needs_input_grad[1]:
            weights = CenteredGram.of(first, kernels[0], estimator)
            for_second = kernel_sum(second, kernels[1], weights)[1]
        ctx.gradients = (for_first, for_second)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        first, second = (
            None if gradient is None else upstream[..., None, None] * gradient
            for gradient in ctx.gradients
        )
        return first, second, None, None


def hsic(
    first: Tensor,
    second: Tensor,
    *,
    kernels: tuple[Kernel, Kernel] = (Gaussian("median"), Gaussian("median")),
    estimator: Estimator = "biased",
) -> Tensor:
    """Estimate the dependence between two samples; zero means none was found.

    The biased estimator is ``<HKH, HLH> / n**2`` with ``H`` the centering matrix: Gretton et
    al., "Measuring statistical dependence with Hilbert-Schmidt norms", 2005. The unbiased one
    is that of Song et al., "Feature selection via dependence maximization", 2012, and may be
    negative. Both are symmetric, differentiable in both samples and O(n) in memory. A bandwidth
    chosen by the median rule is a constant in the derivative.

    Args:
        first: Rows of the first sample, shape (..., n, d).
        second: Rows of the second sample, shape (..., n, e).
        kernels: One kernel for each sample.
        estimator: "biased" or "unbiased".

    Returns:
        One number per member of the batch, shape (...).

    >>> rows = torch.tensor([[0.0], [1.0], [0.0], [1.0]], dtype=torch.float64)
    >>> round(float(khsic(rows, rows)), 4)  # ((1 - 1/e) / 2) ** 2
    0.0999
    """
    _check_kernels(kernels)
    one_of("estimator", estimator, get_args(Estimator))
    first, second = _as_rows("first", first), _as_rows("second", second)
    if first.shape[-2] != second.shape[-2]:
        raise ValueError(
            f"first and second must have the same number of rows, got {first.shape[-2]} and "
            f"{second.shape[-2]}; row i of both must belong to the same person"
        )
    # The weights of the gradient in the second sample have the batch of the first.
    if second.ndim > 2 or (first.ndim > 2 and second.requires_grad):
        batch = _batch_of(first, second)
        first, second = (x.expand(*batch, *x.shape[-2:]) for x in (first, second))
    dtype = torch.promote_types(first.dtype, second.dtype)
    resolved = tuple(k.resolve(x) for k, x in zip(kernels, (first, second), strict=True))
    value: Tensor = _HSIC.apply(  # type: ignore[no-untyped-call]
        first.to(dtype), second.to(dtype), resolved, estimator
    )
    if not torch.isfinite(value).all():
        raise ValueError(
            "first or second has entries whose squares overflow in these kernels, up to "
            f"{max(float(x.detach().abs().max()) for x in (first, second)):.2g}; rescale it"
        )
    return value


def khsic(first: Tensor, second: Tensor, *, gamma: float = 1.0) -> Tensor:
    """Return the paper's ``rho = <HKH, HLH> / n**2`` with Gaussian kernels, shape (...)."""
    return hsic(first, second, kernels=(Gaussian(gamma), Gaussian(gamma)))


def centered_alignment(
    first: Tensor,
    second: Tensor,
    *,
    kernels: tuple[Kernel, Kernel] = (Gaussian("median"), Gaussian("median")),
) -> Tensor:
    """Return the cosine between the centered Gram matrices (CKA), between 0 and 1, shape (...).

    Cortes, Mohri and Rostamizadeh, "Algorithms for learning kernels based on centered
    alignment", 2012. With Gaussian kernels and gamma = 1 this is the paper's normalized
    KHSIC. A sample without variation gives 0, because nothing can depend on it.
    """
    _check_kernels(kernels)
    # In double precision, because centering a sample that varies little loses most digits.
    first, second = _as_rows("first", first).double(), _as_rows("second", second).double()
    kernels = (kernels[0].resolve(first), kernels[1].resolve(second))
    cross = hsic(first, second, kernels=kernels)
    own = hsic(first, first, kernels=(kernels[0],) * 2) * hsic(
        second, second, kernels=(kernels[1],) * 2
    )
    # Without variation, centering leaves rounding errors of this size.
    sizes = [gram_diagonal(x, k).mean(-1) for x, k in zip((first, second), kernels, strict=True)]
    rounding = ((10 * torch.finfo(own.dtype).eps) ** 2 * sizes[0] * sizes[1]) ** 2
    return torch.where(own > rounding, cross / own.sqrt(), torch.zeros_like(cross))


def _check_kernels(kernels: Any) -> None:
    """Raise unless there is a kernel for each of two samples."""
    found = items("kernels", kernels, "two kernels")
    if len(found) != 2:
        raise ValueError(f"kernels must be two, one for each sample, got {len(found)}")
    for kernel in found:
        check_kernel("each of kernels", kernel)


def _batch_of(first: Tensor, second: Tensor) -> tuple[int, ...]:
    """Return the shape of a batch of both samples."""
    try:
        return tuple(torch.broadcast_shapes(first.shape[:-2], second.shape[:-2]))
    except RuntimeError as error:
        raise ValueError(
            f"first and second must have batches of the same shape, got {tuple(first.shape)} and "
            f"{tuple(second.shape)}; give both the same leading dimensions"
        ) from error


def _as_rows(name: str, sample: Tensor) -> Tensor:
    """Return a sample as floating point rows, shape (..., n, d)."""
    checked = to_tensor(sample, name)  # without the history of gradients
    if not isinstance(sample, Tensor):
        sample = checked
    if sample.ndim == 1:
        sample = sample.unsqueeze(-1)
    if sample.ndim < 2 or sample.shape[-2] < 2 or not sample.shape[-1]:
        raise ValueError(
            f"{name} must have at least 2 rows and 1 column, got shape {tuple(sample.shape)}"
        )
    if not torch.isfinite(checked).all():
        raise ValueError(f"{name} has NaN or infinite entries; remove or impute these rows")
    return sample.to(checked.dtype)
