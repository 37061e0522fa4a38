"""The Dirichlet-Laplace prior in its marginal form (Bhattacharya, Pati, Pillai and Dunson, 2015).

    w_j | phi_j ~ Laplace(scale phi_j),      phi_j ~ Gamma(a, 1/2),      a = concentration

As a scale mixture the variance is scale^2 psi_j phi_j^2 with psi_j ~ Exp(1/2). With z = |w| / scale, psi
integrated out of the first conditional:

    phi | w ~ giG(2 z, 1, a - 1),      psi | phi, w ~ giG((z / phi)^2, 1, 1/2)
    p(w) = (2 z)^((a-1)/2) K_{1-a}(sqrt(2 z)) / (2^a Gamma(a) scale)

The density has a pole |w|^(a-1) at zero for a < 1 and falls as exp(-sqrt(2|w|)): hard shrinkage, light tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.distributions import (
    GeneralizedInverseGaussian,
    ReciprocalInverseGaussian,
    gig_moments,
    log_bessel_k,
    scaled_expint,
    standard_gamma,
)
from r2d2net.priors.base import (
    ContinuousScalePrior,
    Shape,
    finite_square,
    log_gamma_density,
    positive_finite,
    require_groups,
    scale_parameter,
    shape_parameter,
    squared,
)
from r2d2net.priors.collapsed_factors import CollapsedFactors

_NODES = 256  # of the quadrature for E[log psi]
_CELLS_PER_UNIT = 16  # of log z, in the table that spares many weights that quadrature


class DirichletLaplaceScales(NamedTuple):
    """The exponential mixing variable and the Laplace scale of each weight."""

    psi: Tensor  # shape of w
    phi: Tensor  # shape of w


class DirichletLaplace(ContinuousScalePrior[DirichletLaplaceScales]):
    """Laplace weights with gamma scales.

    Args:
        concentration: Shape a of the scales' gamma law. Below 1 the density is infinite at zero, the more
            sharply the smaller a is; the authors recommend 1/2, the default, or 1/p for very sparse layers.
        scale: Unit in which the weights are measured.

    >>> DirichletLaplace(concentration=0.2).log_prob(torch.tensor([0.0, 1.0])).exp()
    tensor([   inf, 0.0410])
    """

    has_exact_factors = True
    draws_scales_jointly = True

    def __init__(self, concentration: float = 0.5, scale: float = 1.0) -> None:
        self.concentration = shape_parameter("concentration", concentration)
        self.scale = scale_parameter("scale", scale)

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> DirichletLaplaceScales:
        """Draw psi and phi; there is no global scale for ``groups`` to shape."""
        require_groups(shape, groups)
        concentration = torch.full(tuple(shape), self.concentration, dtype=dtype, device=device)
        phi = 2 * standard_gamma(concentration, generator)
        psi = 2 * torch.empty_like(phi).exponential_(generator=generator)
        return DirichletLaplaceScales(positive_finite(psi), positive_finite(phi))

    def variance(self, scales: DirichletLaplaceScales) -> Tensor:
        deviation = self.scale * scales.phi
        return positive_finite(scales.psi * deviation * deviation)

    def log_prob(self, w: Tensor) -> Tensor:
        a = self.concentration
        z = w.abs() / self.scale
        inside = (z > 0) & (z < math.inf)
        x = (2 * torch.where(inside, z, 1.0)).sqrt()
        constant = a * math.log(2) + math.lgamma(a) + math.log(self.scale)
        density = (a - 1) * x.log() + log_bessel_k(a - 1, x) - constant
        at_zero = math.inf if a <= 1 else -math.log(4 * (a - 1) * self.scale)
        outside = torch.where(z == 0, at_zero, torch.where(z.isnan(), math.nan, -math.inf))
        return torch.where(inside, density, outside)

    def gibbs(
        self, w: Tensor, scales: DirichletLaplaceScales, generator: torch.Generator | None = None
    ) -> DirichletLaplaceScales:
        z = squared(w / self.scale).sqrt()
        phi = GeneralizedInverseGaussian(2 * z, 1.0, self.concentration - 1).sample(generator=generator)
        phi = positive_finite(phi)
        psi = ReciprocalInverseGaussian(finite_square((z / phi).square()), 1.0).sample(generator=generator)
        return DirichletLaplaceScales(positive_finite(psi), phi)

    def cavi(self, second_moment: Tensor, scales: DirichletLaplaceScales) -> CollapsedFactors[DirichletLaplaceScales]:
        square = finite_square(second_moment / self.scale**2)
        z = square.sqrt()
        _, mean_inverse_phi = gig_moments(2 * z, 1.0, self.concentration - 1)
        # E[1/psi | phi] = phi / z makes E[1 / (psi phi^2)] = E[1/phi] / z, which these points reproduce
        points = DirichletLaplaceScales(positive_finite(z * mean_inverse_phi), 1 / mean_inverse_phi)
        return CollapsedFactors(
            points,
            square * self.scale**2,
            1 / self.variance(points),
            lambda: self.log_prob(z * self.scale),
            lambda: _interpolated(self._mean_log_variance, z),
        )

    def unconstrained(self, scales: DirichletLaplaceScales) -> dict[str, Tensor]:
        return {"log_psi": scales.psi.log(), "log_phi": scales.phi.log()}

    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        log_phi = log_gamma_density(u["log_phi"], self.concentration, 0.5)
        return (log_phi + log_gamma_density(u["log_psi"], 1.0, 0.5)).sum()

    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        return 2 * math.log(self.scale) + u["log_psi"] + 2 * u["log_phi"]

    def _mean_log_variance(self, z: Tensor) -> Tensor:
        """E[log(psi phi^2)] + 2 log scale, from E[log psi | phi] = log(z/phi) + e^y E1(y), y = 2 z / phi."""
        nu = self.concentration - 1
        mean_log_phi = GeneralizedInverseGaussian(2 * z, 1.0, nu).mean_log
        return z.log() + mean_log_phi + _mean_scaled_expint((2 * z).sqrt(), nu) + 2 * math.log(self.scale)


def _interpolated(function: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """``function(z)`` for many z: a table over the range of log z, read by polynomials of degree 7.

    A quadrature costs some 50 us, the table 0.1 us an element; they agree to 1e-11 in float64.
    """
    if z.numel() <= 2048:
        return function(z)
    position = z.double().log() * _CELLS_PER_UNIT
    first = int(position.min().floor()) - 3
    grid = torch.arange(first, int(position.max().floor()) + 5, dtype=torch.float64, device=z.device)
    table = function((grid / _CELLS_PER_UNIT).exp())
    cell = position.floor()
    numerator, denominator = torch.zeros_like(position), torch.zeros_like(position)
    for k in range(-3, 5):  # barycentric Lagrange weights of eight even nodes: (-1)^k binomial(7, k + 3)
        gap = position - cell - k
        weight = (-1) ** k * math.comb(7, k + 3) / torch.where(gap == 0, 1e-30, gap)
        numerator += weight * table[(cell + (k - first)).long()]
        denominator += weight
    return (numerator / denominator).to(z.dtype)


def _mean_scaled_expint(x: Tensor, nu: float) -> Tensor:
    """E[e^y E1(y)] for y = x exp(-t), where t has the density proportional to exp(nu t - x cosh t).

    About the mode t0 = asinh(nu / x) that density is exp(-drop(t - t0)) up to a constant. The trapezoid rule
    runs between the points where it has fallen by exp(-40).
    """
    r = torch.hypot(x, torch.full_like(x, nu))
    larger = r + abs(nu)
    smaller = x * (x / larger)  # r - |nu| without cancellation
    rising, falling = (larger, smaller) if nu > 0 else (smaller, larger)  # x exp(t0) and x exp(-t0)

    def drop(t: Tensor, r: Tensor, rising: Tensor, falling: Tensor) -> Tensor:
        # two forms of one function: each cancels where the other does not
        near = 2 * r * (t / 2).sinh().square() + nu * (t.sinh() - t)
        far = 0.5 * rising * torch.expm1(t) + 0.5 * falling * torch.expm1(-t) - nu * t
        return torch.where(t.abs() < 1, near, far)

    def reach(sign: float) -> Tensor:
        low, high = torch.zeros_like(x), 2 * torch.log(200 * (1 + abs(nu)) / x.clamp(max=1.0))
        for _ in range(30):
            middle = (low + high) / 2
            inside = drop(sign * middle, r, rising, falling) < 40
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        return sign * high

    fractions = torch.linspace(0, 1, _NODES, dtype=x.dtype, device=x.device)
    t = torch.lerp(reach(-1.0).unsqueeze(-1), reach(1.0).unsqueeze(-1), fractions)
    falling = falling.unsqueeze(-1)
    weights = torch.softmax(-drop(t, r.unsqueeze(-1), rising.unsqueeze(-1), falling), dim=-1)
    return (weights * scaled_expint(falling * (-t).exp())).sum(-1)
