"""log K_nu(x) in three regions, each accurate to about 1e-15 in float64; plain differentiable torch code.

Every region takes nu >= -1/2 and x > 0 as flat float64 tensors and returns, with r = hypot(nu, x),

    log_z = log 2 K_nu(x) - (nu asinh(nu / x) - r)      the remainder of log K after its exponential part
    delta = x K_{nu+1}(x) / K_nu(x) - nu - r             of order 1 everywhere the exponential is large
    ratio = K_{nu+1}(x) / K_nu(x)

log_z and delta stay of order one where log K reaches 1e8, so whatever is built on them (densities, entropies,
variances) loses no digits. They obey d log_z / dx = -delta / x.

Sources: NIST DLMF 10.41 (Debye), 10.32.9 (integral); N. M. Temme, J. Comput. Phys. 19 (1975) 324.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

Triple = tuple[Tensor, Tensor, Tensor]

DEBYE_RADIUS = 26.0  # from this hypot(nu, x) on, DEBYE_TERMS terms leave a relative error below 1e-15
DEBYE_TERMS = 16
TEMME_LIMIT = 2.0  # below this x the power series in x^2 / 4 converges in TEMME_TERMS terms
TEMME_TERMS = 18
TRAPEZOID_NODES = 64

# Taylor coefficients of 1 / Gamma(1 + z).
RECIPROCAL_GAMMA = (
    1.0, 0.5772156649015329, -0.6558780715202539, -0.04200263503409524, 0.16653861138229148,
    -0.04219773455554433, -0.009621971527876973, 0.0072189432466631, -0.0011651675918590652,
    -0.00021524167411495098, 0.0001280502823881162, -2.013485478078824e-05, -1.2504934821426706e-06,
    1.133027231981696e-06, -2.056338416977607e-07, 6.116095104481416e-09, 5.002007644469223e-09,
    -1.18127457048702e-09, 1.0434267116911005e-10, 7.782263439905071e-12, -3.696805618642206e-12,
    5.100370287454476e-13, -2.0583260535665066e-14, -5.348122539423018e-15, 1.2267786282382608e-15,
    -1.1812593016974588e-16, 1.1866922547516004e-18, 1.4123806553180319e-18,
)  # fmt: skip


def debye(nu: Tensor, x: Tensor) -> Triple:
    """Uniform expansion in 1 / r for r >= DEBYE_RADIUS: large order, large argument or both."""
    r = torch.sqrt(nu * nu + x * x)
    p2 = (nu / r).square()
    s = DEBYE_RADIUS / r
    powers_p, powers_s = _powers(p2), _powers(s)  # (n, terms)
    u_table, d_table = (torch.tensor(t, dtype=x.dtype, device=x.device) for t in _DEBYE_TABLES)
    u = ((powers_p @ u_table) * powers_s).sum(-1)
    d = ((powers_p @ d_table) * powers_s).sum(-1)
    log_z = math.log(2) + 0.5 * math.log(math.pi / 2) - 0.5 * torch.log(r) + torch.log(u)
    delta = d / u
    return log_z, delta, (nu + r + delta) / x


def trapezoid(nu: Tensor, x: Tensor) -> Triple:
    """K_nu(x) = int_0^inf exp(-x cosh t) cosh(nu t) dt, whose trapezoid rule converges like exp(-c / h)."""
    r = torch.sqrt(nu * nu + x * x)
    exponent = nu * torch.asinh(nu / x) - r
    # The nodes are constants for differentiation: d(rule) is then the rule applied to d(integrand).
    h = _integration_range(nu.detach(), x.detach(), exponent.detach()) / TRAPEZOID_NODES
    t = h[:, None] * torch.arange(TRAPEZOID_NODES + 1, dtype=x.dtype, device=x.device)
    n, z = nu[:, None], x[:, None]
    envelope = torch.exp(-z * torch.cosh(t) + n * t - exponent[:, None])
    reflected = torch.exp(-2 * n * t)
    weight = h[:, None] * torch.where(t == 0, 0.5, 1.0)
    k0 = (weight * envelope * (1 + reflected)).sum(-1)  # 2 K_nu exp(-exponent)
    k1 = (weight * envelope * (torch.exp(t) + reflected * torch.exp(-t))).sum(-1)
    ratio = k1 / k0
    return torch.log(k0), x * ratio - nu - r, ratio


def temme(nu: Tensor, x: Tensor) -> Triple:
    """Temme's series at mu = nu - round(nu), then the upward recurrence of the ratio; for x < TEMME_LIMIT."""
    steps = torch.floor(nu + 0.5)
    mu = nu - steps
    k0, k1 = _temme_series(mu, x)
    log_k, ratio, order = torch.log(k0), k1 / k0, mu
    for _ in range(int(steps.max())):
        climbing = steps > order - mu + 0.5
        log_k = torch.where(climbing, log_k + torch.log(ratio), log_k)
        ratio = torch.where(climbing, 1 / ratio + 2 * (order + 1) / x, ratio)
        order = torch.where(climbing, order + 1, order)
    r = torch.sqrt(nu * nu + x * x)
    log_z = math.log(2) + log_k - (nu * torch.asinh(nu / x) - r)
    return log_z, x * ratio - nu - r, ratio


