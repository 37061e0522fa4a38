"""Geweke's test that Gibbs sweeps leave the joint law of weights and scales unchanged (2004, "Getting it right").

B independent chains start at exact draws of (scales, w), run K sweeps of [w | scales, then scales | w] and are compared
with B fresh exact draws. Chains are independent of each other, so the z-scores need no autocorrelation estimate: under
the null hypothesis each is standard normal up to O(1/B).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import torch
from scipy import stats
from torch import Tensor

from r2d2net.testing.contract_error import demand

Features = Callable[[Tensor, Any], dict[str, Tensor]]
FALSE_ALARM = 2e-6


class Geweke(NamedTuple):
    """Outcome of the test.

    Attributes:
        max_z: The largest absolute z-score.
        p_value: Bonferroni's p-value over all statistics; the sweep is wrong if it is below the false-alarm rate.
        worst: Name of the statistic with the largest z-score.
        z: The z-scores by name.
    """

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
    layer: Sequence[int] | None = None,
) -> Geweke:
    """Compare Gibbs sweeps over many layers with exact draws from the prior.

    Args:
        prior: A prior; only `init_scales`, `variance` and `gibbs` are used.
        features: Names tensors of shape (chains,), given w and scales; by default `log_features`. Each is squashed by
            tanh about its median, so that all moments exist. The statistics are the means of the features and of all
            their pairwise products.
        chains: Number of layers, side by side.
        p: Weights of a layer; a vector of inputs.
        sweeps: Sweeps of each chain.
        seed: Seed of all draws.
        dtype: Dtype of weights and scales.
        layer: Shape of a layer in place of ``(p,)``, for a prior of groups of weights.

    Returns:
        The largest z-score, its p-value and all z-scores by name.
    """
    generator = torch.Generator().manual_seed(seed)
    features, shape = features or log_features, (p,) if layer is None else tuple(layer)

    def start() -> Any:
        return prior.init_scales((chains, *shape), generator, groups=(chains, *[1] * len(shape)), dtype=dtype)

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
    """Return logs of two weights, of their scales and of global scales, and the largest local scale's share."""
    features = {f"log|w{i}|": w.flatten(1)[:, i].abs().log() for i in (0, 1)}
    for name, value in scales._asdict().items():
        value = value.flatten(1)
        x = value.log() if bool((value > 0).all()) else value  # an indicator stays as it is
        features[f"{name}[0]"] = x[:, 0]
        if value.shape[1] > 1:
            features[f"{name}[1]"] = x[:, 1]
            features[f"share of {name}"] = value.amax(1) / value.sum(1).clamp(min=torch.finfo(value.dtype).tiny)
    return features


def check_gibbs(prior: Any) -> None:
    """Check that `gibbs` leaves p(w, scales) invariant, in both dtypes; the false-alarm rate is 2e-6 for each."""
    for dtype in (torch.float64, torch.float32):
        outcome = geweke(prior, seed=5, dtype=dtype)
        demand(
            outcome.p_value > FALSE_ALARM,
            f"after four sweeps in {dtype} the mean of {outcome.worst} is {outcome.max_z:.1f} standard errors from "
            f"that of exact draws (p = {outcome.p_value:.1g}, rejected below {FALSE_ALARM:g})",
        )


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
