"""Exact draws from the generalised inverse Gaussian by rejection in the log domain.

With om^2 = chi rho, la = |lam|, h = hypot(om, la) + la and X = (h / rho) e^Z for lam >= 0 (X = (chi / h) e^-Z for
lam < 0), the density of Z is proportional to exp(-psi(z)),

    psi(z) = al (cosh z - 1) + la (e^z - 1 - z),      al = om^2 / h,

which is convex with psi(0) = psi'(0) = 0 for every (chi, rho, lam). The hat is that of L. Devroye (Statistics and
Computing 24, 2014): 1 in the middle, tangent exponentials on both sides,

    exp(-psi(t) - psi'(t) (z - t)) on the right,      the tangent at -s on the left.

Any t, s > 0 give a valid hat. Those used here are min(log(1 + g), t_lam) and min(log(1 + g), s_lam): e^t - 1 is then g
or a constant, so the hat costs one logarithm and psi lies between 1/2 and 2 at both points whatever the parameters.
The acceptance rate is bounded away from zero, so the loop needs no cap: the lowest rate measured for chi rho in
[1e-60, 1e60] and lam in [0, 1e7] is 0.66.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.distributions.primitives import where_negative
from r2d2net.errors import ParameterError, Value

CPU_CHUNK = 1 << 15  # a chunk's working set stays in the cache, and its buffers are used again
COMPILED_CHUNK = 1 << 17  # a fused proposal has no buffers
GPU_CHUNK = 1 << 20
NARROW_LEAST, NARROW_MOST = 1e-36, 1e30  # range of chi rho in float32; the lower limit where |lam| < LOW_ORDER
LOW_ORDER, HIGH_ORDER = 0.25, 100  # limits of |lam| in float32: see `check_parameters`
LEAST_PRODUCT = 1e-300  # least chi rho, so that 1 / (chi rho) stays a float64
BUFFERS = 10
STRAGGLERS = 1 << 12


class TouchingPoints(NamedTuple):
    """Upper limits of the hat's touching points that depend on |lam| alone, with their e^t - 1."""

    right: Tensor
    right_expm1: Tensor
    left: Tensor
    left_expm1: Tensor


def touching_points(order: Tensor) -> TouchingPoints:
    """Compute the points where la (e^z - 1 - z) is about 1 on either side; for la = 0 they exceed any log(1 + g)."""
    inverse = 1 / order.clamp(min=1e-160 if order.dtype == torch.float64 else 1e-30)
    spread = torch.sqrt(2 * inverse)
    right = torch.log1p(spread + 0.8 * inverse)
    left = inverse + spread.clamp(max=1)
    most = math.log(torch.finfo(order.dtype).max) - 1
    return TouchingPoints(right, torch.expm1(right), left, torch.expm1(left.clamp(max=most)))


