"""The marginal density of a weight under the R2D2 prior, by quadrature of its mixing distributions.

    p(w) = int Laplace(w | s) BetaPrime(T | a_pi, b) dT,      s = sqrt(T / 2),      sigma0 = 1

and, for `R2D2.from_r2`, the mixture of these over B ~ Beta(a, p a_pi - a) with w scaled by sqrt(B).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.priors.scale_quadrature import LAPLACE, log_scale_mixture


def log_marginal(w: Tensor, a: float, b: float) -> Tensor:
    """Compute the log density of a weight whose scales are integrated out.

    Args:
        w: Weights in units of sigma0, of any shape.
        a: Dirichlet concentration a_pi.
        b: Tail exponent.

    Returns:
        The log density of each element.
    """
    constant = math.log(2) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    # The mixing density of log s is as narrow as this for large shapes, and sits at log_unit.
    spread = 0.5 * math.sqrt(_trigamma(a) + _trigamma(b))
    widest = LAPLACE.step if max(a, b) <= 1 else LAPLACE.step / 2  # large shapes halve the strip
    kernel = LAPLACE._replace(step=min(widest, spread / 2, 0.5 / math.sqrt(1 + 2 * b)))  # the last: in the tail
    log_unit = 0.5 * math.log(max(a, 1.0) / b / 2)

    def log_mixing(log_s: Tensor) -> Tensor:
        log_t = 2 * (log_s + log_unit) + math.log(2)
        return constant + a * log_t - (a + b) * softplus(log_t, threshold=60)

    # E[1 / (2 s)] is finite from a_pi = 1/2 on
    at_zero = math.inf
    if a > 0.5:
        at_zero = math.lgamma(a - 0.5) + math.lgamma(b + 0.5) - math.lgamma(a) - math.lgamma(b)
        at_zero += log_unit - 0.5 * math.log(2)
    density = log_scale_mixture(w / math.exp(log_unit), kernel, log_mixing, tail_rate=2 * b, log_at_zero=at_zero)
    return density - log_unit


def beta_nodes(a: float, e: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """Build the trapezoid rule in logit B for B ~ Beta(a, e).

    Args:
        a: First shape.
        e: Second shape.
        like: Tensor of the dtype and device of the nodes.

    Returns:
        Log weights, and log B at the nodes.
    """
    kind: dict[str, Any] = {"dtype": torch.float64, "device": like.device}
    spread = math.sqrt(_trigamma(a) + _trigamma(e))
    step = min(0.45, spread / 1.6)
    middle = math.log(a / e)
    # Beyond logit B = 40 the mixture does not feel B any more: that mass counts as B = 1.
    y = torch.arange(middle - 45 / a - 10, min(middle + 45 / e + 10, 40.0), step, **kind)
    log_b = -softplus(-y, threshold=60)
    log_weights = a * log_b - e * softplus(y, threshold=60)
    log_weights = log_weights + math.log(step) + math.lgamma(a + e) - math.lgamma(a) - math.lgamma(e)
    rest = (1 - log_weights.exp().sum()).clamp(min=1e-300).log()
    log_weights, log_b = torch.cat([log_weights, rest[None]]), torch.cat([log_b, rest.new_zeros(1)])
    kept = log_weights > log_weights.max() - 45
    return log_weights[kept].to(like.dtype), log_b[kept].to(like.dtype)


def _trigamma(x: float) -> float:
    return float(torch.special.polygamma(1, torch.tensor(x, dtype=torch.float64)))
