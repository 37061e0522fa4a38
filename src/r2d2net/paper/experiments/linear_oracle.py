"""Exact Gibbs sampling of a linear regression under the very prior and likelihood of the other rows.

    w | s, e     ~ N(Q^-1 X'y / e, Q^-1),      Q = X'X / e + diag(1 / v(s)),      one Cholesky factor for each chain
    e | w        the likelihood's own draw
    s | w        the prior's own Gibbs sweep

`inference.LinearGibbs` is faster and mixes better, but has a beta prior on R2 in place of the prior's own scale, which
makes another posterior: an oracle must have the posterior that the rows approximate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.base import Draws
from r2d2net.inference.chain_gibbs import ChainGibbs
from r2d2net.inference.collection import Collection, by_chain
from r2d2net.model import BayesianModel
from r2d2net.network_inputs import measure_units
from r2d2net.posterior import Posterior

BURN_IN = 0.25  # share of the sweeps that is not kept


def sample_linear(
    model: BayesianModel[Any], data: tuple[Tensor, Tensor], *, chains: int, sweeps: int, seed: int
) -> Posterior[Any]:
    """Sample the posterior of one Linear layer with a bias and a learnt Gaussian noise.

    Args:
        model: The model.
        data: Inputs (rows, columns) and targets (rows,), standardised here as `fit` does.
        chains: Number of chains, which start at scales drawn from the prior.
        sweeps: Number of sweeps of each chain; a quarter of them is burn-in.
        seed: Seed of all draws.

    Returns:
        The posterior of the stored draws.
    """
    x, y = data[0], data[1][:, None]
    units = measure_units(x, y, inputs=True, targets=True)
    inputs, targets = units.inputs(x), units.targets(y)
    design = torch.cat([inputs, torch.ones_like(targets)], dim=1)
    gram, cross = design.mT @ design, design.mT @ targets
    generator = torch.Generator().manual_seed(seed)
    gibbs = ChainGibbs(model, chains, 1.0)
    prior = gibbs.init(generator)
    noise = {name: tensor.expand(chains, *tensor.shape) for name, tensor in model.likelihood.init(targets).items()}
    kept = []
    for sweep in range(sweeps):
        variance = noise["variance"].unsqueeze(-1)  # (chains, 1, 1)
        precision = gram / variance
        precision.diagonal(dim1=1, dim2=2).add_(prior.precision)
        unit = precision.diagonal(dim1=1, dim2=2).rsqrt().unsqueeze(-1)  # scaled by it, Q is well conditioned
        root = torch.linalg.cholesky(precision.mul_(unit).mul_(unit.mT))
        mean = torch.cholesky_solve(unit * cross / variance, root)
        normal = torch.empty_like(mean).normal_(generator=generator)
        drawn = unit * (mean + torch.linalg.solve_triangular(root.mT, normal, upper=True))  # (chains, weights, 1)
        weights = drawn[:, :, 0]
        noise = gibbs.draw_noise((design @ weights.mT).mT.unsqueeze(-1), targets, noise, generator)
        prior = gibbs.draw_scales(prior, weights, generator)
        if sweep >= round(BURN_IN * sweeps):
            kept.append((weights, noise["variance"]))
    stored, variances = (torch.stack(tensors) for tensors in zip(*kept, strict=True))
    draws = Draws(stored, stored.new_zeros(*stored.shape[:2], 0), {}, {"variance": variances})
    state = by_chain(torch.tensor(sweeps), draws, torch.zeros(chains, dtype=torch.int64))
    return Posterior(Collection(model, state, draws_noise=True), units, flat_target=True)
