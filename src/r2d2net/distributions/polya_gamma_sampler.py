"""Exact draws from the Polya-Gamma distribution PG(b, z), by rejection with an acceptance above 0.9991 whatever z.

PG(1, z) is J / 4 with J ~ J*(1, h), h = |z| / 2, whose density has two alternating series (L. Devroye, Statistics and
Probability Letters 79, 2009; N. Polson, J. Scott and J. Windle, JASA 108, 2013),

    cosh(h) e^(-h^2 x / 2) sum_n (-1)^n a_n(x),      a_n(x) / a_0(x) = (2n + 1) q^(n (n + 1) / 2),
    a_0(x) = sqrt(2 / (pi x^3)) e^(-1 / (2 x)),   q = e^(-4 / x)        best for x below the cut 0.64
    a_0(x) = (pi / 2) e^(-pi^2 x / 8),            q = e^(-pi^2 x)       best above it

The proposal is the tilted a_0: an inverse Gaussian with mean 1 / h and shape 1, truncated to (0, cut), or cut plus an
exponential variable with rate k = pi^2 / 8 + h^2 / 2. It is accepted with probability 1 - 3 q + 5 q^3 - 7 q^6 + ...,
where q <= e^-6.25: the first term left out is below 1e-26, so four terms decide every comparison with a float64.

A draw from PG(b, z) is the sum of b draws from PG(1, z).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from r2d2net.distributions.gig_sampler import Reader
from r2d2net.errors import ParameterError, Value

CUT = 0.64
MOST = 1000  # largest b
CPU_CHUNK = 1 << 16
GPU_CHUNK = 1 << 20
LEAST_UNIFORM = 2.0**-54  # stands for a uniform number of 0, whose normal quantile is infinite

Proposal = Callable[[Tensor], tuple[Tensor, Tensor]]


def sample_polya_gamma(z: Tensor | float, generator: torch.Generator | None = None, *, b: Tensor | float = 1) -> Tensor:
    """Draw from PG(b, z), one draw for each element of the broadcast shape.

    Args:
        z: Tilt, any finite number; its sign does not matter.
        generator: Source of randomness, on the device of ``z``; None for torch's global generator.
        b: Number of draws from PG(1, z) that are added, a whole number from 1 to 1000 or a tensor of them.

    Returns:
        Draws in the dtype of ``z``, computed in float64. Those below the smallest normal number of the dtype are
        returned as that number.

    Raises:
        ParameterError: If ``z`` is not finite or ``b`` not a whole number from 1 to 1000.

    Example:
        >>> sample_polya_gamma(torch.tensor([0.0, -1e6]), torch.Generator().manual_seed(0)).shape
        torch.Size([2])
    """
    z = torch.as_tensor(z).detach()
    if not z.is_floating_point():
        z = z.to(torch.get_default_dtype())
    count = torch.as_tensor(b, device=z.device).detach()
    require_polya_gamma(z, count)
    shape = torch.broadcast_tensors(z, count)[0].shape  # torch.broadcast_shapes imports SymPy: half a second
    out = torch.empty(shape, dtype=z.dtype, device=z.device)
    flat, tilt, counts = out.view(-1), Reader(z.expand(shape)), Reader(count.expand(shape))
    propose = partial(propose_jacobi, generator=generator)
    chunk = CPU_CHUNK if z.device.type == "cpu" else GPU_CHUNK
    for start in range(0, flat.numel(), chunk):
        part = flat[start : start + chunk]
        place = slice(start, start + chunk)
        half, number = tilt[place].expand(part.shape).double().abs().div_(2), counts[place].expand(part.shape)
        total = draw_until_accepted(propose, half)
        for added in range(1, int(number.max())):
            more = torch.nonzero(number > added).squeeze(1)
            total[more] += draw_until_accepted(propose, half[more])
        part.copy_(total.div_(4))
    return out.clamp_(min=torch.finfo(out.dtype).tiny)


def require_polya_gamma(z: Tensor, b: Tensor) -> None:
    """Raise unless z is finite and b a whole number from 1 to `MOST`.

    Args:
        z: Tilt.
        b: Number of draws that are added.

    Raises:
        ParameterError: With the name and the first offending value.
    """
    whole = f"it must be a whole number from 1 to {MOST}"
    inside = (b >= 1) & (b <= MOST) & (b == b.round() if b.is_floating_point() else True)
    for name, value, good, fix in (("z", z, z.isfinite(), "it must be finite"), ("b", b, inside, whole)):
        if not bool(good.all()):
            bad = value.detach()[~good].flatten()[0].item()
            raise ParameterError(("holds ", Value(bad)), argument=name, fix=fix)


def draw_until_accepted(propose: Proposal, parameter: Tensor) -> Tensor:
    """Propose for every element, then again for the rejected elements until none is left.

    Args:
        propose: Function of a flat tensor of parameters to proposals and the mask of those accepted. Its acceptance
            rate is bounded away from zero, so that the loop needs no cap.
        parameter: Flat tensor with one parameter for each draw.

    Returns:
        One accepted proposal for each element.
    """
    draws, accepted = propose(parameter)
    rejected = torch.nonzero(~accepted).squeeze(1)
    while rejected.numel() > 0:
        again, accepted = propose(parameter[rejected])
        draws[rejected] = again
        rejected = rejected[~accepted]
    return draws


def propose_jacobi(half: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Propose for J*(1, h) from the first terms of both series, and accept by the others.

    Args:
        half: Halves h >= 0 of the tilts, flat and in float64.
        generator: Source of randomness.

    Returns:
        Proposals and the mask of those accepted.
    """
    above = _uniform(half, generator) < share_above(half)
    upper, lower = torch.nonzero(above).squeeze(1), torch.nonzero(~above).squeeze(1)
    exponential = torch.empty(upper.shape, dtype=half.dtype, device=half.device).exponential_(generator=generator)
    x = torch.empty_like(half)
    x[upper] = exponential.div_(exponential_rate(half[upper])).add_(CUT)
    x[lower] = truncated_inverse_gaussian(half[lower], generator)
    return x, _uniform(half, generator) >= rejection_probability(x)


