"""The modified Bessel function of the second kind for any order: log K_nu(x), its ratio, its derivatives.

    log_bessel_k(nu, x)        log K_nu(x), differentiable twice in nu and x
    log_bessel_k_dnu(nu, x)    d/dnu log K_nu(x)
    bessel_k_ratio(nu, x)      K_{nu+1}(x) / K_nu(x), any real nu
    bessel_k_ratio_dx(nu, x)   its derivative in x

for |nu| up to 1e7 and x from 1e-300 to 1e8 and beyond. Work is done in float64 whatever the input and
returned in the input's dtype. Outside the domain the answer is the limit (x = 0, x = inf) or nan (x < 0), as in
torch.special.

The generalised inverse Gaussian needs what remains of log K after its exponential part is taken out; see
`scaled_bessel_k` and the module `bessel_regions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from r2d2net.distributions import bessel_regions as regions

Number = float | Tensor
Component = Literal["log_z", "mean_z", "delta", "ratio", "ratio_dx"]
CHUNK = 1 << 14  # elements at a time: the trapezoid region holds 65 nodes for each


def log_bessel_k(nu: Number, x: Number) -> Tensor:
    """Compute log K_nu(x), the logarithm of the modified Bessel function of the second kind.

    Args:
        nu: Order, any real number or tensor; K is even in it.
        x: Argument, >= 0.

    Returns:
        log K_nu(x) in the broadcast shape and the promoted dtype: inf at x = 0, -inf at x = inf, nan for x < 0.

    Example:
        >>> x = torch.tensor([1e-30, 1.0, 1e8], dtype=torch.float64)
        >>> log_bessel_k(0.5, x)
        tensor([ 3.4765e+01, -7.7421e-01, -1.0000e+08], dtype=torch.float64)
    """
    nu64, x64, dtype = _prepare(nu, x)
    order = torch.where(nu64 < 0, -nu64, nu64)  # abs() would lose the derivative at nu = 0
    r = torch.hypot(order, x64)
    value = _component(order, x64, "log_z") - math.log(2) + (order * torch.asinh(order / x64) - r)
    value = torch.where(x64 == 0, math.inf, torch.where(x64 == math.inf, -math.inf, value))
    return value.to(dtype)


def log_bessel_k_dnu(nu: Number, x: Number) -> Tensor:
    """Compute d/dnu log K_nu(x), an odd function of nu.

    Args:
        nu: Order, any real number or tensor.
        x: Argument, >= 0.

    Returns:
        The derivative with respect to the order, in the broadcast shape and the promoted dtype.

    Example:
        >>> log_bessel_k_dnu(torch.tensor(0.1, dtype=torch.float64), 5.0)
        tensor(0.0183, dtype=torch.float64)
    """
    nu64, x64, dtype = _prepare(nu, x)
    order = torch.where(nu64 < 0, -nu64, nu64)  # abs() would lose the derivative at nu = 0
    value = _component(order, x64, "mean_z") + torch.asinh(order / x64)
    value = torch.where(x64 == 0, torch.where(order == 0, 0.0, math.inf), torch.where(x64 == math.inf, 0.0, value))
    return (torch.where(nu64 < 0, -1.0, 1.0) * value).to(dtype)


def bessel_k_ratio(nu: Number, x: Number) -> Tensor:
    """Compute K_{nu+1}(x) / K_nu(x) for any real nu, without cancellation.

    Args:
        nu: Order of the denominator, any real number or tensor.
        x: Argument, >= 0.

    Returns:
        The ratio, in the broadcast shape and the promoted dtype; its limit at x = 0 and at x = inf.

    Example:
        >>> bessel_k_ratio(torch.tensor([0.5, -0.5], dtype=torch.float64), 5.0)
        tensor([1.2000, 1.0000], dtype=torch.float64)
    """
    nu64, x64, dtype = _prepare(nu, x)
    # K is even in its order: for nu < -1/2 the ratio is one over that at -nu - 1 > -1/2.
    mirrored = nu64 < -0.5
    ratio = _component(torch.where(mirrored, -nu64 - 1, nu64), x64, "ratio")
    at_zero = torch.where(nu64 == -0.5, 1.0, math.inf)
    ratio = torch.where(x64 == 0, at_zero, torch.where(x64 == math.inf, 1.0, ratio))
    return torch.where(mirrored, 1 / ratio, ratio).to(dtype)


def bessel_k_ratio_dx(nu: Number, x: Number) -> Tensor:
    """Compute d/dx of `bessel_k_ratio`, without the cancellation of its Riccati equation.

    Args:
        nu: Order of the ratio's denominator, any real number or tensor.
        x: Argument, > 0.

    Returns:
        The derivative, in the broadcast shape and the promoted dtype; nan at x = 0 and at x = inf.

    Example:
        >>> bessel_k_ratio_dx(torch.tensor(0.5, dtype=torch.float64), 5.0)  # ratio = 1 + 1/x
        tensor(-0.0400, dtype=torch.float64)
    """
    nu64, x64, dtype = _prepare(nu, x)
    mirrored = nu64 < -0.5
    order = torch.where(mirrored, -nu64 - 1, nu64)
    slope = _component(order, x64, "ratio_dx")
    return torch.where(mirrored, -slope / _component(order, x64, "ratio").square(), slope).to(dtype)


def scaled_bessel_k(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the remainder of log K_nu(x) after its exponential part is taken out, with its derivatives.

    ``log_z`` and ``delta`` are those of `bessel_regions`; ``mean_z`` = d log_z / dnu. For X ~ giG(chi, rho, lam)
    with lam >= 0 and Z = log(X / m), m = (hypot(lam, x) + lam) / rho: exp(log_z) is the normalising
    constant of Z's density, mean_z is E[Z] and delta is E[(rho X + chi / X) / 2] - hypot(lam, x).

    Args:
        nu: Order, >= 0, float64.
        x: Argument, > 0, float64 and of the shape of ``nu``.

    Returns:
        The tensors (log_z, mean_z, delta), float64.
    """
    return _component(nu, x, "log_z"), _component(nu, x, "mean_z"), _component(nu, x, "delta")


