"""The loss of a batch at the outputs of several networks, its gradients in them, and the noise that is learnt of them.

    Gaussian      r = f - y:   nll = sum_k [mean r_k^2 / v_k + log 2 pi v_k] / 2,      d nll / d f = r / (rows v)
    Categorical   p = softmax f:  nll = -mean log p_y,                                 d nll / d f = (p - 1_y) / rows
    Student t     nll = -mean sum_k log t(r_k),                   d nll / d f = (nu + 1) r / (rows (nu v + r^2))
    others        `log_prob` and `observe` of each network, by automatic differentiation

nll is the mean over the rows. All networks are of one likelihood; each has its own rows and its own noise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.likelihoods import Categorical, Gaussian, Likelihood, StudentT
from r2d2net.likelihoods.base import Noise
from r2d2net.likelihoods.gaussian import LEAST_VARIANCE
from r2d2net.likelihoods.student_t import follow, log_density


class Loss(NamedTuple):
    """Loss of each network, its gradient in the outputs, and the noise after the batch.

    Attributes:
        nll: Mean negative log likelihood of a row, (networks,).
        gradient: Gradient of ``nll`` in the outputs, (networks, rows, outputs).
        noise: Learnt parameters of the likelihood by name, (networks, ...).
    """

    nll: Tensor
    gradient: Tensor
    noise: Noise


def loss_of(likelihood: Likelihood[Any], output: Tensor, y: Tensor, noise: Noise, rate: float | Tensor) -> Loss:
    """Compute loss, gradient and noise of a batch.

    Args:
        likelihood: The likelihood.
        output: Outputs of the networks, (networks, rows, outputs).
        y: Targets of each network's rows, (networks, rows, ...).
        noise: Learnt parameters of the likelihood by name, (networks, ...).
        rate: Weight of the batch in running means of what is learnt; a tensor for `Gaussian` and `Categorical` alone.

    Returns:
        The loss.
    """
    # not isinstance: a subclass may have another log_prob
    if type(likelihood) is Gaussian and output.shape == y.shape and noise["variance"].dim() == 2:  # not by row
        return _gaussian(likelihood, output, y, noise, rate)
    if type(likelihood) is StudentT and output.shape == y.shape and noise["variance"].dim() == 2:
        return _student_t(output, y, noise, float(rate))
    if type(likelihood) is Categorical and output.shape[:-1] == y.shape:
        log_p = torch.log_softmax(output, -1)
        nll = log_p.gather(-1, y.unsqueeze(-1)).squeeze(-1).mean(-1).neg()
        gradient = log_p.exp_().scatter_add_(-1, y.unsqueeze(-1), log_p.new_full((), -1).expand(*y.shape, 1))
        return Loss(nll, gradient.div_(y.shape[1]), noise)
    return _by_autograd(likelihood, output, y, noise, float(rate))


def _gaussian(likelihood: Gaussian, output: Tensor, y: Tensor, noise: Noise, rate: float | Tensor) -> Loss:
    variance, residual = noise["variance"], output - y
    squares = residual.square().mean(1)
    nll = (squares / variance + torch.log(variance * (2 * math.pi))).sum(-1).mul_(0.5)
    gradient = residual.div_((variance * y.shape[1]).unsqueeze(1))
    if likelihood.noise is None:
        noise = {"variance": torch.lerp(variance, squares, rate).clamp_(min=LEAST_VARIANCE)}
    return Loss(nll, gradient, noise)


def _student_t(output: Tensor, y: Tensor, noise: Noise, rate: float) -> Loss:
    variance, df = (noise[name].unsqueeze(1) for name in ("variance", "df"))
    residual = output - y
    squares = residual.square()
    nll = -log_density(squares, variance, df).sum(-1).mean(-1)
    gradient = (df + 1) * residual / (df * variance + squares) / y.shape[1]
    return Loss(nll, gradient, follow(squares, noise, rate))


def _by_autograd(likelihood: Likelihood[Any], output: Tensor, y: Tensor, noise: Noise, rate: float) -> Loss:
    with torch.enable_grad():
        leaf = output.detach().requires_grad_()
        own = [{name: tensor[k] for name, tensor in noise.items()} for k in range(len(output))]
        each = zip(leaf.unbind(), y.unbind(), own, strict=True)
        nll = torch.stack([-likelihood.log_prob(f, target, known).mean() for f, target, known in each])
        (gradient,) = torch.autograd.grad(nll.sum(), leaf)
    each = zip(output.unbind(), y.unbind(), own, strict=True)
    observed = [likelihood.observe(f, target, known, rate) for f, target, known in each]
    return Loss(nll.detach(), gradient, {name: torch.stack([new[name] for new in observed]) for name in noise})
