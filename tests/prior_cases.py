"""Every prior beside the law of |w|, computed without the library: one line here proves a new prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from r2d2net import priors

Cdf = Callable[[Any], Any]


class Case(NamedTuple):
    name: str
    prior: Any
    cdf: Cdf  # of |w|


def half_cauchy_product_cdf(count: int, unit: float) -> Cdf:
    """Of |N(0, 1)| times `count` half-Cauchys: their log densities sech(u)/pi convolved numerically."""
    step = 0.02
    u = np.arange(-60, 60 + step / 2, step)
    sech = 1 / (np.pi * np.cosh(u))
    density = sech
    for _ in range(count - 1):
        density = np.convolve(density, sech, mode="same") * step
    return _interpolated(lambda x: step * special.erf(x[:, None] / np.exp(u) / np.sqrt(2)) @ density, unit)


def dirichlet_laplace_cdf(concentration: float, scale: float) -> Cdf:
    """By the midpoint rule in the probability of the Laplace scale phi."""
    phi = stats.gamma(concentration, scale=2).ppf((np.arange(4000) + 0.5) / 4000)
    return _interpolated(lambda x: -np.expm1(-x[:, None] / phi).mean(1), scale)


def r2d2_cdf(a_pi: float, b: float, sigma0: float) -> Cdf:
    """By the midpoint rule in the probability of T ~ BetaPrime(a_pi, b), w ~ Laplace(sqrt(T / 2))."""
    s = np.sqrt(stats.betaprime(a_pi, b).ppf((np.arange(4000) + 0.5) / 4000) / 2)
    return _interpolated(lambda x: -np.expm1(-x[:, None] / np.maximum(s, 1e-300)).mean(1), sigma0)


def adaptive_r2d2_cdf(concentrations: list[float], kappas: list[float], floor: float) -> Cdf:
    """By numerical convolution of log E and log T, summed over (a, kappa), the Gaussian and the grid of log g."""
    step = 0.1
    y = np.arange(-80, 80 + step / 2, step)
    log_e = np.exp(np.minimum(y, 6) - np.exp(np.minimum(y, 6)))
    log_t = [np.exp(a * y - (a + 0.5) * np.logaddexp(0, y)) / special.beta(a, 0.5) for a in concentrations]
    masses = np.sum([np.convolve(log_e, density, mode="same") * step**2 for density in log_t], 0)
    masses = np.append(masses, len(concentrations) - masses.sum())  # what lies below -80 is at the floor
    log_g = np.linspace(-10, 3, 131)
    weight = np.exp(log_g) / (1 + np.exp(2 * log_g))

    def cdf(x: Any) -> Any:
        log_u = np.arange(-60, 60, 0.1)
        u = np.exp(log_u)[:, None] / np.sqrt(2)
        total = floor * special.erf(u[:, 0])
        for kappa in kappas:
            v = np.append(floor + kappa * np.exp(y), max(floor, 1e-300))
            total += special.erf(u / np.sqrt(v)) @ masses
        total /= floor + len(kappas) * len(concentrations)
        return (
            sum(w * np.interp(np.log(x) - g, log_u, total) for w, g in zip(weight, log_g, strict=True)) / weight.sum()
        )

    return _interpolated(cdf, 1.0)


def _interpolated(cdf: Cdf, unit: float) -> Cdf:
    """Tabulated once in log x: a table error of 1e-4 is far below the resolution of 20,000 draws."""
    log_x = np.linspace(-45, 45, 1500)
    table = cdf(np.exp(log_x))
    return lambda x: np.interp(np.log(np.maximum(x / unit, 1e-300)), log_x, table)


def _normal_cdf(scale: float) -> Cdf:
    return lambda x: special.erf(x / scale / np.sqrt(2))


# Hyperparameters near the ends of what anyone would ask for: scales must stay finite there too.
EXTREME_PRIORS = [
    priors.Gaussian(1e-15),
    priors.Gaussian(1e15),
    priors.SpikeSlab(0.5, 1.0, 1e-15),
    priors.R2D2(0.01, 0.05, sigma0=1e-15),
    priors.R2D2(50.0, 50.0, sigma0=1e15),
    priors.Horseshoe(1e-15, 1e-15),
    priors.Horseshoe(1e15, 1e15),
    priors.HorseshoePlus(1e-6, 1e-6),
    priors.SpikeSlab(1e-6, 1e3, 1e-6),
    priors.DirichletLaplace(0.01, 1e-6),
    priors.DirichletLaplace(50.0, 1e6),
    priors.GeneralizedDoublePareto(0.05, 1e-6),
    priors.GeneralizedDoublePareto(50.0, 1e6),
    priors.AdaptiveR2D2(a=0.005, kappa=1e12),
    priors.AdaptiveR2D2(a=(0.005, 10.0), kappa=(1e-6, 1e12), floor=False),
]

CASES = [
    Case("gaussian", priors.Gaussian(scale=0.5), _normal_cdf(0.5)),
    Case("horseshoe", priors.Horseshoe(0.5, 0.3), half_cauchy_product_cdf(2, 0.15)),
    Case("horseshoe, local", priors.Horseshoe(2.0, None), half_cauchy_product_cdf(1, 2.0)),
    Case("horseshoe+", priors.HorseshoePlus(0.5, 0.3), half_cauchy_product_cdf(3, 0.15)),
    Case("horseshoe+, local", priors.HorseshoePlus(2.0, None), half_cauchy_product_cdf(2, 2.0)),
    Case(
        "spike and slab",
        priors.SpikeSlab(0.3, 2.0, 0.2),
        lambda x: 0.3 * _normal_cdf(2.0)(x) + 0.7 * _normal_cdf(0.2)(x),
    ),
    Case("Dirichlet-Laplace", priors.DirichletLaplace(0.4, 0.5), dirichlet_laplace_cdf(0.4, 0.5)),
    Case("double Pareto", priors.GeneralizedDoublePareto(1.5, 0.5), lambda x: 1 - (1 + x / 0.5) ** -1.5),
    Case("R2D2", priors.R2D2(0.3, 1.0, sigma0=0.5), r2d2_cdf(0.3, 1.0, 0.5)),
    Case("R2D2, the paper's", priors.R2D2.paper(), r2d2_cdf(0.6, 0.5, 1.0)),
    Case("group R2D2", priors.GroupR2D2(0.3, 1.0, sigma0=0.5, groups="outputs"), r2d2_cdf(0.3, 1.0, 0.5)),
    Case(
        "group horseshoe",
        priors.GroupHorseshoe(0.5, 0.6, 0.5, groups="outputs"),
        half_cauchy_product_cdf(3, 0.15),
    ),
    Case(
        "adaptive R2D2",
        priors.R2D2.adaptive(),
        adaptive_r2d2_cdf([0.01, 0.03, 0.1, 0.3], [1, 10, 100, 1e3, 1e4], floor=1.0),
    ),
    Case(
        "adaptive R2D2, no floor",
        priors.AdaptiveR2D2(a=0.1, floor=False),
        adaptive_r2d2_cdf([0.1], [1.0], floor=0.0),
    ),
]