def share_above(half: Tensor) -> Tensor:
    """Compute the probability that the proposal exceeds the cut.

    With a = (cut h - 1) / sqrt(cut), the masses of the exponential and of the truncated inverse Gaussian have the ratio
    (pi / (4 k)) e^(1 / (2 cut) - pi^2 cut / 8) e^(-a^2 / 2) / P, and P = P(inverse Gaussian < cut) is
    Phi(a) + e^(-a^2 / 2) erfcx((cut h + 1) / sqrt(2 cut)) / 2: no factor grows with h.
    """
    a = (CUT * half - 1) / math.sqrt(CUT)
    bell = torch.exp(-a.square() / 2)
    below = torch.special.ndtr(a) + bell * torch.special.erfcx((CUT * half + 1) / math.sqrt(2 * CUT)) / 2
    constant = math.pi / 4 * math.exp(1 / (2 * CUT) - math.pi**2 * CUT / 8)
    mass = constant * bell / exponential_rate(half)
    return mass / (mass + below)


def exponential_rate(half: Tensor) -> Tensor:
    """Compute k = pi^2 / 8 + h^2 / 2."""
    return half.square() / 2 + math.pi**2 / 8


def rejection_probability(x: Tensor) -> Tensor:
    """Compute 3 q - 5 q^3 + 7 q^6, to full relative accuracy, for proposals x from the better series."""
    q = torch.exp(-torch.where(x > CUT, math.pi**2 * x, 4 / x))
    cube = q * q * q
    return q * (3 - q * q * (5 - 7 * cube))


def truncated_inverse_gaussian(half: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw from the inverse Gaussian with mean 1 / h and shape 1, truncated to (0, cut).

    Where the mean exceeds the cut, the proposal is the limit h = 0, which is 1 / N^2 for a standard normal variable N
    beyond 1 / sqrt(cut); elsewhere it is the inverse Gaussian itself. At least 0.63 of either are accepted.
    """
    x = torch.empty_like(half)
    heavy = half * CUT < 1
    for places, propose in ((torch.nonzero(heavy), _propose_levy), (torch.nonzero(~heavy), _propose_inverse_gaussian)):
        index = places.squeeze(1)
        x[index] = draw_until_accepted(partial(propose, generator=generator), half[index])
    return x


def _propose_levy(half: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Draw 1 / N^2 below the cut, to be accepted with probability e^(-h^2 x / 2)."""
    tail = math.erfc(1 / math.sqrt(2 * CUT)) / 2
    x = torch.special.ndtri(_uniform(half, generator).clamp_(min=LEAST_UNIFORM).mul_(tail)).square_().reciprocal_()
    x.clamp_(max=CUT)  # the quantile at a uniform number of nearly 1 is rounded
    return x, _uniform(half, generator) < torch.exp(-half.square() * x / 2)


def _propose_inverse_gaussian(half: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Draw by the roots of Michael, Schucany and Haas as in `inverse_gaussian`, to be accepted below the cut."""
    n = torch.empty_like(half).normal_(generator=generator).square_().div_(2)
    larger = half + n + n.sqrt() * torch.sqrt(n + 2 * half)  # 1 / x is this, or h^2 over it
    smaller = half * (half / larger)
    x = torch.where(_uniform(half, generator) * (larger + half) < larger, larger, smaller).reciprocal_()
    return x, x < CUT


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.empty_like(like).uniform_(generator=generator)
