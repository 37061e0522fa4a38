"""Sweeps of the R2D2 prior over several small layers at once, of one network or of several.

Given a layer's rate, its T_j and psi_j are independent of those of all others: so the elements of all layers are one
long vector, whose rate is that of each one's layer. What a layer has of its own is the sum of its T and a gamma
variable. For layers of a few thousand weights a sweep is mostly calls of operations, and this makes them once.

Each layer's random numbers come from its generator in the order in which the layer's own sweep takes them: the result
is that of one layer after the other, up to the rounding of elementwise functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from r2d2net.distributions import standard_gamma
from r2d2net.distributions.gig_sampler import BUFFERS
from r2d2net.distributions.primitives import fill_uniform
from r2d2net.priors.base import positive_finite, require_finite

if TYPE_CHECKING:
    from r2d2net.priors.r2d2 import R2D2, R2D2Scales


def gibbs_blocks(
    prior: R2D2,
    weights: Sequence[Tensor],
    scales: Sequence[R2D2Scales],
    precisions: Sequence[Tensor],
    generators: Sequence[torch.Generator | None],
) -> list[R2D2Scales]:
    """Sweep layers whose scales have no groups; T, psi and precision change in place.

    Args:
        prior: The prior of all layers.
        weights: Weights of each layer.
        scales: Scales of each layer.
        precisions: Tensor of each layer to which 1 / v is written.
        generators: Source of randomness of each layer.

    Returns:
        The new scales of each layer.
    """
    sizes = [w.numel() for w in weights]
    w = require_finite("w", _joined(weights).detach())
    normals, uniforms, gammas = [], [], []
    for size, own, generator in zip(sizes, scales, generators, strict=True):
        noise = torch.empty(4 * size, dtype=w.dtype, device=w.device)
        normals.append(noise[:size].normal_(generator=generator))
        uniforms.append(fill_uniform(noise[size:].view(3, -1), generator))
        shapes = prior.rate_shapes(size)
        gammas.append([standard_gamma(torch.full_like(own.xi, shape), generator) for shape in shapes])
    joint = _joint_scales(scales, sizes)
    precision, buffers = torch.empty_like(w), torch.empty(BUFFERS, len(w), dtype=w.dtype, device=w.device)
    prior._gibbs_piece(w, joint, precision, torch.cat(normals), torch.cat(uniforms, 1), buffers=buffers)
    _write_back(joint, precision, scales, precisions, sizes)
    omega = torch.stack([own.T.sum() for own in scales])
    rates = [1 + omega, omega]
    drawn = [
        positive_finite(torch.stack(draws) / rate)
        for draws, rate in zip(zip(*gammas, strict=True), rates, strict=False)
    ]
    xi = drawn[0]
    rate = xi if len(drawn) == 1 else positive_finite(xi + drawn[1])
    each = zip(scales, xi.unbind(), rate.unbind(), strict=True)
    return [own._replace(xi=own_xi, rate=own_rate) for own, own_xi, own_rate in each]


def cavi_blocks(
    prior: R2D2,
    second_moments: Sequence[Tensor],
    scales: Sequence[R2D2Scales],
    precisions: Sequence[Tensor],
) -> list[R2D2Scales]:
    """Update layers whose scales have no groups by coordinate ascent; T, psi and precision change in place.

    Args:
        prior: The prior of all layers.
        second_moments: E w^2 of each layer.
        scales: Scales of each layer.
        precisions: Tensor of each layer to which E[1 / v] is written.

    Returns:
        The new scales of each layer.
    """
    sizes = [second.numel() for second in second_moments]
    second = require_finite("second_moment", _joined(second_moments).detach())
    joint, precision = _joint_scales(scales, sizes), torch.empty_like(second)
    mean_t = prior._cavi_means(second, joint, precision, None)
    _write_back(joint, precision, scales, precisions, sizes)
    updated = []
    for own, part in zip(scales, mean_t.split(sizes), strict=True):
        xi, eta = prior._rate_conditionals(part.sum(), part.numel())
        updated.append(own._replace(xi=xi.mean, rate=xi.mean if eta is None else xi.mean + eta.mean))
    return updated


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _joint_scales(scales: Sequence[R2D2Scales], sizes: Sequence[int]) -> R2D2Scales:
    """Return the scales of all elements as vectors."""
    rate = torch.cat([own.rate.expand(size) for own, size in zip(scales, sizes, strict=True)])
    return scales[0]._replace(
        T=_joined([s.T for s in scales]), psi=_joined([s.psi for s in scales]), xi=rate, rate=rate
    )


def _write_back(
    joint: R2D2Scales,
    precision: Tensor,
    scales: Sequence[R2D2Scales],
    precisions: Sequence[Tensor],
    sizes: Sequence[int],
) -> None:
    """Copy vectors of all elements to the layers' own tensors."""
    for vector, targets in (
        (joint.T, [s.T for s in scales]),
        (joint.psi, [s.psi for s in scales]),
        (precision, precisions),
    ):
        parts = [part.view(target.shape) for part, target in zip(vector.split(sizes), targets, strict=True)]
        torch._foreach_copy_(list(targets), parts)