def _temme_series(mu: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """K_mu(x) and K_{mu+1}(x) for |mu| <= 1/2."""
    mu2 = mu * mu
    even = _horner(RECIPROCAL_GAMMA[0::2], mu2)  # (1/Gamma(1-mu) + 1/Gamma(1+mu)) / 2
    odd = -_horner(RECIPROCAL_GAMMA[1::2], mu2)  # (1/Gamma(1-mu) - 1/Gamma(1+mu)) / (2 mu)
    plus, minus = even - mu * odd, even + mu * odd  # 1/Gamma(1+mu), 1/Gamma(1-mu)
    log_2x = math.log(2) - torch.log(x)
    sigma = mu * log_2x
    growth = torch.exp(sigma)
    f = (odd * torch.cosh(sigma) + even * _sinhc(sigma) * log_2x) / (plus * minus)
    p, q = 0.5 * growth / plus, 0.5 / (growth * minus)
    c, quarter = torch.ones_like(x), x * x / 4
    k0, k1 = f, p
    for k in range(1, TEMME_TERMS + 1):
        f = (k * f + p + q) / (k * k - mu2)
        p, q = p / (k - mu), q / (k + mu)
        c = c * quarter / k
        k0, k1 = k0 + c * f, k1 + c * (p - k * f)
    return k0, k1 * 2 / x


def _integration_range(nu: Tensor, x: Tensor, exponent: Tensor) -> Tensor:
    """The t beyond which the integrand is e^-42 of its peak: Newton on a convex function, from the right."""
    t = torch.log(2 * (torch.hypot(nu, x) + 40 + 6 * nu.abs()) / x) + 0.5
    for _ in range(6):
        t = t - (x * torch.cosh(t) - nu * t - (42 - exponent)) / (x * torch.sinh(t) - nu)
    return t


def _sinhc(z: Tensor) -> Tensor:
    """sinh(z) / z, smooth through zero."""
    near = z.abs() < 1
    series = _horner([1 / math.factorial(2 * k + 1) for k in range(11)], torch.where(near, z * z, 0.0))
    away = torch.where(near, 1.0, z)
    return torch.where(near, series, torch.sinh(away) / away)


def _powers(y: Tensor) -> Tensor:
    """1, y, ..., y^DEBYE_TERMS by products: the second derivative of ``y ** k`` is nan at y = 0."""
    rows = [torch.ones_like(y)]
    for _ in range(DEBYE_TERMS):
        rows.append(rows[-1] * y)
    return torch.stack(rows, -1)


def _horner(coefficients: tuple[float, ...] | list[float], y: Tensor) -> Tensor:
    total = torch.full_like(y, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * y + c
    return total


def _debye_tables() -> tuple[list[list[float]], list[list[float]]]:
    """(-1)^k u_k and (-1)^k (v_k - u_k) as tables [power of p^2][power of 1/r], scaled by DEBYE_RADIUS^-k.

    u_k(p) = p^k U_k(p^2), and u_k(p) / nu^k = U_k(p^2) / r^k: that is what makes the expansion one in 1 / r.
    """
    size = DEBYE_TERMS + 1
    u_table = [[0.0] * size for _ in range(size)]
    d_table = [[0.0] * size for _ in range(size)]
    u = [Fraction(1)]  # coefficients of U_k in powers of p^2
    for k in range(size):
        scale = Fraction(-1, int(DEBYE_RADIUS)) ** k
        for j, value in enumerate(u):
            u_table[j][k] = float(value * scale)
        # u_{k+1} = p^2 (1-p^2) u_k' / 2 + (1/8) int_0^p (1-5t^2) u_k dt;  d_{k+1} = -p(1-p^2)(u_k/2 + p u_k')
        following = [Fraction(0)] * (len(u) + 1)
        difference = [Fraction(0)] * (len(u) + 1)
        for j, value in enumerate(u):
            degree = k + 2 * j
            following[j] += value * (Fraction(degree, 2) + Fraction(1, 8 * (degree + 1)))
            following[j + 1] -= value * (Fraction(degree, 2) + Fraction(5, 8 * (degree + 3)))
            difference[j] -= value * (Fraction(1, 2) + degree)
            difference[j + 1] += value * (Fraction(1, 2) + degree)
        if k + 1 < size:
            # delta = r (V / U - 1): its factor r takes one power of 1 / r, so column k holds -d_{k+1}
            for j, value in enumerate(difference):
                d_table[j][k] = -float(value * scale)
        u = following
    return u_table, d_table


_DEBYE_TABLES = _debye_tables()
