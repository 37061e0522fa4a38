"""Rates of priors: how fast a density rises at zero and falls in its tail, by theory and as measured; and its curves.

Every marginal density here behaves, at zero and in the tail, as

    |w|^power  x  |log |w||^log_power  x  exp(-coefficient |w|^stretch)

The exponents of theory are those of the paper's table of rates (after Zhang et al., 2022). The measured ones come
from derivatives of our own `log_prob`, by autograd, at weights where the leading behaviour has set in.

Curves are in units in which every prior has P(|w| < 1) = 1/2, so that they compare shapes, not scales.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.priors.base import ScaleMixturePrior
from r2d2net.priors.dirichlet_laplace import DirichletLaplace
from r2d2net.priors.gaussian import Gaussian
from r2d2net.priors.generalized_double_pareto import GeneralizedDoublePareto
from r2d2net.priors.horseshoe import Horseshoe
from r2d2net.priors.horseshoe_plus import HorseshoePlus
from r2d2net.priors.r2d2 import R2D2
from r2d2net.priors.spike_slab import SpikeSlab

AnyPrior = ScaleMixturePrior[Any]
NEAR, FAR, POINTS = (1e-4, 1.0), (1.0, 1e4), 200  # of the curves


class Rate(NamedTuple):
    """Exponents of a density at zero or in the tail; only those that theory has are measured."""

    power: float
    log_power: float = 0.0
    coefficient: float = 0.0
    stretch: float = 0.0


class Curve(NamedTuple):
    """Values of a density, both axes in units of the prior's median |w|."""

    w: list[float]
    density: list[float]


class RateRow(NamedTuple):
    """A prior as plain data: its rates by theory and as measured, and its density near zero and in the tail."""

    label: str
    prior: str  # the class
    hyperparameters: dict[str, Any]
    in_paper: bool  # a row of the paper's table
    zero: Rate
    tail: Rate
    measured_zero: Rate
    measured_tail: Rate
    near: Curve
    far: Curve

    @classmethod
    def of(cls, values: dict[str, Any]) -> RateRow:
        """Restore a row from JSON.

        Args:
            values: The dict of its fields, with lists in place of tuples.

        Returns:
            The row.
        """
        rates = {name: Rate(*values[name]) for name in ("zero", "tail", "measured_zero", "measured_tail")}
        curves = {name: Curve(*values[name]) for name in ("near", "far")}
        return cls(**{**values, **rates, **curves})


def rate_table() -> list[RateRow]:
    """Compute the rates of all priors.

    Returns:
        The rows, those of the paper's table first.
    """
    return [rate_row(label) for label in labels()]


def labels() -> list[str]:
    """Return the labels of all priors."""
    return [label for label, *_ in _theory()]


def rate_row(label: str, points: int = POINTS) -> RateRow:
    """Compute the rates and curves of a prior.

    Args:
        label: One of `labels`.
        points: Points of a curve.

    Returns:
        The row of the table.
    """
    _, prior, zero, tail, in_paper = next(row for row in _theory() if row[0] == label)
    return RateRow(
        label,
        type(prior).__name__,
        prior.hyperparameters(),
        in_paper,
        zero,
        tail,
        measure_zero(prior, zero),
        measure_tail(prior, tail),
        curve(prior, *NEAR, points),
        curve(prior, *FAR, points),
    )


def _theory() -> list[tuple[str, AnyPrior, Rate, Rate, bool]]:
    laplace, pareto = DirichletLaplace(), GeneralizedDoublePareto()
    both = R2D2(a_pi=0.2, b=0.3)
    slab = SpikeSlab()
    return [
        ("Horseshoe", Horseshoe(global_scale=None), Rate(0, log_power=1), Rate(-2), True),
        ("Horseshoe+", HorseshoePlus(global_scale=None), Rate(0, log_power=2), Rate(-2, log_power=1), True),
        (
            f"Dirichlet-Laplace, a*={laplace.concentration:g}",
            laplace,
            Rate(laplace.concentration - 1),
            Rate(laplace.concentration / 2 - 0.75, coefficient=math.sqrt(2 / laplace.scale), stretch=0.5),
            True,
        ),
        (
            f"Generalized double Pareto, alpha={pareto.alpha:g}",
            pareto,
            Rate(0),
            Rate(-1 - pareto.alpha),
            True,
        ),
        *(
            (f"{name}, a_pi={p.a_pi:g}, b={p.b:g}", p, Rate(min(2 * p.a_pi - 1, 0)), Rate(-1 - 2 * p.b), True)
            for name, p in (
                ("R2D2 (paper's setting)", R2D2.paper()),
                ("R2D2 (default)", R2D2()),
                ("R2D2", both),
            )
        ),
        ("Adaptive R2D2", R2D2.adaptive(), Rate(0), Rate(-2), False),
        ("Adaptive R2D2, no floor", R2D2.adaptive(floor=False), Rate(2 * 0.1 - 1), Rate(-2), False),
        ("Gaussian", Gaussian(), Rate(0), Rate(0, coefficient=0.5, stretch=2), False),
        ("Spike-and-slab", slab, Rate(0), Rate(0, coefficient=0.5 / slab.slab_scale**2, stretch=2), False),
    ]


