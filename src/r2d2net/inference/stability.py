"""What keeps a chain of Langevin steps stable, and what shows that it is not.

    l_j <- l_j min(1, C / (lr kappa)),      l = lr P,  kappa the largest curvature under the metric P (see `curvature`)

C is half of what the integrator bears: 2 of SGHMC's 4, 1 of SGLD's 2. The factor is one number for all weights, known
before draws are kept and constant from then on: the metric lr P stays diagonal and constant, so the target is that of
any smaller step size, and nothing is added to the cost of a step.

A chain has run away if, while draws are kept, its noise variance is above `FACTOR` times what it explains,

    noise variance  >  FACTOR max(variance of the targets, squared residuals of the first step)

(a noise that large swallows residuals that have exploded, and the loss looks harmless), or if its loss, averaged over
the last ten steps or so, is above what it was in the first step by FACTOR (1 + |that|) nats a row.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.likelihoods.base import Noise

SAFETY = 0.5  # share of the largest stable step size that is used
FACTOR = 4.0  # of the variance, so twice the error of the best constant
MEMORY = 0.1  # weight of a step in the running mean of the loss


class Watch(NamedTuple):
    """What is known of a chain's stability."""

    curvature: Tensor  # kappa, a scalar
    variance: Tensor  # of the targets or of the first residuals, the larger of the two, (outputs,) or ()
    first: Tensor  # loss of the first step
    loss: Tensor  # running mean of the loss


def start_watch(y: Tensor, noise: Noise) -> Watch:
    """Return what is known before the first step.

    Args:
        y: Training targets as the network sees them.
        noise: Learnt parameters of the likelihood.
    """
    zero = torch.zeros((), dtype=y.dtype if y.is_floating_point() else torch.get_default_dtype(), device=y.device)
    variance = zero
    if "variance" in noise and y.dim() == 2:
        own = y[:, : len(noise["variance"])]  # without weights of rows
        if bool(own.isnan().any()):  # outputs without a target
            spread = torch.stack([column[~column.isnan()].var(correction=0) for column in own.unbind(1)])
        else:
            spread = own.var(0, correction=0)
        variance = spread.expand_as(noise["variance"]).clone()
    return Watch(zero.clone(), variance, zero.clone(), zero.clone())


def seen(watch: Watch, nll: Tensor, noise: Noise, t: int) -> Watch:
    """Return what is known after step t, without a host round trip."""
    nll = nll.to(watch.loss.dtype)
    if t > 1:
        return watch._replace(loss=torch.lerp(watch.loss, nll, MEMORY))
    variance = torch.maximum(watch.variance, noise["variance"]) if "variance" in noise else watch.variance
    return watch._replace(variance=variance, first=nll.clone(), loss=nll.clone())


def cap(lr: float, curvature: Tensor, limit: float) -> Tensor:
    """Return the factor by which step sizes lr P are reduced, a scalar.

    Args:
        lr: Step size.
        curvature: kappa under the metric P.
        limit: Largest lr kappa at which the integrator is stable.

    >>> cap(0.1, torch.tensor(40.0), 4.0), cap(0.1, torch.tensor(1.0), 4.0)
    (tensor(0.5000), tensor(1.))
    """
    return (SAFETY * limit / (lr * curvature).clamp(min=torch.finfo(curvature.dtype).tiny)).clamp(max=1)


def run_away(watch: Watch, noise: Noise) -> str | None:
    """Say in what way a chain has run away, or return None."""
    if "variance" in noise:
        ratio = float((noise["variance"] / watch.variance.clamp(min=torch.finfo(watch.loss.dtype).tiny)).max())
        if ratio > FACTOR:
            return f"the noise variance is {ratio:.3g} times that of the target"
    first, loss = float(watch.first), float(watch.loss)
    if loss - first > FACTOR * (1 + abs(first)):
        return f"the loss grew from {first:.3g} to {loss:.3g} nats a row"
    return None