def propose(
    chi: Tensor,
    rho: Tensor,
    order: Tensor,
    points: TouchingPoints,
    u: Tensor,
    v: Tensor,
    *,
    reciprocal: bool | Tensor,
    buffers: list[Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Propose one value for each element and mark the rejected ones by their sign.

    Args:
        chi: Coefficient of 1/x.
        rho: Coefficient of x, in the shape of ``chi`` or a scalar.
        order: |lam|, in the shape of ``chi`` or a scalar.
        points: Result of `touching_points` for the order.
        u: Uniform numbers on [0, 1), in the shape of ``chi``.
        v: Uniform numbers independent of ``u``.
        reciprocal: Whether lam < 0.
        buffers: `BUFFERS` tensors in the shape of ``chi`` that are overwritten, so that no memory is allocated: on
            a CPU fresh pages cost five times the arithmetic.
        out: Tensor for the result.

    Returns:
        X where the proposal is accepted and -X where it is rejected.
    """
    space: list[Tensor | None] = [None] * BUFFERS if buffers is None else list(buffers)
    half = torch.mul(chi, rho, out=space[0])
    h = torch.add(half, order * order, out=space[1]).sqrt_().add_(order)
    half.div_(h).mul_(0.5)  # al / 2
    g = torch.rsqrt(half, out=space[2])
    g.addcmul_(g, g, value=0.5)  # 1/al + sqrt(2/al): al (cosh t - 1) is in [1/2, 1] at t = log(1 + g)
    reach = torch.log1p(g, out=space[3])

    # Right: e^t - 1 = gt, 1 - e^-t = it; value eta and slope zeta of psi at t.
    t = torch.minimum(reach, points.right, out=space[4])
    gt = torch.minimum(g, points.right_expm1, out=space[5])
    it = torch.add(gt, 1, out=space[6])
    torch.div(gt, it, out=it)
    zeta = torch.add(gt, it, out=space[7]).mul_(half)
    eta = torch.sub(gt, t, out=space[8]).mul_(order)
    eta.addcmul_(it.mul_(gt), half)
    zeta.add_(gt.mul_(order))
    r = torch.reciprocal(zeta, out=space[5])
    t.sub_(eta.mul_(r))  # the hat leaves 1 here: z = t - eta / zeta

    # Left: 1 - e^-s = js, e^s - 1 = gs; value theta and slope xi of psi at -s.
    s = torch.minimum(reach, points.left, out=space[3])
    gs = torch.minimum(g, points.left_expm1, out=space[2])
    js = torch.add(gs, 1, out=space[6])
    torch.div(gs, js, out=js)
    xi = torch.add(gs, js, out=space[8]).mul_(half)
    theta = torch.sub(s, js, out=space[9]).mul_(order)
    theta.addcmul_(gs.mul_(js), half)
    xi.add_(js.mul_(order))
    p = torch.reciprocal(xi, out=space[2])
    s.sub_(theta.mul_(p))  # and here: z = -s + theta / xi

    # A point under the hat: [0, p) is the left tail, then the middle, the last r the right tail.
    total = torch.add(p, r, out=space[6]).add_(t).add_(s)
    position = torch.mul(total, u, out=space[9])
    tail = torch.minimum(torch.mul(position, xi, out=xi), total.sub_(position).mul_(zeta), out=space[8])
    tail.clamp_(min=torch.finfo(tail.dtype).eps / 8, max=1)  # 1 throughout the middle
    z = torch.sub(position, p, out=position)
    slope = where_negative(z, p, r.neg_())
    z.sub_(s)
    torch.minimum(torch.maximum(z, s.neg_(), out=z), t, out=z)
    log_tail = torch.log(tail, out=space[3])
    z.addcmul_(slope, log_tail)

    # Accept with probability exp(-psi(z)) / hat(z). exp and expm1 apart: 1 + expm1(z) reaches 0. An e^z that
    # underflows is held at the smallest normal number: at al = 0 (chi = 0) psi would be 0 / 0.
    e = torch.exp(z, out=space[4]).clamp_(min=torch.finfo(z.dtype).tiny)
    w = torch.expm1(z, out=space[5])
    psi = torch.mul(w, w, out=space[6]).div_(e).mul_(half)
    psi.add_(w.sub_(z).mul_(order))
    margin = psi.neg_().exp_().sub_(tail.mul_(v))
    if isinstance(reciprocal, Tensor):
        he = h.mul_(e)
        x = torch.where(reciprocal, chi / he, he / rho)
    else:
        x = torch.div(chi, h.mul_(e), out=space[7]) if reciprocal else h.mul_(e).div_(rho)
    return torch.copysign(x, margin, out=out)


def sample_gig(
    chi: Tensor,
    rho: Tensor | float,
    lam: Tensor | float,
    generator: torch.Generator | None = None,
    *,
    compiled: bool = False,
) -> Tensor:
    """Draw from giG(chi, rho, lam), one draw for each element of the broadcast shape.

    Args:
        chi: Coefficient of 1/x, finite and >= 0; zero is allowed where lam > 0.
        rho: Coefficient of x, finite and >= 0; zero is allowed where lam < 0.
        lam: Order, a number or a tensor.
        generator: Source of randomness, on the device of ``chi``.
        compiled: Fuse the proposal with torch.compile. Falls back to eager with a warning where there is no
            compiler.

    Returns:
        Draws in the dtype of ``chi``. Those below the smallest normal number of the dtype are returned as that
        number. At orders within 0.0015 of zero a product chi rho strictly between 0 and 1e-300 counts as 1e-300.

    Raises:
        ParameterError: If a parameter is not finite, chi or rho is negative, or the density is improper.

    Example:
        >>> sample_gig(torch.tensor([0.1, 4.0]), 1.0, 0.5, torch.Generator().manual_seed(0)).shape
        torch.Size([2])
    """
    chi = torch.as_tensor(chi).detach()
    if not chi.is_floating_point():
        chi = chi.to(torch.get_default_dtype())
    dtype, device = chi.dtype, chi.device
    rho_t = torch.as_tensor(rho, dtype=dtype, device=device).detach()
    lam_t = torch.as_tensor(lam, dtype=dtype, device=device).detach()
    shape = torch.broadcast_shapes(chi.shape, rho_t.shape, lam_t.shape)
    work = check_parameters(chi, rho_t, lam_t)
    out = torch.empty(shape, dtype=dtype, device=device)
    if out.numel() == 0:
        return out
    chi_f, rho_f, lam_f = (Reader(v if v.dim() == 0 else v.expand(shape)) for v in (chi, rho_t, lam_t))
    step = _compiled_propose() if compiled else propose
    flat = out.view(-1)
    _fill(flat, chi_f, rho_f, lam_f, work, generator, step)
    limits = torch.finfo(dtype)
    return out.clamp_(min=limits.tiny, max=limits.max)


def check_parameters(chi: Tensor, rho: Tensor, lam: Tensor) -> torch.dtype:
    """Refuse parameters outside the family and return the dtype in which to compute.

    float32 is enough unless the exponents leave its range or |lam| makes psi a small difference: |lam| (e^z - 1 - z) is
    of order one at z of order |lam|^(-1/2), so its rounding error is about sqrt(|lam|) eps, 1e-6 at |lam| = 100. Near
    the gamma limit the left tail falls like e^(|lam| z), and the cut that chi makes at z = log(chi rho) must be seen:
    either it lies within float32's range (chi rho >= 1e-36) or no draw gets there (e^(-87 / 4) < 1e-9 for |lam| = 1/4).
    """
    if min(chi.numel(), rho.numel(), lam.numel()) == 0:
        return chi.dtype
    (chi_min, chi_max), (rho_min, rho_max), (lam_min, lam_max) = (
        torch.stack(torch.aminmax(v.detach())).to("cpu", torch.float64).tolist() for v in (chi, rho, lam)
    )
    for name, low, high in (("chi", chi_min, chi_max), ("rho", rho_min, rho_max)):
        if not (low >= 0 and high < math.inf):
            bad = low if not low >= 0 else high
            raise ParameterError(("holds ", Value(bad)), argument=name, fix="it must be finite and >= 0")
    if not (lam_min > -math.inf and lam_max < math.inf):
        bad = lam_min if not lam_min > -math.inf else lam_max
        raise ParameterError(("holds ", Value(bad)), argument="lam", fix="it must be finite")
    if chi_min == 0 and lam_min <= 0 and bool(((chi == 0) & (lam <= 0)).any()):
        problem = ("holds ", Value(0), " where lam <= 0: the density is improper there")
        raise ParameterError(problem, argument="chi", fix="give chi > 0 or lam > 0")
    if rho_min == 0 and lam_max >= 0 and bool(((rho == 0) & (lam >= 0)).any()):
        problem = ("holds ", Value(0), " where lam >= 0: the density is improper there")
        raise ParameterError(problem, argument="rho", fix="give rho > 0 or lam < 0")
    product = (chi_min * rho_min, chi_max * rho_max)
    if product[1] > 1e300:
        product = (product[0], float((chi.detach().double() * rho.detach().double()).max()))
        if product[1] > 1e300:
            fix = "it must stay below 1e300"
            raise ParameterError(("reaches ", Value(product[1], ".3g")), argument="chi * rho", fix=fix)
    least = 0.0 if lam_min <= 0 <= lam_max else min(abs(lam_min), abs(lam_max))
    most = max(abs(lam_min), abs(lam_max))
    in_range = product[1] <= NARROW_MOST and (least >= LOW_ORDER or product[0] >= NARROW_LEAST)
    narrow = most <= HIGH_ORDER and in_range
    return chi.dtype if narrow else torch.float64


Step = Callable[..., Tensor]


class Reader:
    """A tensor of any strides, read by flat index: broadcast parameters are never written out."""

    def __init__(self, tensor: Tensor) -> None:
        self.scalar = tensor.dim() == 0
        self.value = tensor
        self._flat = tensor.view(-1) if tensor.is_contiguous() else None
        if self._flat is None:
            extent = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
            self._storage = tensor.as_strided((extent,), (1,))

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        if self.scalar:
            return self.value
        if self._flat is not None:
            return self._flat[index]
        if isinstance(index, slice):
            index = torch.arange(index.start, min(index.stop, self.value.numel()), device=self.value.device)
        position = torch.zeros_like(index)
        for size, stride in zip(reversed(self.value.shape), reversed(self.value.stride()), strict=True):
            if stride:
                position += (index % size) * stride
            index = index // size
        return self._storage[position]


def _fill(
    out: Tensor,
    chi: Reader,
    rho: Reader,
    lam: Reader,
    work: torch.dtype,
    generator: torch.Generator | None,
    step: Step,
) -> None:
    """Fill ``out`` (flat): propose for every element, then again for the rejected until none is left."""
    chunk, buffers = GPU_CHUNK, None
    if out.device.type == "cpu":
        chunk = CPU_CHUNK if step is propose else COMPILED_CHUNK
    most = min(chunk, max(out.numel(), STRAGGLERS))
    if step is propose:
        buffers = list(torch.empty(BUFFERS, most, dtype=work, device=out.device).unbind())
    uniforms = torch.empty(2, most, dtype=work, device=out.device)
    # A scalar order is set up once for all elements.
    shared = _order_setup(lam.value.to(work)) if lam.scalar else None

    def draw(target: Tensor, index: Tensor | slice) -> None:
        count = target.numel()
        c, r, n = (v[index].to(work) for v in (chi, rho, lam))
        order, points, reciprocal = shared if shared is not None else _order_setup(n)
        if work == torch.float64:
            c, r = representable(c, r, order)
        u, v = uniforms[0, :count], uniforms[1, :count]
        u.uniform_(generator=generator)
        v.uniform_(generator=generator)
        space = None if buffers is None else [b[:count] for b in buffers]
        direct = target if space is not None and target.dtype == work else None
        x = step(c.expand(count), r, order, points, u, v, reciprocal=reciprocal, buffers=space, out=direct)
        if direct is None:
            target.copy_(x)

    for start in range(0, out.numel(), chunk):
        draw(out[start : start + chunk], slice(start, start + chunk))
    # signbit, not < 0: a rejected draw that underflows is -0.0
    rejected = torch.nonzero(torch.signbit(out)).squeeze(1)
    while rejected.numel() > 0:
        # A few stragglers are cheaper with several proposals at once, of which the first accepted counts.
        tries = min(16, max(1, STRAGGLERS // rejected.numel()))
        left = []
        for index in rejected.split(chunk):
            x = torch.empty(tries, index.numel(), dtype=out.dtype, device=out.device)
            draw(x.view(-1), index.repeat(tries))
            first = torch.signbit(x).logical_not_().to(torch.uint8).argmax(0, keepdim=True)
            x = x.gather(0, first).squeeze(0)
            out[index] = x
            left.append(index[torch.signbit(x)])
        rejected = torch.cat(left)


def representable(chi: Tensor, rho: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Raise chi and rho where needed near order 0: the hat reaches to log(1 / (chi rho)), which must stay finite."""
    root = torch.sqrt(chi) * torch.sqrt(rho)
    lift = (math.sqrt(LEAST_PRODUCT) / root).clamp(min=1)
    lift = torch.where((order < 0.0015) & (root > 0), lift, 1.0)
    return chi * lift, rho * lift


def _order_setup(lam: Tensor) -> tuple[Tensor, TouchingPoints, bool | Tensor]:
    order = lam.abs()
    reciprocal: bool | Tensor = bool(lam < 0) if lam.dim() == 0 else lam < 0
    return order, touching_points(order), reciprocal


@cache
def _compiled_propose() -> Step:
    """Compile `propose`, or warn and return `propose` itself where torch.compile does not work."""
    try:
        compiled = torch.compile(propose, dynamic=True)
        ones, half = torch.ones(64), torch.full((64,), 0.5)
        order = torch.tensor(0.1)
        compiled(ones, torch.tensor(1.0), order, touching_points(order), half, half, reciprocal=False)
    except Exception as error:  # whatever the toolchain lacks, eager gives the same draws
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        warnings.warn(f"torch.compile does not work here, sampling runs eagerly: {reason}", stacklevel=3)
        return propose
    return compiled
