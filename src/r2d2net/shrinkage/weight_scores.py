"""How much a fitted network needs each of its weights: what `prune` ranks them by.

    snr         |mu_j| / s_j                     the mean of the weight in units of its posterior deviation
    saliency    H_j mu_j^2 / 2                   the rise of the training loss in nats, as the weight is set to zero
    magnitude   |mu_j|                           as for a plain network

Mean-field inference at temperature t minimises E_q[L] + t KL(q || p), L the negative log likelihood of all rows. Its
derivative in the deviation, E_q[L''] s + t (c s - 1 / s) with c the prior's precision, is zero where

    H_j = E_q[d^2 L / d w_j^2] = t (1 / s_j^2 - c_j)

So H_j is the curvature of the loss at any temperature, and H_j mu_j^2 / 2 is what optimal brain damage (LeCun, Denker
and Solla, 1990) calls the saliency of a weight; here it costs nothing. L and the prior's term t c w^2 / 2 together rise
by t snr_j^2 / 2 nats, the snr in nats: the same but for what the prior would rather have at zero anyway.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import Argument, ParameterError, Shown, require
from r2d2net.inference.mean_field_family import MeanFieldDraws
from r2d2net.inference.point import PointDraw
from r2d2net.inference.variational import WARM_UP
from r2d2net.posterior import Posterior
from r2d2net.shrinkage.pruned import Pruned, PrunedDraws
from r2d2net.specification import method_from

Score = Literal["snr", "saliency", "magnitude"]
SCORES = ("snr", "saliency", "magnitude")


class Moments(NamedTuple):
    """What is known of each weight.

    Attributes:
        mean: Posterior means mu, (weights,).
        deviation: Posterior deviations s; None where the posterior is one point.
        precision: The prior's precision c; None where the posterior does not hold it.
        keep: Which weights are not zero for good.
    """

    mean: Tensor
    deviation: Tensor | None
    precision: Tensor | None
    keep: Tensor


def moments_of(posterior: Posterior[Any]) -> Moments:
    """Compute means and deviations of the weights of a posterior.

    Args:
        posterior: The fitted network.

    Returns:
        The moments; of stored draws those over the draws.

    Raises:
        ParameterError: If the posterior is of several solutions, whose mean is no network.
    """
    source: Any = posterior.source
    try:
        mean = source.center().weights[0]
    except ParameterError as error:  # of a source whose draws are several networks
        problem = "is of several solutions (members, chains, cycles), whose mean weights are no network"
        kind, fix = Shown(type(source).__name__), "fit the model by svgi or cavi to make it smaller"
        raise ParameterError(problem, argument="posterior", value=kind, fix=fix) from error
    keep = torch.ones(len(mean), dtype=torch.bool, device=mean.device)
    while isinstance(source, PrunedDraws):
        source, keep = source.inner, keep & source.keep
    if isinstance(source, MeanFieldDraws):
        return Moments(mean, source.deviation(), source.state.precision, keep)
    if isinstance(source, PointDraw) or source.available in (None, 1):
        return Moments(mean, None, None, keep)
    total = torch.zeros_like(mean, dtype=torch.float64)
    for drawn in source.draws(source.available, torch.Generator(mean.device).manual_seed(0), at_once=16):
        total += (drawn.weights.double() - mean.double()).square().sum(0)
    return Moments(mean, (total / (source.available - 1)).sqrt().to(mean.dtype), None, keep)


def temperature_of(posterior: Posterior[Any]) -> float:
    """Compute the weight that the KL had in the last step of a mean-field run.

    Args:
        posterior: The fitted network.

    Returns:
        The temperature of the algorithm, or less of a run that kept an epoch of its warm-up.

    Raises:
        ParameterError: If `fit` did not make the posterior.
    """
    if not posterior.settings:
        fix = ("use ", Argument("score", "snr"), ", or a posterior made by fit")
        raise ParameterError("needs the temperature of the run", argument="score", value="saliency", fix=fix)
    method: Any = method_from(posterior.settings["algorithm"])
    method = method.inner if isinstance(method, Pruned) else method
    temperature = float(method.temperature)
    warm_up = WARM_UP if method.warm_up is None else method.warm_up
    steps = posterior.settings["epochs"] * posterior.settings["batches"]
    taken = float(posterior.state.step)
    rising = min(1.0, taken / (warm_up * steps)) if warm_up > 0 else 1.0
    return temperature * rising


def weight_scores(posterior: Posterior[Any], score: Score = "saliency", *, nats: bool = False) -> Tensor:
    """Compute how much the network needs each weight.

    Args:
        posterior: The fitted network.
        score: "snr", "saliency" or "magnitude" (see the module's docstring).
        nats: Give the snr in nats too.

    Returns:
        The scores, (weights,); 0 for weights that are zero for good.

    Raises:
        ParameterError: If the posterior does not hold what the score needs.
    """
    require(score in SCORES, "score", score, f"use one of {', '.join(SCORES)}")
    moments = moments_of(posterior)
    size = moments.mean.abs().double()
    if score == "magnitude":
        return size.masked_fill(~moments.keep, 0)
    name = type(posterior.source).__name__
    if moments.deviation is None:
        problem, fix = f"needs deviations of the weights, which a {name} does not have", Argument("score", "magnitude")
        raise ParameterError(problem, argument="score", value=score, fix=("use ", fix))
    needs_rate = score == "saliency" or nats
    if needs_rate and moments.precision is None:
        problem = f"in nats needs a mean-field posterior, this one is of {name}"
        fix = Argument("score", "snr")
        raise ParameterError(problem, argument="score", value=score, fix=("use ", fix, " with a ratio"))
    variance = moments.deviation.double().square()
    ratio = size.square() / variance  # of a draw without spread: infinite, or 0 / 0
    if score == "snr" and not nats:
        return torch.nan_to_num(ratio.sqrt(), nan=0.0, posinf=torch.inf).masked_fill(~moments.keep, 0)
    temperature = temperature_of(posterior)
    if score == "snr":
        return (temperature * ratio / 2).masked_fill(~moments.keep, 0)
    assert moments.precision is not None
    share = (1 - variance * moments.precision.double()).clamp(0, 1)  # of the precision that is the data's
    return (temperature * ratio * share / 2).masked_fill(~moments.keep, 0)
