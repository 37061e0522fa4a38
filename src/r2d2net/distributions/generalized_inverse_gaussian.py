"""The generalised inverse Gaussian giG(chi, rho, lam): density proportional to x^(lam-1) exp(-(rho x + chi/x) / 2).

With om = sqrt(chi rho), Bessel functions K at om, and R_l = K_{l+1} / K_l:

    E X = sqrt(chi/rho) R_lam       E 1/X = sqrt(rho/chi) R_{-lam}       E log X = log sqrt(chi/rho) + d/dl log K_l

It contains the gamma (chi = 0), the inverse gamma (rho = 0), the inverse Gaussian (lam = -1/2) and the reciprocal
inverse Gaussian (lam = 1/2).

No formula below forms a small difference of large numbers. Everything is expressed for Y = X (lam >= 0) or
Y = 1/X (lam < 0), which is giG with order |lam|, around m = (hypot(om, lam) + |lam|) / rho_Y, and through the
Bessel quantities of `bessel.scaled_bessel_k`, which stay of order one where log K reaches 1e15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from r2d2net.distributions.bessel import bessel_k_ratio, bessel_k_ratio_dx, scaled_bessel_k
from r2d2net.distributions.gig_sampler import check_parameters, sample_gig

# Stands for om = 0 where |lam| >= 1: terms of order om^2 are far below rounding, and om^-3, which derivatives form,
# does not overflow.
VANISHING = 1e-100


class GeneralizedInverseGaussian(Distribution):
    """giG(chi, rho, lam) as a torch.distributions.Distribution.

    Args:
        chi: Coefficient of 1/x, >= 0; zero only where lam > 0 (a gamma distribution).
        rho: Coefficient of x, >= 0; zero only where lam < 0 (an inverse gamma distribution).
        lam: Order, any real number or tensor.
        validate_args: Check the values given to `log_prob` against the support; None for torch's default.

    Raises:
        ParameterError: If a parameter is not finite, chi or rho is negative, or the density is improper.

    Example:
        >>> q = GeneralizedInverseGaussian(torch.tensor([1e-12, 4.0]), 1.0, 0.5)
        >>> q.mean
        tensor([1.0000, 3.0000])
        >>> q.sample((3,), generator=torch.Generator().manual_seed(0)).shape
        torch.Size([3, 2])
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "chi": constraints.nonnegative,
        "rho": constraints.nonnegative,
        "lam": constraints.real,
    }
    support = constraints.positive
    has_rsample = False

    def __init__(
        self,
        chi: Tensor | float,
        rho: Tensor | float,
        lam: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.chi, self.rho, self.lam = broadcast_all(chi, rho, lam)
        # A scalar order lets the sampler set its hat up once for all elements.
        self._order: Tensor | float = lam if not isinstance(lam, Tensor) or lam.dim() == 0 else self.lam
        check_parameters(self.chi, self.rho, self.lam)
        super().__init__(self.chi.shape, validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args

    def expand(
        self, batch_shape: Sequence[int], _instance: GeneralizedInverseGaussian | None = None
    ) -> GeneralizedInverseGaussian:
        new = self._get_checked_instance(GeneralizedInverseGaussian, _instance)
        shape = torch.Size(batch_shape)
        new.chi, new.rho, new.lam = (v.expand(shape) for v in (self.chi, self.rho, self.lam))
        scalar = not isinstance(self._order, Tensor) or self._order.dim() == 0
        new._order = self._order if scalar else new.lam
        super(GeneralizedInverseGaussian, new).__init__(shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(
        self,
        sample_shape: Sequence[int] = (),
        generator: torch.Generator | None = None,
        *,
        compiled: bool = False,
    ) -> Tensor:
        """Draw exactly by rejection; see `gig_sampler`.

        Args:
            sample_shape: Shape in front of the batch shape.
            generator: Source of randomness, on the parameters' device; None for torch's global generator.
            compiled: Fuse the proposal with torch.compile.

        Returns:
            Draws of shape ``sample_shape + batch_shape``.
        """
        shape = torch.Size(sample_shape) + self.batch_shape
        with torch.no_grad():
            chi, rho = self.chi.detach().expand(shape), self.rho.detach()
            return sample_gig(chi, rho, self._order, generator, compiled=compiled)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        c = self._canonical()
        x = value.to(torch.float64)
        chi, rho = self.chi.to(torch.float64), self.rho.to(torch.float64)
        # t = e^z = Y / m
        t = torch.where(c.flipped, chi / x, rho * x) / c.h
        psi = c.al * (t - 1) * ((t - 1) / t) / 2 + c.order * _excess(t)
        density = torch.where(x == math.inf, -math.inf, -psi - c.log_z - torch.log(x))
        return density.to(torch.promote_types(self.chi.dtype, value.dtype))

    @property
    def mean(self) -> Tensor:
        c = self._canonical()
        return torch.where(c.flipped, c.mean_inverse_y(), c.mean_y()).to(self.chi.dtype)

    @property
    def mean_inverse(self) -> Tensor:
        """E[1/X]; infinite where it does not exist (chi = 0 and lam <= 1)."""
        c = self._canonical()
        return torch.where(c.flipped, c.mean_y(), c.mean_inverse_y()).to(self.chi.dtype)

    @property
    def mean_log(self) -> Tensor:
        """E[log X]."""
        c = self._canonical()
        value = torch.log(c.h / c.rho_y) + c.mean_z
        return torch.where(c.flipped, -value, value).to(self.chi.dtype)

    @property
    def variance(self) -> Tensor:
        """Var X = (E X)^2 (R / om - R') / R^2 at order max(lam, -lam - 2); both terms are positive.

        The squared coefficient of variation K_{l+2} K_l / K_{l+1}^2 - 1 is symmetric about l = -1.
        """
        c = self._canonical()
        lam = self.lam.to(torch.float64)
        order = torch.maximum(lam, -lam - 2)
        ratio, slope = bessel_k_ratio(order, c.om), bessel_k_ratio_dx(order, c.om)
        relative = (ratio / c.om - slope) / ratio.square()
        # chi = 0: gamma with shape |lam|; rho = 0: inverse gamma, finite from |lam| > 2 on
        shape = torch.where(c.flipped, c.order - 2, c.order)
        safe = torch.where(shape > 0, shape, 1.0)  # 1 / 0 would make the gradient nan even where it is not taken
        relative = torch.where(c.limit, torch.where(shape > 0, 1 / safe, math.inf), relative)
        mean = torch.where(c.flipped, c.mean_inverse_y(), c.mean_y())
        return (mean.square() * relative).to(self.chi.dtype)

    def entropy(self) -> Tensor:
        c = self._canonical()
        log_m = torch.log(c.h / c.rho_y)
        value = torch.where(c.flipped, -1.0, 1.0) * (log_m + c.mean_z) + c.log_z + c.delta - c.order * c.mean_z
        return value.to(self.chi.dtype)

    def _canonical(self) -> _Canonical:
        chi, rho, lam = (v.to(torch.float64) for v in (self.chi, self.rho, self.lam))
        flipped = lam < 0
        order = torch.where(flipped, -lam, lam)
        chi_y, rho_y = torch.where(flipped, rho, chi), torch.where(flipped, chi, rho)
        limit = chi_y == 0
        om = torch.sqrt(torch.where(limit, 1.0, chi_y)) * torch.sqrt(rho_y)
        om = torch.where(limit, VANISHING, om)
        log_z, mean_z, delta = scaled_bessel_k(order, om)
        # For |lam| < 1 powers of om^|lam| are not small: use the gamma distribution's own constants.
        gamma = limit & (order < 1)
        shape = torch.where(gamma, order, 1.0)
        log_shape = torch.log(shape)
        log_z = torch.where(gamma, torch.lgamma(shape) - shape * log_shape + shape, log_z)
        mean_z = torch.where(gamma, torch.digamma(shape) - log_shape, mean_z)
        delta = torch.where(limit, 0.0, delta)
        return _Canonical(flipped, limit, order, om, chi_y, rho_y, log_z, mean_z, delta)


class _Canonical(NamedTuple):
    """Y = X or 1/X, whichever has order >= 0, in float64; see the module's docstring."""

    flipped: Tensor
    limit: Tensor  # Y is exactly a gamma variable
    order: Tensor
    om: Tensor
    chi_y: Tensor
    rho_y: Tensor
    log_z: Tensor
    mean_z: Tensor
    delta: Tensor

    @property
    def radius(self) -> Tensor:
        return torch.where(self.limit, self.order, torch.hypot(self.om, self.order))

    @property
    def h(self) -> Tensor:
        return self.radius + self.order

    @property
    def al(self) -> Tensor:
        return torch.where(self.limit, 0.0, self.om * (self.om / self.h))

    def mean_y(self) -> Tensor:
        return (self.h + self.delta) / self.rho_y

    def mean_inverse_y(self) -> Tensor:
        safe = torch.where(self.limit, 1.0, self.chi_y)
        general = torch.sqrt(self.rho_y / safe) * bessel_k_ratio(-self.order, self.om)
        beyond = torch.where(self.order > 1, self.order - 1, 1.0)
        gamma = torch.where(self.order > 1, self.rho_y / (2 * beyond), math.inf)
        return torch.where(self.limit, gamma, general)


def _excess(t: Tensor) -> Tensor:
    """t - 1 - log t to full relative accuracy: near 1, with d = t - 1 and u = d / (2 + d), d u - 2 u^3 (1/3 + ...)."""
    near = (t - 1).abs() < 0.4
    d = torch.where(near, t - 1, 0.0)
    u = d / (2 + d)
    u2 = u * u
    total = torch.zeros_like(u)
    for k in range(17, 0, -1):
        total = total * u2 + 1.0 / (2 * k + 1)
    return torch.where(near, d * u - 2 * u * u2 * total, t - 1 - torch.log(torch.where(near, 1.0, t)))