def measure_zero(prior: AnyPrior, theory: Rate) -> Rate:
    """Measure the exponents at zero, from weights between 1e-100 and 1e-25.

    Args:
        prior: The prior.
        theory: The exponents by theory, of which the form is used: whether there is a power of the logarithm.

    Returns:
        The measured exponents.
    """
    log_w = -math.log(10) * torch.tensor([25.0, 50.0, 100.0], dtype=torch.float64)
    slope = log_slope(prior, log_w)
    if theory.log_power == 0:
        return Rate(float(slope[-1]))
    return Rate(_limit(slope), log_power=_log_power(-log_w, -slope + theory.power))


def measure_tail(prior: AnyPrior, theory: Rate) -> Rate:
    """Measure the exponents in the tail, from weights beyond 1e25, or as far as an exponential tail can be followed.

    Args:
        prior: The prior.
        theory: The exponents by theory, of which the form is used: a power of the logarithm, the stretch.

    Returns:
        The measured exponents.
    """
    if theory.stretch == 0:
        log_w = math.log(10) * torch.tensor([25.0, 50.0, 100.0], dtype=torch.float64)
        slope = log_slope(prior, log_w)
        if theory.log_power == 0:
            return Rate(float(slope[-1]))
        return Rate(_limit(slope), log_power=_log_power(log_w, slope - theory.power))
    # d log p / d log w = power - coefficient stretch w^stretch at two weights, solved for power and coefficient
    reach = torch.tensor([1e4, 2e4], dtype=torch.float64)  # w^stretch
    slope = log_slope(prior, torch.log(reach) / theory.stretch)
    coefficient = float((slope[0] - slope[1]) / (reach[1] - reach[0])) / theory.stretch
    power = float(slope[0] + coefficient * theory.stretch * reach[0])
    return Rate(power, coefficient=coefficient, stretch=theory.stretch)


def log_slope(prior: AnyPrior, log_w: Tensor) -> Tensor:
    """Return d log p / d log |w| at these values of log |w|."""
    at = log_w.clone().requires_grad_()
    (slope,) = torch.autograd.grad(prior.log_prob(torch.exp(at)).sum(), at)
    return slope


def _limit(slope: Tensor) -> float:
    """Extrapolate slopes at x, 2x and 4x, whose remainder falls as 1/x, to their limit (Aitken)."""
    first, second, third = slope.tolist()
    return float(third - (third - second) ** 2 / (third - 2 * second + first))


def _log_power(x: Tensor, slope: Tensor) -> float:
    """Return k of a factor (x + constant)^k, x = |log |w||: 1 / slope = (x + constant) / k is linear in x."""
    return float((x[-1] - x[0]) / (1 / slope[-1] - 1 / slope[0]))


def curve(prior: AnyPrior, low: float, high: float, points: int = POINTS) -> Curve:
    """Compute the density at logarithmically spaced |w|.

    Args:
        prior: The prior.
        low: Least |w|, in units of the prior's median |w|.
        high: Largest |w|.
        points: Number of points.

    Returns:
        The curve.
    """
    scale = median_magnitude(prior)
    w = torch.logspace(math.log10(low), math.log10(high), points, dtype=torch.float64)
    return Curve(w.tolist(), (scale * torch.exp(prior.log_prob(scale * w))).tolist())


def median_magnitude(prior: AnyPrior) -> float:
    """Compute the c with P(|w| < c) = 1/2, from the density by the trapezoid rule in log |w|."""
    step = 1 / 32
    log_w = torch.arange(-120.0, 40.0, step, dtype=torch.float64)
    mass = 2 * step * torch.cumsum(torch.exp(prior.log_prob(torch.exp(log_w)) + log_w), 0)
    mass = mass - 0.5 * torch.diff(mass, prepend=mass.new_zeros(1))
    index = int(torch.searchsorted(mass, 0.5))
    share = (0.5 - mass[index - 1]) / (mass[index] - mass[index - 1])
    return math.exp(float(log_w[index - 1]) + step * float(share))
