"""The variational algorithms of `r2d2net.inference` as optimisers."""

from __future__ import annotations

from r2d2net import inference
from r2d2net.optim.variational import VariationalOptimizer


class SVGI(VariationalOptimizer):
    """Stochastic variational Gibbs inference as an optimiser; the arguments are those of `VariationalOptimizer`.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from r2d2net.likelihoods import Gaussian
        >>> _ = torch.manual_seed(0)
        >>> x, net = torch.randn(40, 3), nn.Linear(3, 1)
        >>> y = x[:, :1] + 0.1 * torch.randn(40, 1)
        >>> opt = SVGI(net, n=40, steps=300, likelihood=Gaussian())
        >>> for _ in range(300):
        ...     opt.zero_grad()
        ...     with opt.sampled_params():
        ...         opt.nll(net(x), y).backward()
        ...     opt.step()
        >>> bool((net.weight - torch.tensor([[1.0, 0.0, 0.0]])).abs().max() < 0.1)
        True
        >>> opt.posterior().predict(x).mean.shape
        torch.Size([40, 1])
    """

    method = inference.SVGI


class CAVI(VariationalOptimizer):
    """Coordinate-ascent inference as an optimiser; the arguments are those of `VariationalOptimizer`."""

    method = inference.CAVI


class SVI(VariationalOptimizer):
    """Plain stochastic variational inference as an optimiser; the arguments are those of `VariationalOptimizer`."""

    method = inference.SVI


class MFVI(VariationalOptimizer):
    """Mean-field inference with Gaussian priors as an optimiser; the arguments are those of `VariationalOptimizer`."""

    method = inference.MFVI


class Radial(VariationalOptimizer):
    """Radial inference as an optimiser; the arguments are those of `VariationalOptimizer`."""

    method = inference.Radial
