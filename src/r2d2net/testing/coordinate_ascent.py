"""Checks of a prior's coordinate ascent: the bound never falls, stays below log p(w), and its parts agree."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from r2d2net.testing.contract_error import demand


def second_moments(seed: int = 1) -> Tensor:
    """Return E[w^2] between 1e-12 and 1e12, in two groups of four."""
    generator = torch.Generator().manual_seed(seed)
    return 10 ** (24 * torch.rand(2, 4, generator=generator, dtype=torch.float64) - 12)


def bounds_over_sweeps(prior: Any, second_moment: Tensor, scales: Any, sweeps: int) -> list[float]:
    """Return the prior's share of the ELBO after each coordinate-ascent sweep."""
    bounds = []
    for _ in range(sweeps):
        factors = prior.cavi(second_moment, scales)
        scales = factors.scales
        bounds.append(float(factors.bound(second_moment)))
    return bounds


def check_rise(prior: Any) -> None:
    """Check that 30 sweeps never lower the bound, neither in groups over 24 decades of E[w^2] nor in one layer."""
    layer = torch.tensor([[1e-6, 1e-3, 0.1, 1.0, 30.0]], dtype=torch.float64)
    for m, groups in ((second_moments(), (2, 1)), (layer, ())):
        scales = prior.init_scales(m.shape, torch.Generator().manual_seed(2), groups=groups, dtype=m.dtype)
        bounds = bounds_over_sweeps(prior, m, scales, sweeps=30)
        slack = 1e-12 * max(map(abs, bounds))  # rounding of the sums
        for number, (before, after) in enumerate(pairwise(bounds), start=2):
            demand(after >= before - slack, f"sweep {number} lowers the bound from {before:.12g} to {after:.12g}")


def check_bound(prior: Any) -> None:
    """Check that for one weight E[log N] - KL does not exceed log p(u), u^2 = E[w^2], and reaches it if it says so."""
    m = second_moments()[:, :1]
    scales = prior.init_scales(m.shape, torch.Generator().manual_seed(0), groups=(2, 1), dtype=m.dtype)
    for _ in range(200):
        factors = prior.cavi(m, scales)
        scales = factors.scales
    reached = float(factors.bound(m))
    exact = float(prior.log_prob(m.sqrt()).sum())
    demand(reached <= exact + 1e-9 * abs(exact), f"the bound is {reached:.12g}, above log p = {exact:.12g}")
    if prior.has_exact_factors:
        close = abs(reached - exact) <= 1e-12 * abs(exact)
        demand(close, f"has_exact_factors, but the bound {reached:.15g} does not reach log p = {exact:.15g}")


def check_posterior(prior: Any) -> None:
    """Check that exact factors of one weight are the law that `gibbs` draws from: E[1/v] and E[log v] agree.

    At most six standard errors apart, a false-alarm rate of 2e-9 for each of four means.
    """
    if not prior.has_exact_factors or not prior.has_scales:
        return
    generator = torch.Generator().manual_seed(8)
    shape = groups = (20_000, 1)
    for u in (0.05, 2.0):
        w = torch.full(shape, u, dtype=torch.float64)
        factors = prior.cavi(w[:1].square(), prior.init_scales((1, 1), generator, dtype=w.dtype))
        start = prior.init_scales(shape, generator, groups=groups, dtype=w.dtype)
        v = prior.variance(prior.gibbs(w, start, generator))
        means = ("E[1/v]", 1 / v, factors.precision), ("E[log v]", v.log(), factors.log_variance())
        for name, sample, expected in means:
            error = sample.std() / math.sqrt(len(sample))
            least = (1 + expected.abs()) / len(sample)  # a rare value of an indicator may not have been drawn at all
            z = float((sample.mean() - expected) / torch.maximum(error, least))
            demand(abs(z) < 6, f"{name} of the factors at w = {u} is {abs(z):.1f} standard errors from that of gibbs")


def check_factors(prior: Any) -> None:
    """Check that precision, log_variance, kl, scales and bound of `Factors` agree with each other."""
    m = second_moments()
    scales = prior.init_scales(m.shape, torch.Generator().manual_seed(2), groups=(2, 1), dtype=m.dtype)
    factors = prior.cavi(m, scales)
    shapes = [tuple(factors.precision.shape), tuple(factors.log_variance().shape)]
    demand(shapes == [tuple(m.shape)] * 2, f"precision and log_variance have shapes {shapes}, E[w^2] {tuple(m.shape)}")
    torch.testing.assert_close(
        1 / prior.variance(factors.scales), factors.precision, rtol=1e-12, atol=0, msg=_named("1 / variance(scales)")
    )
    elsewhere = 1.3 * m
    normal = -0.5 * (math.log(2 * math.pi) + factors.log_variance() + factors.precision * elsewhere).sum()
    torch.testing.assert_close(
        factors.bound(elsewhere), normal - factors.kl(), rtol=1e-11, atol=0, msg=_named("bound(E[w^2])")
    )
    demand(float(factors.kl()) >= 0, f"kl() is {float(factors.kl()):.6g}, below zero")


def check_mode(prior: Any) -> None:
    """Check what ``has_finite_mode`` promises: a finite density at zero, and -d log p(w) / dw = precision * w."""
    if not prior.has_finite_mode:
        return
    demand(math.isfinite(float(prior.log_prob(torch.zeros(1)))), "has_finite_mode, but log_prob(0) is infinite")
    w = torch.tensor([[-3.0], [0.2], [0.01], [40.0]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(prior.log_prob(w).sum(), w)
    scales = prior.init_scales(w.shape, torch.Generator().manual_seed(0), groups=(4, 1), dtype=w.dtype)
    pull = prior.cavi(w.detach().square(), scales).precision * w.detach()
    torch.testing.assert_close(pull, -slope, rtol=1e-8, atol=0, msg=_named("has_finite_mode: cavi(w^2).precision * w"))


def check_known_deviation(prior: Any) -> None:
    """Check that a prior with a known deviation has it, and that no sweep changes it."""
    deviation = prior.known_deviation
    demand(prior.has_scales == (deviation is None), "has_scales and known_deviation contradict each other")
    if deviation is None:
        return
    generator = torch.Generator().manual_seed(0)
    w = torch.tensor([0.0, 1e-3, 50.0], dtype=torch.float64)
    start = prior.init_scales(w.shape, generator, dtype=w.dtype)
    known = torch.full_like(w, deviation).square()
    swept = prior.gibbs(w, start, generator), prior.cavi(w.square(), start).scales
    for scales in (start, *swept):
        torch.testing.assert_close(prior.variance(scales), known, rtol=1e-12, atol=0, msg=_named("known_deviation^2"))


def _named(what: str) -> Any:
    """Put what is compared before the message of torch."""
    return lambda message: f"{what} disagrees: {' '.join(message.split())}"
