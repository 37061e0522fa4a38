"""Is a posterior where its own objective would leave it? Stein's identities of the log joint density.

    U(w) = -sum_i log p(y_i | x_i, w) + sum_j c_j w_j^2 / 2,        c = E[1 / v]  of the best q(scales) at this q(w)

Draws of e^-U have E[dU/dw_j] = 0 and E[(w - m)'dU/dw] = number of weights, m any constant. The best mean-field q has
the same of each weight, since these are the slopes of its bound in the means and in the logarithms of the deviations:

    slope    sqrt(mean_j (s_j E_q[dU/dw_j])^2)     how far the means are off, in their own deviations: 0 at the optimum
    spread   E_q[(w - m)'A dU/dw] / tr A           1 at the optimum; draws r times too wide have about r^2,
                                                   draws at temperature t have t

A is diagonal and has the share of a weight's precision that comes from the data, 1 - c_j s_j^2: under a shrinkage prior
the scale of a weight that the data do not see follows its deviation, whatever that is, and tells nothing.

Draws of q come in pairs m + s e, m - s e, of which the odd terms cancel, and the spread is divided by the mean of
e'A e / tr A, which tends to 1: where it is the same for all weights both estimates are then exact. What is left of the
noise is subtracted from the square of the slope. Of chains the spread alone is computed, where the prior is a normal
one: of other priors the stored draws do not have the scales.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.inference import DrawSource
from r2d2net.inference.collection import Collection
from r2d2net.inference.mean_field_family import MeanFieldDraws, NormalNoise
from r2d2net.model import BayesianModel, Tensors

PAIRS = 20  # of draws of q
CHAIN_DRAWS = 40


class Stationarity(NamedTuple):
    """How far a posterior is from the stationary point of its objective.

    Attributes:
        slope: Root mean square of the means' errors in deviations; None of chains.
        spread: Ratio of the draws' spread to that of the log joint density, 1 at the optimum; None of radial draws.
        error: Standard error of the spread.
    """

    slope: float | None
    spread: float | None
    error: float | None


def prior_precision(source: MeanFieldDraws) -> Tensor:
    """Compute E[1 / v] of each weight under the best q(scales) at the present q(w), (weights,).

    SVGI draws its scales, so that its own precisions are one draw of many; these are what they are drawn around.

    Args:
        source: A mean-field posterior.
    """
    moment = source.family.second_moment(source.state, source.blocks)
    precision = torch.empty_like(moment)
    for slot in source.model.bayesian:
        assert slot.prior is not None
        known = slot.prior.known_deviation
        if known is not None:
            slot.of(precision).fill_(known**-2)
        else:
            slot.of(precision).copy_(slot.prior.cavi(slot.of(moment), source.state.scales[slot.name]).precision)
    return precision


def stationarity(source: DrawSource[Any], x: Any, y: Tensor) -> Stationarity | None:
    """Measure slope and spread.

    Args:
        source: The distribution of networks.
        x: All training inputs, as the network sees them.
        y: All training targets, as the network sees them.

    Returns:
        The measures; None for a posterior that is neither a mean-field one nor a chain under normal priors.
    """
    if isinstance(source, MeanFieldDraws):
        return _of_mean_field(source, x, y)
    priors = [slot.prior for slot in source.model.bayesian]
    known = [None if prior is None else prior.known_deviation for prior in priors]
    if isinstance(source, Collection) and source.are_chains and priors and None not in known:
        return _of_chains(source, x, y)
    return None


def _of_mean_field(source: MeanFieldDraws, x: Any, y: Tensor) -> Stationarity:
    model, state = source.model, source.state
    deviation, precision = source.deviation(), prior_precision(source)
    generator = torch.Generator(model.device).manual_seed(0)
    shares = (1 - state.precision * deviation.square()).clamp(0, 1)
    shares = shares / shares.sum() if float(shares.sum()) >= 1 else torch.full_like(shares, 1 / len(shares))
    slopes, spreads, lengths = [], [], []
    for e in source.family.noise.draw(model, generator, PAIRS):
        step = deviation * e
        above, below = (
            _gradient(model, weights, (state.fixed, state.buffers, state.noise), precision, x, y)
            for weights in (state.mean + step, state.mean - step)
        )
        slopes.append(deviation * (above + below) / 2)
        spreads.append(float((shares * step * (above - below)).sum() / 2))
        lengths.append(float((shares * e.square()).sum()))
    each = torch.stack(slopes).double()
    squares = each.mean(0).square() - each.var(0) / PAIRS
    slope = math.sqrt(max(0.0, float(squares.mean())))
    if not isinstance(source.family.noise, NormalNoise):  # radial noise varies too much in length
        return Stationarity(slope, None, None)
    return Stationarity(slope, *_ratio(spreads, lengths))


def _of_chains(source: Collection, x: Any, y: Tensor) -> Stationarity | None:
    model = source.model
    precision = torch.empty_like(source.state.weights[0, 0])
    for slot in model.bayesian:
        assert slot.prior is not None
        assert slot.prior.known_deviation is not None
        slot.of(precision).fill_(slot.prior.known_deviation**-2)
    count = min(CHAIN_DRAWS, source.available)
    if count < 4:
        return None
    drawn = source.joined(count, torch.Generator(model.device).manual_seed(0))
    center = drawn.weights.mean(0)
    spreads = []
    for i, weights in enumerate(drawn.weights):
        rest = drawn.fixed[i], _row(drawn.buffers, i), _row(drawn.noise, i)
        gradient = _gradient(model, weights, rest, precision, x, y)
        spreads.append(float(((weights - center) * gradient).mean()) * count / (count - 1))
    return Stationarity(None, *_ratio(spreads, [1.0] * count))


def _row(tensors: Tensors, i: int) -> Tensors:
    return {name: tensor[i] for name, tensor in tensors.items()}


@torch.enable_grad()
def _gradient(
    model: BayesianModel[Any],
    weights: Tensor,
    rest: tuple[Tensor, Tensors, Tensors],
    precision: Tensor,
    x: Any,
    y: Tensor,
) -> Tensor:
    """Compute dU/dw at one draw, given deterministic parameters, buffers and noise."""
    fixed, buffers, noise = rest
    leaf = weights.detach().clone().requires_grad_()
    with model.standing():
        output = model.forward(leaf, fixed.detach(), buffers, x)
        loss = -model.likelihood.log_prob(output, y, noise).sum()
        (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient + precision * weights


def _ratio(above: list[float], below: list[float]) -> tuple[float, float]:
    """Compute the ratio of two means and its standard error."""
    numbers, sizes = (torch.tensor(values, dtype=torch.float64) for values in (above, below))
    ratio = float(numbers.mean() / sizes.mean())
    return ratio, float((numbers - ratio * sizes).std() / sizes.mean()) / math.sqrt(len(above))
