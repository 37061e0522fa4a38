"""How does a posterior predict rows it has not seen, and does it find its own rows likely?

    elpd       mean_i log p(y_i | y_-i),  by importance weights 1 / p(y_i | w_d), Pareto-smoothed (PSIS-LOO); of linear
               chains with the weights integrated out, from moments that the sampler has kept (`linear_left_out`)
    p-value    E_d P(chi2_n >= sum_i z_di^2),   z_di = Phi^-1(F(y_i | w_d)),   of numbers (F at a
               random place within its step, of counts)
               E_d Phi(-(D_d - E D_d) / sd D_d),   D_d = -sum_i log p(y_i | w_d),   of classes

Beside the log density of rows left out stands what it is above that of a constant (`constant_check`).

A p-value near 0 says that noise is too small for the residuals, one near 1 that it is too large. Validation rows,
where there are any, are looked at instead of training rows, under the predictive distribution: noise is corrected by
them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from scipy.special import chdtrc  # scipy.stats takes more than a second to import
from torch import Tensor

from r2d2net.inference import DrawSource
from r2d2net.inference.base import Draws
from r2d2net.inference.linear_collection import LinearCollection
from r2d2net.inference.linear_left_out import left_out
from r2d2net.inference.pareto_smoothing import RELIABLE, pareto_weights
from r2d2net.inference.row_keys import row_keys
from r2d2net.likelihoods import Gamma
from r2d2net.likelihoods.base import Likelihood, Noise, Unit
from r2d2net.prediction import Classification, Mixture
from r2d2net.run.batches import TensorBatches
from r2d2net.run.constant_check import gain_over_constant
from r2d2net.run.prepare import Prepared, data_digest

KEPT_ROWS = "row_scores"  # name of the log densities of rows left out, kept for comparisons
MOST_KEPT = 256  # of these rows, evenly spaced over the training rows
LEAST_DRAWS = 25  # of which the largest five are a tail
MOST_MOMENTS = 1 << 24  # draws times rows of a linear chain
LARGEST_SCORE = 8.0  # of z: beyond it the p-value is settled


def leave_one_out(
    source: DrawSource[Any], prepared: Prepared, outputs: Tensor, drawn: Draws, y: Tensor
) -> dict[str, Any]:
    """Estimate the log predictive density of a row left out.

    Args:
        source: The distribution of networks.
        prepared: The data of the run.
        outputs: Outputs of the network at draws, for some training rows, (draws, rows, width).
        drawn: These draws.
        y: The targets of these rows, as the network sees them.

    Returns:
        "elpd" (nats a row, in the user's units of the target as the network sees it), "elpd_error", its standard error
        over rows, "loo_k", the largest Pareto shape, "loo_bad", the share of rows whose shape is above 0.7, and
        "loo_exact"; where it is not exact also what it is above that of the best constant (`gain_over_constant`); and
        "row_scores", the log densities of up to 256 of these rows. Nothing for one network or
        few draws.
    """
    exact, gain = _exact(source, prepared), {}
    if exact is not None:
        score, shapes = exact
    elif len(outputs) < LEAST_DRAWS or not bool((outputs != outputs[0]).any()):
        return {}
    else:
        log_p = row_log_probs(source.model.likelihood, outputs, drawn.noise, y)
        weights, shapes = pareto_weights(-log_p)
        score = torch.logsumexp(weights.log() + log_p, 0)
        gain = _gain(source.model.likelihood, score, y, outputs.shape[-1])
    units = float(prepared.units.y.scale.double().log().expand(_width(prepared)).sum())
    own = score if exact is None else _in_row_order(score, prepared)
    return {
        "elpd": float(score.mean()) - units,
        "elpd_error": float(score.std(correction=0)) / math.sqrt(len(score)),
        "loo_k": _finite(float(shapes.max())),
        "loo_bad": float((shapes > RELIABLE).double().mean()),
        "loo_exact": exact is not None,
        **gain,
        KEPT_ROWS: kept_scores(own - units),
    }


def kept_scores(scores: Tensor) -> list[float]:
    """Return the log densities of up to 256 rows, evenly spaced, for JSON.

    Args:
        scores: Log densities of rows, in their order.
    """
    rows = torch.linspace(0, len(scores) - 1, min(len(scores), MOST_KEPT)).round().long()
    return [round(value, 6) for value in scores.cpu()[rows].tolist()]


def _in_row_order(score: Tensor, prepared: Prepared) -> Tensor:
    """Return what is in the order of the rows' keys in that of the rows."""
    assert isinstance(prepared.batches, TensorBatches)
    order = row_keys(prepared.batches.x.flatten(1), prepared.batches.y).argsort().cpu()
    return torch.empty_like(score).index_copy_(0, order, score)


def _gain(likelihood: Likelihood[Any], score: Tensor, y: Tensor, width: int) -> dict[str, float]:
    """Compare scores of rows left out with those of a constant; nothing for counts."""
    if not (likelihood.has_classes or likelihood.standardizes or isinstance(likelihood, Gamma)):
        return {}
    return gain_over_constant(score, y, max(2, width) if likelihood.has_classes else 0)


def row_log_probs(likelihood: Likelihood[Any], outputs: Tensor, noise: Noise, y: Tensor) -> Tensor:
    """Compute log p(y_i | w_d) in float64, (draws, rows).

    Args:
        likelihood: The likelihood.
        outputs: Outputs of the network, (draws, rows, width).
        noise: Learnt parameters of the likelihood at each draw, (draws, ...).
        y: The targets.
    """
    each = [likelihood.log_prob(output, y, _at(noise, d)) for d, output in enumerate(outputs)]
    return torch.stack(each).double()


def p_value(likelihood: Likelihood[Any], outputs: Tensor, noise: Noise, y: Tensor, *, jointly: bool) -> float | None:
    """Compute the posterior predictive p-value.

    Args:
        likelihood: The likelihood on the network's scale.
        outputs: Outputs of the network, (draws, rows, width).
        noise: Learnt parameters of the likelihood at each draw, (draws, ...).
        y: The targets.
        jointly: Whether rows are compared with the predictive distribution, as rows not trained on, and not with that
            at each draw.

    Returns:
        The p-value; None for predictions of another kind.
    """
    draws = len(outputs)
    if jointly:
        return _p_value(likelihood, outputs, noise, y)
    each = [
        _p_value(likelihood, outputs[d : d + 1], {k: v[d : d + 1] for k, v in noise.items()}, y) for d in range(draws)
    ]
    found = [value for value in each if value is not None]
    return sum(found) / draws if len(found) == draws else None


def _p_value(likelihood: Likelihood[Any], outputs: Tensor, noise: Noise, y: Tensor) -> float | None:
    one = Unit(torch.zeros((), device=y.device), torch.ones((), device=y.device))
    predicted = likelihood.predict(outputs, noise, one)
    if isinstance(predicted, Classification):
        return _of_classes(predicted, y)
    if not isinstance(predicted, Mixture):
        return None
    target = y.reshape(predicted.mean.shape)
    probability = predicted.cdf(target).double()
    if predicted.is_discrete:  # anywhere within the step, which makes it uniform
        below = predicted.cdf(target - 1).double()
        # by a seed that follows from the targets: the same places for all tables would shift all p-values alike
        places = torch.Generator().manual_seed(int(data_digest(y)[:15], 16))
        within = torch.rand(below.shape, generator=places, dtype=below.dtype)
        probability = torch.lerp(below, probability, within.to(below.device))
    z = torch.special.ndtri(probability).clamp(-LARGEST_SCORE, LARGEST_SCORE)
    return float(chdtrc(z.numel(), float(z.square().sum())))


def _of_classes(predicted: Classification, y: Tensor) -> float | None:
    probs = predicted.mean.double()
    log_p = probs.clamp(min=torch.finfo(torch.float64).tiny).log()
    entropy = -(probs * log_p).sum(1)
    variance = float(((probs * log_p.square()).sum(1) - entropy.square()).sum())
    if variance <= 0:
        return None
    loss = -log_p.gather(1, y.reshape(-1, 1).long()).sum()
    z = (float(loss) - float(entropy.sum())) / math.sqrt(variance)
    return 0.5 * math.erfc(z / math.sqrt(2))


def _exact(source: DrawSource[Any], prepared: Prepared) -> tuple[Tensor, Tensor] | None:
    """Return scores and Pareto shapes of all rows of a linear chain, in its units; None of others."""
    if not isinstance(source, LinearCollection) or not isinstance(prepared.batches, TensorBatches):
        return None
    moments = source.state.loo
    if moments.mean.shape[1] == 0 or moments.mean.numel() > MOST_MOMENTS:
        return None
    y = prepared.batches.y
    order = row_keys(prepared.batches.x.flatten(1), y).argsort().cpu()
    targets = None if source.model.likelihood.has_classes else y.double().reshape(len(y), -1).cpu()[order]
    mixed = left_out(moments, targets)
    return mixed.score, mixed.pareto_k


def _width(prepared: Prepared) -> int:
    y = prepared.y
    return y[:1].numel() if y.is_floating_point() else 1


def _at(noise: Noise, d: int) -> Noise:
    return {name: tensor[d] for name, tensor in noise.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
