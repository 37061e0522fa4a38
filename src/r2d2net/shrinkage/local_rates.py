"""Selection by the local false discovery rates of a linear model's posterior.

    share_j = var(X_j w_j) / var(X w),     inclusion_j = P(share_j >= 1% | data),     lfdr_j = 1 - inclusion_j
    q_(k) = (lfdr_(1) + ... + lfdr_(k)) / k,     ascending; selected are the inputs with q <= fdr
    q_(k) = lfdr_(k) where lfdr_(k) > 1/2 is larger

which bounds the expected share of false ones if the model, its prior too, is that of the data (Müller, Parmigiani and
Rice, 2006; Efron, 2008). It is no frequentist bound: under strong correlation a sparse prior may settle on the wrong
one of two inputs. It needs draws whose spread can be trusted, such as those of `LinearGibbs`: mean-field posteriors of
sparse priors are too narrow, and are refused.

The second line is ours. The mean alone lets inputs in as long as the bound is not used up: beside eight of which it is
certain, one with lfdr .8 has q = .09, and where the truth has these eight, a ninth is false in every such table. So an
input that is more likely without an effect than with one is not selected because others are certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Shown
from r2d2net.inference.linear_collection import LinearCollection
from r2d2net.posterior import Posterior

UNLIKELY = 0.5  # local rate above which an input has to meet the bound by itself
RELEVANT = 0.01  # share of the variance from which an input counts
DRAWS = 1000
LEAST_DRAWS = 100  # of which rates of a percent can be told


def local_rates(posterior: Posterior[Any], x: Tensor, inputs: Sequence[Sequence[int]], seed: int = 0) -> Tensor:
    """Compute the probability that each input does not count.

    Args:
        posterior: The posterior of a linear model.
        x: Its table, (rows, columns), in the user's units.
        inputs: Columns of each input.
        seed: Seed of the draws.

    Returns:
        The local false discovery rates, (inputs,), float64.

    Raises:
        ParameterError: If the network is no single linear layer, or its draws are no chains, or too few.
    """
    model, available = posterior.model, posterior.source.available
    if not model.is_linear:
        fix = "give the posterior of one torch.nn.Linear, by LinearGibbs, or use method='randomization'"
        raise ParameterError("is of a network, which has no weights of inputs", argument="posterior", fix=fix)
    if not (posterior.source.are_chains or isinstance(posterior.source, LinearCollection)):
        fix = "fit it by LinearGibbs, or use method='randomization'"
        raise ParameterError("has no chains, and its spread is no posterior's", argument="posterior", fix=fix)
    count = DRAWS if available is None else min(DRAWS, available)
    if count < LEAST_DRAWS:
        fix = f"store {LEAST_DRAWS} or more by more epochs"
        raise ParameterError("stores too few draws", argument="posterior", value=Shown(str(count)), fix=fix)
    drawn = posterior.source.joined(count, torch.Generator(model.device).manual_seed(seed))
    slot = next(slot for slot in model.bayesian if len(slot.shape) == 2)
    weights = slot.of(drawn.weights).double()  # (draws, outputs, columns)
    if model.likelihood.is_softmax:
        weights = weights - weights.mean(1, keepdim=True)  # what all classes share changes no probability
    table = posterior.network_inputs(x).double()
    table = table - table.mean(0)
    covariance = (table.T @ table) / len(table)
    whole = ((weights @ covariance) * weights).sum((1, 2)).clamp(min=1e-300)
    shares = []
    for columns in inputs:
        own = weights[..., list(columns)]
        part = covariance[list(columns)][:, list(columns)]
        shares.append(((own @ part) * own).sum((1, 2)) / whole)
    return (torch.stack(shares, 1) < RELEVANT).double().mean(0).cpu()


def cumulative_rates(lfdr: Tensor) -> Tensor:
    """Compute the least false discovery rate at which each input would be selected.

    Args:
        lfdr: Local false discovery rates, (inputs,).

    Returns:
        The q-values, (inputs,).

    >>> cumulative_rates(torch.tensor([0.5, 0.0, 0.25, 0.75])).tolist()
    [0.25, 0.0, 0.125, 0.75]
    """
    ascending, order = lfdr.sort()
    mean = ascending.cumsum(0) / torch.arange(1, len(lfdr) + 1, dtype=lfdr.dtype)
    least = torch.where(ascending > UNLIKELY, torch.maximum(mean, ascending), mean)
    return torch.empty_like(lfdr).scatter_(0, order, least)
