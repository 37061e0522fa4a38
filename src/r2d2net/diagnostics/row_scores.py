"""Log densities of rows that a posterior has not seen: new rows, or training rows each left out in turn.

    new rows        log p(y_i | x_i, data)
    training rows   log p(y_i | y_-i) = log sum_d w_di p(y_i | w_d),    w_di proportional to 1 / p(y_i | w_d), smoothed

PSIS-LOO (Vehtari, Gelman and Gabry, 2017) needs draws of the posterior: from a variational approximation it is that of
the approximation. Linear models by `LinearGibbs` leave rows out with the weights integrated out (`leave_one_out`). All
are in the user's units, so that likelihoods of y and of its logarithm can be compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.diagnostics.leave_one_out import loo
from r2d2net.errors import ParameterError, Value
from r2d2net.forward_draws import forward_draws
from r2d2net.inference.linear_collection import LinearCollection
from r2d2net.inference.pareto_smoothing import RELIABLE, pareto_weights
from r2d2net.likelihoods import LogNormal
from r2d2net.posterior import MEMORY, ROWS, Posterior
from r2d2net.run.predictive_check import LEAST_DRAWS, row_log_probs


class RowScores(NamedTuple):
    """Log densities of rows that have not been seen.

    Attributes:
        score: Log density of each row in the user's units, (rows,), float64.
        unreliable: Share of the rows whose importance weights cannot be relied on (Pareto k above 0.7); 0 of new rows.
        how: "new rows", "PSIS-LOO" or "exact LOO".
    """

    score: Tensor
    unreliable: float
    how: str


def new_row_scores(posterior: Posterior[Any], x: Any, y: Any, draws: int) -> RowScores:
    """Compute the log densities of rows that the fit has not seen.

    Args:
        posterior: The posterior.
        x: The inputs.
        y: The targets.
        draws: Number of posterior draws.

    Returns:
        The scores.
    """
    predicted = posterior.predict(x, draws)
    target = torch.as_tensor(y).to(predicted.samples.device)
    score = predicted.log_prob(target).double().cpu()
    return RowScores(score.reshape(len(score), -1).sum(1), 0.0, "new rows")


def left_out_scores(posterior: Posterior[Any], x: Any, y: Any, draws: int) -> RowScores:
    """Compute the log densities of training rows, each without its own target.

    Args:
        posterior: The posterior.
        x: The inputs of the fit.
        y: Its targets, without weights.
        draws: Number of posterior draws; linear models by `LinearGibbs` use those they have kept for this purpose.

    Returns:
        The scores.

    Raises:
        ParameterError: If there is one network only, or too few draws.
    """
    source, likelihood = posterior.source, posterior.model.likelihood
    is_exact = isinstance(source, LinearCollection) and not isinstance(likelihood, LogNormal)
    if is_exact and source.state.loo.mean.shape[1] > 0:
        found = loo(posterior, x, y)
        return RowScores(found.log_score, float((found.pareto_k > RELIABLE).double().mean()), "exact LOO")
    log_p = log_likelihoods(posterior, x, y, draws)
    if len(log_p) < LEAST_DRAWS or not bool((log_p != log_p[0]).any()):
        problem = ("has ", Value(len(log_p)), " different draws" if len(log_p) > 1 else " network")
        fix = f"rows are left out by {LEAST_DRAWS} draws or more; give rows that the fit has not seen"
        raise ParameterError(problem, argument="posterior", fix=fix)
    weights, shapes = pareto_weights(-log_p)
    score = torch.logsumexp(weights.log() + log_p, 0)
    return RowScores(score.cpu(), float((shapes > RELIABLE).double().mean()), "PSIS-LOO")


@torch.no_grad()
def log_likelihoods(posterior: Posterior[Any], x: Any, y: Any, draws: int, seed: int = 0) -> Tensor:
    """Compute log p(y_i | w_d) in the user's units.

    Args:
        posterior: The posterior.
        x: The inputs.
        y: The targets.
        draws: Number of draws; fewer are used where the posterior stores fewer.
        seed: Seed of the draws.

    Returns:
        The log likelihoods, (draws, rows), float64.
    """
    model, units, available = posterior.model, posterior.units, posterior.source.available
    generator = torch.Generator(model.device).manual_seed(seed)
    drawn = posterior.source.joined(draws if available is None else min(draws, available), generator)
    outputs = forward_draws(model, drawn, posterior.network_inputs(x), rows=ROWS, memory=MEMORY)
    target = model.likelihood.target(torch.as_tensor(y).to(model.device))
    scaled = model.likelihood.network_scale(target)
    seen = units.targets(scaled) if model.likelihood.standardizes else scaled
    seen = seen.to(model.dtype) if seen.is_floating_point() else seen
    log_p = row_log_probs(model.likelihood.on_network_scale(), outputs, drawn.noise, seen)
    log_p = log_p.reshape(*log_p.shape[:2], -1).sum(-1) + model.likelihood.log_slope(target)
    if not model.likelihood.standardizes:
        return log_p
    width = seen[0].numel()
    return log_p - units.y.scale.double().log().expand(width).sum()
