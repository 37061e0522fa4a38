"""Proofs that a prior keeps its contract, written once for all priors.

`geweke` shows that `gibbs` leaves the joint law of weights and scales unchanged (Geweke, 2004, "Getting it
right"). B independent chains start at exact draws from the joint law, run K sweeps of [w | scales, then
scales | w] and are compared with B fresh exact draws. Chains are independent of each other, so the z-scores
need no autocorrelation estimate: under the null each is standard normal up to O(1/B).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from torch import Tensor

_STEP = 0.1  # of the grids on which `kl_on_grid` integrates
Features = Callable[[Tensor, Any], dict[str, Tensor]]


class Geweke(NamedTuple):
    """``p_value`` is Bonferroni's over all statistics: reject when it is below the false-alarm rate."""

    max_z: float
    p_value: float
    worst: str
    z: dict[str, float]


def geweke(
    prior: Any,
    features: Features | None = None,
    *,
    chains: int = 20_000,
    p: int = 5,
    sweeps: int = 4,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Geweke:
    """Compare `sweeps` Gibbs sweeps over `chains` layers of `p` weights with exact draws from the prior.

    ``features(w, scales)`` names tensors of shape (chains,). Each is squashed by tanh about its median, so
    that all moments exist; the statistics are their means and the means of all their pairwise products.
    """
    generator = torch.Generator().manual_seed(seed)
    features = features or log_features

    def start() -> Any:
        return prior.init_scales((chains, p), generator, groups=(chains, 1), dtype=dtype)

    def weights(scales: Any) -> Tensor:
        deviation = prior.variance(scales).sqrt()
        return deviation * torch.randn(deviation.shape, generator=generator, dtype=dtype)

    scales = start()
    for _ in range(sweeps):
        w = weights(scales)
        scales = prior.gibbs(w, scales, generator)
    exact = start()
    return _compare(features(w, scales), features(weights(exact), exact))


def log_features(w: Tensor, scales: Any) -> dict[str, Tensor]:
    """Logs of two weights, of their scales and of the global scales; the largest local scale's share."""
    found = {f"log|w{i}|": w[:, i].abs().log() for i in (0, 1)}
    for name, value in scales._asdict().items():
        x = value.log() if bool((value > 0).all()) else value  # an indicator stays as it is
        found[f"{name}[0]"] = x[:, 0]
        if value.shape == w.shape:
            found[f"{name}[1]"] = x[:, 1]
            found[f"share of {name}"] = value.amax(1) / value.sum(1).clamp(min=torch.finfo(value.dtype).tiny)
    return found


def _compare(chain: dict[str, Tensor], exact: dict[str, Tensor]) -> Geweke:
    squashed: dict[str, tuple[Tensor, Tensor]] = {}
    for name, a in chain.items():
        b = exact[name]
        both = torch.cat([a, b])
        spread = both.std()
        if spread > 0:
            middle = both.median() if both.unique().numel() > 2 else both.mean()
            squashed[name] = (((a - middle) / spread).tanh(), ((b - middle) / spread).tanh())
    statistics = dict(squashed)
    for (i, x), (j, y) in combinations_with_replacement(squashed.items(), 2):
        statistics[f"{i} * {j}"] = (x[0] * y[0], x[1] * y[1])
    z = {name: _z_score(a, b) for name, (a, b) in statistics.items()}
    worst = max(z, key=lambda name: abs(z[name]))
    largest = abs(z[worst])
    return Geweke(largest, min(1.0, 2 * float(stats.norm.sf(largest)) * len(z)), worst, z)


def _z_score(a: Tensor, b: Tensor) -> float:
    error = (a.var() / a.numel() + b.var() / b.numel()).sqrt()
    z = float((a.mean() - b.mean()) / error.clamp(min=1e-12))
    return z if math.isfinite(z) else math.inf


def draws_p_value(prior: Any, cdf: Callable[[Any], Any], dtype: torch.dtype, *, seed: int, n: int = 20_000) -> float:
    """Kolmogorov-Smirnov p-value of independent draws against the distribution function of |w|."""
    generator = torch.Generator().manual_seed(seed)
    w = prior.sample((n, 1), generator, groups=(n, 1), dtype=dtype)
    assert w.dtype == dtype
    values = w.squeeze(1).double().numpy()
    return float(stats.kstest(values, lambda x: 0.5 + 0.5 * np.sign(x) * cdf(np.abs(x))).pvalue)


def gold_densities(prior: str) -> list[tuple[dict[str, float], Tensor, Tensor]]:
    """(hyperparameters, weights, 17-digit densities) of one prior in tests/data/gold.json."""
    entries = json.loads((Path(__file__).parent / "data" / "gold.json").read_text())["marginal_density"]
    return [
        (
            {name: float(value) for name, value in entry["hyper"].items()},
            torch.tensor([float(w) for w in entry["beta"]], dtype=torch.float64),
            torch.tensor([float(density) for density in entry["density"]], dtype=torch.float64),
        )
        for entry in entries
        if entry["prior"] == prior
    ]


def total_mass(prior: Any, low: float = -150.0, high: float = 60.0, step: float = 1 / 8) -> float:
    """The density's integral over the line, by the trapezoid rule in log|w|."""
    log_w = torch.arange(low, high, step, dtype=torch.float64)
    return float(2 * step * (prior.log_prob(log_w.exp()) + log_w).exp().sum())


def bounds_over_sweeps(prior: Any, second_moment: Tensor, scales: Any, sweeps: int) -> list[float]:
    """The prior's share of the ELBO after each coordinate-ascent sweep."""
    bounds = []
    for _ in range(sweeps):
        factors = prior.cavi(second_moment, scales)
        scales = factors.scales
        bounds.append(float(factors.bound(second_moment)))
    return bounds


def assert_scales_finite(prior: Any, w: Tensor, *, groups: tuple[int, ...] = (), sweeps: int = 3) -> None:
    """Both modes, started from the prior, keep every scale and variance positive and finite at this w."""
    generator = torch.Generator().manual_seed(0)
    start = prior.init_scales(w.shape, generator, groups=groups, dtype=w.dtype)
    drawn = point = start
    for _ in range(sweeps):
        drawn = prior.gibbs(w, drawn, generator)
        factors = prior.cavi(w.square(), point)
        point = factors.scales
        for scales in (drawn, point):
            for name, value in scales._asdict().items():
                lowest = 0.0 if name == "slab" else torch.finfo(w.dtype).tiny / 2
                assert value.dtype == w.dtype
                assert bool(torch.isfinite(value).all()), name
                assert bool((value >= lowest).all()), name
            assert_positive_finite(prior.variance(scales))
        assert_positive_finite(factors.precision)


def assert_positive_finite(value: Tensor) -> None:
    assert bool(torch.isfinite(value).all())
    assert bool((value > 0).all())


def assert_factors_are_the_posterior(prior: Any, u: float, *, seed: int, draws: int = 200_000) -> None:
    """For independent weights q(s) = p(s | w = u), which `gibbs` draws from: E[1/v] and E[log v] must agree.

    |z| < 6 is a false-alarm rate of 2e-9 for each of the two means.
    """
    generator = torch.Generator().manual_seed(seed)
    w = torch.full((draws,), u, dtype=torch.float64)
    factors = prior.cavi(w[:1].square(), prior.init_scales((1,), generator, dtype=w.dtype))
    v = prior.variance(prior.gibbs(w, prior.init_scales(w.shape, generator, dtype=w.dtype), generator))
    for sample, expected in ((1 / v, factors.precision), (v.log(), factors.log_variance())):
        assert abs(sample.mean() - expected) < 6 * sample.std() / math.sqrt(draws)


def kl_on_grid(log_prior: Callable[..., Any], variance: Callable[..., Any], u: float) -> tuple[float, float]:
    """KL(p(s | w=u) || p(s)) and E[log v | w=u] for two scales, by brute force on a grid of their logs.

    ``log_prior`` is the log density of the pair of scales themselves; the grid supplies the Jacobian.
    """
    log_s = np.arange(-60.0, 60.0, _STEP)
    a, b = np.meshgrid(log_s, log_s, indexing="ij")
    v = variance(np.exp(a), np.exp(b))
    log_normal = -0.5 * np.log(2 * np.pi * v) - 0.5 * u**2 / v
    log_joint = log_prior(np.exp(a), np.exp(b)) + a + b + log_normal
    evidence = np.logaddexp.reduce(log_joint, axis=None)
    q = np.exp(log_joint - evidence)
    return float((q * (log_normal - evidence - 2 * np.log(_STEP))).sum()), float((q * np.log(v)).sum())