def scaled_log_k(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``log_z`` and ``delta`` of `scaled_bessel_k` alone, at a fraction of its cost.

    Args:
        nu: Order, >= -1/2, float64.
        x: Argument, > 0, float64 and of the shape of ``nu``.

    Returns:
        (log_z, delta) with, for r = hypot(nu, x), log_z = log 2 K_nu(x) - (nu asinh(nu / x) - r) and
        delta = x K_{nu+1}(x) / K_nu(x) - nu - r.
    """
    return _component(nu, x, "log_z"), _component(nu, x, "delta")


def _prepare(nu: Number, x: Number) -> tuple[Tensor, Tensor, torch.dtype]:
    """Convert both arguments to float64 tensors of one shape; also return the dtype of the result."""
    tensors = [value for value in (nu, x) if isinstance(value, Tensor)]
    dtype = torch.get_default_dtype()
    if tensors:
        promoted = torch.result_type(nu, x)
        dtype = promoted if promoted.is_floating_point else dtype
    # a scalar on the CPU follows a tensor on an accelerator
    device = next((t.device for t in tensors if t.device.type != "cpu"), tensors[0].device if tensors else None)
    nu64, x64 = torch.broadcast_tensors(
        *(torch.as_tensor(value, dtype=torch.float64, device=device) for value in (nu, x))
    )
    return nu64, x64, dtype


def _component(nu: Tensor, x: Tensor, name: Component) -> Tensor:
    """Evaluate a component differentiably; ``nu`` >= -1/2 and ``x`` are float64 tensors of one shape."""
    result: Tensor = _Component.apply(nu, x, name)
    return result


class _Component(torch.autograd.Function):
    """Autograd over the regions without keeping their graphs: derivatives are recomputed on demand."""

    @staticmethod
    def forward(ctx: Any, nu: Tensor, x: Tensor, name: Component) -> Tensor:
        ctx.save_for_backward(nu, x)
        ctx.name = name
        return _by_region(nu, x, name)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        nu, x = ctx.saved_tensors
        if ctx.name == "log_z":  # closed under differentiation: second derivatives work
            return grad * _component(nu, x, "mean_z"), -grad * _component(nu, x, "delta") / x, None
        return (*_first_derivatives(grad, nu, x, ctx.name), None)


@once_differentiable
def _first_derivatives(grad: Tensor, nu: Tensor, x: Tensor, name: Component) -> tuple[Tensor, Tensor]:
    return grad * _by_region(nu, x, name, "nu"), grad * _by_region(nu, x, name, "x")


def _by_region(nu: Tensor, x: Tensor, name: Component, derivative: str = "") -> Tensor:
    """Evaluate a component, or its derivative, each element by the region it lies in."""
    flat_nu, flat_x = nu.detach().reshape(-1), x.detach().reshape(-1)
    out = torch.full_like(flat_x, math.nan)
    radius = torch.hypot(flat_nu, flat_x)
    inside = (flat_x > 0) & (radius < math.inf)
    far = radius >= regions.DEBYE_RADIUS
    for region, chosen in (
        (regions.debye, inside & far),
        (regions.trapezoid, inside & ~far & (flat_x >= regions.TEMME_LIMIT)),
        (regions.temme, inside & ~far & (flat_x < regions.TEMME_LIMIT)),
    ):
        for index in torch.nonzero(chosen).squeeze(1).split(CHUNK):
            if index.numel() == 0:
                continue
            out[index] = _evaluate(region, flat_nu[index], flat_x[index], name, derivative)
    return out.reshape(x.shape)


def _evaluate(
    region: Callable[[Tensor, Tensor], regions.Triple],
    nu: Tensor,
    x: Tensor,
    name: Component,
    derivative: str,
) -> Tensor:
    """A component at the elements of one region; derivatives are autograd's through the region's formulas."""
    position = {"log_z": 0, "mean_z": 0, "delta": 1, "ratio": 2, "ratio_dx": 2}[name]
    inner = {"mean_z": "nu", "ratio_dx": "x"}.get(name)  # components that are themselves derivatives
    # inference mode would refuse the derivatives: the clones below are ordinary tensors
    with torch.inference_mode(False), torch.set_grad_enabled(inner is not None or derivative != ""):
        variables = {"nu": nu.clone().requires_grad_(), "x": x.clone().requires_grad_()}
        value = region(variables["nu"], variables["x"])[position]
        if inner is not None:
            (value,) = torch.autograd.grad(value.sum(), variables[inner], create_graph=derivative != "")
        if derivative:
            (value,) = torch.autograd.grad(value.sum(), variables[derivative])
    return value.detach()
